//! Collects statements by rank and process, in bounded memory.

pub mod record;
pub mod strings;
mod take;

use std::collections::BTreeMap;
use std::io::{BufRead, Result};
use std::ops::Range;

use causes::Cause;
use rustc_hash::FxHashMap;

use crate::line::Lines;
use crate::message::{Level, Message, Source, messages};
use crate::statement::{self, LineFault, Statement};
use crate::warning::shape;
use record::{Process, Record};
use strings::{KnownHosts, Strings, Text};

/// How often progress is reported, lines.
const PROGRESS_LINES: u64 = 1 << 16;

/// Most kinds of warnings and of unknown lines that are kept, most examples of a kind, most broken
/// lines.
const MOST_KINDS: usize = 200;
const MOST_EXAMPLES: usize = 8;

/// Most records, and most values of all records together. A value takes about 100 bytes.
const MOST_RECORDS: usize = 1 << 14;
const MOST_VALUES: usize = 250_000;

/// Numbers of lines, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of the log.
    pub lines: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Messages whose values were taken.
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
    pub damaged: u64,
    /// Rings, trees and channels in an unknown form.
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

/// A kind of warning.
#[derive(Debug, Clone)]
pub struct Warning {
    /// The first one's text.
    pub text: String,
    /// Where it is in NCCL's sources.
    pub place: Option<String>,
    /// Its cause, if it is known.
    pub cause: Option<&'static Cause>,
    /// How many of this kind there are.
    pub count: u64,
    /// The file and line of the first one.
    pub first: (String, u64),
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
    line: u64,
}

impl Collector {
    /// Reads a log. `progress` is called now and then with the bytes that were read.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read(
        &mut self,
        file: &str,
        stream: impl BufRead,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        self.begin(file);
        self.files.push(file.to_owned());
        let mut lines = Lines::new(stream);
        while let Some(line) = lines.next()? {
            self.counts.lines += 1;
            self.line(&line);
            if self.counts.lines.is_multiple_of(PROGRESS_LINES) {
                progress(lines.bytes());
            }
        }
        self.counts.bytes += lines.bytes();
        Ok(())
    }

    /// Names the file of the next lines, which are numbered from 1.
    pub fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.line = 0;
    }

    /// Numbers of lines so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes one line. Returns the part of it that is of known form and has no words of other
    /// programs: the head of its first message if that is no warning, from the host's name to the
    /// text, and of a connection also the ranks, up to the transport.
    pub fn line(&mut self, line: &str) -> Option<Range<usize>> {
        self.line += 1;
        let hosts = std::mem::take(&mut self.known_hosts);
        let mut is_first = true;
        let mut new_host = None;
        let mut head = None;
        messages(line, &hosts, |message| {
            if let (true, Some(source)) = (is_first, message.source) {
                new_host = Some(source.host);
                let end = message.text.as_ptr() as usize - line.as_ptr() as usize;
                let is_plain = message.level == Level::Info && message.place.is_none();
                head = is_plain.then_some(message.begin..end.max(message.begin));
            }
            let ranks = self.message(&message, line);
            if let (true, Some(head)) = (is_first, &mut head) {
                head.end = (head.end + ranks).min(line.len());
            }
            is_first = false;
        });
        self.known_hosts = hosts;
        if let Some(host) = new_host {
            self.known_hosts.add(host);
        }
        head
    }

    /// Takes a message. Returns how many bytes of a connection's text are ranks.
    fn message(&mut self, message: &Message<'_>, line: &str) -> usize {
        let Some(source) = message.source else {
            self.bare(message, line);
            return 0;
        };
        let mut ranks = 0;
        match message.level {
            Level::Warn => self.warn(message, &source),
            Level::Other => self.counts.ignored += 1,
            Level::Info => {
                let statement = statement::read(message.text);
                self.count(&statement, message);
                if let Statement::Connection(connection) = &statement {
                    ranks = bytes_of_ranks(message.text, connection.transport.text());
                }
                self.take(&source, statement);
            }
        }
        ranks
    }

    fn bare(&mut self, message: &Message<'_>, line: &str) {
        if line.trim().is_empty() {
            self.counts.others += 1;
            return;
        }
        if message.level == Level::Warn {
            self.warn(message, &Source::default());
            return;
        }
        let text = message.text;
        let mut statement = statement::read_bare(text);
        let has_word = text.len() < line.len();
        if statement == Statement::Unknown && has_word {
            // The head was lost, the text is whole.
            statement = statement::read(text);
        }
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
            cause: causes::of_warning(message.text),
            count: 0,
            first: (file.clone(), line),
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

/// Longest part of a connection's text that is taken for ranks alone, bytes:
/// `Channel 00/0 : 0[1b000] -> 8[1b000] [receive] via `.
const MOST_RANK_BYTES: usize = 64;

/// How many bytes of a connection's text come before its transport and the word before that, such
/// as `P2P/`; 0 if there are too many.
fn bytes_of_ranks(text: &str, transport: &str) -> usize {
    const BEFORE: usize = 4;
    let at = (transport.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let bytes = at.saturating_sub(BEFORE);
    match bytes <= MOST_RANK_BYTES && text.is_char_boundary(bytes) {
        true => bytes,
        false => 0,
    }
}
