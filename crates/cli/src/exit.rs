//! The end of the process: what goes to which stream, and with which status.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use files::printable;

use crate::hints;
use crate::output::Output;
use crate::render::count;

/// Any error; also clap's status for a wrong command line.
const FAILED: u8 = 2;

/// Plans differ, there are findings, or failures were left out.
const DIFFERS: u8 = 1;

/// What was measured cannot be judged.
const UNKNOWN: u8 = 3;

/// Most warnings that are shown; a broken file has hundreds of the same kind.
const SHOWN_WARNINGS: usize = 10;

/// `ERROR_PIPE_NOT_CONNECTED` of Windows.
const PIPE_NOT_CONNECTED: i32 = 233;

/// Prints the output and returns the exit status.
pub(crate) fn finish(done: anyhow::Result<()>, output: &Output) -> ExitCode {
    finish_of(done, output, &[])
}

/// The same for a command with these words.
pub(crate) fn finish_of(
    done: anyhow::Result<()>,
    output: &Output,
    arguments: &[OsString],
) -> ExitCode {
    print_warnings(&output.warnings);
    report(&output.notes);
    let status = match done.and_then(|()| print(&output.text, output.is_file)) {
        Ok(()) if output.differs => DIFFERS,
        Ok(()) => match &output.unknown {
            Some(why) => {
                report(&format!("UNKNOWN: {why}\n"));
                UNKNOWN
            }
            None => 0,
        },
        Err(error) => {
            let hint = hints::of(&error).map_or_else(String::new, |it| format!("; {it}"));
            let said = format!("{error:#}{hint}");
            let other = hints::of_files(&said, arguments);
            let other = other.map_or_else(String::new, |it| format!("{it}\n"));
            report(&format!("error: {said}\n{other}"));
            FAILED
        }
    };
    #[cfg(target_os = "linux")]
    shared_memory::end_if_abandoned(status);
    ExitCode::from(status)
}

/// Prints what clap says instead of running a command: a mistake in the command line, or help.
pub(crate) fn without_command(said: &clap::Error) -> ExitCode {
    let is_mistake = said.use_stderr();
    let text = said.render().to_string();
    if is_mistake {
        report(&text);
        return ExitCode::from(FAILED);
    }
    let output = Output {
        text,
        ..Output::default()
    };
    finish(Ok(()), &output)
}

/// Prints what a command has to say before it ends.
pub(crate) fn print_now(output: &mut Output) -> anyhow::Result<()> {
    print_warnings(&std::mem::take(&mut output.warnings));
    report(&std::mem::take(&mut output.notes));
    print(&std::mem::take(&mut output.text), output.is_file)
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

/// Prints each warning once: both sides of a comparison may have it.
fn print_warnings(warnings: &[String]) {
    let mut seen = HashSet::new();
    let warnings: Vec<&String> = warnings.iter().filter(|it| seen.insert(*it)).collect();
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
pub(crate) fn report(text: &str) {
    // A closed standard error cannot be reported anywhere.
    let text = printable(text);
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
