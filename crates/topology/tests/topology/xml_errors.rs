//! Files that are refused, with messages that say where and why.

use topology::xml::{Limits, parse, parse_with};

/// A file with this below `<system>`.
fn system(inside: &str) -> String {
    format!("<system version=\"1\">\n{inside}\n</system>\n")
}

#[track_caller]
fn check(text: impl AsRef<[u8]>, message: &str) {
    match parse("f.xml", text.as_ref()) {
        Ok(document) => panic!("read as {document:?}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

#[test]
fn files_that_are_no_topology() {
    let what = "this is not a topology of NCCL";
    check(
        "",
        &format!("f.xml:1:1: {what}; found an empty file, expected `<system version=\"1\">`"),
    );
    check(
        " \n",
        &format!("f.xml:1:1: {what}; found an empty file, expected `<system version=\"1\">`"),
    );
    check(
        "{\"a\": 1}",
        &format!("f.xml:1:1: {what}; found `{{\"a\": 1}}`, expected `<system version=\"1\">`"),
    );
    check(
        "\n <html/>",
        &format!(
            "f.xml:2:2: <html>: {what}; found `<html>`, expected `<system version=\"1\">`, \
             as in the files that NCCL_TOPO_DUMP_FILE makes"
        ),
    );
    check(
        "<graphs version=\"1\"></graphs>",
        &format!(
            "f.xml:1:1: <graphs>: {what}; found `<graphs>`, expected `<system version=\"1\">`; \
             this is a graph file (NCCL_GRAPH_FILE), not a topology"
        ),
    );
}

#[test]
fn other_versions() {
    let what = "the topology's version is not supported";
    check(
        "<system version=\"3\"/>",
        &format!(
            "f.xml:1:9: <system> attribute `version`: {what}; found `3`, expected `version=\"1\"`"
        ),
    );
    check(
        "<system/>",
        &format!(
            "f.xml:1:1: <system> attribute `version`: {what}; found nothing, expected `version=\"1\"`"
        ),
    );
}

#[test]
fn a_second_topology() {
    check(
        "<system version=\"1\"/><system version=\"1\"/>",
        "f.xml:1:22: <system>: there is a second `<system>`; found two topologies in one file, expected one `<system>`",
    );
}

#[test]
fn files_cut_short() {
    check(
        "<system version=\"1\">\n  <cpu numaid=\"0\">\n",
        "f.xml:3:1: <cpu>: the file ends inside the element opened at line 2, column 3; \
         found the end of the file, expected `</cpu>`",
    );
    let whole = include_str!("../data/dgx-h100.xml");
    for end in 0..whole.trim_end().len() {
        assert!(
            parse("f.xml", &whole.as_bytes()[..end]).is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn tags_that_do_not_match() {
    check(
        system("<cpu><pci></cpu></pci>"),
        "f.xml:2:11: <pci>: the element opened at line 2, column 6 is not closed; found `</cpu>`, expected `</pci>`",
    );
    check(
        system("<apu><x></y></apu>"),
        "f.xml:2:9: <x>: the element opened at line 2, column 6 is not closed; found `</y>`, expected `</x>`",
    );
    check(
        "</system>",
        "f.xml:1:1: an end tag has no start tag; found `</system>`, expected an end tag for an open element only",
    );
}

#[test]
fn malformed_tags() {
    let quoted = "`attribute=\"value\"`, with the value in quotes";
    check(
        system("<cpu numaid=0/>"),
        &format!(
            "f.xml:2:6: <cpu> attribute `numaid`: an attribute's value is not in quotes; found `numaid=0`, expected {quoted}"
        ),
    );
    check(
        system("<cpu numaid/>"),
        &format!(
            "f.xml:2:6: <cpu> attribute `numaid`: an attribute has no value; found `numaid`, expected {quoted}"
        ),
    );
    check(
        system("<cpu =\"0\"/>"),
        &format!("f.xml:2:6: <cpu>: an attribute has no name; found `=\"0\"`, expected {quoted}"),
    );
    check(
        system("<cpu a=\"1\"b=\"2\"/>"),
        "f.xml:2:11: <cpu>: a tag is malformed; found `b=\"2\"`, \
         expected a space, then `attribute=\"value\"`, or the end of the tag",
    );
    check(
        system("< cpu/>"),
        "f.xml:2:1: an element has no name; found `< cpu/>`, expected the element's name directly behind `<`",
    );
    check(
        system("<cpu<pci/>"),
        "f.xml:2:1: an element's name is malformed; found `<cpu<pci/>`, expected a name, then a space, `/` or `>`",
    );
    check(
        system("<cpu arch=\"x\" <pci/>"),
        &format!("f.xml:2:15: <cpu>: an attribute has no name; found `<pci`, expected {quoted}"),
    );
    for text in [
        "<cpu a=\"1/></system>",
        "<cpu",
        "<",
        "<!-- ",
        "<![CDATA[",
        "<?xml",
        "<cpu / >",
        "<cpu/a=\"1\">",
        "<!x>",
    ] {
        assert!(parse("f.xml", system(text).as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn document_types_and_entities() {
    check(
        "<!DOCTYPE system [<!ENTITY a \"b\">]><system version=\"1\"/>",
        "f.xml:1:1: a document type definition is not allowed; \
         found `<!DOCTYPE system [<!ENTITY a \"b\">]>`, expected a topology file without `<!DOCTYPE …>`",
    );
    let entities = "`&amp;`, `&lt;`, `&gt;`, `&quot;`, `&apos;` or a character number; a topology file defines no entities";
    for reference in ["&lol;", "&#0;", "&#xd800;", "&#x110000;", "&#q;", "&#x;"] {
        check(
            system(&format!("<cpu arch=\"{reference}\"/>")),
            &format!(
                "f.xml:2:6: <cpu> attribute `arch`: a value refers to an entity that does not exist; \
                 found `{reference}`, expected {entities}"
            ),
        );
    }
    check(
        system("&lol;"),
        "f.xml:2:1: <system>: the file refers to an entity that does not exist; \
         found `&lol;`, expected elements only; a topology file defines no entities",
    );
}

#[test]
fn bytes_that_are_no_text() {
    let text = "the file is not text in UTF-8";
    check(
        b"<system version=\"1\">\n \xff</system>",
        &format!("f.xml:2:2: {text}; found byte 0xff, expected XML in UTF-8 (or plain ASCII)"),
    );
    check(
        "<\0s",
        &format!("f.xml:1:2: {text}; found byte 0x00, expected XML in UTF-8 (or plain ASCII)"),
    );
    check(
        b"\xfe\xff\0<",
        &format!("f.xml:1:1: {text}; found byte 0xfe, expected XML in UTF-8 (or plain ASCII)"),
    );
}

#[test]
fn files_beyond_the_limits() {
    let limits = Limits {
        bytes: 1000,
        elements: 6,
        children: 3,
        depth: 4,
    };
    let check = |text: String, message: &str| {
        let error = parse_with("f.xml", text.as_bytes(), limits).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    check(
        " ".repeat(1001),
        "f.xml: the file is too large for a topology; found more than 1000 bytes, expected at most 1000 bytes",
    );
    check(
        system("<cpu/><cpu/><cpu/><cpu/>"),
        "f.xml:2:19: <cpu>: an element has too many children; found more than 3 children of one element, expected at most 3",
    );
    check(
        system("<cpu><pci/><pci/></cpu><cpu><pci/><pci/></cpu>"),
        "f.xml:2:35: <pci>: the file has too many elements; found more than 6 elements in the file, expected at most 6",
    );
    // What is skipped may not be nested deeply either.
    check(
        system("<a><a><a><a>"),
        "f.xml:2:10: <a>: elements are nested too deeply; found 5 elements inside one another, expected at most 4",
    );
    assert!(parse_with("f.xml", system("<cpu/><cpu/><cpu/>").as_bytes(), limits).is_ok());
}

#[test]
fn the_default_limits_hold() {
    let deep = format!("<system version=\"1\">{}", "<pci>".repeat(1_000_000));
    assert!(
        parse("f.xml", deep.as_bytes())
            .unwrap_err()
            .problem
            .contains("nested too deeply")
    );
    let wide = system(&format!("<cpu>{}</cpu>", "<pci/>".repeat(641)));
    assert!(
        parse("f.xml", wide.as_bytes())
            .unwrap_err()
            .problem
            .contains("too many children")
    );
    let full = system(&"<cpu><pci/><pci/></cpu>".repeat(640));
    assert!(parse("f.xml", full.as_bytes()).is_ok());
    let large = vec![b' '; (16 << 20) + 1];
    assert!(
        parse("f.xml", &large)
            .unwrap_err()
            .problem
            .contains("too large")
    );
}

#[test]
fn messages_do_not_grow_with_the_input() {
    let long = "x".repeat(1_000_000);
    for text in [
        long.clone(),
        format!("<{long}/>"),
        format!("<{long}>"),
        system(&format!("<cpu {long}/>")),
        system(&format!("<cpu a=\"&{long};\"/>")),
        system(&format!("<cpu></{long}>")),
        system(&format!("<!DOCTYPE {long}>")),
    ] {
        let error = parse("f.xml", text.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 1500, "{} bytes: {error:.200}", error.len());
    }
}
