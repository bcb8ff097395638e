//! The communication of a whole step: how long each group's collectives take, what computation
//! waits for, and what the bound would give.
//!
//! In reading order: this file, `places` (the host of each rank), [`shapes`] (communicators that
//! NCCL cannot tell apart), `sharing` (links that they share), [`price`], `exchanges` (tokens to
//! experts), [`calibration`] (times corrected by measurements), `samples` (what corrections are
//! made of), `pricing` (all of these), [`clock`] (the step on a virtual clock), [`memory`],
//! [`measured`] (beside what ran), `page`, [`beside`] (several clusters), [`picture`],
//! [`trace`], [`placement`], [`request`].

pub mod beside;
pub mod calibration;
pub mod clock;
mod exchanges;
pub mod measured;
pub mod memory;
mod page;
pub mod picture;
pub mod placement;
mod places;
pub mod price;
mod pricing;
pub mod request;
mod samples;
pub mod shapes;
mod sharing;
pub mod trace;

use pages::{Field, Page};
use planner::{Job, Settings};
use serde::Serialize;
use simulator::fabric::Leaf;
use workload::{MembersError, Workload};

pub use calibration::{Calibration, Correction, Measurements};
pub use clock::{Span, Timeline};
pub use measured::MeasuredCalls;
pub use memory::GroupMemory;
use places::Places;
pub use price::{CallKind, Price};
pub use shapes::Alike;

use crate::JsonSchema;
use crate::communicators::Limit;
use crate::report::Report;
use placement::Placement;
use pricing::Pricing;
pub use sharing::Sharing;

/// Which step to price.
#[derive(Debug, Clone)]
pub struct StepQuestion<'a> {
    /// Its calls.
    pub workload: &'a Workload,
    /// Hosts that form an NVLink domain, if several do; the next ones form the next domain.
    pub domain_hosts: u32,
    /// Bytes that each GPU has for communicators; 0: unknown.
    pub room: u64,
    /// Leaf switches between the hosts; none: a network without contention.
    pub leaf: Option<&'a Leaf>,
    /// Measurements of the cluster, which correct times.
    pub measurements: Option<&'a Measurements>,
}

/// The communication of one step on a cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// The profile of NCCL's version.
    pub profile: String,
    /// Computation and exposed communication of a rank with the bubble of the pipeline, µs.
    pub step_us: f64,
    /// Computation, µs.
    pub compute_us: f64,
    /// All communication, µs.
    pub communication_us: f64,
    /// Communication that computation waits for, µs.
    pub exposed_us: f64,
    /// A rank waits so long for other stages of the pipeline, µs.
    pub bubble_us: f64,
    /// The groups, in the order of the workload.
    pub groups: Vec<StepGroup>,
    /// Calls that are alike, those that take most time first.
    pub calls: Vec<StepCall>,
    /// What is bounded; that which runs out first is first.
    pub limits: Vec<Limit>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// Corrections of predicted times by measurements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Correction>,
    /// The step if all calls were as far from corrected times as measurements that were left out,
    /// µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_us: Option<[f64; 2]>,
    /// A better placement, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The step of a rank.
    #[serde(skip)]
    pub timeline: Timeline,
    /// NCCL's settings, as lines of a page's head.
    #[serde(skip)]
    settings: Vec<Field>,
    /// Measurements of the cluster correct times.
    #[serde(skip)]
    is_measured: bool,
}

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepGroup {
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub members: String,
    /// Its communicators that NCCL cannot tell apart.
    #[serde(rename = "communicators")]
    pub alike: Vec<Alike>,
    /// How much longer messages take since its communicators share links.
    #[serde(flatten)]
    pub sharing: Sharing,
    /// Calls per step.
    pub calls: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Time of all calls, µs.
    pub time_us: f64,
    /// Time by the bounds, of the calls that have one, µs.
    pub bound_us: f64,
    /// Time of the calls that have a bound, µs.
    pub bounded_us: f64,
    /// Time that computation waits, µs.
    pub exposed_us: f64,
    /// What its communicators allocate.
    #[serde(flatten)]
    pub memory: GroupMemory,
}

/// Calls that are alike.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepCall {
    /// The group.
    pub group: String,
    /// Their name, if all have one.
    pub name: String,
    /// The kind.
    #[serde(flatten)]
    pub kind: CallKind,
    /// Calls per step.
    pub count: u64,
    /// The price of one, on the communicator for which it is highest.
    #[serde(flatten)]
    pub price: Price,
    /// Time of all, µs.
    pub all_us: f64,
    /// Time that computation waits, µs.
    pub exposed_us: f64,
    /// What they took, if they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredCalls>,
}

/// Kinds of calls on the page, unless another number is asked for.
const SHOWN_CALLS: usize = 40;

impl Report for StepReport {
    const FORMAT: &'static str = "topo-step";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page(SHOWN_CALLS, &[]))
    }
}

/// Why a step has no price.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A file describes several hosts.
    #[error(
        "the file describes several hosts of an NVLink domain; a step needs the file of one, with a number of hosts"
    )]
    SeveralHosts,
    /// The job is too large.
    #[error("the job has {ranks} ranks; expected at most {}", places::MOST_RANKS)]
    TooManyRanks {
        /// Ranks of the job.
        ranks: u64,
    },
    /// The workload is of another job.
    #[error("the workload is of {workload} ranks and the cluster has {cluster}; expected {}", expected(*.workload, *.cluster, *.hosts))]
    OtherRanks {
        /// Ranks of the workload.
        workload: u32,
        /// Ranks of the cluster.
        cluster: u32,
        /// Hosts of the cluster.
        hosts: u32,
    },
    /// Ranks of hosts that differ cannot be placed.
    #[error("the hosts of the cluster differ; a placement needs equal hosts")]
    UnequalHosts,
    /// A table was measured on more ranks.
    #[error(
        "{file} was measured on {measured} ranks and the cluster has {cluster}; expected at most as many"
    )]
    MeasuredRanks {
        /// The file.
        file: String,
        /// Ranks that were measured.
        measured: u32,
        /// Ranks of the cluster.
        cluster: u32,
    },
    /// Some ranks of a communicator did not write their times.
    #[error(
        "{file}: NCCL's Inspector wrote the times of {known} of {ranks} ranks, and those that wait for the others take \
         longer; expected the files of all of them"
    )]
    MeasuredPart {
        /// The file.
        file: String,
        /// Ranks that wrote.
        known: u32,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// Communicators do not fit the job.
    #[error("group {group}: {why}")]
    Members {
        /// The group.
        group: String,
        /// Why.
        why: MembersError,
    },
    /// Communicators lie too differently.
    #[error(
        "the communicators of group {group} lie in more than {most} different ways on the hosts; expected fewer"
    )]
    TooManyShapes {
        /// The group.
        group: String,
        /// The most.
        most: usize,
    },
    /// NCCL refuses a communicator.
    #[error("a communicator of group {group}: {why}")]
    Refused {
        /// The group.
        group: String,
        /// NCCL's reason.
        why: Box<planner::Error>,
    },
    /// A call has no price.
    #[error("group {group}, {operation}: {why}")]
    NoPrice {
        /// The group.
        group: String,
        /// The collective, or the exchange.
        operation: &'static str,
        /// Why.
        why: String,
    },
    /// The order of ranks does not fit the job.
    #[error(transparent)]
    Order(#[from] plan::OrderError),
    /// A plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] plan::Error),
}

/// What would fit a workload.
fn expected(workload: u32, cluster: u32, hosts: u32) -> String {
    let each = cluster / hosts.max(1);
    match each > 0 && cluster == each * hosts && workload.is_multiple_of(each) {
        true => format!("{} such hosts", workload / each),
        false => "as many GPUs as ranks".to_owned(),
    }
}

/// Ranks of a job, whose plan is not needed.
///
/// # Errors
/// The job is too large, or its order of ranks does not fit.
pub fn ranks(job: &Job) -> Result<u32, StepError> {
    Ok(Places::of(job)?.ranks())
}

/// Prices a step on a job.
///
/// # Errors
/// The workload does not fit the job, or NCCL refuses a communicator or a call.
pub fn step(
    job: &Job,
    settings: &Settings,
    question: &StepQuestion<'_>,
) -> Result<StepReport, StepError> {
    let places = Places::of(job)?;
    let mut pricing = Pricing::new(job, settings, question);
    pricing.begin(&places)?;
    pricing.answer(&places)
}
