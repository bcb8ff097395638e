//! Control characters from outside, which must not reach a terminal.

use std::fs;

use libtest_mimic::{Completion, Failed};

use crate::program::{not_run, on_terminal, run};

/// Clears the screen and sets the title.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;title\u{7}";

/// Checks that a text shows the escapes and does not contain them.
#[track_caller]
fn harmless(what: &str, text: &str) {
    assert!(text.contains("\\u001b"), "{what}: {text:?}");
    without_escapes(what, text);
}

/// Checks that a text does not contain the escapes.
#[track_caller]
fn without_escapes(what: &str, text: &str) {
    let parts = ["\u{1b}[2J", "\u{1b}]", "\u{7}"];
    assert!(
        !parts.iter().any(|it| text.contains(it)),
        "{what}: {text:?}"
    );
}

pub(crate) fn names_in_files_do_not_reach_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{ESCAPES}machine.xml"));
    let text = fs::read_to_string("../../topologies/gh200/topology.xml").unwrap();
    let text = text.replacen("<net name=\"", "<net name=\"&#27;[2J&#27;]0;title&#7;", 1);
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    for command in ["show", "plan"] {
        let said = run(&[command, &file]);
        harmless(command, &(said.out + &said.err));
    }
}

pub(crate) fn mistakes_in_the_command_line_do_not_reach_it() -> Result<Completion, Failed> {
    for line in [
        format!("'{ESCAPES}'"),
        format!("show '--{ESCAPES}'"),
        format!("plan dgx-a100 --hosts '{ESCAPES}'"),
        format!("plan dgx-a100 --format '{ESCAPES}'"),
        format!("completions '{ESCAPES}'"),
        format!("show dgx-a100 '{ESCAPES}' '{ESCAPES}'"),
    ] {
        let Some(said) = on_terminal(&line) else {
            return not_run("there is no program `script`");
        };
        assert_eq!(said.status, Some(2), "{line:?}: {said:?}");
        // clap drops escapes where another crate of the build wants its colors.
        without_escapes(&line, &said.out);
    }
    Ok(Completion::Completed)
}

pub(crate) fn names_of_files_do_not_reach_it() {
    let file = format!("/nowhere/{ESCAPES}");
    for arguments in [
        &["show", &file][..],
        &["plan", &file],
        &["show", &file, "--rank", "0"],
        &["cost", &file],
        &["bound", &file],
        &["bound", "dgx-a100", "--check", &file],
        &["diff", "--each-failure", &file],
        &["export", &file, "--dir", "/nowhere"],
        &["diff", &file, "dgx-a100"],
        &["probe", "--from", &file],
        &["doctor", &file],
        &["doctor", "--from", &file],
        &["show", "--matrix", "--from", &file],
        &["view", &file],
        &["vm", &file, "--map", &file],
        &["diagnose", "--log", &file],
        &["expect", "--results", &file],
        &["nccl-check", &file, "--nccl", &file],
        &["nccl-check", "dgx-a100", "--nccl", &file],
        &["show", "--program", &file, "--collective", "all-reduce"],
        &["run", &file, "all-reduce"],
        &[
            "run",
            "all-reduce",
            "--rank",
            "0",
            "--world",
            "2",
            "--rendezvous",
            &file,
        ],
        &["simulate", "--network-only", &file],
        &[
            "simulate",
            &file,
            "--collective",
            "all-reduce",
            "--size",
            "1M",
        ],
        &["run", "--new-id", "127.0.0.1:1", "-o", &file],
        &["gen", "man", &file],
        &["plan", "dgx-a100", "-o", &file],
        &["help", &file],
        &["gen", "schema", &file],
        &["diagnose", "--collect", &file],
    ] {
        let said = run(arguments);
        assert_eq!(said.status, Some(2), "{arguments:?}: {said:?}");
        harmless(&format!("{arguments:?}"), &(said.out + &said.err));
    }
    // JSON has escapes of its own.
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join(format!("{ESCAPES}.xml"));
    fs::copy("../../topologies/gh200/topology.xml", &named).unwrap();
    let named = named.display().to_string();
    let said = run(&["show", &named, "--format", "json"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    harmless("JSON", &said.out);
}
