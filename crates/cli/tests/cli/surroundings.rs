//! Environment, streams, terminals, help.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{FAILED, ok, root, run, said, topo};

#[test]
fn variables_come_from_environment_and_command_line() {
    let plan = ["plan", "topologies/dgx-h100"];
    assert!(ok(&plan).out.contains("NCCL's defaults"));
    let output = topo()
        .args(plan)
        .env("NCCL_CROSS_NIC", "1")
        .env("NCCL_DEBUG", "INFO")
        .output()
        .unwrap();
    let page = said(output).out;
    assert!(page.contains("NCCL_CROSS_NIC=1"), "{page}");
    assert!(
        page.contains("without effect on the plan: NCCL_DEBUG"),
        "{page}"
    );
    let output = topo()
        .args(plan)
        .args(["--set", "NCCL_CROSS_NIC=0"])
        .env("NCCL_CROSS_NIC", "1")
        .output()
        .unwrap();
    let page = said(output).out;
    assert!(
        page.contains("NCCL_CROSS_NIC=0") && !page.contains("NCCL_CROSS_NIC=1"),
        "{page}"
    );
    let output = topo()
        .args(plan)
        .env("NCCL_TOPO_FILE", "/nowhere.xml")
        .output()
        .unwrap();
    assert!(
        said(output)
            .err
            .contains("NCCL_TOPO_FILE=/nowhere.xml is not read")
    );
}

#[test]
fn unknown_variables_are_told_with_the_nearest_name() {
    let wanted = "NCCL_CROS_NIC: NCCL 2.30 has no such variable; did you mean NCCL_CROSS_NIC?";
    let plan = ["plan", "topologies/dgx-h100", "--set", "NCCL_CROS_NIC=0"];
    assert!(ok(&plan).out.contains(wanted));
    let said = ok(&[&plan[..], &["--format", "quiet"]].concat());
    assert!(
        said.err.contains(&format!("warning: {wanted}")),
        "{}",
        said.err
    );
    assert!(!said.out.contains("NCCL_"), "{}", said.out);
}

#[test]
fn standard_input_is_a_file_too() {
    let file = std::fs::File::open(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    let piped = said(
        topo()
            .args(["plan", "-", "--format", "quiet"])
            .stdin(file)
            .output()
            .unwrap(),
    );
    assert!(piped.out.contains("ring=12x30:NVL"), "{}", piped.out);
    let empty = said(topo().args(["plan", "-"]).output().unwrap());
    assert_eq!(empty.status, Some(FAILED));
    assert!(
        empty.err.starts_with("error: standard input"),
        "{}",
        empty.err
    );
}

#[test]
fn no_colour_when_piped() {
    for no_color in ["", "1"] {
        for arguments in [
            ["plan", "topologies/dgx-h100"],
            ["show", "topologies/dgx-h100"],
            ["plan", "--help"],
        ] {
            let output = topo()
                .args(arguments)
                .env("NO_COLOR", no_color)
                .env("TERM", "xterm-256color")
                .output()
                .unwrap();
            assert!(!output.stdout.contains(&0x1b), "{arguments:?}");
        }
    }
}

/// `script` gives the program a terminal. Where it is missing there is nothing to test with.
#[cfg(target_os = "linux")]
#[test]
fn colour_on_a_terminal_unless_refused() {
    let on_terminal = |no_color: Option<&str>| {
        let mut command = Command::new("script");
        let line = format!("{} plan topologies/dgx-h100", env!("CARGO_BIN_EXE_topo"));
        command
            .args(["-qec", &line, "/dev/null"])
            .current_dir(root())
            .stdin(Stdio::null());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        command
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    let Some(coloured) = on_terminal(None) else {
        return;
    };
    assert!(coloured.stdout.contains(&0x1b));
    assert!(!on_terminal(Some("1")).unwrap().stdout.contains(&0x1b));
}

#[test]
fn help_has_examples() {
    for arguments in [
        &["--help"][..],
        &["plan", "--help"],
        &["show", "--help"],
        &["completions", "-h"],
        &["man", "--help"],
    ] {
        let help = ok(arguments).out;
        assert!(help.contains("Examples:\n  topo "), "{arguments:?}: {help}");
    }
    // Without arguments: how to begin, but it is no success.
    assert_eq!(run(&[]).status, Some(FAILED));
}

#[test]
fn broken_pipes_end_quietly() {
    let mut child = topo()
        .args([
            "plan",
            "topologies/pcie-8gpu-niccpu",
            "--hosts",
            "2",
            "--explain",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(err, "");
}

#[test]
fn warnings_go_to_standard_error_and_are_counted() {
    let mut text = "<system version=\"1\">".to_owned();
    for cpu in 0..20 {
        text.push_str(&format!(
            "<cpu numaid=\"{cpu}\" arch=\"arm64\" odd{cpu}=\"1\"/><thing{cpu}/>"
        ));
    }
    text.push_str(
        "<cpu numaid=\"0\" arch=\"arm64\" host_hash=\"a\" host_hash=\"b\"/><?x?></system>",
    );
    let mut child = topo()
        .args(["show", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let said = said(child.wait_with_output().unwrap());
    assert!(
        said.err
            .lines()
            .all(|line| line.starts_with("warning: ") || line.starts_with("error: ")),
        "{}",
        said.err
    );
    assert!(said.err.lines().count() <= 12, "{}", said.err);
    assert!(!said.out.contains("warning"), "{}", said.out);
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(ok(&["completions", shell]).out.contains("topo"), "{shell}");
    }
    assert!(ok(&["man"]).out.contains(".TH topo 1"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    ok(&["man", folder.to_str().unwrap()]);
    for page in [
        "topo.1",
        "topo-plan.1",
        "topo-show.1",
        "topo-completions.1",
        "topo-man.1",
    ] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains("Examples"), "{page}");
    }
}
