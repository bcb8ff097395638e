//! `topo diff` of a machine with itself under other numbers.
//!
//! NCCL keeps the order of the file and looks devices up by their numbers, but never orders by bus
//! id, NUMA number or port number. So its decisions do not depend on these numbers, with three
//! exceptions: a GPU's device number orders ranks and spreads GPUs over NICs, the last digit of a
//! GPU's bus id must be 0 or 4, and NCCL takes port 0 where GPUs of one host reach each other
//! through the network.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;
use topology::BusId;
use topology::xml::{Document, Element, Tag, c_int, parse, write};

use crate::{file, ok, root, run};

fn machines() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("topologies"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("topology.xml").is_file())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn each(element: &Element, visit: &mut impl FnMut(&Element)) {
    visit(element);
    element.children.iter().for_each(|child| each(child, visit));
}

fn each_mut(element: &mut Element, visit: &mut impl FnMut(&mut Element)) {
    visit(element);
    element
        .children
        .iter_mut()
        .for_each(|child| each_mut(child, visit));
}

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn renumbered(document: &Document, seed: u64) -> Document {
    let mut random = Random(seed);
    let (mut buses, mut others) = (BTreeSet::new(), BTreeSet::new());
    let (mut numas, mut ports) = (BTreeSet::new(), BTreeSet::new());
    each(&document.root, &mut |element| {
        let bus = |name| element.get(name).map(|text| BusId::parse(text).0);
        buses.extend(bus("busid"));
        others.extend(bus("target"));
        if element.tag == Tag::Cpu {
            numas.extend(element.get("numaid").map(c_int));
        }
        if element.tag == Tag::Net {
            ports.extend(element.get("dev").map(c_int));
        }
    });
    // Targets outside of the machine must stay outside, and the functions of a device together.
    let device = |bus: &u64| bus & !0xf;
    let mut taken: BTreeSet<u64> = others.difference(&buses).map(device).collect();
    let mut new_device = BTreeMap::new();
    let mut new_bus = BTreeMap::new();
    for bus in buses {
        let new = *new_device.entry(device(&bus)).or_insert_with(|| {
            loop {
                let new = random.next() >> 28 & !0xf;
                if taken.insert(new) {
                    break new;
                }
            }
        });
        new_bus.insert(bus, new | bus & 0xf);
    }
    let mut shuffled = |numbers: BTreeSet<i32>| -> BTreeMap<i32, i32> {
        let mut used = BTreeSet::from([0]);
        let mut fresh = |random: &mut Random| loop {
            let number = (random.next() % 500) as i32;
            if used.insert(number) {
                return number;
            }
        };
        numbers
            .into_iter()
            .map(|number| match number {
                0 => (0, 0),
                other => (other, fresh(&mut random)),
            })
            .collect()
    };
    let (new_numa, new_port) = (shuffled(numas), shuffled(ports));
    let mut document = document.clone();
    each_mut(&mut document.root, &mut |element| {
        for name in ["busid", "target"] {
            let old = element.get(name).map(|text| BusId::parse(text).0);
            if let Some(new) = old.and_then(|old| new_bus.get(&old)) {
                element.set(name, BusId(*new).to_string());
            }
        }
        let (name, new) = match element.tag {
            Tag::Cpu => ("numaid", &new_numa),
            Tag::Net => ("dev", &new_port),
            _ => return,
        };
        if let Some(new) = element.get(name).map(c_int).and_then(|old| new.get(&old)) {
            element.set(name, new.to_string());
        }
        if element.tag == Tag::Net && element.get("name").is_some() {
            let renamed = format!("port{}", element.get("dev").unwrap_or_default());
            element.set("name", renamed);
        }
    });
    document
}

fn no_different_from_itself(one_of: usize) {
    for name in machines().into_iter().step_by(one_of) {
        let machine = format!("topologies/{name}");
        for hosts in ["1", "2"] {
            let said = run(&["diff", &machine, &machine, "--hosts", hosts]);
            // A machine that cannot be planned cannot be compared.
            let planned = run(&["plan", &machine, "--hosts", hosts, "--format", "quiet"]);
            assert_eq!(said.status, planned.status, "{name}: {}", said.err);
            assert_eq!(said.out, "", "{name}");
        }
    }
}

#[test]
fn every_fourth_machine_is_no_different_from_itself() {
    no_different_from_itself(4);
}

mod deep {
    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn a_machine_is_no_different_from_itself() {
        super::no_different_from_itself(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_are_only_names(machine in prop::sample::select(machines()), seed: u64, hosts in 1..3u32) {
        let original = format!("topologies/{machine}");
        let text = std::fs::read(root().join(&original).join("topology.xml")).unwrap();
        let document = renumbered(&parse(&machine, &text).unwrap(), seed);
        let (_folder, other) = file("renumbered.xml", &write(&document));
        let hosts = hosts.to_string();
        prop_assume!(run(&["plan", &original, "--hosts", &hosts, "--format", "quiet"]).status == Some(0));
        let said = ok(&["diff", &original, &other, "--hosts", &hosts, "--format", "json"]);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        for differences in ["facts", "choices"] {
            prop_assert_eq!(&report[differences], &Value::Array(Vec::new()));
        }
    }
}
