//! The communication of a step, as JSON.

use crate::JsonSchema;
use plan::Algorithm;
use program::{Collective, Protocol};
use serde::Serialize;
use workload::{Tokens, Workload};

use super::calibration::Correction;
use super::placement::Placement;
use super::placement::json::PlacementReport;
use super::{StepAnswer, StepCall, StepGroup};
use crate::communicators::Limit;
use crate::report::Report;

/// The communication of one step on a cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u32,
    /// The profile of NCCL's version.
    profile: String,
    /// Computation and exposed communication of a rank with the bubble of the pipeline, µs.
    step_us: f64,
    /// Computation, µs.
    compute_us: f64,
    /// All communication, µs.
    communication_us: f64,
    /// Communication that computation waits for, µs.
    exposed_us: f64,
    /// A rank waits so long for other stages of the pipeline, µs.
    bubble_us: f64,
    /// The groups, in the order of the workload.
    groups: Vec<GroupReport>,
    /// Calls that are alike, those that take most time first.
    calls: Vec<CallReport>,
    /// What is bounded; that which runs out first is first.
    limits: Vec<Limit>,
    /// What was assumed.
    notes: Vec<String>,
    /// Corrections of predicted times by measurements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calibration: Vec<CorrectionReport>,
    /// The step if all calls were as far from corrected times as measurements that were left out,
    /// µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    range_us: Option<[f64; 2]>,
    /// A better placement, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<PlacementReport>,
}

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
struct GroupReport {
    /// Its name.
    name: String,
    /// Its ranks.
    members: String,
    /// Its communicators that NCCL cannot tell apart.
    communicators: Vec<AlikeReport>,
    /// How many times longer the bytes of a message take since its communicators share links.
    sharing: f64,
    /// The same of the uplinks of leaf switches.
    uplinks: f64,
    /// The same of uplinks in an all-to-all.
    uplinks_in_exchange: f64,
    /// Calls per step.
    calls: u64,
    /// Bytes of all messages.
    bytes: u64,
    /// Time of all calls, µs.
    time_us: f64,
    /// Time by the bounds, of the calls that have one, µs.
    bound_us: f64,
    /// Time of the calls that have a bound, µs.
    bounded_us: f64,
    /// Time that computation waits, µs.
    exposed_us: f64,
    /// Bytes on a GPU for its communicator.
    device_bytes: u64,
    /// Bytes on the host for it.
    host_bytes: u64,
    /// Multicast objects on the first host, or in the first NVLink domain.
    multicast_objects: u32,
}

/// Communicators that are alike.
#[derive(Debug, Serialize, JsonSchema)]
struct AlikeReport {
    /// Communicators.
    number: u32,
    /// Ranks of each.
    ranks: u32,
    /// Hosts of each.
    hosts: u32,
    /// Hosts, or NVLink domains of several, of each.
    machines: u32,
    /// Fewest and most ranks on a host.
    on_a_host: [u32; 2],
    /// The first ranks of the first one.
    first_ranks: Vec<u32>,
}

/// Calls that are alike.
#[derive(Debug, Serialize, JsonSchema)]
struct CallReport {
    /// The group.
    group: String,
    /// Their name, if all have one.
    name: String,
    /// The collective.
    collective: Collective,
    /// An all-to-all that moves tokens in two stages; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<TokensReport>,
    /// Bytes of the whole message; of all copies of tokens.
    bytes: u64,
    /// The type of the elements.
    data_type: String,
    /// How they are reduced.
    reduction: String,
    /// Calls per step.
    count: u64,
    /// The algorithm; absent for point-to-point transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Algorithm>,
    /// The protocol; absent if nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    /// Channels: of all, or between two ranks.
    channels: u32,
    /// The communicator for which it is longest, of those of its group, from 0.
    slowest: usize,
    /// Time of one, µs.
    time_us: f64,
    /// The least and the most, if it is as far from the corrected time as measurements that were
    /// left out, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    range_us: Option<[f64; 2]>,
    /// No schedule takes less, µs.
    bound_us: Option<f64>,
    /// Time of all, µs.
    all_us: f64,
    /// Time that computation waits, µs.
    exposed_us: f64,
    /// What they took, if they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredReport>,
}

/// Tokens that go to experts, or results that come back.
#[derive(Debug, Serialize, JsonSchema)]
struct TokensReport {
    /// `dispatch` or `combine`.
    exchange: &'static str,
    /// Experts of all ranks of a communicator together.
    experts: u32,
    /// Experts of a token.
    top_k: u32,
}

impl TokensReport {
    const fn of(tokens: Tokens) -> Self {
        Self {
            exchange: tokens.direction.name(),
            experts: tokens.experts,
            top_k: tokens.top_k,
        }
    }
}

/// What calls took, without waiting for later ranks where it is known.
#[derive(Debug, Serialize, JsonSchema)]
struct MeasuredReport {
    /// Calls that ran.
    count: usize,
    /// The middle one, µs.
    median_us: f64,
    /// The shortest and the longest, µs.
    range_us: [f64; 2],
    /// What they waited for later ranks besides, all together, µs; null if it is not known.
    waiting_us: Option<f64>,
    /// How much longer the prediction is than the middle one, as a share of that.
    error: f64,
    /// The same of the call for which it is farthest from 0.
    worst_error: f64,
}

/// The correction of the times of a collective, inside hosts or across them.
#[derive(Debug, Serialize, JsonSchema)]
struct CorrectionReport {
    /// The collective.
    collective: Collective,
    /// Whether its communicators have several hosts.
    across: bool,
    /// How many times longer a message of a byte takes than predicted.
    latency: f64,
    /// How many times longer the rest takes.
    rest: f64,
    /// Whether times are also interpolated between measurements.
    interpolated: bool,
    /// Kinds of calls that were measured.
    samples: usize,
    /// Median and worst error of predicted times, as shares of measured ones.
    error: [f64; 2],
    /// The same of corrected times, each by all other measurements; null if there are none.
    held_out_error: [f64; 2],
}

impl CorrectionReport {
    fn of(correction: &Correction) -> Self {
        Self {
            collective: correction.scope.collective,
            across: correction.scope.across,
            latency: correction.latency,
            rest: correction.rest,
            interpolated: !correction.left.is_empty(),
            samples: correction.samples,
            error: correction.before,
            held_out_error: correction.held_out,
        }
    }
}

/// Ranks of a communicator that are named.
const SHOWN_RANKS: usize = 16;

impl Report for StepReport {
    const FORMAT: &'static str = "topo-step";
    const VERSION: u32 = 1;
}

impl StepReport {
    /// The report of an answer.
    pub fn of(answer: &StepAnswer, workload: &Workload) -> Self {
        let groups = answer.groups.iter().zip(&workload.groups);
        Self {
            name: answer.name.clone(),
            hosts: answer.hosts,
            ranks: answer.ranks,
            profile: answer.profile.clone(),
            step_us: answer.step_us(),
            compute_us: answer.timeline.compute_us,
            communication_us: answer.communication_us(),
            exposed_us: answer.timeline.exposed_us,
            bubble_us: answer.bubble_us,
            groups: groups
                .map(|(group, its)| GroupReport::of(group, its.members.to_string()))
                .collect(),
            calls: answer
                .calls
                .iter()
                .map(|call| CallReport::of(call, &answer.groups[call.kind.group].name))
                .collect(),
            limits: answer.limits.clone(),
            notes: workload.notes.clone(),
            calibration: answer
                .calibration
                .corrections
                .iter()
                .map(CorrectionReport::of)
                .collect(),
            range_us: answer.range_us,
            placement: None,
        }
    }

    /// The same with a better placement.
    pub fn with(self, placement: Option<&Placement>) -> Self {
        Self {
            placement: placement.map(PlacementReport::of),
            ..self
        }
    }
}

impl GroupReport {
    fn of(group: &StepGroup, members: String) -> Self {
        let alike = group.alike.iter().map(|alike| {
            let (least, most) = alike.shape.on_a_host();
            AlikeReport {
                number: alike.number,
                ranks: alike.shape.ranks(),
                hosts: alike.shape.hosts(),
                machines: alike.shape.machines(),
                on_a_host: [least, most],
                first_ranks: alike.first.iter().copied().take(SHOWN_RANKS).collect(),
            }
        });
        Self {
            name: group.name.clone(),
            members,
            communicators: alike.collect(),
            sharing: group.sharing.links,
            uplinks: group.sharing.uplinks,
            uplinks_in_exchange: group.sharing.exchange,
            calls: group.calls,
            bytes: group.bytes,
            time_us: group.time_us,
            bound_us: group.bound_us,
            bounded_us: group.bounded_us,
            exposed_us: group.exposed_us,
            device_bytes: group.memory.bytes.device,
            host_bytes: group.memory.bytes.host,
            multicast_objects: group.memory.multicast_objects,
        }
    }
}

impl CallReport {
    fn of(call: &StepCall, group: &str) -> Self {
        Self {
            group: group.to_owned(),
            name: call.name.clone(),
            collective: call.kind.collective,
            tokens: call.kind.tokens.map(TokensReport::of),
            bytes: call.kind.bytes,
            data_type: call.kind.data_type.to_string(),
            reduction: call.kind.reduction.to_string(),
            count: call.count,
            algorithm: call.price.algorithm,
            protocol: call.price.protocol,
            channels: call.price.channels,
            slowest: call.slowest,
            time_us: call.price.time_us,
            range_us: call.price.range_us,
            bound_us: call.price.bound_us,
            all_us: call.time_us(),
            exposed_us: call.exposed_us,
            measured: call.measured.map(|it| MeasuredReport {
                count: it.count,
                median_us: it.median_us,
                range_us: it.range_us,
                waiting_us: it.waiting_us,
                error: it.error,
                worst_error: it.worst,
            }),
        }
    }
}

impl StepAnswer {
    /// All communication, µs.
    pub fn communication_us(&self) -> f64 {
        self.groups.iter().map(|group| group.time_us).sum()
    }

    /// The step with the bubble of the pipeline, µs.
    pub fn step_us(&self) -> f64 {
        self.timeline.end_us + self.bubble_us
    }
}
