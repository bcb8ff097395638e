//! The communication of a whole step: how long each group's collectives take, what computation
//! waits for, and what the bound would give.
//!
//! In reading order: this file, `places` (the host of each rank), [`shapes`] (communicators that
//! NCCL cannot tell apart), `sharing` (links that they share), [`price`], [`clock`] (the step on
//! a virtual clock), [`memory`], [`measured`] (beside what ran), [`json`].

pub mod clock;
pub mod json;
pub mod measured;
pub mod memory;
mod places;
pub mod price;
pub mod shapes;
mod sharing;

use std::collections::HashMap;

use plan::Algorithm;
use planner::{Job, Planned, Settings};
use program::Collective;
use workload::{Call, MembersError, Workload};

pub use clock::{Span, Timeline};
pub use json::StepReport;
pub use measured::MeasuredCalls;
pub use memory::GroupMemory;
use places::Places;
use price::Pricer;
pub use price::{CallKind, Price};
pub use shapes::{Alike, Shape};

use crate::communicators::Limit;
use crate::names;

/// Which step to price.
#[derive(Debug, Clone)]
pub struct StepQuestion<'a> {
    /// Its calls.
    pub workload: &'a Workload,
    /// Hosts that form an NVLink domain, if several do; the next ones form the next domain.
    pub domain_hosts: u32,
    /// Bytes that each GPU has for communicators; 0: unknown.
    pub room: u64,
}

/// The communication of a step.
#[derive(Debug)]
pub struct StepAnswer {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// The profile of NCCL's version.
    pub profile: String,
    /// The groups, in the order of the workload.
    pub groups: Vec<StepGroup>,
    /// Calls that are alike, those that take most time first.
    pub calls: Vec<StepCall>,
    /// The step of a rank.
    pub timeline: Timeline,
    /// A rank waits so long for other stages of the pipeline, µs.
    pub bubble_us: f64,
    /// What is bounded; that which runs out first is first.
    pub limits: Vec<Limit>,
}

/// A group of ranks and its part of the step.
#[derive(Debug)]
pub struct StepGroup {
    /// Its name.
    pub name: String,
    /// Its communicators, by shape.
    pub alike: Vec<Alike>,
    /// How many times longer the bytes of a message take since its communicators share links.
    pub sharing: f64,
    /// Calls per step.
    pub calls: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Time of all calls, µs.
    pub time_us: f64,
    /// The same by the bounds, of calls that have one, µs.
    pub bound_us: f64,
    /// Time of the calls that have a bound, µs.
    pub bounded_us: f64,
    /// What computation waits for, µs.
    pub exposed_us: f64,
    /// What its communicators allocate.
    pub memory: GroupMemory,
}

/// Calls that are alike.
#[derive(Debug)]
pub struct StepCall {
    /// The kind.
    pub kind: CallKind,
    /// Their name, if all have one.
    pub name: String,
    /// Calls per step.
    pub count: u64,
    /// The price of one, on the communicator for which it is highest.
    pub price: Price,
    /// That communicator: one of those alike of its group.
    pub slowest: usize,
    /// What computation waits for, of all calls, µs.
    pub exposed_us: f64,
    /// What they took, if they ran.
    pub measured: Option<MeasuredCalls>,
}

impl StepCall {
    /// Time of all calls, µs.
    pub fn time_us(&self) -> f64 {
        self.count as f64 * self.price.time_us
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
    #[error("group {group}, {}: {why}", .collective.command_name())]
    NoPrice {
        /// The group.
        group: String,
        /// The collective.
        collective: Collective,
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
) -> Result<StepAnswer, StepError> {
    let workload = question.workload;
    let places = Places::of(job)?;
    if let Some(ranks) = workload.ranks.filter(|it| *it != places.ranks()) {
        return Err(StepError::OtherRanks {
            workload: ranks,
            cluster: places.ranks(),
            hosts: places.hosts(),
        });
    }
    let domain_hosts = match job.nvlink_domain {
        true => question.domain_hosts.max(1),
        false => 1,
    };
    let mut planner = shapes::Planner::new(job, settings);
    let mut groups = Vec::new();
    // By group the plan of each shape.
    let mut plans: Vec<Vec<usize>> = Vec::new();
    for group in &workload.groups {
        let alike = shapes::shapes(&group.name, &group.members, &places, domain_hosts)?;
        let its = alike.iter().map(|it| planner.plan(&group.name, &it.shape));
        let its: Vec<usize> = its.collect::<Result<_, _>>()?;
        let here = its.iter().zip(&alike).filter(|(_, alike)| alike.here > 0);
        let sharing = sharing::sharing(here.map(|(at, _)| &planner.planned[*at]));
        plans.push(its);
        groups.push(StepGroup {
            name: group.name.clone(),
            sharing,
            alike,
            calls: 0,
            bytes: 0,
            time_us: 0.0,
            bound_us: 0.0,
            bounded_us: 0.0,
            exposed_us: 0.0,
            memory: GroupMemory::default(),
        });
    }
    let planned = &planner.planned;
    let (mut calls, of_call) = priced(&groups, workload, planned, &plans)?;
    let times: Vec<f64> = of_call.iter().map(|at| calls[*at].price.time_us).collect();
    let timeline = Timeline::of(workload, &times);
    for (span, at) in timeline.spans.iter().zip(&of_call) {
        calls[*at].exposed_us += span.exposed_us;
    }
    add_up(&mut groups, &calls);
    for (at, group) in groups.iter_mut().enumerate() {
        group.memory = memory_of(at, group, &calls, &plans[at], planned)?;
    }
    measured::add(&mut calls, workload, &of_call);
    calls.sort_by(|a, b| b.time_us().total_cmp(&a.time_us()));
    let bubble = workload.pipeline.map_or(0.0, |it| it.bubble());
    let name = names::few(job.hosts.iter().map(|it| it.name.as_str()), "+");
    Ok(StepAnswer {
        name,
        hosts: places.hosts(),
        ranks: places.ranks(),
        profile: match planned.first() {
            Some(planned) => planned.plan().profile.clone(),
            None => settings.rules.version().profile().to_owned(),
        },
        limits: memory::limits(groups.iter().map(|it| it.memory), question.room),
        groups,
        calls,
        bubble_us: bubble * timeline.micro_batch_us,
        timeline,
    })
}

/// Adds the calls of each group up.
fn add_up(groups: &mut [StepGroup], calls: &[StepCall]) {
    for call in calls {
        let group = &mut groups[call.kind.group];
        let count = call.count as f64;
        group.calls = group.calls.saturating_add(call.count);
        let bytes = call.count.saturating_mul(call.kind.bytes);
        group.bytes = group.bytes.saturating_add(bytes);
        group.time_us += call.time_us();
        group.exposed_us += call.exposed_us;
        if let Some(bound) = call.price.bound_us {
            group.bound_us += count * bound;
            group.bounded_us += call.time_us();
        }
    }
}

/// The kinds of calls with their prices, and the kind of each call.
fn priced(
    groups: &[StepGroup],
    workload: &Workload,
    planned: &[Planned],
    plans: &[Vec<usize>],
) -> Result<(Vec<StepCall>, Vec<usize>), StepError> {
    let mut pricer = Pricer::default();
    let (mut found, mut of_call): (Vec<StepCall>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut known: HashMap<CallKind, usize> = HashMap::new();
    for call in &workload.calls {
        let kind = kind(call);
        let at = match known.get(&kind) {
            Some(at) => *at,
            None => {
                let StepGroup { name, sharing, .. } = &groups[call.group];
                let mut worst: Option<(usize, Price)> = None;
                for (shape, at) in plans[call.group].iter().enumerate() {
                    let price = pricer.price(&planned[*at], *at, &kind, (name, *sharing))?;
                    if worst.is_none_or(|(_, worst)| price.time_us > worst.time_us) {
                        worst = Some((shape, price));
                    }
                }
                let (slowest, price) = worst.ok_or_else(|| StepError::NoPrice {
                    group: name.clone(),
                    collective: call.collective,
                    why: "the group has no communicator; expected at least one".to_owned(),
                })?;
                known.insert(kind, found.len());
                found.push(StepCall {
                    kind,
                    name: call.name.clone(),
                    count: 0,
                    price,
                    slowest,
                    exposed_us: 0.0,
                    measured: None,
                });
                found.len() - 1
            }
        };
        let entry = &mut found[at];
        entry.count = entry.count.saturating_add(call.count);
        if entry.name != call.name {
            entry.name.clear();
        }
        of_call.push(at);
    }
    Ok((found, of_call))
}

const fn kind(call: &Call) -> CallKind {
    CallKind {
        group: call.group,
        collective: call.collective,
        bytes: call.bytes,
        data_type: call.data_type,
        reduction: call.reduction,
    }
}

/// What the communicators of a group allocate for its calls.
fn memory_of(
    at: usize,
    group: &StepGroup,
    calls: &[StepCall],
    plans: &[usize],
    planned: &[Planned],
) -> Result<GroupMemory, plan::Error> {
    let its = || calls.iter().filter(|call| call.kind.group == at);
    let mut algorithms: Vec<Algorithm> = its().filter_map(|it| it.price.algorithm).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let is_transfer = |call: &StepCall| !Collective::TUNED.contains(&call.kind.collective);
    let peers = its().any(is_transfer);
    let plans: Vec<&Planned> = plans.iter().map(|at| &planned[*at]).collect();
    memory::of_group(&group.alike, &plans, &algorithms, peers)
}
