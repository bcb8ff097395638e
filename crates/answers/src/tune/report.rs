//! Advice to NCCL, as an answer.

use bounds::rings::{Outcome, RingSearch};
use pages::Page;
use plan::certificate::{Operation, UNITS};
use plan::{CostTable, Setting};
use planner::Planned;
use serde::Serialize;

use super::{CollectiveGains, Trial, TriedSetting};
use crate::JsonSchema;
use crate::export::json::{LeftOut, WrittenFile};
use crate::export::{ExportReport, PlannedSet};
use crate::names;
use crate::report::Report;

/// What NCCL can be told to be faster on a machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TuneReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u64,
    /// The version as which it is planned, as the name of its cost profile.
    pub profile: String,
    /// Times come from a cost profile that was fitted to measurements.
    pub fitted: bool,
    /// Messages below this, bytes, may become slower.
    pub from: u64,
    /// NCCL's settings that were given and can change a decision.
    pub settings: Vec<Setting>,
    /// The most that any schedule reaches; empty for one rank.
    pub bounds: Vec<TunedBound>,
    /// NCCL's rings and the best that were found; null if none were searched.
    pub rings: Option<FoundRings>,
    /// Why no rings were searched.
    pub no_rings: Option<String>,
    /// What NCCL can be told; null if nothing makes the job faster.
    pub proposal: Option<Proposal>,
    /// The least and the greatest share of its prediction that any published healthy run reached,
    /// of 1 MiB and more.
    pub shares: [f64; 2],
    /// The gain of the proposal for each collective and size.
    pub gains: Vec<CollectiveGains>,
    /// Everything that was tried.
    pub tried: Vec<Trial>,
    /// The files that were written.
    pub files: Option<WrittenFiles>,
    /// What NCCL libraries decided when they were told so.
    pub checks: Vec<LibraryCheck>,
    /// The job as NCCL plans it now.
    #[serde(skip)]
    pub now: Planned,
    /// Files were asked for.
    #[serde(skip)]
    pub asks_for_files: bool,
}

/// The bound of an operation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TunedBound {
    /// The operation.
    pub operation: Operation,
    /// No schedule exceeds this bus bandwidth, GB/s.
    pub bound_gbps: f64,
    /// Bus bandwidth of NCCL's plan for long messages, GB/s, as NCCL states it.
    pub nccl_gbps: Option<f64>,
    /// Bus bandwidth that trees reach, which `topo run` runs and NCCL cannot, GB/s; null where the
    /// bound is at most 5 % more than NCCL's plan, or no trees were sought.
    pub trees_gbps: Option<f64>,
}

/// Rings of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundRings {
    /// Bandwidth that NCCL states for its rings, GB/s.
    pub stated_gbps: f64,
    /// Bandwidth that they carry, GB/s.
    pub carried_gbps: f64,
    /// Bandwidth of the best rings that were found, GB/s.
    pub best_gbps: f64,
    /// No rings carry more, GB/s.
    pub bound_gbps: f64,
    /// Other rings than NCCL's are better.
    pub better: bool,
}

/// The files that were written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenFiles {
    /// The folder.
    pub folder: String,
    /// The files.
    pub files: Vec<WrittenFile>,
    /// Parts that cannot be exported.
    pub left_out: Vec<LeftOut>,
}

/// What an NCCL library decided with the proposal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LibraryCheck {
    /// The library's file.
    pub library: String,
    /// Its version; null if it could not be asked.
    pub version: Option<String>,
    /// NCCL accepts the files and decides as planned in everything that this version can say.
    pub agrees: bool,
    /// Values that were compared.
    pub values: u64,
    /// Values that differ.
    pub differing: u64,
    /// Why it could not be asked, or what differs first.
    pub why: Option<String>,
}

impl Report for TuneReport {
    const FORMAT: &'static str = "topo-tune";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

/// What NCCL can be told.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Proposal {
    /// Settings beside those that the job has.
    pub settings: Vec<TriedSetting>,
    /// Other rings than NCCL's search finds, in one line; NCCL gets them as a graph file.
    pub rings: Option<String>,
    /// NCCL needs the choices of algorithm and protocol: it does not choose as well by itself.
    pub needs_choices: bool,
    /// The graph file that the job has is not used any more.
    pub drops_graph_file: bool,
    /// The job as NCCL plans it then.
    #[serde(skip)]
    pub planned: Planned,
    /// The costs that decide about algorithms and protocols.
    #[serde(skip)]
    pub choices: CostTable,
}

impl Proposal {
    /// The proposal as a set of GPUs to export.
    pub fn set(&self) -> PlannedSet {
        let plan = self.planned.plan().clone();
        let name = names::job(&plan).replace(['\n', '\r'], " ");
        PlannedSet {
            choices: Some(self.choices.clone()),
            searches: self.rings.is_none(),
            ..PlannedSet::new(name, plan)
        }
    }
}

impl FoundRings {
    pub(super) fn of(found: &RingSearch) -> Self {
        let gbps = |units: u64| units as f64 / f64::from(UNITS);
        Self {
            stated_gbps: gbps(found.stated),
            carried_gbps: gbps(found.carried),
            best_gbps: gbps(found.best),
            bound_gbps: found.bound.per(f64::from(UNITS)),
            better: found.outcome == Outcome::Better,
        }
    }
}

impl WrittenFiles {
    /// The files of an export.
    pub fn of(export: &ExportReport) -> Self {
        Self {
            folder: export.folder.clone(),
            files: export.files.clone(),
            left_out: export.left_out.clone(),
        }
    }
}
