//! The files of `topo results`: tables, and what NCCL logged beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use nccl_log::line::Lines;
use nccl_results::compare::LoggedChoices;
use nccl_results::{Collector, Table, json};

use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::text_stream::TextStream;

/// Largest JSON file that is read, bytes.
const JSON_LIMIT: u64 = 256 << 20;

/// How often progress is shown, lines.
const PROGRESS_LINES: u64 = 1 << 16;

/// What NCCL logged in the file of a table.
#[derive(Debug, Default)]
pub struct Logged {
    /// NCCL's version.
    pub version: Option<String>,
    /// NCCL's variables with their values.
    pub settings: BTreeMap<String, BTreeSet<String>>,
    /// What NCCL took, by number of ranks, collective and size.
    pub choices: LoggedChoices,
}

/// A table with what was logged beside it.
#[derive(Debug)]
pub struct ReadTable {
    /// The table.
    pub table: Table,
    /// What was logged.
    pub logged: Rc<Logged>,
}

/// Reads all files.
pub fn read(
    files: &[PathBuf],
    environment: &Environment,
    output: &mut Output,
) -> Result<Vec<ReadTable>> {
    let progress = Progress::new(environment, "reading");
    let mut all = Vec::new();
    for file in files {
        let mut stream = TextStream::open(file)?;
        let label = stream.label.clone();
        let cannot = || format!("cannot read {label}");
        let (tables, logged) = match is_json(&mut stream.text).with_context(cannot)? {
            true => (vec![read_json(&mut stream)?], Logged::default()),
            false => {
                let size = stream.size();
                let show = |read| progress.set(TextStream::progress(&label, size, read));
                read_text(&label, &mut stream.text, show, output).with_context(cannot)?
            }
        };
        stream.finish(output);
        if tables.is_empty() {
            output.warnings.push(format!(
                "{label}: no measurement; expected a table of nccl-tests or rccl-tests, JSON of nccl-tests (-J), or \
                 topo run --json"
            ));
        }
        let logged = Rc::new(logged);
        all.extend(tables.into_iter().map(|table| ReadTable {
            table,
            logged: Rc::clone(&logged),
        }));
    }
    Ok(all)
}

/// Whether a text begins as JSON does.
fn is_json(text: &mut impl BufRead) -> std::io::Result<bool> {
    let first = text.fill_buf()?.iter().find(|it| !it.is_ascii_whitespace());
    Ok(first == Some(&b'{'))
}

fn read_json(stream: &mut TextStream) -> Result<Table> {
    let label = &stream.label;
    let mut text = Vec::new();
    let read = stream
        .text
        .by_ref()
        .take(JSON_LIMIT + 1)
        .read_to_end(&mut text);
    read.with_context(|| format!("cannot read {label}"))?;
    if text.len() as u64 > JSON_LIMIT {
        bail!(
            "{label} is too large; expected at most {} MB of JSON",
            JSON_LIMIT >> 20
        );
    }
    Ok(json::read(label, &String::from_utf8_lossy(&text))?)
}

fn read_text(
    label: &str,
    text: &mut impl BufRead,
    show: impl Fn(u64),
    output: &mut Output,
) -> std::io::Result<(Vec<Table>, Logged)> {
    let mut results = Collector::default();
    results.begin(label);
    let mut log = nccl_log::Collector::default();
    let mut lines = Lines::new(text);
    let mut number = 0_u64;
    while let Some(line) = lines.next()? {
        results.line(&line);
        log.line(&line);
        number += 1;
        if number.is_multiple_of(PROGRESS_LINES) {
            show(lines.bytes());
        }
    }
    let results = results.finish();
    if results.is_full {
        output.warnings.push(format!(
            "{label}: more tables, rows or ranks than are kept; the rest is left out"
        ));
    }
    Ok((results.tables, logged(log.finish())))
}

fn logged(log: nccl_log::Log) -> Logged {
    let mut logged = Logged {
        version: log
            .versions
            .iter()
            .max_by_key(|(_, count)| **count)
            .map(|it| it.0.clone()),
        ..Logged::default()
    };
    logged.choices = log.choices();
    for facts in log.hosts.into_values() {
        for (name, values) in facts.settings {
            logged.settings.entry(name).or_default().extend(values);
        }
    }
    logged
}
