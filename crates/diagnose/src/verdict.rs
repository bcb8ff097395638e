//! Verdicts.

use findings::Check;
use findings::causes::{self, Cause, Certainty, Subject};
use records::nccl_log::Log;
use records::nccl_log::log::Oddity;
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::job_facts::JobFacts;
use crate::process::{Process, rank_of};

/// Most letters of a line that is shown.
const MOST_LETTERS: usize = 300;

/// Most lines of evidence of a verdict.
pub(crate) const MOST_LINES: usize = 6;

/// A diagnosis: what the evidence shows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The inputs, and as what they were read.
    pub inputs: Vec<Input>,
    /// What happened, the surest first; empty if the evidence names no cause.
    pub verdicts: Vec<Verdict>,
    /// What was checked, and what came of it.
    pub checks: Vec<Check>,
    /// What would tell more.
    pub missing: Vec<Missing>,
    /// Who waits for whom, by recorders and logs: a graph, whose circles and ends are where a job
    /// stands still.
    pub waits: Vec<Wait>,
    /// The first error that no cause explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<FirstError>,
    /// Warnings of NCCL that no table has.
    #[serde(rename = "unknown_warnings")]
    pub unknown: u64,
    /// What ran, by the lines of NCCL, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran: Option<JobFacts>,
    /// Hosts and ranks that differ from most.
    pub oddities: Vec<Oddity>,
    /// What lines say: warnings of NCCL and lines that the tables have, the first 65,536 of them,
    /// if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Told>>,
}

/// What a line says: a warning of NCCL, or a line that the tables have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Told {
    /// The line.
    #[serde(flatten)]
    pub line: Line,
    /// The process that wrote it.
    #[serde(flatten)]
    pub process: Option<Process>,
    /// The file of NCCL and its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The id of the cause that it shows; absent for warnings that no table has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// How sure the line alone makes it: `proved`, `likely` or `possible`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certainty: Option<&'static str>,
    /// The kind of its code: `cuda`, `completion` (InfiniBand) or `xid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

/// An error that no cause explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstError {
    /// The line.
    #[serde(rename = "said")]
    pub line: Line,
    /// The process that wrote it.
    #[serde(flatten)]
    pub process: Option<Process>,
    /// The process's rank in the largest communicator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The file of NCCL and its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What NCCL does there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_place: Option<&'static str>,
    /// What the line means, if the tables have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means: Option<&'static str>,
    /// What to do then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
    /// It only passes on a failure that another line should name.
    #[serde(rename = "passed_on")]
    pub is_passed_on: bool,
}

impl FirstError {
    /// Names the rank of its process.
    pub(crate) fn name_rank(&mut self, log: &Log) {
        self.rank = self.process.as_ref().and_then(|it| rank_of(log, it));
    }
}

/// Most waits of a diagnosis.
pub(crate) const MOST_WAITS: usize = 256;

/// A call that some ranks wait in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wait {
    /// The group of ranks.
    pub group: String,
    /// The call.
    pub call: String,
    /// The ranks that wait in it.
    pub waiting: Vec<u32>,
    /// The ranks for which they wait: those did not call it, or their GPU did not reach it.
    pub awaited: Vec<u32>,
    /// The ranks of which nothing says whether they called it.
    pub unknown: Vec<u32>,
    /// The waits in which awaited ranks are, by their place in this list, from 0.
    pub next: Vec<usize>,
}

/// The kind of a text of which nothing is recognized.
pub(crate) const UNRECOGNIZED: &str = "text";

/// An input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Input {
    /// Its name; `archive: name` in an archive.
    pub name: String,
    /// As what it was read, or why not.
    pub kind: String,
    /// It could be read.
    #[serde(rename = "read")]
    pub is_read: bool,
    /// What it says of the machine or the job, beside the verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
}

/// Evidence that is missing, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// What it would tell.
    pub what: String,
    /// The command, setting or file.
    pub how: String,
}

/// A cause, and why it is named.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Verdict {
    /// The cause.
    #[serde(flatten, serialize_with = "named")]
    #[schemars(with = "Named")]
    pub cause: &'static Cause,
    /// `proved`, `likely` or `possible`.
    #[serde(serialize_with = "name")]
    #[schemars(with = "String")]
    pub certainty: Certainty,
    /// What happened: sentences.
    pub what: String,
    /// The ranks of the job at fault; ranks that wait are not among them.
    pub ranks: Vec<u32>,
    /// The hosts at fault.
    pub hosts: Vec<String>,
    /// The group of ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// The devices at fault: GPUs, NICs, links.
    pub devices: Vec<String>,
    /// The lines that say so.
    #[serde(rename = "evidence")]
    pub lines: Vec<Line>,
    /// What to do.
    pub next: Vec<String>,
    /// Other causes that leave this evidence, at most two; none if it is proved.
    pub alternatives: Vec<Alternative>,
    /// Which of the lines was first, among all inputs; `None`: other evidence than lines.
    #[serde(skip)]
    pub(crate) first: Option<u64>,
    /// The processes at fault, whose ranks the log may name.
    #[serde(skip)]
    pub(crate) processes: Vec<Process>,
    /// The run of the log that it is about, if the log has several.
    #[serde(skip)]
    pub(crate) run: Option<usize>,
}

/// What is said of a verdict's cause.
#[derive(Serialize, JsonSchema)]
struct Named {
    /// The id of the cause, as `topo diagnose --list` has it; ids never change.
    cause: &'static str,
    /// The cause, in a few words.
    title: &'static str,
    /// The versions of NCCL that have this.
    versions: &'static str,
    /// What proves the cause.
    proof: &'static str,
    /// What excludes it.
    excluded: &'static str,
    /// Public threads and documents.
    sources: &'static [&'static str],
}

fn named<S: Serializer>(cause: &&'static Cause, serializer: S) -> Result<S::Ok, S::Error> {
    let named = Named {
        cause: cause.id,
        title: cause.title,
        versions: cause.versions,
        proof: cause.proof,
        excluded: cause.excluded,
        sources: cause.sources,
    };
    named.serialize(serializer)
}

fn name<S: Serializer>(certainty: &Certainty, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(certainty.name())
}

/// A cause that leaves the same evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alternative {
    /// The id of the cause.
    pub cause: &'static str,
    /// The cause, in a few words.
    pub title: &'static str,
    /// What tells it from the verdict's.
    pub tell: &'static str,
}

/// A line of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Line {
    /// The input.
    pub input: String,
    /// Its number, from 1; absent in inputs without lines.
    #[serde(rename = "line", skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Its text, or what a binary input says.
    pub text: String,
}

impl Verdict {
    /// A verdict without places and lines. It advises what the cause does.
    pub fn new(cause: &'static Cause, certainty: Certainty, what: String) -> Self {
        Self {
            cause,
            certainty,
            what,
            ranks: Vec::new(),
            hosts: Vec::new(),
            group: None,
            collective: None,
            devices: Vec::new(),
            lines: Vec::new(),
            next: vec![cause.advice.to_owned()],
            alternatives: Vec::new(),
            first: None,
            processes: Vec::new(),
            run: None,
        }
    }

    /// Notes the run of the log that it is about, by its first line, and says it.
    pub(crate) fn name_run(&mut self, log: &Log) {
        let line = self.lines.first();
        let of_line = line.and_then(|it| Some(log.run_of(&it.input, it.number?)));
        self.run = self.run.or(of_line).filter(|_| !log.runs.is_empty());
        if let Some(run) = self.run {
            let of = log.runs.len();
            self.what = format!("Run {} of {of} in NCCL's log: {}", run + 1, self.what);
        }
    }

    /// Names the ranks of the processes at fault. Of those that lines of NCCL name, none that its
    /// communicators do not have: other evidence counts the ranks of the whole job.
    pub(crate) fn name_ranks(&mut self, log: &Log) {
        let size = log.communicators.iter().map(|it| it.ranks).max();
        let is_of_lines = self.first.is_some();
        self.ranks
            .retain(|it| !is_of_lines || size.is_none_or(|size| *it < size));
        // The address of no host.
        self.hosts.retain(|it| it != "0.0.0.0" && it != "::");
        if self.ranks.is_empty() {
            let ranks = self.processes.iter().filter_map(|it| rank_of(log, it));
            self.ranks.extend(ranks);
        }
    }
}

impl Line {
    /// A line of an input. Its text is cut after 300 characters.
    pub fn new(input: &str, number: impl Into<Option<u64>>, text: &str) -> Self {
        let text = text.trim();
        // Nearly all lines are shorter, whatever their letters.
        let end = match text.len() {
            0..=MOST_LETTERS => None,
            _ => text.char_indices().nth(MOST_LETTERS),
        };
        Self {
            input: input.to_owned(),
            number: number.into(),
            text: text[..end.map_or(text.len(), |it| it.0)].to_owned(),
        }
    }
}

/// Orders verdicts, and removes those that others explain. `has_failed`: a line tells of a failure
/// that is not merely slow.
pub(crate) fn sort(verdicts: &mut Vec<Verdict>, has_failed: bool) {
    for (cause, rougher) in causes::refined() {
        if verdicts.iter().any(|it| it.cause.id == cause) {
            verdicts.retain(|it| it.cause.id != rougher);
        }
    }
    // What only slows a job explains no failure, nor does a guess.
    let slows = |it: &Verdict| causes::rank(it.cause).slows;
    let explains =
        |it: &Verdict| !slows(it) && !is_consequence(it) && it.certainty == Certainty::Proved;
    let explained = verdicts.iter().filter(|it| explains(it));
    let explained: Vec<Option<usize>> = explained.map(|it| it.run).collect();
    // A failure of one run explains nothing in another.
    let is_explained = |it: &Verdict| {
        let runs = explained.iter();
        runs.copied()
            .any(|run| run.is_none() || it.run.is_none() || run == it.run)
    };
    verdicts.retain(|it| !is_consequence(it) || !is_explained(it));
    if has_failed {
        for it in verdicts.iter_mut().filter(|it| slows(it)) {
            it.certainty = Certainty::Possible;
        }
    }
    verdicts.sort_by_key(|it| {
        let rank = causes::rank(it.cause);
        let is_remark = has_failed && rank.slows;
        (
            is_remark,
            it.certainty,
            is_consequence(it),
            rank.row,
            it.first,
        )
    });
}

/// Most causes that are named beside that of a verdict.
const MOST_ALTERNATIVES: usize = 2;

/// Names other causes that leave the evidence of verdicts, unless they are verdicts themselves.
pub(crate) fn name_alternatives(verdicts: &mut [Verdict]) {
    let named: Vec<&Cause> = verdicts.iter().map(|it| it.cause).collect();
    for it in verdicts {
        if it.certainty != Certainty::Proved {
            let others = causes::confused(it.cause).into_iter();
            let others = others.filter(|other| !named.contains(&other.0));
            let others = others.map(|(cause, tell)| Alternative {
                cause: cause.id,
                title: cause.title,
                tell,
            });
            it.alternatives = others.take(MOST_ALTERNATIVES).collect();
        }
    }
}

fn is_consequence(verdict: &Verdict) -> bool {
    verdict.cause.subject == Subject::Consequence
}

/// Numbers as ranges: `0-3, 7`; of many the first ones.
pub fn ranges(numbers: &[u32]) -> String {
    const SHOWN: usize = 8;
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for number in sorted {
        match runs.last_mut() {
            Some(run) if run[1].checked_add(1) == Some(number) => run[1] = number,
            _ => runs.push([number, number]),
        }
    }
    let more = runs.len().saturating_sub(SHOWN);
    let shown = runs
        .iter()
        .take(SHOWN)
        .map(|[first, last]| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `rank 3`, or `ranks 0-3`.
pub fn ranks(numbers: &[u32]) -> String {
    match numbers {
        [only] => format!("rank {only}"),
        _ => format!("ranks {}", ranges(numbers)),
    }
}

/// A text with a capital letter.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
