//! Machines of `topologies/` as a driver presents them.

use std::path::Path;

use phantom::machine::setup::PeerRule;
use phantom::machine::{Machine, Setup};
use topology::xml;

fn machine(name: &str, change: impl FnOnce(&mut Setup)) -> Machine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let path = folder.join(name).join("topology.xml");
    let text = std::fs::read(&path).unwrap();
    let document = xml::parse(name, &text).unwrap();
    let mut setup = Setup::of(path.display().to_string());
    change(&mut setup);
    Machine::new(&document, setup).unwrap()
}

#[test]
fn gpus_joined_by_switches() {
    let machine = machine("dgx-h100", |_| {});
    assert_eq!(machine.gpus.len(), 8);
    for (one, gpu) in machine.gpus.iter().enumerate() {
        assert_eq!((gpu.sm, gpu.multiprocessors), (90, 132));
        assert!(gpu.name.contains("topo phantom"), "{}", gpu.name);
        assert!(machine.has_multicast(one));
        for other in 0..8 {
            assert_eq!(machine.reaches(one, other), one != other);
            assert_eq!(machine.has_nvlink(one, other), one != other);
        }
        let same = machine.gpus.iter().filter(|it| it.uuid == gpu.uuid);
        assert_eq!(same.count(), 1);
    }
    assert!(machine.gpus.iter().any(|gpu| gpu.numa == 0));
    assert!(machine.gpus.iter().any(|gpu| gpu.numa == 1));
}

#[test]
fn a_setup_changes_gpus() {
    let text =
        "topology x\nmultiprocessors 8\ngpu 1 multiprocessors 2\nmemory-mib 64\nmulticast no";
    let machine = machine("dgx-h100", |setup| *setup = Setup::parse(text).unwrap());
    let counts: Vec<u32> = machine.gpus.iter().map(|it| it.multiprocessors).collect();
    assert_eq!(counts, [8, 2, 8, 8, 8, 8, 8, 8]);
    assert_eq!(machine.gpus[7].memory_bytes, 64 << 20);
    assert!(!machine.has_multicast(0));
}

#[test]
fn gpus_without_nvlinks() {
    let machine = machine("pcie-8gpu-nonet", |setup| setup.peers = PeerRule::NvLink);
    assert!(machine.gpus.len() > 1);
    assert!(!machine.reaches(0, 1) && !machine.has_multicast(0));
}

#[test]
fn every_machine_is_presented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut presented = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().join("topology.xml");
        let Ok(text) = std::fs::read(&path) else {
            continue;
        };
        let document = xml::parse("topology.xml", &text).unwrap();
        let Ok(machine) = Machine::new(&document, Setup::of("x")) else {
            continue;
        };
        presented += usize::from(!machine.gpus.is_empty());
    }
    assert!(presented >= 50, "{presented}");
}

#[test]
fn unknown_gpus_are_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let text = std::fs::read(folder.join("dgx-h100/topology.xml")).unwrap();
    let document = xml::parse("x", &text).unwrap();
    let setup = Setup::parse("topology x\ngpu 8 memory-mib 1").unwrap();
    let error = Machine::new(&document, setup).unwrap_err();
    assert!(
        error.contains("`gpu 8`") && error.contains("8 GPUs"),
        "{error}"
    );
}
