//! A recording gives what the machine gave, and nothing that identifies the machine.

use std::fs;
use std::path::Path;

use probe::nvml::Answers;
use probe::record::{RecordError, save};
use probe::{Addresses, Probe, ProbeOptions, Sysfs};

use crate::common::{OnDisk, answers, fake, probe_folder};

/// Probes a folder and records it into another.
fn record(
    from: &Path,
    answers: Answers,
    options: &ProbeOptions,
    identifiers: bool,
    to: &Path,
) -> Probe {
    let sysfs = Sysfs::recording(from, identifiers);
    let addresses = Addresses::from_iter(["eth0".to_owned()]);
    let probe = Probe::of(&sysfs, answers, Some(&addresses), options);
    save(to, &sysfs, &probe, Some(&addresses)).unwrap();
    probe
}

#[test]
fn replays_give_the_same() {
    for name in [
        "dgx-h100",
        "dgx-1v",
        "gb200-nvl72-tray",
        "pcie-8gpu-broadcom",
        "broken-vm",
    ] {
        let fake = fake(name);
        let machine = OnDisk::new(&fake);
        for identifiers in [false, true] {
            let folder = testkit::fake::temporary().unwrap();
            let recorded = record(
                machine.folder.path(),
                answers(&fake),
                &machine.options,
                identifiers,
                folder.path(),
            );
            let replayed = probe_folder(folder.path(), &machine.options);
            assert_eq!(
                topology::xml::write(&replayed.document),
                topology::xml::write(&recorded.document),
                "{name}"
            );
            assert_eq!(replayed.findings, recorded.findings, "{name}");
            assert_eq!(replayed.machine, recorded.machine, "{name}");
            let unchanged = replayed
                .document
                .root
                .same_as(&machine.probe().document.root);
            assert_eq!(unchanged, identifiers, "{name}");
        }
    }
}

#[test]
fn nothing_private_is_kept() {
    let mut fake = fake("dgx-h100");
    fake.file("proc/sys/kernel/hostname", "secret-host");
    fake.file("sys/class/dmi/id/product_serial", "secret-serial");
    fake.file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module  580.82.07  Release Build  (root@secret-host)");
    let interface = "sys/devices/virtual/net/eth0";
    fake.link("sys/class/net/eth0", interface);
    fake.file(format!("{interface}/operstate"), "up");
    fake.file(format!("{interface}/address"), "5e:c4:e7:00:00:01");
    // Named after its address.
    let named = format!(
        "{}/net/enx5ec4e7000001",
        fake.function("0000:18:00.0").unwrap()
    );
    fake.link("sys/class/net/enx5ec4e7000001", named.clone());
    fake.file(format!("{named}/operstate"), "up");
    let private = [
        "5ec4e7",
        "secret",
        "5e:c4:e7",
        "1111-2222-3333",
        "a088:c203:00ab",
        "0000:ab00:03c2:88a0",
    ];
    let machine = OnDisk::new(&fake);
    let found = |identifiers: bool| {
        let folder = testkit::fake::temporary().unwrap();
        record(
            machine.folder.path(),
            answers(&fake),
            &machine.options,
            identifiers,
            folder.path(),
        );
        let mut text = String::new();
        collect(folder.path(), &mut text);
        let found: Vec<&str> = private
            .into_iter()
            .filter(|word| text.contains(word))
            .collect();
        found.join(" ")
    };
    assert_eq!(found(false), "");
    // Asked for, identifiers are kept, but host names and addresses are still nobody's business.
    let kept = found(true);
    assert!(
        kept.contains("1111-2222-3333")
            && kept.contains("5ec4e7")
            && !kept.contains("secret")
            && !kept.contains("5e:c4:e7"),
        "{kept}"
    );
}

/// Folders with a recording of a real machine: beside it `topology.xml` and `findings.txt`, which
/// the probe must give again. They stand in `tests/recordings`, or in a machine's folder of
/// `topologies/`. A new test is a new folder; `TOPO_BLESS=1` writes what is expected.
#[test]
fn recorded_machines() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut folders = Vec::new();
    for home in [own, testkit::Machine::home()] {
        let entries = fs::read_dir(home).unwrap();
        folders.extend(entries.map(|entry| entry.unwrap().path()));
    }
    folders.retain(|folder| folder.join("recording").is_dir());
    folders.sort();
    assert!(!folders.is_empty());
    for folder in folders {
        let recording = probe::record::Recording::open(&folder.join("recording")).unwrap();
        let probe = Probe::of(
            &recording.sysfs,
            recording.answers,
            recording.addresses.as_ref(),
            &recording.options,
        );
        let findings = probe.findings.iter().map(|finding| {
            let id = finding.rule.id();
            format!(
                "{id} {}: {}, expected {}\n",
                finding.device(),
                finding.seen,
                finding.expected
            )
        });
        let found = [
            ("topology.xml", topology::xml::write(&probe.document)),
            ("findings.txt", findings.collect()),
        ];
        for (file, text) in found {
            let path = folder.join(file);
            if std::env::var_os("TOPO_BLESS").is_some() {
                fs::write(&path, &text).unwrap();
            }
            assert_eq!(
                fs::read_to_string(&path).unwrap(),
                text,
                "{}",
                path.display()
            );
        }
    }
}

/// An interface that is named after its address is the same interface under another name.
#[test]
fn names_after_addresses_are_replaced() {
    let mut fake = fake("pcie-8gpu-nonet");
    for (number, name) in ["enx5ec4e7000002", "enx5ec4e7000001"].iter().enumerate() {
        let folder = format!("sys/devices/virtual/net/{name}");
        fake.link(format!("sys/class/net/{name}"), folder.clone());
        fake.file(format!("{folder}/operstate"), "up");
        fake.file(format!("{folder}/ifindex"), (number + 1).to_string());
        fake.file(format!("{folder}/speed"), (1000 * (number + 1)).to_string());
    }
    let machine = OnDisk::new(&fake);
    let sysfs = Sysfs::recording(machine.folder.path(), false);
    let addresses = Addresses::from_iter(["enx5ec4e7000001".to_owned()]);
    let options = ProbeOptions {
        socket_ifname: Some("=enx5ec4e7000001".to_owned()),
        ..machine.options.clone()
    };
    let probe = Probe::of(&sysfs, answers(&fake), Some(&addresses), &options);
    let found: Vec<(&str, i32)> = probe
        .nets
        .iter()
        .map(|net| (net.name.as_str(), net.speed))
        .collect();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].0.starts_with("enx00000000000") && found[0].1 == 2000,
        "{found:?}"
    );
    let folder = testkit::fake::temporary().unwrap();
    save(folder.path(), &sysfs, &probe, Some(&addresses)).unwrap();
    let recorded = probe::record::Recording::open(folder.path())
        .unwrap()
        .options;
    let replayed = probe_folder(folder.path(), &recorded);
    assert_eq!(replayed.nets, probe.nets);
    let mut text = String::new();
    collect(folder.path(), &mut text);
    assert!(!text.contains("5ec4e7"));
}

fn collect(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        text.push_str(&entry.file_name().to_string_lossy());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => collect(&entry.path(), text),
            kind if kind.is_file() => {
                text.push_str(&String::from_utf8_lossy(&fs::read(entry.path()).unwrap()))
            }
            _ => {}
        }
    }
}

/// GPUs that were named by UUID are still meant when UUIDs are hidden.
#[test]
fn gpus_in_use_are_recorded() {
    let fake = fake("dgx-1v");
    let machine = OnDisk::new(&fake);
    let options = ProbeOptions {
        visible_devices: Some("GPU-00000003,5,99,1".to_owned()),
        ..ProbeOptions::default()
    };
    let folder = testkit::fake::temporary().unwrap();
    let recorded = record(
        machine.folder.path(),
        answers(&fake),
        &options,
        false,
        folder.path(),
    );
    assert_eq!(recorded.options.gpus, Some(vec![3, 5]));
    let options = probe::record::Recording::open(folder.path())
        .unwrap()
        .options;
    assert_eq!(options, recorded.options);
    let ranks: Vec<(u32, u32)> = recorded
        .gpus
        .iter()
        .filter_map(|gpu| Some((gpu.rank?, gpu.index)))
        .collect();
    assert_eq!(ranks, [(0, 3), (1, 5)]);
    assert!(
        probe_folder(folder.path(), &options)
            .document
            .root
            .same_as(&recorded.document.root)
    );
}

#[test]
fn recordings_are_refused() {
    let folder = testkit::fake::temporary().unwrap();
    let open = probe::record::Recording::open(folder.path());
    assert!(matches!(open, Err(RecordError::NoRecording(_))));
    fs::write(folder.path().join("nvml.json"), "{\"driver\": 1").unwrap();
    let open = probe::record::Recording::open(folder.path());
    let error = open.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("nvml.json") && error.contains("line 1"),
        "{error}"
    );
    let sysfs = Sysfs::recording("/nowhere", false);
    let probe = Probe::of(
        &sysfs,
        Answers::none("none"),
        None,
        &ProbeOptions::default(),
    );
    let saved = save(folder.path(), &sysfs, &probe, None);
    assert!(matches!(saved, Err(RecordError::NotEmpty(_))));
}
