//! Recordings of machines that are not as they should be.

use std::fs;
use std::path::Path;

use testkit::{FakeMachine, Machine};

use super::{file, ok, run};

/// A recording of a machine of `topologies/`, after a change.
fn recorded(name: &str, change: impl FnOnce(&mut FakeMachine)) -> (tempfile::TempDir, String) {
    let machine = Machine::named(name).unwrap();
    let mut fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    change(&mut fake);
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

/// The plan of a machine in one line.
fn planned(text: &str, more: &[&str]) -> String {
    let (_folder, path) = file("machine.xml", text);
    let arguments = [&["plan", &path, "--format", "quiet"][..], more].concat();
    ok(&arguments).out
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
    // It is the plan of these two GPUs of the whole machine.
    for hosts in ["1", "2"] {
        let own = fs::read_to_string(Machine::named("dgx-h100").unwrap().topology()).unwrap();
        let of_two = planned(&own, &["--hosts", hosts, "--gpus", "2,3"]);
        assert_eq!(planned(&said.out, &["--hosts", hosts]), of_two);
    }
    // Other commands take a recording too.
    let plan = ok(&["plan", &path, "--format", "quiet"]).out;
    assert!(plan.contains("ranks=2"), "{plan}");
    assert_eq!(ok(&["show", &path]).err, "");
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

/// An odd device does not spoil the matrix of the others.
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
    let text = ok(&["show", "--matrix", &path]).out;
    assert!(
        text.contains("GPU7") && text.contains("siw0") && !text.contains("GPU2 "),
        "{text}"
    );
}
