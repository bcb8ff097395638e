//! NCCL's silent readings of odd attributes.

use topology::xml::{Document, Element, Tag, lint, parse};

/// The warnings about a file with this below `<cpu>`, without their places.
fn warnings(inside: &str) -> Vec<String> {
    let text =
        format!("<system version=\"1\">\n<cpu host_hash=\"0x1\">\n{inside}\n</cpu></system>");
    let document = parse("f.xml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    document
        .warnings
        .into_iter()
        .map(|warning| warning.message)
        .collect()
}

#[track_caller]
fn check(inside: &str, expected: &[&str]) {
    assert_eq!(warnings(inside), expected, "{inside}");
}

/// A `<pci>` with one attribute.
fn pci(attribute: &str) -> String {
    format!("<pci {attribute}/>")
}

/// A port of a NIC with these attributes.
fn net(attributes: &str) -> String {
    format!("<nic><net {attributes}/></nic>")
}

#[test]
fn link_speeds() {
    for known in [
        "2.5 GT/s",
        "16 GT/s",
        "32 GT/s PCIe/s",
        "16.0 GT/s PCIe",
        "64.0 GT/s PCIe",
    ] {
        check(&pci(&format!("link_speed=\"{known}\"")), &[]);
    }
    let gen3 = "and counts it as 8 GT/s (PCIe Gen3)";
    for (text, meant) in [
        ("16.0 GT/s", "16.0 GT/s PCIe"),
        ("64 GT/s", "64.0 GT/s PCIe"),
        ("5.0GT/s", "5.0 GT/s PCIe"),
    ] {
        let message = format!(
            "NCCL does not know the link speed `{text}` {gen3}; write `{meant}` if that is meant"
        );
        check(&pci(&format!("link_speed=\"{text}\"")), &[&message]);
    }
    check(
        &pci("link_speed=\"fast\""),
        &[&format!("NCCL does not know the link speed `fast` {gen3}")],
    );
    check(
        &pci("link_speed=\"\""),
        &["an empty link speed counts as 8 GT/s (PCIe Gen3)"],
    );
    check(
        &pci("link_speed=\"\"").repeat(3),
        &["an empty link speed counts as 8 GT/s (PCIe Gen3) (3 times in this file, first here)"],
    );
}

#[test]
fn link_widths() {
    for known in ["0", "1", "16", "0x10", "32"] {
        check(&pci(&format!("link_width=\"{known}\"")), &[]);
    }
    check(
        &pci("link_width=\"\""),
        &["an empty link width counts as 16 lanes"],
    );
    for odd in ["3", "-1", "64"] {
        let message = format!(
            "`{odd}` is not a width that PCI Express has: NCCL calculates with it as it stands"
        );
        check(&pci(&format!("link_width=\"{odd}\"")), &[&message]);
    }
    check(
        &pci("link_width=\"x16\""),
        &["`x16` is not a plain integer: NCCL reads it as 0"],
    );
}

#[test]
fn numbers_that_are_none() {
    check(
        "<pci><gpu dev=\"08\" sm=\"0x5a\" rank=\"one\" gdr=\"1.5\" mlopart=\"-1\"/></pci>",
        &[
            "`08` is not a plain integer: NCCL reads it as 0",
            "`one` is not a plain integer: NCCL reads it as 0",
            "`1.5` is not a plain integer: NCCL reads it as 1",
        ],
    );
    check(
        &net("dev=\"0\" speed=\"99999999999\""),
        &[
            "`99999999999` is not a plain integer: NCCL reads it as 1215752191",
            "1215752191 Mb/s is more than 10 Tb/s; the speed is given in Mb/s",
        ],
    );
    check(
        &net("dev=\"0\" speed=\"100000\" latency=\"fast\""),
        &["`fast` is not a plain number: it is read as 0"],
    );
    check(
        &net("dev=\"0\" speed=\"100000\" latency=\"-1\""),
        &["`-1` is not a time that a message can take"],
    );
    check(
        &net("dev=\"-1\" speed=\"100000\" rail=\"-1\""),
        &["-1 is not a value that this can have: NCCL calculates with it as it stands"],
    );
}

#[test]
fn hashes_that_are_none() {
    check(
        &net("dev=\"0\" speed=\"100000\" guid=\"0xREDACTED\""),
        &[
            "`0xREDACTED` is not a 64-bit hexadecimal number: NCCL reads it as 0x0, \
           and ports whose guids read alike count as ports of one device",
        ],
    );
    check(
        &pci("vendor=\"0x10b5q\" device=\"\""),
        &["`0x10b5q` is not a 64-bit hexadecimal number: NCCL reads it as 0x10b5"],
    );
    check(
        &net("dev=\"0\" speed=\"100000\" guid=\"a088c20300ab0000\""),
        &[],
    );
}

#[test]
fn classes() {
    check(&pci("class=\"0x030200\""), &[]);
    check(
        &pci("class=\"0x010802\""),
        &["NCCL does not know the PCI class `0x010802` and takes the device for a PCI switch"],
    );
    check(
        "<pci><gpu rank=\"0\"><nvlink tclass=\"switch\"/></gpu></pci>",
        &["NCCL does not know the PCI class `switch` and takes the far end for an NVSwitch"],
    );
}

#[test]
fn bus_ids() {
    check(
        "<pci busid=\"0000:1b:00.0\"/><pci busid=\"0000:1B:00.0\"/>",
        &[
            "bus id `0000:1B:00.0` stands at line 3 already: NCCL looks up the first, and GPUs or NICs of one bus id become one node",
        ],
    );
    check(
        &pci("busid=\"1b.x\""),
        &["`1b.x` is not a bus id of the form dddd:bb:dd.f: NCCL reads it as 0000:00:01.b"],
    );
    check(&pci("busid=\"0000:1b:00.0\""), &[]);
}

#[test]
fn nvlinks() {
    let machine = |target: &str, count: &str| {
        format!(
            "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\" rank=\"0\"><nvlink target=\"{target}\" count=\"{count}\" tclass=\"0x030200\"/></gpu></pci>\
             <pci busid=\"0000:02:00.0\"><gpu dev=\"1\" rank=\"1\"/></pci>"
        )
    };
    check(&machine("0000:02:00.0", "12"), &[]);
    check(
        &machine("0000:03:00.0", "12"),
        &["no <gpu> of this host has the bus id `0000:03:00.0`: NCCL leaves out the link"],
    );
    check(
        &machine("0000:02:00.0", "-2"),
        &["NCCL reads -2 here, so this link has a negative bandwidth"],
    );
    check(
        &machine("0000:02:00.0", "0"),
        &["NCCL reads 0 here, so this link has no bandwidth"],
    );
    // An NVSwitch has no bus id that can be looked up.
    check(
        "<pci><gpu rank=\"0\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>",
        &[],
    );
}

#[test]
fn gpus_and_ports_that_are_left_out() {
    check(
        "<pci><gpu dev=\"0\"/></pci>",
        &["a GPU without `rank`: NCCL leaves out this GPU and everything else in its <pci>"],
    );
    check(
        &net("name=\"a\""),
        &["a network port without `dev`: NCCL leaves it out"],
    );
}

#[test]
fn numbers_used_twice() {
    let gpu = |dev: u8, rank: u8| format!("<gpu dev=\"{dev}\" rank=\"{rank}\"/>");
    check(
        &format!("<pci>{}</pci>\n<pci>{}</pci>", gpu(0, 0), gpu(0, 1)),
        &[
            "GPU `0` stands at line 3 already, on another bus id: a device number means one GPU of a host",
        ],
    );
    check(
        &format!("<pci>{}</pci>\n<pci>{}</pci>", gpu(0, 7), gpu(1, 7)),
        &["rank `7` stands at line 3 already: a rank means one GPU"],
    );
    // Two ranks on one device.
    check(&format!("<pci>{}{}</pci>", gpu(0, 0), gpu(0, 1)), &[]);
    let port = |attributes: &str| net(&format!("dev=\"0\" speed=\"100000\"{attributes}"));
    check(
        &format!("{}{}", port(""), port("")),
        &["network device `0` stands at line 3 already: NCCL looks up the first of a number"],
    );
    // Devices of another plug-in are numbered on their own.
    check(
        &format!("{}{}", port(""), port(" net=\"0\" gin=\"1\"")),
        &[],
    );
}

#[test]
fn hosts_are_looked_at_one_by_one() {
    let cpu = |hash: &str| {
        format!(
            "<cpu host_hash=\"{hash}\"><pci busid=\"0000:01:00.0\"><gpu dev=\"0\" rank=\"0\"/></pci>\
             <nic><net dev=\"0\" speed=\"1\"/></nic></cpu>"
        )
    };
    let count = |one: &str, other: &str| {
        let text = format!("<system version=\"1\">{}{}</system>", cpu(one), cpu(other));
        parse("f.xml", text.as_bytes()).unwrap().warnings.len()
    };
    assert_eq!(count("0x1", "0x2"), 0);
    assert_eq!(count("0x1", "1"), 4);
}

#[test]
fn net_speeds() {
    check(
        &net("dev=\"0\""),
        &["a network port without `speed` counts as 10 Gb/s"],
    );
    check(
        &net("dev=\"0\" speed=\"0\""),
        &["NCCL reads 0 here, and counts a speed that is not above 0 as 10 Gb/s"],
    );
    check(
        &net("dev=\"0\" speed=\"10000001\""),
        &["10000001 Mb/s is more than 10 Tb/s; the speed is given in Mb/s"],
    );
    check(&net("dev=\"0\" speed=\"10000000\""), &[]);
}

#[test]
fn attributes_that_nobody_reads() {
    check(
        &pci("link_sped=\"x\""),
        &["NCCL does not read this attribute of <pci>"],
    );
}

#[test]
fn many_oddities_give_few_warnings() {
    let inside: String = (0..600)
        .map(|number| pci(&format!("class=\"{number}\"")))
        .collect();
    let found = warnings(&inside);
    assert_eq!(found.len(), 9, "{found:?}");
    assert!(
        found[8].ends_with("(and 592 more of this kind in this file)"),
        "{}",
        found[8]
    );
}

#[test]
fn made_documents_can_be_looked_at_too() {
    let mut root = Element::new(Tag::System);
    let mut cpu = Element::new(Tag::Cpu);
    for _ in 0..2 {
        let mut pci = Element::new(Tag::Pci);
        pci.set("busid", "0000:01:00.0");
        cpu.children.push(pci);
    }
    root.children.push(cpu);
    let found = lint(&Document::from_root("made", root));
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().starts_with(
        "made: <pci> attribute `busid`: bus id `0000:01:00.0` stands elsewhere already"
    ));
}
