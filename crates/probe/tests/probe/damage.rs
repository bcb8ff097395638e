//! Whatever is missing or broken, a probe gives a topology that can be read, and says what it saw.

use std::fs;
use std::path::{Path, PathBuf};

use probe::nvml::{Answers, ask};
use probe::{Probe, ProbeOptions, Sysfs};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{OnDisk, answers, fake, probe_folder};
use crate::replayed::Replayed;

/// The content of a damaged file.
const DAMAGES: [&[u8]; 5] = [
    b"",
    b"\n",
    b"garbage\n",
    b"-99999999999999999999\n",
    b"\xff\xfe\x00\x1b[31m",
];

fn check(probe: &Probe) {
    let text = topology::xml::write(&probe.document);
    let again = topology::xml::parse("probed", text.as_bytes()).unwrap();
    assert_eq!(topology::xml::write(&again), text);
    assert!(
        probe
            .document
            .root
            .children
            .iter()
            .all(|cpu| cpu.get("numaid").is_some())
    );
}

/// The plain files below a folder, without what links lead to.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() && entry.file_name() != "nvml.json" {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// A damaged file or answer never changes the topology unnoticed.
fn check_noticed(probe: &Probe, healthy: &Probe, what: &str, unnoticed: &mut Vec<String>) {
    check(probe);
    let changed = !probe.document.root.same_as(&healthy.document.root);
    if changed && probe.findings == healthy.findings {
        unnoticed.push(what.to_owned());
    }
}

#[test]
fn every_file_in_turn() {
    // An RDMA device below a processor, and interfaces without RDMA below a switch.
    for name in ["gh200", "workstation-2gpu"] {
        let machine = OnDisk::new(&fake(name));
        let healthy = machine.probe();
        let files = files(machine.folder.path());
        assert!(files.len() > 20);
        let mut unnoticed = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let content = fs::read(file).unwrap();
            let path = file.display().to_string();
            fs::write(file, DAMAGES[number % DAMAGES.len()]).unwrap();
            check_noticed(&machine.probe(), &healthy, &path, &mut unnoticed);
            fs::remove_file(file).unwrap();
            let path = format!("{path}, removed");
            check_noticed(&machine.probe(), &healthy, &path, &mut unnoticed);
            fs::write(file, content).unwrap();
        }
        assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
        let again = machine.probe();
        assert!(again.document.root.same_as(&healthy.document.root));
    }
}

#[test]
fn every_device_vanishes_in_turn() {
    let machine = fake("dgx-a100");
    for link in machine.links.keys() {
        let mut smaller = machine.clone();
        smaller.links.remove(link);
        if link.starts_with("sys/bus/pci/devices") {
            check(&OnDisk::new(&smaller).probe());
        }
    }
}

/// All places of a document, as JSON pointers.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values
            .iter()
            .enumerate()
            .for_each(|(index, value)| places(value, format!("{at}/{index}"), found)),
        Value::Object(values) => values
            .iter()
            .for_each(|(key, value)| places(value, format!("{at}/{key}"), found)),
        _ => {}
    }
    found.push(at);
}

/// NVLinks between GPUs, and C2C with NVLinks to switches.
#[test]
fn every_answer_fails_in_turn() {
    for name in ["dgx-1v", "gb200-nvl72-tray"] {
        every_answer_of(name);
    }
}

fn every_answer_of(name: &str) {
    let fake = fake(name);
    let machine = OnDisk::new(&fake);
    let sysfs = Sysfs::new(machine.folder.path());
    let healthy = machine.probe();
    let mut found = Vec::new();
    places(&fake.nvml, String::new(), &mut found);
    let (mut failed, mut unnoticed) = (0, Vec::new());
    for place in found {
        let mut damaged = fake.nvml.clone();
        *damaged.pointer_mut(&place).unwrap() = json!({"failed": "Unknown"});
        // Not every place holds an answer.
        if let Ok(answers) = serde_json::from_value::<Answers>(damaged) {
            let probe = Probe::of(&sysfs, answers, None, &machine.options);
            check_noticed(&probe, &healthy, &place, &mut unnoticed);
            failed += 1;
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
    assert!(failed > 100, "only {failed} answers failed");
}

/// Recorded answers answer as the driver did.
#[test]
fn answers_answer_again() {
    for name in ["dgx-1v", "dgx-h100", "gb200-nvl72-tray"] {
        let answers = answers(&fake(name));
        assert_eq!(ask(&Replayed(answers.clone())), answers, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several files hold anything at once.
    #[test]
    fn anything_in_files(damages in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..24)), 1..12)) {
        thread_local! {
            static MACHINE: OnDisk = OnDisk::new(&fake("pcie-8gpu-broadcom"));
        }
        MACHINE.with(|machine| {
            let files = files(machine.folder.path());
            let before: Vec<(PathBuf, Vec<u8>)> = damages
                .iter()
                .map(|(index, _)| index.get(&files))
                .map(|file| (file.clone(), fs::read(file).unwrap()))
                .collect();
            for ((index, bytes), _) in damages.iter().zip(&before) {
                fs::write(index.get(&files), bytes).unwrap();
            }
            check(&machine.probe());
            for (file, content) in before.into_iter().rev() {
                fs::write(file, content).unwrap();
            }
        });
    }
}

#[test]
fn folders_that_are_not_what_they_should_be() {
    let folder = testkit::fake::temporary().unwrap();
    fs::create_dir_all(folder.path().join("sys/class/net")).unwrap();
    fs::create_dir_all(folder.path().join("sys/bus/pci/devices")).unwrap();
    // Links that leave the recording, and go round in circles.
    let link = |target: &str, path: &str| {
        std::os::unix::fs::symlink(target, folder.path().join(path)).unwrap()
    };
    link("/etc", "sys/bus/pci/devices/0000:01:00.0");
    link(
        "../../../../../../../etc",
        "sys/bus/pci/devices/0000:02:00.0",
    );
    link("0000:03:00.0", "sys/bus/pci/devices/0000:03:00.0");
    link("/dev/zero", "sys/class/net/eth0");
    let probe = probe_folder(folder.path(), &ProbeOptions::default());
    check(&probe);
    assert!(
        probe
            .machine
            .pci
            .iter()
            .all(|function| function.vendor.is_empty())
    );
}
