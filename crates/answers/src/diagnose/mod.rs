//! The reasons why a job hangs or fails, as JSON, the causes that are known, and the planner's
//! price of a call that did not end.

mod price;

use crate::JsonSchema;
use diagnose::{Diagnosis, FirstError, Line, Verdict, Wait};
use findings::causes::Cause;
use serde::Serialize;

use crate::report::Report;
pub use price::Prices;

/// Why a job hangs or fails.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DiagnoseReport<'a> {
    /// The inputs.
    inputs: Vec<InputRow<'a>>,
    /// What happened, the surest first; empty if the evidence names no cause.
    verdicts: Vec<VerdictRow<'a>>,
    /// What would tell more.
    missing: Vec<MissingRow<'a>>,
    /// Who waits for whom, by recorders and logs: a graph, whose circles and ends are where a job
    /// stands still.
    waits: Vec<WaitRow<'a>>,
    /// The first error that no cause explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<FirstErrorRow<'a>>,
    /// Warnings of NCCL that no table has.
    unknown_warnings: u64,
}

/// An error that no cause explains.
#[derive(Debug, Serialize, JsonSchema)]
struct FirstErrorRow<'a> {
    /// The line.
    said: LineRow<'a>,
    /// The host that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    /// The process that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    /// The process's number of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<u32>,
    /// The process's rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    /// The file of NCCL and its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    /// What NCCL does there.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_place: Option<&'static str>,
    /// What the line means, if the tables have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    /// What to do then.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    /// It only passes on a failure that another line should name.
    passed_on: bool,
}

/// A call that some ranks wait in.
#[derive(Debug, Serialize, JsonSchema)]
struct WaitRow<'a> {
    /// The group of ranks.
    group: &'a str,
    /// The call.
    call: &'a str,
    /// The ranks that wait in it.
    waiting: &'a [u32],
    /// The ranks for which they wait: those did not call it, or their GPU did not reach it.
    awaited: &'a [u32],
    /// The ranks of which nothing says whether they called it.
    unknown: &'a [u32],
    /// The waits in which awaited ranks are, by their place in this list, from 0.
    next: &'a [usize],
}

/// An input.
#[derive(Debug, Serialize, JsonSchema)]
struct InputRow<'a> {
    /// Its name; `archive: name` in an archive.
    name: &'a str,
    /// As what it was read, or why not.
    kind: &'a str,
    /// It could be read.
    read: bool,
}

/// What happened.
#[derive(Debug, Serialize, JsonSchema)]
struct VerdictRow<'a> {
    /// The id of the cause, as `topo diagnose --list` has it; ids never change.
    cause: &'static str,
    /// The cause, in a few words.
    title: &'static str,
    /// `proved`, `likely` or `possible`.
    certainty: &'static str,
    /// What happened: sentences.
    what: &'a str,
    /// The ranks of the job at fault; ranks that wait are not among them.
    ranks: &'a [u32],
    /// The hosts at fault.
    hosts: &'a [String],
    /// The group of ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    /// The collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<&'a str>,
    /// The devices at fault.
    devices: &'a [String],
    /// The lines that say so.
    evidence: Vec<LineRow<'a>>,
    /// What to do.
    next: &'a [String],
    /// Other causes that leave this evidence, at most two; none if it is proved.
    alternatives: Vec<AlternativeRow>,
    /// The versions of NCCL that have this.
    versions: &'static str,
    /// What proves the cause.
    proof: &'static str,
    /// What excludes it.
    excluded: &'static str,
    /// Public threads and documents.
    sources: &'static [&'static str],
}

/// A cause that leaves the same evidence.
#[derive(Debug, Serialize, JsonSchema)]
struct AlternativeRow {
    /// The id of the cause.
    cause: &'static str,
    /// The cause, in a few words.
    title: &'static str,
    /// What tells it from the verdict's.
    tell: &'static str,
}

/// A line of evidence.
#[derive(Debug, Serialize, JsonSchema)]
struct LineRow<'a> {
    /// The input.
    input: &'a str,
    /// Its number, from 1; absent in inputs without lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Its text, or what a binary input says.
    text: &'a str,
}

/// Evidence that is missing.
#[derive(Debug, Serialize, JsonSchema)]
struct MissingRow<'a> {
    /// What it would tell.
    what: &'a str,
    /// The command, setting or file.
    how: &'a str,
}

impl Report for DiagnoseReport<'_> {
    const FORMAT: &'static str = "topo-diagnose";
    const VERSION: u32 = 1;
}

impl<'a> DiagnoseReport<'a> {
    /// The report of a diagnosis.
    pub fn of(diagnosis: &'a Diagnosis) -> Self {
        let inputs = diagnosis.inputs.iter().map(|it| InputRow {
            name: &it.name,
            kind: &it.kind,
            read: it.is_read,
        });
        let missing = diagnosis.missing.iter().map(|it| MissingRow {
            what: &it.what,
            how: &it.how,
        });
        Self {
            inputs: inputs.collect(),
            verdicts: diagnosis.verdicts.iter().map(verdict).collect(),
            missing: missing.collect(),
            waits: diagnosis.waits.iter().map(wait).collect(),
            first_error: diagnosis.first_error.as_ref().map(first_error),
            unknown_warnings: diagnosis.unknown,
        }
    }
}

fn wait(it: &Wait) -> WaitRow<'_> {
    WaitRow {
        group: &it.group,
        call: &it.call,
        waiting: &it.waiting,
        awaited: &it.awaited,
        unknown: &it.unknown,
        next: &it.next,
    }
}

fn first_error(it: &FirstError) -> FirstErrorRow<'_> {
    FirstErrorRow {
        said: line(&it.line),
        host: it.process.as_ref().map(|it| it.0.as_str()),
        process: it.process.as_ref().map(|it| it.1),
        gpu: it.process.as_ref().and_then(|it| it.2),
        rank: it.rank,
        place: it.place.as_deref(),
        of_place: it.of_place,
        means: it.means.map(|it| it.0),
        advice: it.means.map(|it| it.1),
        passed_on: it.is_passed_on,
    }
}

fn line(it: &Line) -> LineRow<'_> {
    LineRow {
        input: &it.input,
        line: it.number,
        text: &it.text,
    }
}

fn verdict(it: &Verdict) -> VerdictRow<'_> {
    VerdictRow {
        cause: it.cause.id,
        title: it.cause.title,
        certainty: it.certainty.name(),
        what: &it.what,
        ranks: &it.ranks,
        hosts: &it.hosts,
        group: it.group.as_deref(),
        collective: it.collective.as_deref(),
        devices: &it.devices,
        evidence: it.lines.iter().map(line).collect(),
        next: &it.next,
        alternatives: it.alternatives.iter().map(alternative).collect(),
        versions: it.cause.versions,
        proof: it.cause.proof,
        excluded: it.cause.excluded,
        sources: it.cause.sources,
    }
}

fn alternative(&(cause, tell): &(&'static Cause, &'static str)) -> AlternativeRow {
    AlternativeRow {
        cause: cause.id,
        title: cause.title,
        tell,
    }
}

/// The causes that `topo diagnose` names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CausesReport {
    /// The causes, by subject.
    causes: Vec<CauseRow>,
}

/// A cause.
#[derive(Debug, Serialize, JsonSchema)]
struct CauseRow {
    /// Its id; ids never change.
    id: &'static str,
    /// Its subject.
    subject: &'static str,
    /// The problem, in a few words.
    title: &'static str,
    /// What it means.
    means: &'static str,
    /// What to do.
    advice: &'static str,
    /// The versions of NCCL that have it.
    versions: &'static str,
    /// Words of lines that show it: all of a list, in one line.
    signs: Vec<&'static [&'static str]>,
    /// What proves it.
    proof: &'static str,
    /// What excludes it.
    excluded: &'static str,
    /// Why no evidence that jobs leave shows it, so that `topo diagnose` never names it.
    #[serde(skip_serializing_if = "str::is_empty")]
    unseen: &'static str,
    /// Public threads and documents.
    sources: &'static [&'static str],
}

impl Report for CausesReport {
    const FORMAT: &'static str = "topo-causes";
    const VERSION: u32 = 1;
}

impl CausesReport {
    /// All causes.
    pub fn all() -> Self {
        let row = |it: &'static Cause| CauseRow {
            id: it.id,
            subject: it.subject.name(),
            title: it.title,
            means: it.means,
            advice: it.advice,
            versions: it.versions,
            signs: it.signs.iter().map(|it| it.words).collect(),
            proof: it.proof,
            excluded: it.excluded,
            unseen: it.unseen,
            sources: it.sources,
        };
        Self {
            causes: findings::causes::all().map(row).collect(),
        }
    }
}
