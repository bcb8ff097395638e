//! Certificates that are as large as they may be. Limits of the system on addresses and on
//! processor time, which other programs do not use up, end a checker that takes too much.

use std::fs;
use std::process::Command;

use crate::program::{LONG, Running, topo};

/// Most memory that the checker may map, KiB, with the program itself.
const MOST_MEMORY: u32 = 320 << 10;

/// Most processor time, seconds, of a program that is not optimized.
const MOST_SECONDS: u32 = 30;

/// The largest file, bytes.
const MOST_BYTES: usize = 16 << 20;

/// A certificate with a graph and bounds.
fn certificate(graph: &str, bounds: &str) -> String {
    let fingerprint = "0".repeat(64);
    format!(
        r#"{{"format":"topo-certificate","version":1,"certificate":{{"fingerprint":"{fingerprint}","links":"rules","graph":{graph},"bounds":[{bounds}]}}}}"#
    )
}

fn refused(text: &str, words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proof.json");
    fs::write(&file, text).unwrap();
    let mut program = topo();
    program.args(["bound", "--check"]).arg(&file);
    let limits =
        format!("ulimit -v {MOST_MEMORY} && ulimit -t {MOST_SECONDS} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    shell.args(["-c", &limits]).arg(program.get_program());
    shell.args(program.get_args());
    Running::start(&mut shell).within(LONG).refused(&[words]);
}

/// A list that fills what a file may still have.
fn filled(unit: &str, rest: usize) -> String {
    let count = (MOST_BYTES - rest) / (unit.len() + 1);
    vec![unit; count].join(",")
}

const TWO_RANKS: &str = r#"{"name":"","count":1,"vertices":[{"name":"","rank":true},{"name":"","rank":true}],"links":[]}"#;

pub(crate) fn empty_names_take_little_memory() {
    let graph = format!(r#"{{"network":[{}],"hosts":[]}}"#, filled(r#""""#, 1024));
    refused(
        &certificate(&graph, ""),
        "a list of at most 1048576 entries",
    );
}

pub(crate) fn lengths_take_little_memory() {
    let graph = format!(r#"{{"network":[],"hosts":[{TWO_RANKS}]}}"#);
    let bound = format!(
        r#"{{"operation":"all-gather","bandwidth":{{"numerator":1,"denominator":1}},"proof":{{"lengths":[{{"class":0,"lengths":[{}]}}]}}}}"#,
        filled("0", 2048)
    );
    refused(
        &certificate(&graph, &bound),
        "a list of at most 1048576 entries",
    );
}

pub(crate) fn trees_take_little_memory() {
    let graph = format!(r#"{{"network":[],"hosts":[{TWO_RANKS}]}}"#);
    let tree = r#"{"root":0,"weight":0,"edges":[]}"#;
    let bound = format!(
        r#"{{"operation":"all-gather","bandwidth":{{"numerator":1,"denominator":1}},"proof":{{"cut":{{"network":[],"sides":[{{"class":0,"count":1,"inside":[0]}}]}}}},"forests":[{{"direction":"out","trees":[{}]}}]}}"#,
        filled(tree, 2048)
    );
    refused(&certificate(&graph, &bound), "it proves 0/1");
}

/// Many sets of a host with many links, as large as they fit.
pub(crate) fn many_sides_of_many_links_are_refused_at_once() {
    let link = r#"{"from":0,"to":1,"kind":"","capacity":1}"#;
    let links = vec![link; 20_000].join(",");
    let side = r#"{"class":0,"count":1,"inside":[0]}"#;
    let sides = filled(side, links.len() + 2048);
    let graph = format!(
        r#"{{"network":[],"hosts":[{{"name":"","count":400000,"vertices":[{{"name":"","rank":true}},{{"name":""}}],"links":[{links}]}}]}}"#
    );
    let bound = format!(
        r#"{{"operation":"all-gather","bandwidth":{{"numerator":1,"denominator":1}},"proof":{{"cut":{{"network":[],"sides":[{sides}]}}}}}}"#
    );
    refused(&certificate(&graph, &bound), "at most 268435456 are taken");
}

pub(crate) fn larger_files_are_refused() {
    let text = " ".repeat(MOST_BYTES + 1);
    refused(&text, "16777216");
}
