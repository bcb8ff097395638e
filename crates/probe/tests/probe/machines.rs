//! Every machine of the project is rebuilt as files and driver answers, and probed: the topology
//! must come back.

use std::collections::BTreeMap;

use testkit::{FakeMachine, Machine, comparable};
use topology::xml::{Document, Element, Tag};

use crate::common::OnDisk;

/// Machines that no probe could have given, with the reason.
fn not_probed() -> BTreeMap<&'static str, &'static str> {
    let family = "the family 25, which NCCL counts otherwise";
    let turin = "the family 26, which NCCL counts otherwise";
    let rubin = "GPU 0: 36 NVLinks, where NCCL looks at 18";
    BTreeMap::from([
        (
            "dgx-spark-ring",
            "ports of one board are not numbered 1, 2 …",
        ),
        ("hgx-rubin-nvl8", rubin),
        ("pcie-8gpu-turin", turin),
        ("random-00069", family),
        ("random-00078", family),
        ("random-00118", family),
        ("random-00174", family),
        ("rtxpro-8gpu-cx8", turin),
        ("rtxpro-8gpu-switch", turin),
        ("vr200-nvl72-tray", rubin),
    ])
}

#[test]
fn topologies_come_back() {
    let mut not_probed = not_probed();
    let mut probed = 0;
    let mut wrong = Vec::new();
    for machine in Machine::all().unwrap() {
        let document = machine.document().unwrap();
        let fake = match FakeMachine::of(&document) {
            Ok(fake) => fake,
            Err(reason) => {
                let reason = format!("{reason:#}");
                if not_probed.remove(machine.name.as_str()) != Some(&reason) {
                    wrong.push(format!("{}: {reason}", machine.name));
                }
                continue;
            }
        };
        let probe = OnDisk::new(&fake).probe();
        let (expected, found) = (comparable(&document), comparable(&probe.document));
        if let Some((expected, found)) = expected.lines().zip(found.lines()).find(|(a, b)| a != b) {
            wrong.push(format!(
                "{}: expected\n{expected}\nfound\n{found}",
                machine.name
            ));
        } else if expected != found {
            wrong.push(format!(
                "{}: expected\n{expected}\nfound\n{found}",
                machine.name
            ));
        }
        probed += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(not_probed.is_empty(), "probed nevertheless: {not_probed:?}");
    assert!(probed > 20, "only {probed} machines were probed");
}

/// All functions of GPUs and NICs, directly below one CPU: what a careless guest shows of a
/// machine.
fn flat(document: &Document) -> Document {
    fn collect(element: &Element, found: &mut Vec<Element>) {
        let is_device = element
            .children
            .iter()
            .any(|child| matches!(child.tag, Tag::Gpu | Tag::Nic));
        if element.tag == Tag::Pci && is_device {
            found.push(element.clone());
        } else {
            element
                .children
                .iter()
                .for_each(|child| collect(child, found));
        }
    }
    let mut cpu = document.root.children[0].clone();
    let mut devices = Vec::new();
    collect(&document.root, &mut devices);
    cpu.children = devices;
    let mut root = document.root.clone();
    root.children = vec![cpu];
    Document::from_root("flat", root)
}

/// The PCI tree alone, as clouds put it into their guests.
fn bare(document: &Document) -> Document {
    fn strip(element: &mut Element) {
        element
            .children
            .retain(|child| matches!(child.tag, Tag::Cpu | Tag::Pci));
        element.children.iter_mut().for_each(strip);
    }
    let mut root = document.root.clone();
    strip(&mut root);
    Document::from_root("bare", root)
}

/// NCCL begins with the file that a guest has, and so does a probe: what the guest hides comes
/// back.
#[test]
fn guests_with_a_file() {
    for name in ["dgx-h100", "dgx-a100", "azure-ndv5"] {
        let document = Machine::named(name).unwrap().document().unwrap();
        let fake = FakeMachine::of(&flat(&document)).unwrap();
        let mut guest = OnDisk::new(&fake);
        let without = guest.probe();
        assert_ne!(comparable(&without.document), comparable(&document));
        for file in [bare(&document), document.clone()] {
            guest.options.topology_file = Some(topology::xml::write(&file));
            let probe = guest.probe();
            let (found, expected) = (comparable(&probe.document), comparable(&document));
            assert_eq!(found, expected, "{name}");
            assert_eq!(probe.findings, [], "{name}");
        }
        // Of two GPUs only what they use is left.
        guest.options.gpus = Some(vec![1, 2]);
        let two = topology::xml::write(&guest.probe().document);
        let nets = topology::xml::write(&document).matches("<net ").count();
        let count = |tag: &str| two.matches(tag).count();
        assert_eq!((count("<gpu "), count("<net ")), (2, nets), "{name}");
    }
}

/// A recording keeps the file, without what identifies the machine.
#[test]
fn files_of_guests_are_recorded() {
    let document = Machine::named("dgx-h100").unwrap().document().unwrap();
    let fake = FakeMachine::of(&flat(&document)).unwrap();
    let machine = OnDisk::new(&fake);
    let sysfs = probe::Sysfs::recording(machine.folder.path(), false);
    let options = probe::ProbeOptions {
        topology_file: Some(topology::xml::write(&document)),
        ..machine.options.clone()
    };
    let recorded = probe::Probe::of(&sysfs, crate::common::answers(&fake), None, &options);
    let folder = testkit::fake::temporary().unwrap();
    probe::record::save(folder.path(), &sysfs, &recorded, None).unwrap();
    let kept = probe::record::Recording::open(folder.path())
        .unwrap()
        .options;
    let file = kept.topology_file.as_deref().unwrap();
    assert!(
        !file.contains("host_hash") && !file.contains("a088c20300ab"),
        "{file}"
    );
    let replayed = crate::common::probe_folder(folder.path(), &kept);
    assert!(replayed.document.root.same_as(&recorded.document.root));
    let broken = probe::ProbeOptions {
        topology_file: Some("<system".to_owned()),
        ..options
    };
    let probe = crate::common::probe_folder(machine.folder.path(), &broken);
    assert!(
        probe
            .findings
            .iter()
            .any(|finding| finding.rule == probe::Rule::Garbage)
    );
}
