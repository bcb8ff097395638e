//! How the process ends: what goes to which stream, and with which status.

use std::io::{ErrorKind, Write};
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

/// Prints the output and returns the exit status.
pub fn finish(done: anyhow::Result<()>, output: &Output) -> ExitCode {
    print_warnings(&output.warnings);
    report(&output.notes);
    match done.and_then(|()| print(&output.text)) {
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
    print(&std::mem::take(&mut output.text))
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
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

fn report(text: &str) {
    // A closed standard error cannot be reported anywhere.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
