//! The help of all commands at several widths.

use std::collections::BTreeSet;

use super::tasks::listed;
use super::{ok, said, topo};

/// Columns of the terminal.
const WIDTHS: [usize; 4] = [60, 80, 100, 160];

/// Most columns of help.
const MOST: usize = 100;

fn help(command: &str, width: usize) -> String {
    let mut topo = topo();
    topo.env("COLUMNS", width.to_string());
    if !command.is_empty() {
        topo.arg(command);
    }
    said(topo.arg("--help").output().unwrap()).out
}

/// Most lines of a command's help: two screens.
const TWO_SCREENS: usize = 100;

/// Pages that have options of their own.
const MODES: [[&str; 2]; 8] = [
    ["show", "--program"],
    ["diff", "--each-failure"],
    ["expect", "--results"],
    ["simulate", "--network-only"],
    ["diagnose", "--log"],
    ["diagnose", "--collect"],
    ["diagnose", "--watch"],
    ["run", "--calibrate"],
];

#[test]
fn help_fits_two_screens() {
    let of = |words: &[&str]| said(topo().args(words).arg("--help").output().unwrap()).out;
    let commands = listed().into_iter().map(|it| (help(&it, MOST), it));
    let modes = MODES.iter().map(|it| (of(it), it.join(" ")));
    let topics = ["job", "hosts", "megatron"].map(|it| (ok(&["help", it]).out, it.to_owned()));
    for (page, name) in commands.chain(modes).chain(topics) {
        let lines = page.lines().count();
        assert!(lines <= TWO_SCREENS, "topo {name} --help has {lines} lines");
        assert!(lines > 5, "topo {name} --help:\n{page}");
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// Whether a paragraph ends between two lines.
fn is_end(line: &str, next: &str) -> bool {
    let begins = next.starts_with(char::is_uppercase);
    begins && (line.ends_with('.') || first_word(next).ends_with(':'))
}

/// What is wrong with two lines that follow each other after the options.
fn fault(line: &str, next: &str, width: usize, programs: &BTreeSet<String>) -> Option<String> {
    if next.trim().is_empty() || line.trim().is_empty() {
        return None;
    }
    if indent(next) == 2 && !programs.contains(first_word(next)) {
        return Some(format!("an example is broken before {next:?}"));
    }
    // Lines of a paragraph, of a command, and of what it is for.
    let goes_on = match indent(next) {
        0 => indent(line) == 0 && !is_end(line, next),
        6 => true,
        deep => deep > 6 && indent(line) == deep,
    };
    let fits = line.chars().count() + 1 + first_word(next).chars().count() <= width;
    (goes_on && fits).then(|| format!("the next word fits behind {line:?}"))
}

#[test]
fn no_line_after_the_options_is_broken_twice() {
    let mut faults = Vec::new();
    let commands = listed();
    for command in commands.iter().map(String::as_str).chain([""]) {
        let widest = help(command, WIDTHS[3]);
        let examples = widest.lines().skip_while(|it| *it != "Examples:").skip(1);
        let programs = examples.filter(|it| indent(it) == 2).map(first_word);
        let programs: BTreeSet<String> = programs.map(str::to_owned).collect();
        for width in WIDTHS {
            let page = help(command, width);
            let same = page.split_whitespace().eq(widest.split_whitespace());
            assert!(
                same,
                "topo {command} --help has other words at {width} columns"
            );
            let width = width.min(MOST);
            let after = page.lines().skip_while(|it| *it != "Examples:").skip(1);
            let after: Vec<&str> = after.collect();
            let long = |it: &&&str| it.chars().count() > width && it.trim().contains(' ');
            let long = after
                .iter()
                .find(long)
                .map(|it| format!("{it:?} is too long"));
            let pairs = after.windows(2);
            let found = pairs.filter_map(|it| fault(it[0], it[1], width, &programs));
            faults.extend(
                found
                    .chain(long)
                    .map(|it| format!("topo {command}, {width}: {it}")),
            );
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
