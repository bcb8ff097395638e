//! Collects statements by rank and process, in bounded memory.

mod parsed;
pub mod record;
pub mod strings;
mod take;

use std::collections::BTreeMap;
use std::io::{BufRead, Result};

use findings::facts::{self, Meaning};
use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::nccl_log::batch::{self, LineReader};
use crate::nccl_log::json;
use crate::nccl_log::line::Lines;
use crate::nccl_log::message::{Level, Message, Source, messages};
use crate::nccl_log::statement::{LineFault, Statement};
use crate::nccl_log::warning::shape;
use parsed::statement_of;
pub use parsed::{Known, ParsedLine};
use record::{Process, Record};
use strings::{KnownHosts, Strings, Text};

/// Most kinds of warnings and of unknown lines that are kept, most examples of a kind, most broken
/// lines.
const MOST_KINDS: usize = 200;
const MOST_EXAMPLES: usize = 8;

/// Most records, and most values of all records together. A value takes about 100 bytes.
const MOST_RECORDS: usize = 1 << 14;
const MOST_VALUES: usize = 250_000;

/// Numbers of lines, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Lines of the log.
    #[serde(rename = "all")]
    pub lines: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Messages whose values were taken.
    #[serde(rename = "read")]
    pub recognized: u64,
    /// Messages that are known and of no interest.
    pub ignored: u64,
    /// Messages that are not known.
    pub unknown: u64,
    /// Warnings.
    pub warnings: u64,
    /// Lines that are not NCCL's.
    pub others: u64,
    /// Rings, trees and channels that were read.
    pub channels: u64,
    /// Rings, trees and channels that another program's output or the log's end cut.
    #[serde(rename = "damaged_channels")]
    pub damaged: u64,
    /// Rings, trees and channels in an unknown form.
    #[serde(rename = "broken_channels")]
    pub broken: u64,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// Its text.
    pub text: String,
}

impl Serialize for BrokenLine {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}:{}: {}", self.file, self.line, self.text))
    }
}

/// A kind of warning.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Warning {
    /// The first one's text.
    pub text: String,
    /// How many of this kind there are.
    pub count: u64,
    /// The file of the first one.
    pub file: String,
    /// The line of the first one.
    pub line: u64,
    /// Where it is in NCCL's sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What it means, if that is known.
    #[serde(flatten, serialize_with = "json::meaning")]
    #[schemars(with = "json::Meant")]
    pub meaning: Option<Meaning>,
    /// Hosts and GPUs that log it, in order; at most a few.
    pub sources: Vec<(String, Option<u32>)>,
}

/// A thread's GPU: host, process, thread, GPU.
type Thread = (Text, u32, u32, Option<u32>);

/// Collects what a log says.
#[derive(Debug, Default)]
pub struct Collector {
    pub(crate) strings: Strings,
    known_hosts: KnownHosts,
    pub(crate) counts: Counts,
    pub(crate) files: Vec<String>,
    pub(crate) records: Vec<Record>,
    pub(crate) processes: FxHashMap<(Text, u32), Process>,
    /// Records that a thread still writes.
    open: FxHashMap<Thread, usize>,
    /// The last record of a process's GPU.
    pub(crate) latest: FxHashMap<(Text, u32, Option<u32>), usize>,
    /// Records by process and address of the communicator.
    by_address: FxHashMap<(Text, u32, Text), usize>,
    pub(crate) versions: BTreeMap<String, u64>,
    pub(crate) operations: BTreeMap<String, u64>,
    pub(crate) gpus: BTreeMap<u32, (String, String)>,
    pub(crate) warnings: BTreeMap<String, Warning>,
    pub(crate) unknown: BTreeMap<String, u64>,
    pub(crate) broken: Vec<BrokenLine>,
    /// Values that are kept.
    values: usize,
    /// Something was left out because too much is kept.
    pub(crate) is_full: bool,
    file: String,
    file_text: Text,
    line: u64,
    /// Threads that help to parse lines.
    helpers: usize,
}

impl LineReader for Collector {
    type Parsed<'a> = ParsedLine<'a>;

    type Memory<'a> = Known<'a>;

    fn parse<'a>(line: &'a str, _: &str, known: &mut Known<'a>) -> ParsedLine<'a> {
        ParsedLine::of(line, known)
    }

    fn take(&mut self, parsed: ParsedLine<'_>) {
        self.line(parsed);
    }
}

impl Collector {
    /// One that reads with the help of at most so many threads, which end before it returns.
    pub fn with_helpers(helpers: usize) -> Self {
        Self {
            helpers,
            ..Self::default()
        }
    }

    /// Reads a log. `progress` is called now and then with the bytes that were read.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read(
        &mut self,
        file: &str,
        stream: impl BufRead,
        progress: impl FnMut(u64),
    ) -> Result<()> {
        self.begin(file);
        self.files.push(file.to_owned());
        let mut lines = Lines::new(stream);
        batch::read(&mut lines, self, self.helpers, progress)?;
        self.end(lines.bytes());
        Ok(())
    }

    /// Names the file of the next lines, which are numbered from 1.
    pub fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.file_text = self.strings.keep(file);
        self.line = 0;
    }

    /// Counts the bytes of a file whose lines were all taken.
    pub const fn end(&mut self, bytes: u64) {
        self.counts.bytes += bytes;
    }

    /// Numbers of lines so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes one line.
    pub fn line(&mut self, line: ParsedLine<'_>) {
        self.line += 1;
        self.counts.lines += 1;
        let ParsedLine { text, only, .. } = line;
        let mut first = None;
        if let Some((message, statement)) = only {
            first = Some(message.source);
            self.message(&message, statement, text);
        } else {
            let hosts = std::mem::take(&mut self.known_hosts);
            messages(text, &hosts, |message| {
                first.get_or_insert(message.source);
                self.message(&message, statement_of(&message, text), text);
            });
            self.known_hosts = hosts;
        }
        if let Some(source) = first.flatten() {
            self.known_hosts.add(source.host);
        }
    }

    /// Takes a message of a line.
    fn message(&mut self, message: &Message<'_>, statement: Statement<'_>, line: &str) {
        let Some(source) = message.source else {
            self.bare(message, statement, line);
            return;
        };
        match message.level {
            Level::Warn => self.warn(message, &source),
            Level::Other => self.counts.ignored += 1,
            Level::Info => {
                self.count(&statement, message);
                self.take(&source, statement);
            }
        }
    }

    fn bare(&mut self, message: &Message<'_>, statement: Statement<'_>, line: &str) {
        if line.trim().is_empty() {
            self.counts.others += 1;
            return;
        }
        if message.level == Level::Warn {
            self.warn(message, &Source::default());
            return;
        }
        let has_word = message.text.len() < line.len();
        if statement == Statement::Unknown && !has_word {
            self.counts.others += 1;
            return;
        }
        self.count(&statement, message);
        let is_whole = match statement {
            Statement::Version(_) | Statement::Gpu { .. } => true,
            Statement::Graph(_)
            | Statement::GraphChannel(_)
            | Statement::System { .. }
            | Statement::SystemLine(_)
            | Statement::SystemEnd => !has_word,
            _ => false,
        };
        if is_whole {
            self.take(&Source::default(), statement);
        }
    }

    fn count(&mut self, statement: &Statement<'_>, message: &Message<'_>) {
        let counts = &mut self.counts;
        match statement {
            Statement::Ignored => counts.ignored += 1,
            Statement::Unknown => {
                counts.unknown += 1;
                let shape = shape(message.text);
                if self.unknown.len() < MOST_KINDS || self.unknown.contains_key(&shape) {
                    *self.unknown.entry(shape).or_default() += 1;
                }
            }
            Statement::Broken(LineFault::Unknown) if !message.is_interrupted => {
                counts.broken += 1;
                if self.broken.len() < MOST_EXAMPLES {
                    self.broken.push(BrokenLine {
                        file: self.file.clone(),
                        line: self.line,
                        text: message.text.chars().take(200).collect(),
                    });
                }
            }
            Statement::Broken(_) => counts.damaged += 1,
            Statement::Ring { .. }
            | Statement::RingNeighbors { .. }
            | Statement::Trees { .. }
            | Statement::NvlsHead { .. }
            | Statement::NvlsTrees { .. }
            | Statement::Connection(_) => {
                counts.recognized += 1;
                counts.channels += 1;
            }
            _ => counts.recognized += 1,
        }
    }

    fn warn(&mut self, message: &Message<'_>, source: &Source<'_>) {
        self.counts.warnings += 1;
        let kind = shape(message.text);
        if self.warnings.len() >= MOST_KINDS && !self.warnings.contains_key(&kind) {
            self.is_full = true;
            return;
        }
        let (file, line) = (&self.file, self.line);
        let warning = self.warnings.entry(kind).or_insert_with(|| Warning {
            text: message.text.trim().chars().take(400).collect(),
            place: message.place.map(str::to_owned),
            meaning: facts::of_warning(message.text, message.place),
            count: 0,
            file: file.clone(),
            line,
            sources: Vec::new(),
        });
        warning.count += 1;
        if warning.sources.len() < MOST_EXAMPLES {
            let is_known = |it: &(String, Option<u32>)| it.0 == source.host && it.1 == source.gpu;
            if !warning.sources.iter().any(is_known) {
                warning.sources.push((source.host.to_owned(), source.gpu));
            }
        }
    }

    /// Whether one more value may be kept.
    fn has_room(&mut self, values: usize) -> bool {
        if self.values + values > MOST_VALUES {
            self.is_full = true;
            return false;
        }
        self.values += values;
        true
    }
}
