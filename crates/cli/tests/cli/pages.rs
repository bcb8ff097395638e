//! Pages: their width, and colors.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use testkit::Machine;

use crate::{FAILED, ok, root, said, topo};

/// Checks that no line of a page is wider than the terminal or ends with blanks.
fn fits(width: usize, arguments: &[&str]) {
    let output = topo()
        .args(arguments)
        .env("COLUMNS", width.to_string())
        .output();
    let said = said(output.unwrap());
    assert!(
        matches!(said.status, Some(0..=FAILED)),
        "{arguments:?}: {}",
        said.err
    );
    for line in said.out.lines() {
        assert!(
            line.chars().count() <= width,
            "{arguments:?} at {width}: {line}"
        );
        assert_eq!(line.trim_end(), line, "{arguments:?}");
    }
}

fn machines_fit_the_page(one_of: usize) {
    for machine in Machine::all().unwrap().iter().step_by(one_of) {
        let folder = machine.folder.display().to_string();
        fits(80, &["show", &folder]);
        fits(80, &["plan", &folder]);
        fits(120, &["plan", &folder, "--explain"]);
        fits(80, &["plan", &folder, "--hosts", "2", "--connections"]);
    }
}

#[test]
fn every_fourth_machine_can_be_shown_and_fits_the_page() {
    machines_fit_the_page(4);
}

mod deep {
    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn every_machine_can_be_shown_and_fits_the_page() {
        super::machines_fit_the_page(1);
    }
}

#[test]
fn prices_and_differences_fit_the_page() {
    let (h100, dgx_1v) = ("topologies/dgx-h100", "topologies/dgx-1v");
    for width in [80, 100] {
        fits(width, &["cost", h100, "--collective", "all"]);
        fits(width, &["cost", dgx_1v, "--table"]);
        fits(width, &["diff", "--each-failure", dgx_1v]);
        fits(width, &["diff", dgx_1v, h100]);
        fits(
            width,
            &["diff", dgx_1v, "--hosts", "2", "--without-b", "host1/GPU0"],
        );
    }
}

/// Words, numbers among them, move to other lines on a narrow page, but stay whole.
#[test]
fn no_word_of_a_table_is_broken() {
    let (h100, dgx_1v) = ("topologies/dgx-h100", "topologies/dgx-1v");
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json").display().to_string();
    let quiet = ["--hosts", "2", "--format", "quiet", "-o", &plan];
    ok(&[&["plan", h100][..], &quiet].concat());
    let commands: [&[&str]; 13] = [
        &["plan", h100, "--hosts", "2"],
        &["plan", h100, "--explain"],
        &["plan", dgx_1v, "--connections"],
        &["cost", h100, "--collective", "all"],
        &["cost", h100, "--table"],
        &["diff", "--each-failure", h100, "--hosts", "2"],
        &["diff", h100, dgx_1v],
        &["doctor", "topologies/broken-vm"],
        &["show", &plan, "--rank", "3"],
        &["show", "--program", &plan, "--collective", "all-gather"],
        &["show", h100],
        &["show", h100, "--path", "GPU0", "NIC3"],
        &["show", "--matrix", h100],
    ];
    for arguments in commands {
        let [wide, narrow] = ["200", "60"].map(|width| {
            let output = topo().args(arguments).env("COLUMNS", width).output();
            said(output.unwrap()).out
        });
        let kept: BTreeSet<&str> = narrow.split_whitespace().collect();
        let broken = wide.split_whitespace().filter(|it| !kept.contains(it));
        let broken: Vec<&str> = broken.collect();
        assert!(
            broken.is_empty() && !wide.is_empty(),
            "{arguments:?}: {broken:?} in\n{narrow}"
        );
        fits(60, arguments);
    }
}

/// Launchers give ranks a terminal and write its output into a log.
#[test]
fn a_rank_of_a_launcher_prints_no_escapes() {
    let run = "run all-reduce -e 8 -n 2";
    let said = |launched: bool| {
        let mut command = Command::new("script");
        let ranks = if launched { "" } else { " --ranks 1" };
        let line = format!("{} {run}{ranks}", env!("CARGO_BIN_EXE_topo"));
        command.args(["-qec", &line, "/dev/null"]);
        command.stdin(Stdio::null());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        if launched {
            let launcher = [("RANK", "0"), ("SIZE", "1"), ("LOCAL_RANK", "0")];
            for (name, value) in launcher {
                command.env(format!("OMPI_COMM_WORLD_{name}"), value);
            }
            command.env("TOPO_RENDEZVOUS", "tcp:127.0.0.1:29555");
        }
        let output = command.output().ok();
        output.filter(|output| output.status.success())
    };
    let Some(alone) = said(false) else {
        return;
    };
    // Colors, and a line of progress that is removed.
    assert!(alone.stdout.windows(4).any(|it| it == b"\r\x1b[K"));
    let launched = said(true).unwrap();
    let text = String::from_utf8_lossy(&launched.stdout);
    assert!(text.contains("# Avg bus bandwidth"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

/// `script` gives the program a terminal. Without that program nothing is tested.
#[test]
fn a_terminal_gets_colors_unless_they_are_refused() {
    let on_terminal = |no_color: Option<&str>| {
        let mut command = Command::new("script");
        let line = format!("{} plan topologies/dgx-h100", env!("CARGO_BIN_EXE_topo"));
        command.args(["-qec", &line, "/dev/null"]);
        command.current_dir(root()).stdin(Stdio::null());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let output = command.output().ok();
        output.filter(|output| output.status.success())
    };
    let Some(colored) = on_terminal(None) else {
        return;
    };
    assert!(colored.stdout.contains(&0x1b));
    assert!(!on_terminal(Some("1")).unwrap().stdout.contains(&0x1b));
}
