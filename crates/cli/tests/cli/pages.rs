//! Pages: their width, and colors.

use std::process::{Command, Stdio};

use machines::Machine;

use crate::{FAILED, root, said, topo};

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

#[test]
fn every_machine_can_be_shown_and_fits_the_page() {
    for machine in Machine::all().unwrap() {
        let folder = machine.folder.display().to_string();
        fits(80, &["show", &folder]);
        fits(80, &["plan", &folder]);
        fits(120, &["plan", &folder, "--explain"]);
        fits(80, &["plan", &folder, "--hosts", "2", "--connections"]);
    }
}

#[test]
fn prices_and_differences_fit_the_page() {
    let (h100, dgx_1v) = ("topologies/dgx-h100", "topologies/dgx-1v");
    for width in [80, 100] {
        fits(
            width,
            &["cost", h100, "--collective", "all", "--alpha-beta"],
        );
        fits(width, &["cost", dgx_1v, "--table"]);
        fits(width, &["what-if", dgx_1v]);
        fits(width, &["diff", dgx_1v, h100]);
        fits(
            width,
            &["diff", dgx_1v, "--hosts", "2", "--without-b", "host1/GPU0"],
        );
    }
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
