//! Machines that are probed, checked, drawn, completed and given to guests.

use std::fs;
use std::path::Path;

use test_support::{FakeMachine, Machine};

use super::{file, ok, refused, root, run};

/// A fake machine in a folder, as a recording.
fn recorded(name: &str, break_it: impl FnOnce(&mut FakeMachine)) -> (tempfile::TempDir, String) {
    let machine = Machine::named(name).unwrap();
    let mut fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    break_it(&mut fake);
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    fake.write(folder.path()).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

/// What is planned, without the machine's name.
fn planned(text: &str, more: &[&str]) -> String {
    let (_folder, path) = file("machine.xml", text);
    let arguments = [&["plan", &path, "--format", "quiet"][..], more].concat();
    ok(&arguments).out
}

#[test]
fn this_machine_has_a_topology() {
    let said = run(&["probe"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(
        said.out.starts_with("<system version=\"1\">\n  <cpu "),
        "{}",
        said.out
    );
    // Whatever this machine is: what it printed can be read again.
    let (_folder, path) = file("machine.xml", &said.out);
    ok(&["show", &path]);
}

#[test]
fn without_gpus_there_is_nothing_to_plan() {
    let (_folder, path) = recorded("dgx-h100", |fake| {
        let none = serde_json::json!({"failed": "DriverNotLoaded"});
        fake.nvml = serde_json::json!({"driver": none, "count": none, "devices": []});
    });
    let said = ok(&["probe", "--from", &path]);
    assert!(
        said.err.contains("T013") && said.err.contains("no NVIDIA driver"),
        "{}",
        said.err
    );
    let (_file, topology) = file("topology.xml", &said.out);
    let refusal = refused(&["plan", &topology]);
    assert!(
        refusal.err.contains("no GPU to plan for") && refusal.err.contains("topo run --ranks"),
        "{}",
        refusal.err
    );
}

/// A probe of a machine gives the plan of the machine's own file.
#[test]
fn plans_of_probed_machines() {
    for name in [
        "dgx-a100",
        "dgx-h100",
        "gb200-nvl72-tray",
        "pcie-8gpu-broadcom",
        "broken-vm",
    ] {
        let (_folder, path) = recorded(name, |_| {});
        let probed = ok(&["probe", "--from", &path]).out;
        let own = fs::read_to_string(Machine::named(name).unwrap().topology()).unwrap();
        for hosts in ["1", "2"] {
            let (ours, theirs) = (
                planned(&probed, &["--hosts", hosts]),
                planned(&own, &["--hosts", hosts]),
            );
            assert_eq!(ours, theirs, "{name}, {hosts} hosts");
            // Nor is there anything else that a job would notice. NCCL finds no processors of an unknown NUMA node, which the
            // file of this machine names nevertheless.
            if name == "broken-vm" {
                continue;
            }
            let (_file, probed) = file("machine.xml", &probed);
            let (_other, own) = file("machine.xml", &own);
            ok(&["diff", &probed, &own, "--hosts", hosts]);
        }
    }
}

#[test]
fn some_gpus_only() {
    let (_folder, path) = recorded("dgx-h100", |_| {});
    let two = ok(&["probe", "--from", &path, "--gpus", "3,1"]);
    assert_eq!(two.out.matches("<gpu ").count(), 2);
    assert!(
        two.out.contains("<gpu dev=\"3\" sm=\"90\" rank=\"0\"")
            && two.out.contains("<gpu dev=\"1\" sm=\"90\" rank=\"1\""),
        "{}",
        two.out
    );
    let refusal = refused(&["probe", "--from", &path, "--gpus", "8"]);
    assert!(
        refusal.err.contains("no such GPU; it has 0, 1, 2"),
        "{}",
        refusal.err
    );
}

/// A container shows all PCI functions, but the driver names only the GPUs that it was given.
#[test]
fn gpus_hidden_by_a_container() {
    let (_folder, path) = recorded("dgx-h100", |fake| {
        let devices = fake.nvml["devices"].as_array_mut().unwrap();
        devices.drain(4..);
        devices.drain(..2);
        for device in devices {
            device["peers"].as_array_mut().unwrap().truncate(2);
        }
        fake.nvml["count"] = serde_json::json!(2);
        fake.ranks = vec![0, 1];
    });
    let said = ok(&["probe", "--from", &path]);
    assert_eq!(said.err, "no findings\n");
    assert_eq!(said.out.matches("<gpu ").count(), 2);
    assert_eq!(said.out.matches("<net ").count(), 8);
    assert!(
        said.out.contains("busid=\"0000:3b:00.0\"") && !said.out.contains("busid=\"0000:1b:00.0\"")
    );
    // What is planned is what is planned for these two of the whole machine, which call themselves 0 and 1.
    for hosts in ["1", "2"] {
        let own = fs::read_to_string(Machine::named("dgx-h100").unwrap().topology()).unwrap();
        let of_two = planned(&own, &["--hosts", hosts, "--gpus", "2,3"]);
        assert_eq!(planned(&said.out, &["--hosts", hosts]), of_two);
    }
    // A recording is a machine like any other.
    let plan = ok(&["plan", &path, "--format", "quiet"]).out;
    assert!(plan.contains("ranks=2"), "{plan}");
    assert_eq!(ok(&["show", &path]).err, "");
}

/// What is said to programs about the wiring is what is drawn for people.
#[test]
fn matrices_for_programs() {
    let text = ok(&["matrix", "topologies/dgx-1v", "--format", "json"]).out;
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (devices, matrix) = (&value["devices"], &value["matrix"]);
    assert_eq!(devices.as_array().unwrap().len(), 12);
    assert_eq!(
        (
            &devices[0]["label"],
            &devices[0]["kind"],
            &devices[0]["numa"]
        ),
        (&"GPU0".into(), &"gpu".into(), &0.into())
    );
    assert_eq!(devices[8]["name"], "mlx5_0");
    assert_eq!((&matrix[0][0], &matrix[0][3]), (&"X".into(), &"NV2".into()));
    for (at, row) in matrix.as_array().unwrap().iter().enumerate() {
        for other in 0..12 {
            assert_eq!(row[other], matrix[other][at]);
        }
    }
}

#[test]
fn recordings_replay() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("machine").display().to_string();
    let recorded = ok(&["probe", "--record", &place]);
    let replayed = ok(&["probe", "--from", &place]);
    assert_eq!((recorded.out, recorded.err), (replayed.out, replayed.err));
    let again = refused(&["probe", "--record", &place]);
    assert!(again.err.contains("not empty"), "{}", again.err);
    let elsewhere = refused(&["probe", "--from", "/nowhere"]);
    assert!(
        elsewhere.err.contains("not a recording"),
        "{}",
        elsewhere.err
    );
    let no_root = refused(&["probe", "--sysfs-root", folder.path().to_str().unwrap()]);
    assert!(no_root.err.contains("no folder sys"), "{}", no_root.err);
}

#[test]
fn findings_have_a_price() {
    let (_folder, path) = recorded("dgx-h100", |fake| {
        for link in 0..9 {
            fake.nvml["devices"][0]["nvlinks"][link]["up"] = serde_json::json!(false);
        }
    });
    let said = run(&["doctor", &path, "--format", "json"]);
    assert_eq!(said.status, Some(1), "{}", said.err);
    let findings: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let finding = &findings["findings"][0];
    assert_eq!(
        (&finding["id"], &finding["device"]),
        (&"T004".into(), &"GPU0 (0000:1b:00.0)".into())
    );
    // The rings of a DGX H100 are 12 × 40 GB/s; 9 of its 18 links carry half of that.
    let lost = finding["cost"]["inside"].as_f64().unwrap();
    assert!((100.0..400.0).contains(&lost), "{lost}");
    assert_eq!(findings["findings"].as_array().unwrap().len(), 1);
}

#[test]
fn doctors_say_by_their_status() {
    assert_eq!(ok(&["doctor", "topologies/dgx-h100"]).out, "no findings\n");
    let ill = run(&["doctor", "topologies/broken-vm"]);
    assert_eq!(ill.status, Some(1));
    assert!(
        ill.out.contains("T017") && ill.out.contains("impossible link"),
        "{}",
        ill.out
    );
    refused(&["doctor", "/nowhere.xml"]);
}

#[test]
fn matrices() {
    let (_folder, path) = recorded("dgx-1v", |_| {});
    let (probed, of_file) = (
        ok(&["matrix", &path]).out,
        ok(&["matrix", "topologies/dgx-1v"]).out,
    );
    assert!(
        of_file.contains("NV2") && of_file.contains("CPU Affinity"),
        "{of_file}"
    );
    let cells = |text: &str| {
        let rows = text
            .lines()
            .filter(|line| line.trim_start().starts_with("GPU"));
        rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(cells(&probed).len(), cells(&of_file).len());
    // From the machine itself host bridges are known, so some PHB are NODE.
    let same = |probed: &str, of_file: &str| {
        probed.replace("NODE", "PHB") == of_file.replace("NODE", "PHB")
    };
    for (probed, of_file) in cells(&probed).iter().zip(&cells(&of_file)) {
        assert!(same(probed, of_file), "{probed}\n{of_file}");
    }
}

/// One odd device does not spoil the matrix of the others.
#[test]
fn matrices_of_odd_machines() {
    let (_folder, path) = recorded("dgx-h100", |fake| {
        fake.nvml["devices"][2]["pci"] = serde_json::json!({"failed": "Unknown"});
        fake.link(
            "sys/class/infiniband/siw0",
            "sys/devices/virtual/infiniband/siw0",
        );
        fake.file(
            "sys/devices/virtual/infiniband/siw0/ports/1/state",
            "4: ACTIVE",
        );
        fake.file(
            "sys/devices/virtual/infiniband/siw0/ports/1/link_layer",
            "Ethernet",
        );
    });
    let text = ok(&["matrix", &path]).out;
    assert!(
        text.contains("GPU7") && text.contains("siw0") && !text.contains("GPU2 "),
        "{text}"
    );
}

/// A file as cloud vendors ship them.
fn vendor_file() -> String {
    let text = fs::read_to_string(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    let mut kept = Vec::new();
    for line in text.lines() {
        let line_is = |tags: &[&str]| tags.iter().any(|tag| line.trim_start().starts_with(tag));
        if !line_is(&["<gpu", "</gpu", "<nvlink", "<nic", "</nic", "<net"]) {
            kept.push(line);
        }
    }
    kept.join("\n")
}

#[test]
fn vendor_files_are_completed() {
    let text = vendor_file();
    let (_folder, path) = file("vendor.xml", &text);
    for command in ["plan", "complete"] {
        let refusal = refused(&[command, &path]);
        for part in [
            "8 GPUs without <gpu> (0000:1b:00.0",
            "8 NICs without <net>",
            "--assume-gpu sm=90",
            "--assume h100-sxm",
        ] {
            assert!(refusal.err.contains(part), "{command}: {}", refusal.err);
        }
    }
    let own = fs::read_to_string(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    let expected = planned(&own, &["--hosts", "2"]);
    let completed = ok(&["complete", &path, "--assume", "h100-sxm"]).out;
    assert_eq!(planned(&completed, &["--hosts", "2"]), expected);
    for assume in [
        &["--assume", "h100-sxm"][..],
        &[
            "--assume-gpu",
            "sm=90,nvswitch-links=18",
            "--assume-nic",
            "speed=400000",
        ],
        &[
            "--assume",
            "a100-sxm",
            "--assume-gpu",
            "sm=90,nvswitch-links=18",
            "--assume-nic",
            "speed=400000,gdr=1",
        ],
    ] {
        assert_eq!(
            planned(&text, &[assume, &["--hosts", "2"]].concat()),
            expected,
            "{assume:?}"
        );
    }
    // Some files do not even tell GPUs from switches.
    let (_folder, vague) = file("vague.xml", &text.replace(" class=\"0x03", " kind=\"0x03"));
    let vague = run(&["complete", &vague, "--assume-gpu", "sm=90"]);
    assert!(
        vague
            .err
            .contains("nothing was added: 8 PCI functions in it have no class"),
        "{}",
        vague.err
    );
    let without_nics = run(&["complete", &path, "--assume-gpu", "sm=90"]);
    assert_eq!(without_nics.status, Some(0));
    assert!(
        without_nics.err.contains("8 NICs without <net>"),
        "{}",
        without_nics.err
    );
}

#[test]
fn assumptions_are_checked() {
    for (arguments, complaint) in [
        (["--assume", "h100-smx"], "did you mean h100-sxm?"),
        (
            ["--assume-gpu", "sn=90"],
            "unknown key `sn`; expected sm, nvswitch-links, gdr",
        ),
        (["--assume-gpu", "nvswitch-links=18"], "expected sm=N"),
        (["--assume-gpu", "sm=9000"], "is not a compute capability"),
        (
            ["--assume-nic", "speed=fast"],
            "speed is `fast`; expected a whole number",
        ),
        (["--assume-nic", "gdr=1"], "expected speed=N in Mb/s"),
    ] {
        let said = run(&[&["complete", "topologies/dgx-h100"][..], &arguments].concat());
        assert_eq!(said.status, Some(2));
        assert!(said.err.contains(complaint), "{arguments:?}: {}", said.err);
    }
}

/// The map of a guest that gets these GPUs of a DGX H100 with their NICs.
fn map(gpus: &[usize]) -> String {
    let mut lines = vec!["# host guest".to_owned()];
    for (slot, gpu) in gpus.iter().enumerate() {
        lines.push(format!(
            "0000:{}b:00.0 0000:{:02x}:00.0",
            gpu + 1,
            2 * slot + 1
        ));
        lines.push(format!(
            "{}8:00.0 0000:{:02x}:00.0 # without a domain",
            gpu + 1,
            2 * slot + 2
        ));
    }
    lines.join("\n")
}

#[test]
fn guests() {
    let (_folder, whole) = file("map.txt", &map(&[0, 1, 2, 3, 4, 5, 6, 7]));
    let guest = ok(&["vm", "topologies/dgx-h100", "--map", &whole]).out;
    assert!(
        !guest.contains("<gpu") && !guest.contains("<net") && !guest.contains("affinity"),
        "{guest}"
    );
    assert!(
        guest.contains("busid=\"0000:01:00.0\" class=\"0x030200\"")
            && !guest.contains("0000:1b:00.0"),
        "{guest}"
    );
    let own = fs::read_to_string(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    let complete = ok(&["vm", "topologies/dgx-h100", "--map", &whole, "--devices"]).out;
    assert_eq!(
        planned(&complete, &["--hosts", "2"]),
        planned(&own, &["--hosts", "2"])
    );
    // NCCL adds the devices that the guest finds; so do assumptions.
    assert_eq!(
        planned(&guest, &["--hosts", "2", "--assume", "h100-sxm"]),
        planned(&own, &["--hosts", "2"])
    );
    let (_folder, part) = file("map.txt", &map(&[2, 5]));
    let part = ok(&["vm", "topologies/dgx-h100", "--map", &part]).out;
    assert_eq!(part.matches("class=\"0x030200\"").count(), 2);
    assert_eq!(part.matches("class=\"0x060400\"").count(), 2);
}

#[test]
fn maps_of_guests_are_checked() {
    for (text, complaint) in [
        ("0000:1b:00.0\n", "map.txt:1: found `0000:1b:00.0`"),
        ("\nGPU0 0000:01:00.0\n", "map.txt:2: found"),
        (
            "1b:00.0 01:00.0\n18:00.0 01:00.0\n",
            "map.txt:2: 0000:01:00.0 stands already in line 1",
        ),
        (
            "1c:00.0 01:00.0\n",
            "map.txt:1: the host's file has no device 0000:1c:00.0; it has",
        ),
        ("18:00.0 01:00.0\n", "no line names a GPU"),
    ] {
        let (_folder, path) = file("map.txt", text);
        let refusal = refused(&["vm", "topologies/dgx-h100", "--map", &path]);
        assert!(refusal.err.contains(complaint), "{text:?}: {}", refusal.err);
    }
}
