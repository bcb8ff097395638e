//! Files that are read, and the warnings about their form.

use topology::error::Position;
use topology::xml::{Document, Tag, parse, write};

/// A file with this below `<system>`.
fn system(inside: &str) -> String {
    format!("<system version=\"1\">\n{inside}\n</system>\n")
}

#[track_caller]
fn read(text: &str) -> Document {
    parse("f.xml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The file is read, with exactly these warnings.
#[track_caller]
fn check(text: &str, warnings: &[&str]) -> Document {
    let document = read(text);
    let found: Vec<_> = document.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(found, warnings);
    document
}

#[test]
fn a_whole_machine_without_a_warning() {
    let text = include_str!("../data/dgx-h100.xml");
    let document = check(text, &[]);
    assert_eq!(document.version, 1);
    assert_eq!(document.root.children(Tag::Cpu).count(), 2);
    let pci = &document.root.children[0].children[0];
    assert_eq!(pci.get("busid"), Some("0000:15:01.0"));
    assert_eq!(pci.children.len(), 2);
    let gpu = &pci.children[0].children[0];
    assert_eq!(
        (gpu.tag, gpu.get("dev"), gpu.get("sm")),
        (Tag::Gpu, Some("0"), Some("90"))
    );
    assert_eq!(gpu.children[0].tag, Tag::Nvlink);
    let net = &pci.children[1].children[0].children[0];
    assert_eq!((net.tag, net.get("name")), (Tag::Net, Some("mlx5_0")));
    // NCCL's own form comes back byte for byte.
    assert_eq!(write(&document), text);
}

#[test]
fn every_element_and_its_position() {
    let document = read(
        "<!-- made by hand -->\n<system version=\"1\">\n  <cpu numaid=\"0\" arch='x'>\n    <nic>\n      <net name=\"a\" dev=\"0\" speed=\"1\"/>\n    \
         </nic><pci><pcilink/><gpu rank=\"0\"><nvlink/><c2c/></gpu><nic/><pci/></pci>\n  </cpu>\n</system>",
    );
    let cpu = &document.root.children[0];
    assert_eq!(cpu.position, Position { line: 3, column: 3 });
    assert_eq!(
        cpu.attribute("arch").unwrap().position,
        Position {
            line: 3,
            column: 19
        }
    );
    assert_eq!(cpu.get("arch"), Some("x"));
    let pci = &cpu.children[1];
    assert_eq!(
        pci.position,
        Position {
            line: 6,
            column: 11
        }
    );
    let tags: Vec<_> = pci.children.iter().map(|child| child.tag).collect();
    assert_eq!(tags, [Tag::Pcilink, Tag::Gpu, Tag::Nic, Tag::Pci]);
    let tags: Vec<_> = pci.children[1]
        .children
        .iter()
        .map(|child| child.tag)
        .collect();
    assert_eq!(tags, [Tag::Nvlink, Tag::C2c]);
}

#[test]
fn elements_that_nccl_skips() {
    let document = check(
        &system("<cpu><apu dev=\"0\"><gpu/></apu><apu/><gpu/></cpu><pci/>"),
        &[
            "f.xml:2:6: <apu>: unknown element `<apu>` in <cpu>: NCCL skips it and everything below it \
             (2 times in this file, first here)",
            "f.xml:2:37: <gpu>: unknown element `<gpu>` in <cpu>: NCCL skips it and everything below it",
            "f.xml:2:49: <pci>: unknown element `<pci>` in <system>: NCCL skips it and everything below it",
        ],
    );
    assert!(document.root.children[0].children.is_empty());
    check(
        &system("<cpu><pci><pcilink><pci/></pcilink></pci></cpu>"),
        &["f.xml:2:20: <pci>: NCCL ignores everything inside <pcilink>"],
    );
    check(
        "<system version=\"1\"/><cpu/>",
        &[
            "f.xml:1:22: <cpu>: unknown element `<cpu>` at the top of the file: NCCL skips it and everything below it",
        ],
    );
}

#[test]
fn many_unknown_elements_give_few_warnings() {
    let inside: String = (0..5000)
        .map(|number| format!("<x{number}/>\t text <![CDATA[x]]>\n"))
        .collect();
    let document = read(&system(&inside));
    assert_eq!(document.warnings.len(), 10);
    let last = document
        .warnings
        .iter()
        .find(|warning| warning.message.contains("`<x7>`"))
        .unwrap();
    assert!(
        last.message
            .ends_with("(and 4992 more of this kind in this file)"),
        "{last}"
    );
}

#[test]
fn xml_that_nccl_refuses() {
    let refuses = "NCCL refuses this file";
    check(
        "<?xml version=\"1.0\"?>\n<system version=\"1\"/>",
        &[&format!(
            "f.xml:1:1: {refuses}: it knows no `<?…?>` declarations"
        )],
    );
    check(
        "\u{feff}\u{feff}<system version=\"1\"/>",
        &[&format!(
            "f.xml:1:1: {refuses}: it starts with a byte order mark"
        )],
    );
    check(
        &system("\t<cpu/>\n\t<cpu/>"),
        &[&format!(
            "f.xml:2:1: <system>: {refuses}: elements may be indented with spaces, but not with tabs (2 times in this file, first here)"
        )],
    );
    for text in [
        "<cpu/> text",
        "<cpu/> <![CDATA[x]]>",
        "<cpu/> &amp;",
        "<cpu/> & ",
    ] {
        check(
            &system(text),
            &[&format!(
                "f.xml:2:8: <system>: {refuses}: there is text between elements (ignored here)"
            )],
        );
    }
    check(
        "<system version=\"1\"/>\ntext",
        &[&format!(
            "f.xml:2:1: {refuses}: there is text between elements (ignored here)"
        )],
    );
    check(
        &system("<cpu\n  numaid=\"0\"\tarch\n= \"x\"></cpu >"),
        &[
            &format!("f.xml:2:5: <cpu>: {refuses}: a tag must stand on one line"),
            &format!("f.xml:3:13: <cpu>: {refuses}: a tag may hold spaces, but no tab"),
            &format!(
                "f.xml:3:14: <cpu> attribute `arch`: {refuses}: it allows no space around `=`"
            ),
            &format!("f.xml:4:7: <cpu>: {refuses}: an end tag must not hold spaces"),
        ],
    );
    check(
        &system(&format!("<cpu arch=\"{}\"/>", "x".repeat(253))),
        &[],
    );
    check(
        &system(&format!("<cpu arch=\"{}\"/>", "x".repeat(254))),
        &[&format!(
            "f.xml:2:6: <cpu> attribute `arch`: {refuses}: names and values must be shorter than 254 bytes"
        )],
    );
}

#[test]
fn references_in_values() {
    let document = check(
        &system("<cpu arch=\"&amp;&lt;&gt;&quot;&apos;&#65;&#x41;\" vendor=\"a&b & &;\"/>"),
        &[
            "f.xml:2:6: <cpu> attribute `arch`: holds a reference such as `&amp;`, which NCCL does not resolve: \
             it reads the text as it stands (7 times in this file, first here)",
            "f.xml:2:50: <cpu> attribute `vendor`: holds a bare `&`: NCCL reads it as it stands, \
             but other XML readers refuse the file (3 times in this file, first here)",
        ],
    );
    let cpu = &document.root.children[0];
    assert_eq!(
        (cpu.get("arch"), cpu.get("vendor")),
        (Some("&<>\"'AA"), Some("a&b & &;"))
    );
}

#[test]
fn the_first_of_two_attributes_counts() {
    let document = check(
        &system("<cpu numaid=\"0\" arch=\"x\" numaid=\"1\"/>"),
        &[
            "f.xml:2:26: <cpu> attribute `numaid`: stands twice in one element: NCCL reads the first and ignores this one",
        ],
    );
    assert_eq!(document.root.children[0].get("numaid"), Some("0"));
    assert_eq!(document.root.children[0].attributes.len(), 3);
}

#[test]
fn nccl_keeps_sixteen_attributes() {
    let attributes = |separator: &str, count: usize| -> String {
        let names = "abcdefghijklmnopqrstuvwxyz".chars().take(count);
        names
            .map(|name| format!("{separator}{name}=\"\""))
            .collect()
    };
    let kept = |inside: &str| {
        let document = read(&system(inside));
        let dropped = document
            .warnings
            .iter()
            .any(|warning| warning.message.contains("keeps 16 attributes"));
        (document.root.children[0].attributes.len(), dropped)
    };
    assert_eq!(kept(&format!("<cpu{}/>", attributes(" ", 16))), (16, false));
    assert_eq!(
        kept(&format!("<cpu{} />", attributes(" ", 16))),
        (16, false)
    );
    assert_eq!(kept(&format!("<cpu{}/>", attributes(" ", 18))), (16, true));
    // A second space is an attribute without a name.
    assert_eq!(kept(&format!("<cpu{}/>", attributes("  ", 10))), (8, true));
    // Over several lines nothing can be counted as NCCL does.
    assert_eq!(
        kept(&format!("<cpu{}/>", attributes("\n  ", 16))),
        (16, false)
    );
}

#[test]
fn more_elements_than_nccl_has_room_for() {
    let text = |count| system(&format!("<cpu>{}</cpu>", "<pci/>".repeat(count)));
    check(&text(253), &[]);
    check(
        &text(254),
        &[
            "f.xml:1:1: <system>: 256 elements: too large for NCCL_TOPO_FILE, of which NCCL reads \
           at most 255 elements and refuses more",
        ],
    );
}

#[test]
fn amd_files_are_read_to_be_shown() {
    let gpu = "<cpu><pci class=\"0x120000\"><gpu rank=\"0\" gcn=\"gfx942\"><xgmi target=\"0000:01:00.0\" count=\"1\" tclass=\"0x120000\"/></gpu></pci></cpu>";
    let document = check(
        &format!("<system version=\"2\">{gpu}</system>"),
        &[
            "f.xml:1:9: <system> attribute `version`: a topology of AMD's RCCL (version 2): NCCL refuses it; \
           it is read so that it can be shown",
        ],
    );
    assert_eq!(document.version, 2);
    let gpu_element = &document.root.children[0].children[0].children[0];
    assert_eq!(gpu_element.children[0].tag, Tag::Xgmi);
    // NCCL's own files know no such element.
    let document = read(&system(gpu));
    assert!(
        document
            .warnings
            .iter()
            .any(|warning| warning.message.contains("unknown element `<xgmi>`"))
    );
}
