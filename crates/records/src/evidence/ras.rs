//! Reports of NCCL's RAS (`ncclras -v`, `echo verbose status | nc localhost 28028`), as text and as
//! JSON. [`answer`] reads what each rank launched, too.

pub mod answer;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::evidence::bounded::{Count, Few, FewNamed, Short};
use answer::{Answer, Listing};

/// Largest report in JSON that is read, bytes.
pub const MOST_BYTES: usize = 32 << 20;

/// Most ranks that are kept of one report.
const MOST_RANKS: usize = 1 << 12;

/// Most objects of a report in JSON that is read. A rank has three, and takes 400 bytes.
const MOST_OBJECTS: usize = 1 << 18;

/// Why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It is no JSON, or no report.
    #[error("no report of RAS: {0}")]
    Json(#[from] serde_json::Error),
    /// It has more ranks than are read.
    #[error("more than {MOST_OBJECTS} objects, so it was not read")]
    TooLarge,
    /// It has no line of one.
    #[error("no report of RAS")]
    Absent,
}

/// A rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Its rank in the communicator.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub process: u64,
    /// Its GPU in the process, which text does not say: a process may have several ranks.
    pub device: Option<u32>,
    /// The line of the report, from 1; 0 in JSON.
    pub line: u64,
}

/// What is wrong with ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// They launched fewer operations of a kind than the others: the kind, the number of these
    /// ranks and of the others.
    Behind(String, u64, u64),
    /// They do not answer.
    Silent,
    /// RAS considers them dead.
    Dead,
    /// They report an error.
    Error,
}

/// Ranks with one kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The communicator, such as `#0-0 (a1b2)`; empty for processes.
    pub communicator: String,
    /// The trouble.
    pub trouble: Trouble,
    /// The ranks.
    pub ranks: Vec<Rank>,
}

/// A report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Communicators that it lists.
    pub communicators: u64,
    /// Communicators in which all is well, as RAS sees it.
    pub healthy: u64,
    /// The line of the first communicator that is well.
    pub healthy_line: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The ranks of all findings.
    pub late: usize,
    /// The ranks of the largest communicator; 0 where the report does not say.
    pub size: u64,
}

/// Reads a report of text by line.
#[derive(Debug, Default)]
pub struct Reader {
    report: Report,
    in_table: bool,
    communicator: String,
    section: Section,
    operation: String,
    /// The operation that most ranks launched, and how many these are; 0 of equally many.
    usual: (u64, u64),
    /// The operation that the ranks of the list launched, if the list's heading says so.
    group: Option<u64>,
    listing: Listing,
}

/// The part of the report in which a list of ranks is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Silent,
    Dead,
    Error,
    Counts,
}

/// Words of which every line of interest has one.
pub const WORDS: [&str; 10] = [
    "Ranks     Ranks     Ranks    Status",
    "RUNNING",
    "INCOMPLETE",
    "DEAD",
    "MISMATCH",
    ") ERROR",
    "operation counts",
    "have launched up to operation",
    "managed by process",
    "has launched up to operation",
];

impl Reader {
    /// Takes a line of the report, or of another program. `number` is its place in the input.
    pub fn line(&mut self, line: &str, number: u64) {
        if line.contains("Ranks     Ranks     Ranks    Status") {
            self.in_table = true;
        } else if self.in_table && line.split_whitespace().count() == 8 {
            self.row(line, number);
        } else if let Some((head, word)) = heading(line) {
            self.in_table = false;
            self.communicator = Short::of(head).0;
            self.section = match word {
                "INCOMPLETE" => Section::Silent,
                "DEAD" => Section::Dead,
                "ERROR" => Section::Error,
                _ => Section::None,
            };
        } else if let Some(rest) = line
            .trim_start()
            .strip_prefix("Communicator ranks have different ")
        {
            self.section = Section::Counts;
            if rest.starts_with("status") {
                self.section = Section::None;
                self.listing.ending(&self.communicator);
            }
            self.operation = Short::of(rest.trim_end_matches(" operation counts").trim()).0;
            (self.usual, self.group) = ((0, 0), None);
        } else if let Some((count, rest)) = line.split_once(" ranks have ").filter(|(_, rest)| {
            rest.starts_with("launched up to") || rest.starts_with("not launched any")
        }) {
            let operation = rest.strip_prefix("launched up to operation ");
            let operation = operation.and_then(digits).unwrap_or(0);
            let count = digits(count).unwrap_or(0);
            let head = &self.communicator;
            self.listing.level(head, &self.operation, operation, count);
            self.group = Some(operation);
            self.usual = match count.cmp(&self.usual.1) {
                Ordering::Greater => (operation, count),
                Ordering::Equal => (0, count),
                Ordering::Less => self.usual,
            };
        } else {
            self.rank(line, number);
        }
    }

    fn row(&mut self, line: &str, number: u64) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[..3].iter().any(|it| it.parse::<u64>().is_err()) {
            return;
        }
        let count = words[1].parse().unwrap_or(1);
        let size = words[4].parse().unwrap_or(0);
        self.report.size = self.report.size.max(size);
        let add = |all: u64| all.saturating_add(count);
        self.report.communicators = add(self.report.communicators);
        let number_of = |at: usize| words[at].parse().unwrap_or(0);
        self.listing.row(count, number_of(2), number_of(3));
        if words[6..] == ["RUNNING", "OK"] {
            self.report.healthy = add(self.report.healthy);
            if self.report.healthy_line == 0 {
                self.report.healthy_line = number;
            }
        }
    }

    /// `  Rank 3 has launched up to operation 11 -- GPU 3 managed by process 55 on node n1`, or
    /// `  Process 55 on node n1 managing GPU 3`.
    fn rank(&mut self, line: &str, number: u64) {
        let text = line.trim_start();
        let (rank, host, process) = if let Some(rest) = text.strip_prefix("Rank ") {
            let Some((_, place)) = rest.split_once("managed by process ") else {
                return;
            };
            let host = place.split_once(" on node ").map_or("", |(_, host)| host);
            (digits(rest), host, digits(place))
        } else if let (Some(rest), true) = (
            text.strip_prefix("Process "),
            text.contains(" managing GPU"),
        ) {
            let host = rest.split_once(" on node ").map_or("", |(_, host)| host);
            (
                None,
                host.split(" managing ").next().unwrap_or(host),
                digits(rest),
            )
        } else {
            return;
        };
        let rank = Rank {
            rank: rank
                .and_then(|it| u32::try_from(it).ok())
                .unwrap_or(u32::MAX),
            host: Short::of(host.trim()).0,
            process: process.unwrap_or(0),
            device: None,
            line: number,
        };
        let trouble = match self.section {
            Section::Silent => Trouble::Silent,
            Section::Dead => Trouble::Dead,
            Section::Error => Trouble::Error,
            Section::Counts => {
                let launched = match text.split_once("launched up to operation ") {
                    Some((_, rest)) => digits(rest).unwrap_or(0),
                    None if text.contains("has not launched any") => 0,
                    None => match self.group {
                        Some(operation) => operation,
                        None => return,
                    },
                };
                let head = &self.communicator;
                self.listing.rank(head, &self.operation, launched, &rank);
                // Ranks that are ahead are usual ones that did not wait.
                if launched >= self.usual.0 {
                    return;
                }
                Trouble::Behind(self.operation.clone(), launched, self.usual.0)
            }
            Section::None => return,
        };
        if matches!(trouble, Trouble::Silent | Trouble::Dead) {
            self.listing.missing(&self.communicator, &rank);
        }
        self.report.add(&self.communicator, trouble, rank);
    }

    /// The report, if lines of one were there.
    pub fn finish(self) -> Option<Report> {
        let report = self.report;
        (report.communicators > 0 || !report.findings.is_empty()).then_some(report)
    }

    /// What it says of each rank.
    fn answer(self) -> Answer {
        self.listing.answer()
    }
}

impl Report {
    fn add(&mut self, communicator: &str, trouble: Trouble, rank: Rank) {
        if self.late >= MOST_RANKS {
            return;
        }
        self.late += 1;
        let is_it = |it: &Finding| it.communicator == communicator && it.trouble == trouble;
        match self.findings.iter().position(is_it) {
            Some(place) => self.findings[place].ranks.push(rank),
            None => self.findings.push(Finding {
                communicator: communicator.to_owned(),
                trouble,
                ranks: vec![rank],
            }),
        }
    }
}

/// `#0-0 (a1b2) MISMATCH`, or `DEAD` alone.
fn heading(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (head, word) = line.rsplit_once(' ').unwrap_or(("", line));
    let is_heading = matches!(
        word,
        "INCOMPLETE" | "DEAD" | "ERROR" | "MISMATCH" | "TIMEOUT"
    );
    let is_whole = head.is_empty() || (head.starts_with('#') && head.ends_with(')'));
    (is_heading && is_whole).then_some((head, word))
}

fn digits(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|it: char| !it.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// A report in JSON.
#[derive(Debug, Deserialize)]
struct RawReport {
    communicators: Few<RawCommunicator, { 1 << 12 }>,
}

#[derive(Debug, Deserialize)]
struct RawCommunicator {
    #[serde(default)]
    hash: Short,
    #[serde(default)]
    size: Count,
    #[serde(default)]
    ranks: Few<RawRank, { 1 << 17 }>,
    #[serde(default)]
    missing_ranks: Few<RawRank, { 1 << 17 }>,
}

#[derive(Debug, Deserialize)]
struct RawRank {
    #[serde(default)]
    rank: Count,
    #[serde(default)]
    host: Short,
    #[serde(default)]
    pid: Count,
    #[serde(default)]
    cuda_dev: Option<Count>,
    #[serde(default)]
    status: RawStatus,
    #[serde(default)]
    collective_counts: FewNamed<Count, 32>,
}

#[derive(Debug, Default, Deserialize)]
struct RawStatus {
    #[serde(default)]
    init_state: Count,
    #[serde(default)]
    async_error: Count,
    #[serde(default)]
    finalize_called: bool,
    #[serde(default)]
    destroy_flag: bool,
    #[serde(default)]
    abort_flag: bool,
    #[serde(default)]
    unresponsive: bool,
    #[serde(default)]
    considered_dead: bool,
}

impl RawStatus {
    /// Its rank is about to end the communicator.
    const fn is_ending(&self) -> bool {
        self.finalize_called || self.destroy_flag || self.abort_flag
    }
}

impl RawRank {
    fn place(&self) -> Rank {
        Rank {
            rank: u32::try_from(self.rank.0).unwrap_or(u32::MAX),
            host: self.host.0.clone(),
            process: u64::try_from(self.pid.0).unwrap_or(0),
            device: self.cuda_dev.and_then(|it| u32::try_from(it.0).ok()),
            line: 0,
        }
    }
}

/// Reads JSON; commas may be missing as NCCL 2.28 leaves them out.
fn raw(bytes: &[u8]) -> Result<RawReport, ReportError> {
    if bytes.iter().filter(|it| **it == b'{').count() > MOST_OBJECTS {
        return Err(ReportError::TooLarge);
    }
    let read = serde_json::from_slice(bytes);
    let read = read
        .or_else(|error| serde_json::from_slice(&answer::with_commas(bytes)).map_err(|_| error));
    Ok(read?)
}

/// Reads a report in JSON.
///
/// # Errors
/// It is no report of RAS, or it has too many ranks.
pub fn json(bytes: &[u8]) -> Result<Report, ReportError> {
    let raw = raw(bytes)?;
    let mut report = Report::default();
    for communicator in &raw.communicators.0 {
        let before = report.findings.len();
        report.communicators += 1;
        let name = communicator.hash.0.as_str();
        for rank in &communicator.missing_ranks.0 {
            let trouble = match rank.status.considered_dead {
                true => Trouble::Dead,
                false => Trouble::Silent,
            };
            report.add(name, trouble, rank.place());
        }
        for rank in &communicator.ranks.0 {
            // 7 is ncclInProgress.
            if !matches!(rank.status.async_error.0, 0 | 7) {
                report.add(name, Trouble::Error, rank.place());
            }
        }
        behind(&mut report, name, &communicator.ranks.0);
        report.healthy += u64::from(report.findings.len() == before);
    }
    Ok(report)
}

/// Adds ranks that launched fewer operations than the others.
fn behind(report: &mut Report, communicator: &str, ranks: &[RawRank]) {
    // Ranks list their operations in any order, and may leave out those without calls.
    let names = ranks.iter().flat_map(|it| &it.collective_counts.0);
    let names: BTreeSet<&Short> = names.map(|it| &it.0).collect();
    for name in names {
        let count = |it: &RawRank| {
            let counts = &it.collective_counts.0;
            counts
                .iter()
                .find(|it| it.0 == *name)
                .map_or(0, |it| it.1.0)
        };
        let usual = ranks.iter().map(count).max().unwrap_or(0);
        let late = ranks.iter().filter(|it| count(it) < usual);
        // Ranks of one communicator run a few operations apart; half of them are not late.
        if late.clone().count() * 2 >= ranks.len() {
            continue;
        }
        for rank in late {
            let launched = u64::try_from(count(rank)).unwrap_or(0);
            let usual = u64::try_from(usual).unwrap_or(0);
            report.add(
                communicator,
                Trouble::Behind(name.0.clone(), launched, usual),
                rank.place(),
            );
        }
    }
}
