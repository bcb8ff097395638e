//! Costs as JSON.

use crate::JsonSchema;
use plan::cost::{Calls, WindowChoice, WindowMethod};
use plan::{Algorithm, CostTable, Setting, SlowHosts};
use program::{Collective, Protocol};
use serde::Serialize;

use super::transfers::{PairTransfer, Transfers};
use super::{CostAnswer, MeasuredTimes, Sweep};
use crate::measured::MeasuredLinksReport;
use crate::report::Report;

/// Which algorithm and protocol NCCL takes for which size, and the predicted time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CostReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u64,
    /// The hosts that slow the job.
    slow_hosts: Vec<SlowHosts>,
    /// The cost profile.
    profile: String,
    /// NCCL's settings that were given and can change a decision.
    settings: Vec<Setting>,
    /// The calls; absent for a single sum of 32-bit numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallsReport>,
    /// The measured links; absent if none were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredLinksReport>,
    /// The collectives that were asked for.
    collectives: Vec<CollectiveCosts>,
    /// Bandwidth and latency of every algorithm and protocol, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<CostTable>,
}

/// The calls.
#[derive(Debug, Serialize, JsonSchema)]
struct CallsReport {
    /// Equal calls in one group.
    number: u32,
    /// The type of the elements.
    data_type: String,
    /// How they are reduced.
    reduction: String,
    /// How the buffers are registered.
    registration: String,
}

/// One collective.
#[derive(Debug, Serialize, JsonSchema)]
struct CollectiveCosts {
    /// The collective.
    collective: Collective,
    /// The choice for each size; empty if NCCL makes the collective of point-to-point transfers.
    sizes: Vec<SizeCosts>,
    /// Algorithms that NCCL does not have, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alpha_beta: Vec<SizeSchemes>,
    /// The transfers of which NCCL makes the collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<TransfersReport>,
}

/// Point-to-point transfers.
#[derive(Debug, Serialize, JsonSchema)]
struct TransfersReport {
    /// Channels.
    channels: u32,
    /// Channels between two ranks.
    per_peer: u32,
    /// The ranks to which rank 0 sends, in its order.
    order: Vec<u32>,
    /// With more ranks than these, two ranks have fewer channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    fewer_beyond_ranks: Option<u32>,
    /// What is taken for each size.
    sizes: Vec<TransferReport>,
}

/// Transfers of a size.
#[derive(Debug, Serialize, JsonSchema)]
struct TransferReport {
    /// Size of the whole message of a rank.
    bytes: u64,
    /// Bytes for one peer.
    pair_bytes: u64,
    /// To a rank of the same node.
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<PairReport>,
    /// To a rank of another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<PairReport>,
    /// Estimated time, µs.
    time_us: Option<f64>,
}

/// A transfer between two ranks.
#[derive(Debug, Serialize, JsonSchema)]
struct PairReport {
    /// Channels that it uses.
    channels: u32,
    /// The protocol.
    protocol: Protocol,
    /// Bytes of a chunk.
    chunk_bytes: u64,
}

impl TransfersReport {
    fn of(transfers: &Transfers) -> Self {
        let pair = |pair: &PairTransfer| PairReport {
            channels: pair.channels,
            protocol: pair.protocol,
            chunk_bytes: pair.chunk,
        };
        let sizes = transfers.sizes.iter().map(|size| TransferReport {
            bytes: size.bytes,
            pair_bytes: size.pair_bytes,
            local: size.local.as_ref().map(pair),
            remote: size.remote.as_ref().map(pair),
            time_us: size.time_us,
        });
        Self {
            channels: transfers.channels,
            per_peer: transfers.per_peer,
            order: transfers.order.clone(),
            fewer_beyond_ranks: transfers.fewer_beyond.map(|(ranks, _)| ranks),
            sizes: sizes.collect(),
        }
    }
}

/// The choice for a size.
#[derive(Debug, Serialize, JsonSchema)]
struct SizeCosts {
    /// Size of the whole message.
    bytes: u64,
    /// The algorithm or the protocol differs from that of the size before.
    changed: bool,
    /// The second fastest choice.
    runner_up: Option<Candidate>,
    /// Everything that NCCL compares, in its order.
    candidates: Vec<Candidate>,
    /// Why nothing is taken.
    refused: Option<String>,
    /// The choice where the buffers are symmetric windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowReport>,
    /// The times on measured links.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredReport>,
    #[serde(flatten)]
    choice: Option<Choice>,
}

/// The times on measured links.
#[derive(Debug, Serialize, JsonSchema)]
struct MeasuredReport {
    /// Of what NCCL takes, µs.
    time_us: f64,
    /// The fastest of what NCCL compares.
    fastest: Candidate,
}

impl MeasuredReport {
    fn of(times: &MeasuredTimes) -> Self {
        let ((algorithm, protocol), time_us) = times.fastest;
        Self {
            time_us: times.taken.into(),
            fastest: Candidate {
                algorithm,
                protocol,
                time_us: time_us.into(),
            },
        }
    }
}

/// The choice for symmetric windows.
#[derive(Debug, Serialize, JsonSchema)]
struct WindowReport {
    /// The kernel, under NCCL's name; `copy engines` without one.
    kernel: String,
    /// Its thread blocks.
    blocks: u32,
    /// Predicted time, µs; NCCL's model has none for copy engines.
    time_us: Option<f64>,
}

/// An algorithm and a protocol with their time.
#[derive(Debug, Serialize, JsonSchema)]
struct Candidate {
    /// The algorithm.
    algorithm: Algorithm,
    /// The protocol.
    protocol: Protocol,
    /// Predicted time, µs.
    time_us: f64,
}

/// NCCL's choice.
#[derive(Debug, Serialize, JsonSchema)]
struct Choice {
    /// The algorithm.
    algorithm: Algorithm,
    /// The protocol.
    protocol: Protocol,
    /// Channels that a call uses.
    channels: u32,
    /// The first and the last channel of each call of a group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spread: Vec<[u32; 2]>,
    /// Threads of each channel.
    threads: u32,
    /// Predicted time, µs.
    time_us: f64,
    /// Message bytes per time, GB/s.
    algorithm_bandwidth_gbps: Option<f64>,
    /// Bandwidth that nccl-tests call bus bandwidth, GB/s.
    bus_bandwidth_gbps: Option<f64>,
}

/// The algorithms of the α–β model for a size, fastest first.
#[derive(Debug, Serialize, JsonSchema)]
struct SizeSchemes {
    /// Size of the whole message.
    bytes: u64,
    /// All algorithms that have the collective.
    schemes: Vec<SchemeTime>,
}

/// An algorithm of the α–β model.
#[derive(Debug, Serialize, JsonSchema)]
struct SchemeTime {
    /// Its name.
    scheme: String,
    /// Predicted time, µs.
    time_us: f64,
}

impl Report for CostReport {
    const FORMAT: &'static str = "topo-cost";
    const VERSION: u32 = 2;
}

impl CostReport {
    /// The answer; `table` adds bandwidth and latency of every algorithm and protocol.
    pub fn of(answer: &CostAnswer, table: bool) -> Self {
        let job = &answer.job;
        Self {
            name: job.name.clone(),
            hosts: job.plan.request.hosts,
            ranks: job.plan.rank_count(),
            slow_hosts: job.plan.slow_hosts(),
            profile: job.costs.profile.clone(),
            settings: job.plan.settings.clone(),
            calls: CallsReport::of(&answer.calls),
            measured: job
                .measured
                .as_ref()
                .map(|it| MeasuredLinksReport::of(&it.0)),
            collectives: answer.sweeps.iter().map(CollectiveCosts::of).collect(),
            table: table.then(|| job.costs.clone()),
        }
    }
}

impl WindowReport {
    fn of(choice: &WindowChoice) -> Self {
        let (kernel, blocks) = match choice.method {
            WindowMethod::Kernel { kernel, blocks } => (kernel.name(), blocks),
            WindowMethod::CopyEngines => ("copy engines", 0),
        };
        Self {
            kernel: kernel.to_owned(),
            blocks,
            time_us: choice.time_us,
        }
    }
}

impl CallsReport {
    fn of(calls: &Calls) -> Option<Self> {
        (*calls != Calls::ONE).then(|| Self {
            number: calls.number,
            data_type: calls.data_type.to_string(),
            reduction: calls.reduction.to_string(),
            registration: calls.registration.to_string(),
        })
    }
}

impl CollectiveCosts {
    fn of(sweep: &Sweep) -> Self {
        let all = 0..sweep.sizes.len();
        let schemes = sweep.schemes.iter().map(|(bytes, estimates)| SizeSchemes {
            bytes: *bytes,
            schemes: estimates
                .iter()
                .map(|estimate| SchemeTime {
                    scheme: estimate.choice.name().to_owned(),
                    time_us: estimate.time_us,
                })
                .collect(),
        });
        Self {
            collective: sweep.collective,
            sizes: match Collective::TUNED.contains(&sweep.collective) {
                true => all.map(|at| SizeCosts::of(sweep, at)).collect(),
                false => Vec::new(),
            },
            alpha_beta: schemes.collect(),
            transfers: sweep.transfers.as_ref().map(TransfersReport::of),
        }
    }
}

impl SizeCosts {
    fn of(sweep: &Sweep, at: usize) -> Self {
        let size = &sweep.sizes[at];
        let taken = size.choice.as_ref().ok();
        Self {
            bytes: size.bytes,
            changed: sweep.changes(at),
            runner_up: taken
                .and_then(|taken| taken.runner_up)
                .map(|next| Candidate {
                    algorithm: next.choice.0,
                    protocol: next.choice.1,
                    time_us: next.time_us,
                }),
            candidates: size
                .candidates
                .iter()
                .map(|((algorithm, protocol), time_us)| Candidate {
                    algorithm: *algorithm,
                    protocol: *protocol,
                    time_us: f64::from(*time_us),
                })
                .collect(),
            refused: size.choice.as_ref().err().map(ToString::to_string),
            window: size.window.as_ref().map(WindowReport::of),
            measured: size.measured.as_ref().map(MeasuredReport::of),
            choice: taken.map(|taken| Choice {
                algorithm: taken.algorithm,
                protocol: taken.protocol,
                channels: size.used_channels(),
                spread: match &size.spread[..] {
                    [] | [_] => Vec::new(),
                    calls => calls.iter().map(|it| [*it.start(), *it.end()]).collect(),
                },
                threads: taken.warps * 32,
                time_us: taken.time_us.into(),
                algorithm_bandwidth_gbps: taken.algorithm_bandwidth,
                bus_bandwidth_gbps: taken.bus_bandwidth,
            }),
        }
    }
}
