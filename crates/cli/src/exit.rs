//! How the process ends: what goes to which stream, and with which status.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::output::Output;
use crate::render::count;

/// Any error; also clap's status for a wrong command line.
const FAILED: u8 = 2;

/// Plans differ, there are findings, or failures were left out.
const DIFFERS: u8 = 1;

/// Most warnings that are shown; a broken file has hundreds of the same kind.
const SHOWN_WARNINGS: usize = 10;

/// `ERROR_PIPE_NOT_CONNECTED` of Windows.
const PIPE_NOT_CONNECTED: i32 = 233;

/// The colors of pages (`Look::paint`), and their end.
const COLORS: [&str; 8] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[36m",
];

/// Prints the output and returns the exit status.
pub fn finish(done: anyhow::Result<()>, output: &Output) -> ExitCode {
    print_warnings(&output.warnings);
    report(&output.notes);
    match done.and_then(|()| print(&output.text, output.is_file)) {
        Ok(()) if output.differs => ExitCode::from(DIFFERS),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("error: {error:#}\n"));
            ExitCode::from(FAILED)
        }
    }
}

/// Prints what a command has to say before it ends.
pub fn print_now(output: &mut Output) -> anyhow::Result<()> {
    print_warnings(&std::mem::take(&mut output.warnings));
    report(&std::mem::take(&mut output.notes));
    print(&std::mem::take(&mut output.text), output.is_file)
}

/// The text without control characters of strangers: `\u001b` replaces the escape character.
/// Newlines, tabs and the colors of pages stay. JSON keeps its meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_escaped) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let color = COLORS.iter().find(|color| rest.starts_with(**color));
        let length = match color {
            Some(color) => {
                shown.push_str(color);
                color.len()
            }
            None => {
                let found = rest.chars().next().unwrap_or_default();
                let _ = write!(shown, "\\u{:04x}", u32::from(found));
                found.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

fn is_escaped(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

fn print(text: &str, is_file: bool) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let text = match is_file && !stdout.is_terminal() {
        true => Cow::Borrowed(text),
        false => printable(text),
    };
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        // The reader has seen enough, as in `topo plan … | head`.
        Err(error) if is_closed(&error) => Ok(()),
        done => done.context("cannot write standard output"),
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    let without_reader = cfg!(windows) && error.raw_os_error() == Some(PIPE_NOT_CONNECTED);
    without_reader || error.kind() == ErrorKind::BrokenPipe
}

fn print_warnings(warnings: &[String]) {
    let mut text = String::new();
    for warning in warnings.iter().take(SHOWN_WARNINGS) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    let more = warnings.len().saturating_sub(SHOWN_WARNINGS);
    if more > 0 {
        text.push_str(&format!("warning: {}\n", count(more, "more warning")));
    }
    report(&text);
}

/// Prints on standard error.
pub fn report(text: &str) {
    // A closed standard error cannot be reported anywhere.
    let text = printable(text);
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_colors_stay() {
        for (text, shown) in [
            ("plain \u{e9}\n\ttext", "plain \u{e9}\n\ttext"),
            ("\u{1b}[1mhead\u{1b}[0m\n", "\u{1b}[1mhead\u{1b}[0m\n"),
            ("a\u{1b}[2Jb", "a\\u001b[2Jb"),
            ("\u{1b}]0;x\u{7}", "\\u001b]0;x\\u0007"),
            ("\u{9b}2J\r\u{7f}\0", "\\u009b2J\\u000d\\u007f\\u0000"),
            ("\u{1b}", "\\u001b"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
