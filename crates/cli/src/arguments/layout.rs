//! The text after a command's options, laid out for the width of the terminal.
//!
//! In the constants, a line that begins with two spaces is an example: a command, then spaces and
//! what it is for, which may also be the line below. Every other line is a paragraph.

use std::ffi::OsString;

use clap::CommandFactory;

use super::Arguments;
use super::concise::concise;
use super::modes::{self, Mode};
use crate::render::wrap;

/// Most columns of help: longer lines are hard to read.
pub(crate) const MOST_COLUMNS: usize = 100;

/// Fewest columns for what examples are for, beside them.
const LEAST_BESIDE: usize = 40;

/// Most columns of an example beside which it is described; longer ones are described below.
const MOST_BEFORE: usize = 54;

/// How far examples are indented, and the lines that continue them.
const EXAMPLE: &str = "  ";
const CONTINUED: &str = "      ";

/// Where examples are described below themselves.
const BELOW: usize = 10;

/// Fewest spaces before a line that describes the example above.
const DEEP: usize = 20;

/// All commands, with the help of the one that is used, or that of the program, laid out in at
/// most so many columns. `mode` is the one that was asked for.
pub(crate) fn help(width: usize, used: Option<&str>, mode: Option<Mode>) -> clap::Command {
    let width = width.min(MOST_COLUMNS);
    let lay_out = |command: clap::Command| match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(laid_out(&text, width)),
        None => command,
    };
    let all = super::all().term_width(width);
    match used.filter(|name| all.find_subcommand(name).is_some()) {
        Some(name) => {
            modes::describe(all, name, mode).mut_subcommand(name, |it| lay_out(concise(it)))
        }
        None => lay_out(modes::describe_all(all, width)),
    }
}

/// All commands, as they read arguments: with that help where these ask for it, or name no command.
pub(crate) fn command(width: usize, arguments: &[OsString], mode: Option<Mode>) -> clap::Command {
    let used = arguments.get(1).and_then(|it| it.to_str());
    let all = Arguments::command();
    match used.filter(|name| all.find_subcommand(name).is_some()) {
        Some(name) if !arguments.iter().any(asks_for_help) => modes::describe(all, name, mode),
        _ => help(width, used, mode),
    }
}

/// Whether an argument may ask for help: `--help`, `-h`, or that among other letters.
fn asks_for_help(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    text == "--help" || text.starts_with('-') && !text.starts_with("--") && text.contains('h')
}

/// An example.
struct Example {
    command: String,
    /// What it is for; empty without one.
    purpose: String,
}

fn laid_out(text: &str, width: usize) -> String {
    let columns = text.lines().filter_map(column);
    let column = columns.filter(|it| *it <= MOST_BEFORE).max().unwrap_or(0);
    let column = match width.saturating_sub(column) >= LEAST_BESIDE {
        true => Some(column),
        false => None,
    };
    let mut page = String::new();
    let mut examples: Vec<Example> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        match (line.len() - words.len(), examples.last_mut()) {
            (DEEP.., Some(last)) => append(&mut last.purpose, words),
            (3.., Some(last)) => append(&mut last.command, words),
            (2.., _) => {
                let (command, purpose) = words.split_once("  ").unwrap_or((words, ""));
                examples.push(Example {
                    command: command.to_owned(),
                    purpose: purpose.trim_start().to_owned(),
                });
            }
            _ => {
                examples
                    .drain(..)
                    .for_each(|it| page.push_str(&it.laid_out(column, width)));
                page.push_str(&wrap(words, "", "", width));
            }
        }
    }
    examples
        .iter()
        .for_each(|it| page.push_str(&it.laid_out(column, width)));
    page.trim_end().to_owned()
}

/// The column in which a line describes an example.
fn column(line: &str) -> Option<usize> {
    let words = line.trim_start();
    let indent = line.len() - words.len();
    match indent {
        DEEP.. => Some(indent),
        2 => {
            let gap = words.find("  ")?;
            let purpose = words[gap..].trim_start();
            Some(line.chars().count() - purpose.chars().count())
        }
        _ => None,
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

impl Example {
    /// Its lines, with what it is for in a column beside it, or below it.
    fn laid_out(&self, column: Option<usize>, width: usize) -> String {
        let command = wrap(&self.command, EXAMPLE, CONTINUED, width);
        if self.purpose.is_empty() {
            return command;
        }
        let indent = " ".repeat(column.unwrap_or(BELOW));
        let is_beside = command.chars().count() < column.unwrap_or(0);
        if is_beside {
            let first = format!("{:1$}", command.trim_end(), indent.len());
            return wrap(&self.purpose, &first, &indent, width);
        }
        command + &wrap(&self.purpose, &indent, &indent, width)
    }
}
