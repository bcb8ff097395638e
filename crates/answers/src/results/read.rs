//! Tables, and what NCCL logged beside them, of one file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Result};
use std::rc::Rc;

use program::Collective;
use records::evidence::inspector;
use records::nccl_log::batch::{self, LineReader};
use records::nccl_log::line::Lines;
use records::nccl_log::{Known, ParsedLine};
use records::results::inspector::Timed;
use records::results::json::JsonError;
use records::results::ladder::Choice;
use records::results::values::UnreadHeader;
use records::results::{Collector, Table, json};

/// NCCL's choices, by number of ranks, collective and size.
pub type LoggedChoices = BTreeMap<(u32, Collective, u64), Choice>;

/// The part of NCCL's log in the file of a table.
#[derive(Debug, Default)]
pub struct LoggedFacts {
    /// NCCL's version.
    pub version: Option<String>,
    /// NCCL's variables with their values.
    pub settings: BTreeMap<String, BTreeSet<String>>,
    /// NCCL's choices, by number of ranks, collective and size.
    pub choices: LoggedChoices,
}

/// A table with what was logged beside it.
#[derive(Debug)]
pub struct ReadTable {
    /// The table.
    pub table: Table,
    /// The log of the table's file.
    pub logged: Rc<LoggedFacts>,
}

/// The tables of a file.
#[derive(Debug, Default)]
pub struct ReadFile {
    /// The tables.
    pub tables: Vec<ReadTable>,
    /// It has calls that Inspector timed.
    pub is_of_job: bool,
    /// There were more tables, rows or ranks than are kept.
    pub is_full: bool,
    /// Tables that were left out because their columns are not understood, in words.
    pub unread: Vec<String>,
}

/// Output that holds no collective: words of it, and what to do with it.
const OTHERS: [(&str, &str); 6] = [
    (
        "#bytes     #iterations",
        "perftest measures one connection (MB/sec are MiB/s), no collective; compare it with the port's rate in `ibstat`",
    ),
    (
        "Isolated Network Tests",
        "GPCNeT measures the network among other traffic, no collective of NCCL",
    ),
    (
        "nvbandwidth Version",
        "nvbandwidth measures copies, no collective; a diagnosis reads those between GPUs",
    ),
    (
        "P2P Connectivity Matrix",
        "p2pBandwidthLatencyTest measures copies, no collective; a diagnosis reads it",
    ),
    (
        "# OSU MPI Bandwidth Test",
        "osu_bw measures one connection, no collective; compare it with the port's rate in `ibstat`",
    ),
    (
        "busBW @",
        "a table of one size; expected a row for each size",
    ),
];

/// Bytes in which an object of Inspector tells its version.
const INSPECTOR_BYTES: usize = 1 << 10;

/// Lines in which those words are looked for.
const MOST_SEARCHED: u32 = 256;

/// Reads a text line by line.
#[derive(Debug)]
pub struct Reader<'t> {
    results: Collector,
    timed: &'t mut Timed,
    /// Times that were read before.
    before: u64,
    log: records::nccl_log::Collector,
    name: String,
    lines: u32,
    /// What the text is instead.
    other: Option<&'static str>,
}

impl<'t> Reader<'t> {
    /// Begins a file, which adds to what was `timed` by those before.
    pub fn new(name: &str, timed: &'t mut Timed) -> Self {
        let before = timed.times();
        let mut results = Collector::after(std::mem::take(timed));
        results.begin(name);
        let mut log = records::nccl_log::Collector::default();
        log.begin(name);
        Self {
            results,
            before,
            timed,
            log,
            name: name.to_owned(),
            lines: 0,
            other: None,
        }
    }

    /// Reads a text, with at most so many threads that help. `progress` is called now and then with
    /// the bytes that were read.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read(
        mut self,
        stream: impl BufRead,
        helpers: usize,
        progress: impl FnMut(u64),
    ) -> Result<ReadFile> {
        batch::read(&mut Lines::new(stream), &mut self, helpers, progress)?;
        Ok(self.finish())
    }

    /// Ends the file.
    fn finish(mut self) -> ReadFile {
        *self.timed = self.results.take_timed();
        let is_of_job = self.timed.times() > self.before;
        let results = self.results.finish();
        let logged = Rc::new(logged(self.log.finish()));
        let tables = results.tables.into_iter().map(|table| ReadTable {
            table,
            logged: Rc::clone(&logged),
        });
        let tables: Vec<ReadTable> = tables.collect();
        let mut told: Vec<String> = results.unread.iter().map(unread).collect();
        let has_any = !tables.is_empty() || is_of_job;
        if let Some(other) = self.other.filter(|_| !has_any) {
            told = vec![format!("{}: {other}", self.name)];
        }
        ReadFile {
            tables,
            is_of_job,
            is_full: results.is_full,
            unread: told,
        }
    }
}

impl LineReader for Reader<'_> {
    type Parsed<'a> = ParsedLine<'a>;
    type Memory<'a> = Known<'a>;

    fn parse<'a>(line: &'a str, _: &str, known: &mut Known<'a>) -> ParsedLine<'a> {
        ParsedLine::of(line, known)
    }

    fn take(&mut self, parsed: ParsedLine<'_>) {
        let line = parsed.text;
        if self.lines < MOST_SEARCHED && self.other.is_none() {
            self.lines += 1;
            let mut others = OTHERS.iter();
            self.other = others.find(|it| line.contains(it.0)).map(|it| it.1);
        }
        self.results.line(line);
        self.log.line(parsed);
    }
}

/// Whether a text that begins like this is one JSON object. Inspector writes one for each call.
pub fn is_json(first: &[u8]) -> bool {
    let is_object = first.iter().find(|it| !it.is_ascii_whitespace()) == Some(&b'{');
    let head = String::from_utf8_lossy(&first[..first.len().min(INSPECTOR_BYTES)]);
    is_object && !head.contains(inspector::VERSION)
}

impl ReadTable {
    /// The tables of what Inspector timed, beside which nothing is logged.
    pub fn of_job(timed: Timed) -> impl Iterator<Item = Self> {
        timed.tables().map(|table| Self {
            table,
            logged: Rc::default(),
        })
    }
}

/// Reads a whole file: JSON, or a text, which adds to what was `timed` by others.
///
/// # Errors
/// It is JSON without measurements.
pub fn read(name: &str, text: &str, timed: &mut Timed) -> std::result::Result<ReadFile, JsonError> {
    if !is_json(text.as_bytes()) {
        // Reading memory does not fail.
        let read = Reader::new(name, timed).read(text.as_bytes(), 0, |_| {});
        return Ok(read.unwrap_or_default());
    }
    let table = ReadTable {
        table: json::read(name, text)?,
        logged: Rc::default(),
    };
    Ok(ReadFile {
        tables: vec![table],
        ..ReadFile::default()
    })
}

/// The message about a table that is left out.
fn unread(it: &UnreadHeader) -> String {
    format!(
        "{}:{}: the table with the columns `{}` is left out; expected `size` with `time` and \
         `algbw`, with `Avg Latency(us)`, or with `busbw` below a heading such as `## all_reduce, \
         16 ranks`",
        it.file, it.line, it.text
    )
}

/// The message about a file without measurements.
pub fn no_measurement(name: &str) -> String {
    format!(
        "{name}: no measurement; expected a table of nccl-tests, rccl-tests or the OSU micro-benchmarks, JSON of nccl-tests (-J), of topo, or of NCCL's Inspector"
    )
}

fn logged(log: records::nccl_log::Log) -> LoggedFacts {
    let choices = log.choices();
    let version = log.versions.iter().max_by_key(|(_, count)| **count);
    let version = version.map(|it| it.0.clone());
    let mut settings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for facts in log.hosts.into_values() {
        for (name, values) in facts.settings {
            settings.entry(name).or_default().extend(values);
        }
    }
    LoggedFacts {
        version,
        settings,
        choices,
    }
}
