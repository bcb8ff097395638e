//! Edits of a machine, against the same file edited by hand.

use topology::System;
use topology::edit::{Edit, EditError, FailureKind, failures};
use topology::xml::{Document, parse, write};

fn machine(name: &str) -> (String, Document) {
    let file = format!(
        "{}/../../topologies/{name}/topology.xml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(file).unwrap();
    let document = parse(name, text.as_bytes()).unwrap();
    (text, document)
}

fn edited(document: &Document, edits: &[Result<Edit, EditError>]) -> Document {
    edits.iter().fold(document.clone(), |document, edit| {
        edit.as_ref().unwrap().apply(&document).unwrap()
    })
}

/// Everything of a system that decisions depend on.
fn decisive(document: &Document) -> String {
    let system = System::from_document(document).unwrap();
    let nodes: Vec<_> = (0..system.node_count())
        .map(|node| system.node(topology::NodeId(node as u32)))
        .collect();
    let links: Vec<_> = (0..system.link_count())
        .map(|link| topology::LinkId(link as u32))
        .map(|link| (system.ends(link), system.link(link)))
        .collect();
    format!("{nodes:#?}{links:#?}")
}

/// The text without the lines from the one that holds `from` up to the first one behind it that is
/// `to`; spaces in front count only where `to` begins with some.
fn without_lines(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.contains(from)).unwrap();
    let ends = |line: &&str| match to.starts_with(' ') {
        true => *line == to,
        false => line.ends_with(to),
    };
    let last = first + lines[first..].iter().position(ends).unwrap();
    [&lines[..first], &lines[last + 1..]].concat().join("\n")
}

#[track_caller]
fn same(edited: &Document, by_hand: &str) {
    let by_hand = parse("by hand", by_hand.as_bytes()).unwrap();
    assert_eq!(decisive(edited), decisive(&by_hand));
}

#[test]
fn removed_devices_are_gone_as_if_by_hand() {
    let (text, document) = machine("dgx-h100");
    for name in [
        "mlx5_3",
        "NIC3",
        "net3",
        "0000:48:00.0",
        "48:00.0",
        "adapter 0000:48:00.0",
    ] {
        let by_hand = without_lines(&text, "0000:48:00.0", "</pci>");
        same(&edited(&document, &[Edit::without(name)]), &by_hand);
    }
    for name in ["GPU3", "gpu3", "0000:4b:00.0"] {
        let by_hand = without_lines(&text, "0000:4b:00.0", "</pci>");
        same(&edited(&document, &[Edit::without(name)]), &by_hand);
    }
    // A switch, with the GPU and the NIC below it.
    let by_hand = without_lines(&text, "0000:45:01.0", "    </pci>");
    assert!(!by_hand.contains("0000:4b:00.0") && !by_hand.contains("mlx5_3"));
    same(
        &edited(&document, &[Edit::without("PCI 0000:45:01.0")]),
        &by_hand,
    );
    let half = edited(&document, &[Edit::without("CPU1")]);
    assert_eq!(write(&half).matches("<gpu ").count(), 4);
    assert_eq!(write(&half).matches("<cpu ").count(), 1);
    let dark = edited(&document, &[Edit::without("NVSwitch")]);
    assert_eq!(write(&dark), text_without_nvlinks(&document));
}

fn text_without_nvlinks(document: &Document) -> String {
    let mut text: Vec<String> = write(document).lines().map(str::to_owned).collect();
    text.retain(|line| !line.contains("<nvlink"));
    // A GPU without children is written in one tag.
    let text = text.join("\n") + "\n";
    text.replace("gdr=\"1\">\n        </gpu>", "gdr=\"1\"/>")
}

#[test]
fn a_port_of_two_leaves_the_other() {
    let (text, document) = machine("ac922-power9");
    let by_hand = without_lines(&text, "name=\"mlx5_1\"", "/>");
    let document = edited(&document, &[Edit::without("mlx5_1")]);
    same(&document, &by_hand);
    assert!(write(&document).contains("mlx5_0"));
}

#[test]
fn links_are_named_by_both_ends_in_any_order() {
    let (text, document) = machine("dgx-1v");
    let (one, other) = (
        "target=\"0000:0b:00.0\" count=\"2\"",
        "target=\"0000:06:00.0\" count=\"2\"",
    );
    let both = |count: &str| {
        let with = |line: &str| line.replace("count=\"2\"", count);
        text.replacen(one, &with(one), 1)
            .replacen(other, &with(other), 1)
    };
    for name in [
        "GPU0:GPU3=50%",
        "GPU3:GPU0=1",
        "0000:06:00.0:0000:0b:00.0=99%",
        "GPU0:0000:0b:00.0=50%",
    ] {
        same(
            &edited(&document, &[Edit::degrade(name)]),
            &both("count=\"1\""),
        );
    }
    let gone = edited(&document, &[Edit::without("GPU3:GPU0")]);
    let removed = |text: &str, line: &str| {
        text.replacen(
            &format!("          <nvlink {line} tclass=\"0x030200\"/>\n"),
            "",
            1,
        )
    };
    same(&gone, &removed(&removed(&text, one), other));
}

#[test]
fn each_kind_of_link_has_its_attribute() {
    let (text, document) = machine("dgx-h100");
    let first = |from: &str, to: &str| text.replacen(from, to, 1);
    same(
        &edited(&document, &[Edit::degrade("GPU0:NVSwitch=17")]),
        &first("count=\"18\"", "count=\"17\""),
    );
    same(
        &edited(&document, &[Edit::degrade("NVSwitch=75%")]),
        &text.replace("count=\"18\"", "count=\"13\""),
    );
    same(
        &edited(&document, &[Edit::degrade("mlx5_0=50%")]),
        &first("speed=\"400000\"", "speed=\"200000\""),
    );
    let pci = text.replacen(
        "link_width=\"16\">\n        <gpu dev=\"0\"",
        "link_width=\"8\">\n        <gpu dev=\"0\"",
        1,
    );
    for name in ["GPU0=50%", "GPU0=8", "GPU0:0000:15:01.0=50%"] {
        same(&edited(&document, &[Edit::degrade(name)]), &pci);
    }
    same(
        &edited(&document, &[Edit::degrade("0000:15:01.0=4")]),
        &first("link_width=\"16\"", "link_width=\"4\""),
    );
    let (text, document) = machine("gb200-nvl72-tray");
    same(
        &edited(&document, &[Edit::degrade("GPU0:CPU0=50%")]),
        &text.replacen("bw=\"44712\"", "bw=\"22356\"", 1),
    );
}

#[test]
fn mistakes_say_what_there_is() {
    let (_, document) = machine("dgx-1v");
    let refusal = |edit: Result<Edit, EditError>| match edit.unwrap().apply(&document) {
        Err(error) => error,
        Ok(_) => panic!("done"),
    };
    assert!(matches!(
        refusal(Edit::without("GPU9:GPU1")),
        EditError::UnknownDevice { name, known, .. } if name == "GPU9" && known.contains(&"mlx5_3".to_owned())
    ));
    assert!(matches!(
        refusal(Edit::without("host3/GPU1")),
        EditError::NoSuchHost {
            host: 3,
            hosts: 1,
            ..
        }
    ));
    let message = |edit| refusal(edit).to_string();
    assert_eq!(
        message(Edit::without("GPU0:GPU5")),
        "dgx-1v has no link between GPU0 and GPU5; GPU0 has links to 0000:04:00.0, GPU1, GPU2, GPU3, GPU4"
    );
    assert_eq!(
        message(Edit::degrade("GPU0:GPU1=50%")),
        "dgx-1v:6:41: <nvlink> attribute `count`: the number of NVLinks is 1, and 50% of it is 0; expected to remove it, \
         for it cannot be divided"
    );
    assert!(
        message(Edit::degrade("GPU0:GPU3=2"))
            .contains("is 2, and 2 of it is 2; expected something between 1 and 1")
    );
    assert!(message(Edit::degrade("CPU0=50%")).contains("cannot say this of CPU0"));
    assert!(message(Edit::without("GPU0:0000:04:00.0")).contains("remove the device instead"));
}

#[test]
fn every_single_failure_can_be_edited() {
    let home = format!("{}/../../topologies", env!("CARGO_MANIFEST_DIR"));
    for folder in std::fs::read_dir(home).unwrap() {
        let name = folder.unwrap().file_name().to_string_lossy().into_owned();
        if name == "README.md" {
            continue;
        }
        let (_, document) = machine(&name);
        let failures = failures(&document);
        let mut seen = Vec::new();
        for failure in &failures {
            let text = failure.edit.to_string();
            assert!(!seen.contains(&text), "{name}: {text} twice");
            // What a person would type does the same.
            let typed = if failure.edit.removes() {
                Edit::without(&text)
            } else {
                Edit::degrade(&text)
            };
            assert_eq!(typed.as_ref(), Ok(&failure.edit));
            let edited = failure
                .edit
                .apply(&document)
                .unwrap_or_else(|error| panic!("{name}: {text}: {error}"));
            assert!(
                !edited.root.same_as(&document.root),
                "{name}: {text} changes nothing"
            );
            parse("again", write(&edited).as_bytes()).unwrap();
            seen.push(text);
        }
        let count = |kind| {
            failures
                .iter()
                .filter(|failure| failure.kind == kind)
                .count()
        };
        if name == "dgx-1v" {
            let counts = [
                FailureKind::Gpu,
                FailureKind::Nic,
                FailureKind::Switch,
                FailureKind::NvSwitch,
                FailureKind::NvLink,
                FailureKind::GpuNvLinks,
            ];
            assert_eq!(counts.map(count), [8, 4, 4, 0, 16, 8]);
        }
    }
}

#[test]
fn peer_access_is_taken_away_in_both_directions() {
    let (_, document) = machine("dgx-a100");
    let lists = |text: &str| {
        let edited = edited(&document, &[Edit::without(text)]);
        let system = System::from_document(&edited).unwrap();
        let mut lists: Vec<_> = system
            .gpus()
            .map(|(_, gpu)| (gpu.dev, gpu.no_p2p.clone()))
            .collect();
        lists.sort();
        lists.into_iter().map(|it| it.1).collect::<Vec<_>>()
    };
    let all = lists("P2P");
    assert_eq!(all[0], [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(all[7], [0, 1, 2, 3, 4, 5, 6]);
    let one = lists("GPU3:p2p");
    assert_eq!(one[3], [0, 1, 2, 4, 5, 6, 7]);
    assert!((0..8).filter(|it| *it != 3).all(|it| one[it] == [3]));
    let slower = Edit::degrade("P2P=50%").unwrap().apply(&document);
    assert!(
        matches!(slower, Err(EditError::NotInFile { .. })),
        "{slower:?}"
    );
    let unknown = Edit::without("GPU9:P2P").unwrap().apply(&document);
    assert!(
        matches!(unknown, Err(EditError::UnknownDevice { .. })),
        "{unknown:?}"
    );
    let text = write(&document).replacen("<gpu dev=\"0\"", "<gpu no_p2p=\"1;2\" dev=\"0\"", 1);
    let broken = parse("broken", text.as_bytes()).unwrap();
    let error = System::from_document(&broken).unwrap_err().to_string();
    assert!(error.contains("device numbers, such as 1,3"), "{error}");
}
