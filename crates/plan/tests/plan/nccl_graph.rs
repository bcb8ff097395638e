//! Graph files: what is written, and what is made of what was written by others.

use crate::common::gpus;
use plan::nccl_graph::{self, GpuAddress, GraphFile};
use plan::{Error, Graph, GraphChannel, GraphKind, Pattern};
use proptest::prelude::*;
use topology::PathType;

fn ring(channels: Vec<GraphChannel>) -> Graph {
    Graph {
        channels,
        bw_intra: 17.5,
        bw_inter: 0.24,
        type_intra: PathType::Nvl,
        type_inter: PathType::Pxn,
        same_channels: true,
        ..Graph::empty(GraphKind::Ring, Pattern::Ring)
    }
}

fn read(text: &str, kind: GraphKind) -> Result<nccl_graph::FoundGraph, Error> {
    GraphFile::parse("graph.xml", text)?.graph(kind, &gpus(4), true)
}

fn warnings(text: &str) -> Vec<String> {
    let found = read(text, GraphKind::Ring).unwrap();
    found.warnings.iter().map(ToString::to_string).collect()
}

/// A file with one ring whose attributes and channels are given.
fn file(attributes: &str, channels: &str) -> String {
    format!(
        "<graphs version=\"1\">\n  <graph id=\"0\" pattern=\"4\" {attributes} speedintra=\"20\" speedinter=\"10\" \
         typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"0\">\n{channels}  </graph>\n</graphs>\n"
    )
}

const FOUR: &str = "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"0x100000000000000\"/><gpu dev=\"100000000000001\"/></channel>";

#[test]
fn writes_what_nccl_dumps() {
    let gpus = [
        GpuAddress {
            rank: 0,
            host: 0,
            dev: 0,
        },
        GpuAddress {
            rank: 1,
            host: 2,
            dev: 10,
        },
    ];
    let heads = vec![GraphChannel {
        ranks: vec![1, 0],
        nets: None,
    }];
    let graphs = [
        Graph {
            channels: heads,
            bw_intra: 40.0,
            ..Graph::empty(GraphKind::Nvls, Pattern::Nvls)
        },
        ring(vec![GraphChannel {
            ranks: vec![1, 0],
            nets: Some([0, 0x0200_0000_0000_0003]),
        }]),
    ];
    let expected = r#"<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="17.5" speedinter="0.24" latencyinter="0" typeintra="NVL" typeinter="PXN" samechannels="1">
    <channel>
      <net dev="0"/>
      <gpu dev="0x20000000000000a" rank="1"/>
      <gpu dev="0" rank="0"/>
      <net dev="0x200000000000003"/>
    </channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="0" speedintra="0" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="LOC" samechannels="0"/>
  <graph id="4" pattern="6" crossnic="0" nchannels="0" speedintra="0" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="LOC" samechannels="0"/>
  <graph id="2" pattern="3" crossnic="0" nchannels="0" speedintra="0" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="LOC" samechannels="0"/>
  <graph id="3" pattern="5" crossnic="0" nchannels="1" speedintra="40" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="LOC" samechannels="0">
    <channel>
      <gpu dev="0x20000000000000a" rank="1"/>
    </channel>
  </graph>
</graphs>
"#;
    assert_eq!(nccl_graph::write(&graphs, &gpus).unwrap(), expected);
}

#[test]
fn refuses_to_write_what_nccl_has_no_text_for() {
    for path_type in [PathType::C2c, PathType::Net, PathType::Dis] {
        let graph = Graph {
            type_inter: path_type,
            ..ring(Vec::new())
        };
        let error = nccl_graph::write(&[graph], &gpus(1)).unwrap_err();
        let expected = Error::NoTextForType {
            kind: GraphKind::Ring,
            attribute: "typeinter",
            path_type,
        };
        assert_eq!(error, expected);
    }
    let graph = ring(vec![GraphChannel {
        ranks: vec![7],
        nets: None,
    }]);
    let error = nccl_graph::write(&[graph], &gpus(1)).unwrap_err();
    assert_eq!(
        error,
        Error::UnknownRank {
            kind: GraphKind::Ring,
            rank: 7
        }
    );
}

#[test]
fn device_numbers_are_hexadecimal_with_or_without_prefix() {
    let found = read(
        &file("crossnic=\"0\" nchannels=\"1\"", FOUR),
        GraphKind::Ring,
    )
    .unwrap();
    // gpus(4): host 0 has devices 0 and 1 with ranks 3 and 1, host 1 those with ranks 2 and 0.
    assert_eq!(
        found.graph.unwrap().channels,
        [GraphChannel {
            ranks: vec![3, 1, 2, 0],
            nets: None
        }]
    );
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);

    let ten = GpuAddress {
        rank: 5,
        host: 0,
        dev: 16,
    };
    let text = file(
        "crossnic=\"0\" nchannels=\"1\"",
        "<channel><net dev=\"10\"/><gpu dev=\"10\"/><net dev=\"0x11\"/></channel>",
    );
    let found = GraphFile::parse("graph.xml", &text)
        .unwrap()
        .graph(GraphKind::Ring, &[ten], true)
        .unwrap();
    assert_eq!(
        found.graph.unwrap().channels,
        [GraphChannel {
            ranks: vec![5],
            nets: Some([16, 17])
        }]
    );
}

#[test]
fn the_rank_decides_where_it_is_given() {
    let one = GpuAddress {
        rank: 0,
        host: 0,
        dev: 0,
    };
    let text = file(
        "crossnic=\"0\" nchannels=\"1\"",
        "<channel><gpu dev=\"99\" rank=\"0\"/></channel>",
    );
    let found = GraphFile::parse("graph.xml", &text)
        .unwrap()
        .graph(GraphKind::Ring, &[one], true)
        .unwrap();
    assert_eq!(found.graph.unwrap().channels[0].ranks, [0]);
}

#[test]
fn other_kinds_do_not_matter() {
    let text = file("crossnic=\"0\" nchannels=\"1\"", FOUR);
    assert_eq!(read(&text, GraphKind::Tree).unwrap().graph, None);
    // Not even when they are incomplete.
    let text = "<graphs version=\"1\"><graph id=\"1\"/></graphs>";
    assert_eq!(read(text, GraphKind::Ring).unwrap().graph, None);
    let error = read(text, GraphKind::Tree).unwrap_err().to_string();
    assert!(
        error.contains("<graph> attribute `crossnic`: a required attribute is missing"),
        "{error}"
    );
}

#[test]
fn the_last_graph_of_a_kind_counts() {
    let one = "<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"20\" speedinter=\"20\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">";
    let other = one
        .replace("NVL", "SYS")
        .replace("crossnic=\"0\"", "crossnic=\"1\"");
    let text = format!("<graphs version=\"1\">{one}{FOUR}</graph>{other}{FOUR}</graph></graphs>");
    let file = GraphFile::parse("graph.xml", &text).unwrap();
    let with = file.graph(GraphKind::Ring, &gpus(4), true).unwrap();
    assert_eq!(
        with.graph.map(|graph| graph.type_intra),
        Some(PathType::Sys)
    );
    let without = file.graph(GraphKind::Ring, &gpus(4), false).unwrap();
    assert_eq!(
        without.graph.map(|graph| graph.type_intra),
        Some(PathType::Nvl)
    );
}

#[test]
fn types_match_by_their_beginning_and_unknown_ones_are_loc() {
    for (text, path_type, odd) in [
        ("PXB", PathType::Pxb, false),
        ("PXBx", PathType::Pxb, false),
        ("C2C", PathType::Loc, true),
        ("DIS", PathType::Loc, true),
        ("nvl", PathType::Loc, true),
        ("", PathType::Loc, true),
    ] {
        let text =
            file("crossnic=\"0\" nchannels=\"1\"", FOUR).replace("\"NVL\"", &format!("\"{text}\""));
        let found = read(&text, GraphKind::Ring).unwrap();
        assert_eq!(found.graph.map(|graph| graph.type_intra), Some(path_type));
        assert_eq!(!found.warnings.is_empty(), odd, "{:?}", found.warnings);
    }
}

#[test]
fn the_stated_number_of_channels_counts() {
    for (stated, used, warning) in [
        ("2", 2, None),
        ("1", 1, Some("uses only the first 1")),
        ("0", 0, Some("uses only the first 0")),
        ("-1", 0, Some("for no channels")),
        ("3", 2, Some("but 2 channels are listed")),
    ] {
        let text = file(
            &format!("crossnic=\"0\" nchannels=\"{stated}\""),
            &FOUR.repeat(2),
        );
        let found = read(&text, GraphKind::Ring).unwrap();
        assert_eq!(found.graph.map(|graph| graph.channels.len()), Some(used));
        let warnings = warnings(&text);
        assert_eq!(
            warnings.len(),
            usize::from(warning.is_some()),
            "{warnings:?}"
        );
        assert!(
            warning.is_none_or(|warning| warnings[0].contains(warning)),
            "{warnings:?}"
        );
    }
}

#[test]
fn odd_files_are_read_with_a_warning() {
    let channel = |inner: &str| {
        file(
            "crossnic=\"0\" nchannels=\"1\"",
            &format!("<channel>{inner}</channel>"),
        )
    };
    for (text, warning) in [
        (channel("<gpu dev=\"0\"/>"), "lacks rank 0"),
        (
            channel("<gpu dev=\"0\"/><gpu dev=\"0\"/>"),
            "twice in the channel",
        ),
        (
            channel("<gpu dev=\"0\" rank=\"9\"/>"),
            "rank 9 is not in this machine",
        ),
        (channel(""), "has no GPU"),
        (
            file(
                "crossnic=\"0\" nchannels=\"1\"",
                &FOUR.replace("</", "<net dev=\"1\"/></"),
            ),
            "one network port",
        ),
    ] {
        let found = warnings(&text);
        assert!(
            found
                .iter()
                .any(|found| found.contains(warning) && found.starts_with("graph.xml:3:1")),
            "{found:?}"
        );
    }
    for (text, warning) in [
        (
            "<?xml version=\"1.0\"?><graphs version=\"1\"/>",
            "graph.xml:1:1: NCCL refuses this file: it knows no `<?xml",
        ),
        (
            "<graphs version=\"1\">\n\t</graphs>",
            "graph.xml:2:1: NCCL refuses this file: elements may be indented",
        ),
        (
            "<graphs version=\"1\"><x><y/></x></graphs>",
            "graph.xml:1:21: unknown element <x> in graphs",
        ),
        ("\u{feff}<graphs version=\"1\"/>", "byte order mark"),
    ] {
        let file = GraphFile::parse("graph.xml", text).unwrap();
        let found: Vec<String> = file.warnings().iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains(warning), "{found:?}");
    }
}

#[test]
fn malformed_files_are_refused_with_the_place() {
    let deep = format!("<graphs version=\"1\">{}", "<x>".repeat(100_000));
    let long = format!(
        "<graphs version=\"1\">{}</graphs>",
        "<graph id=\"7\"/>".repeat(641)
    );
    for (text, error) in [
        ("", "this is not a graph file; found no element"),
        (
            "hello",
            "graph.xml:1:1: there is something else than elements",
        ),
        (
            "<system version=\"1\"/>",
            "this is a topology (NCCL_TOPO_FILE)",
        ),
        (
            "<graphs/>",
            "<graphs> attribute `version`: the version of the graph file is not supported; found nothing",
        ),
        (
            "<graphs version=\"2\"/>",
            "found `2`, expected `version=\"1\"`",
        ),
        (
            "<graphs version=\"1\">\n  <graph id=\"0\">",
            "graph.xml:2:17: the element opened at line 2 is not closed",
        ),
        (
            "<graphs version=\"1\">\n</graph>",
            "graph.xml:2:1: the file is not well-formed XML",
        ),
        (
            "<graphs version=1/>",
            "graph.xml:1:1: an attribute is not well-formed",
        ),
        (
            "<graphs version=\"1\"/><graphs version=\"1\"/>",
            "graph.xml:1:22: this is not a graph file",
        ),
        (
            "<graphs version=\"1\">\n <![CDATA[x]]></graphs>",
            "graph.xml:2:2: there is something else",
        ),
        (
            "<!DOCTYPE graphs><graphs version=\"1\"/>",
            "there is something else than elements",
        ),
        (
            "<graphs version=\"1\">\n a &amp; b</graphs>",
            "graph.xml:2:2: there is something else",
        ),
        (&deep, "nested too deeply"),
        (&long, "too many elements"),
    ] {
        let found = read(text, GraphKind::Ring).unwrap_err().to_string();
        assert!(found.contains(error), "{found:?} lacks {error:?}");
    }
}

#[test]
fn graphs_that_fit_no_machine_are_refused_with_the_place() {
    let channels = FOUR.repeat(65);
    for (text, error) in [
        (
            &file(
                "crossnic=\"0\" nchannels=\"1\"",
                "<channel><gpu/></channel>",
            ),
            "graph.xml:3:10: <gpu> attribute `dev`",
        ),
        (
            &file(
                "crossnic=\"0\" nchannels=\"1\"",
                "<channel><gpu dev=\"7\"/></channel>",
            ),
            "graph.xml:3:10: <gpu> attribute `dev`: the machine has no such GPU; found 0x7",
        ),
        (
            &file(
                "crossnic=\"0\" nchannels=\"1\"",
                &FOUR.replace("</", "<gpu dev=\"0\"/></"),
            ),
            "the channel is too long; found 5 GPUs",
        ),
        (
            &file("crossnic=\"0\" nchannels=\"1\"", &channels),
            "more channels than NCCL has room for; found 65",
        ),
        (
            &file("crossnic=\"0\" nchannels=\"1000000000\"", FOUR),
            "more channels than NCCL has room for; found 1000000000",
        ),
        (
            &file("crossnic=\"0\" nchannels=\"1\"", FOUR).replace("pattern=\"4\"", "pattern=\"7\""),
            "graph.xml:2:3: <graph> attribute `pattern`: no such pattern; found 7, expected 1 to 6",
        ),
        (
            &file("nchannels=\"1\"", FOUR),
            "<graph> attribute `crossnic`: a required attribute is missing",
        ),
    ] {
        let found = read(text, GraphKind::Ring).unwrap_err().to_string();
        assert!(found.contains(error), "{found:?} lacks {error:?}");
    }
}

fn all_graphs(count: i32) -> impl Strategy<Value = Vec<Graph>> {
    GraphKind::IN_SEARCH_ORDER
        .map(|kind| crate::common::graph(kind, count))
        .prop_map(Vec::from)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_reads_back(graphs in (1..9i32).prop_flat_map(all_graphs), count in Just(8)) {
        let gpus = gpus(count);
        let text = nccl_graph::write(&graphs, &gpus).unwrap();
        let file = GraphFile::parse("graph.xml", &text).unwrap();
        prop_assert!(file.warnings().is_empty());
        for graph in graphs {
            prop_assert_eq!(file.graph(graph.kind, &gpus, true).unwrap().graph, Some(graph));
        }
    }

    #[test]
    fn damaged_files_never_panic(
        graphs in all_graphs(3),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"<>/=\"'& \n-!?x0\x80\0".to_vec())), 0..6),
        end in any::<prop::sample::Index>(),
    ) {
        let gpus = gpus(3);
        let mut bytes = nccl_graph::write(&graphs, &gpus).unwrap().into_bytes();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(end.index(2 * bytes.len()));
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(file) = GraphFile::parse("graph.xml", &text) {
            for kind in GraphKind::IN_SEARCH_ORDER {
                let _ = file.graph(kind, &gpus, false);
            }
        }
    }
}
