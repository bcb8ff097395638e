//! Sizes at which all-reduces of inference servers hand over: vLLM's and SGLang's own kernels read
//! the memory of all GPUs, in one step (one-shot) or in two (a reduce-scatter and an all-gather).
//!
//! With p ranks, α the time of a step and β that of a byte over all of a GPU's links, n bytes take
//! α + (p - 1) n β in one step, and 2 α + 2 (p - 1) / p · n β in two. α and β are those of
//! [`AlphaBeta`]. NCCL's own time is that of its model.

use std::collections::BTreeMap;

use crate::JsonSchema;
use plan::cost::{DataType, TunedOperation};
use plan::{GraphKind, NcclVersion, Plan};
use planner::cost::{AlphaBeta, Calls, CostProfile};
use program::Collective;
use serde::Serialize;

use super::PlannedSet;
use crate::engines::evaluate::{GRAIN, Setup};
use crate::engines::facts::facts;
use crate::engines::host::{Host, Peer};
use crate::report::Report;

/// The file's name.
pub(super) const FILE: &str = "custom_all_reduce.json";

/// Most GPUs whose memory these kernels read.
const MOST_RANKS: u32 = 8;

/// Largest message that is looked at, bytes: the largest of SGLang's thresholds.
pub const LARGEST: u64 = 128 << 20;

/// The sizes of a set of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Crossovers {
    /// The GPUs, such as `0-3,6`.
    pub gpus: String,
    /// Ranks.
    pub ranks: u32,
    /// The GPUs have no NVLinks: the sizes hold only where the driver grants them access to each
    /// other's memory, which no topology file shows (`nvidia-smi topo -p2p r`). Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_peer_access: bool,
    /// One step is fastest below this, bytes.
    pub one_shot_below: u64,
    /// Two steps are fastest from there to below this, bytes; NCCL from here on.
    pub two_shot_below: u64,
    /// Arguments of vLLM's `CustomAllreduce`; absent for 3, 5 and 7 GPUs, which it does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vllm: Option<Vllm>,
    /// Fields of SGLang's `Heuristic` (`custom_all_reduce_v2`), which serves NVLink GPUs alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sglang: Option<Sglang>,
}

/// Arguments of vLLM's `CustomAllreduce`, which takes smaller messages than these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Vllm {
    /// Bytes below which it is taken instead of NCCL.
    pub max_size: u64,
}

/// Fields of SGLang's `Heuristic`: the largest message of each algorithm, bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sglang {
    /// One step that writes.
    pub one_shot_push_threshold: u64,
    /// One step that reads.
    pub one_shot_pull_threshold: u64,
    /// Two steps.
    pub two_shot_pull_threshold: u64,
}

/// The crossovers of all sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CrossoversReport {
    /// Those of each set that such kernels serve.
    pub sets: Vec<Crossovers>,
}

impl Report for CrossoversReport {
    const FORMAT: &'static str = "topo-custom-all-reduce";
    const VERSION: u32 = 1;
}

/// The first multiple of [`GRAIN`] at which something no longer holds that holds for small
/// messages; [`LARGEST`] if it always does.
fn first_without(holds: impl Fn(u64) -> bool) -> u64 {
    let (mut least, mut most) = (0, LARGEST / GRAIN);
    while least < most {
        let middle = least + (most - least) / 2;
        match holds(middle * GRAIN) {
            true => least = middle + 1,
            false => most = middle,
        }
    }
    least * GRAIN
}

/// The engines' facts about a set, or why none of their kernels serves it.
fn host(set: &PlannedSet) -> Result<Host, &'static str> {
    let counts = "kernels of vLLM and SGLang are for 2 to 8 GPUs of one node";
    let costs = set.plan.costs.as_ref().ok_or(counts)?;
    if !(2..=MOST_RANKS).contains(&costs.job.ranks) || costs.job.nodes != 1 {
        return Err(counts);
    }
    Host::of_plan(&set.plan).ok_or(counts)
}

/// Whether an engine's method, in its newest version and without settings, serves GPUs.
fn serves(host: &Host, [engine, method]: [&str; 2]) -> bool {
    let Ok(facts) = facts() else {
        return false;
    };
    let engine = facts.engines.iter().find(|it| it.id == engine);
    engine.is_some_and(|engine| {
        let setup = Setup {
            facts,
            engine,
            version: engine.version(None).0,
            host,
            settings: &BTreeMap::new(),
            linux: true,
            data_type: DataType::Bf16,
            width: 1,
        };
        setup.serves(method)
    })
}

impl Crossovers {
    /// The sizes from which one step and two steps are no longer the fastest, bytes, of GPUs of one
    /// node; `None` if the plan has no costs of rings.
    pub fn modelled(plan: &Plan, calls: Calls) -> Option<[u64; 2]> {
        let costs = plan.costs.as_ref().filter(|it| it.job.nodes == 1)?;
        let ring = plan.common.as_ref()?.graph(GraphKind::Ring)?;
        let (ranks, job) = (costs.job.ranks, &costs.job);
        let version = NcclVersion::of_profile(&plan.profile).unwrap_or_default();
        let profile = CostProfile::of(version);
        let model = AlphaBeta::of_ring(job.nodes, &ring.into(), &profile)?;
        let (alpha, beta) = (model.alpha_us(), 1.0 / (1000.0 * model.bandwidth()));
        let others = f64::from(ranks.checked_sub(1)?);
        let once = |bytes: u64| alpha + others * bytes as f64 * beta;
        let twice =
            |bytes: u64| 2.0 * alpha + 2.0 * others / f64::from(ranks) * bytes as f64 * beta;
        let of_nccl = |bytes: u64| {
            let operation = TunedOperation {
                collective: Collective::AllReduce,
                bytes,
                calls,
            };
            let choice = costs.choose_for(&operation).ok();
            choice.map_or(f64::INFINITY, |choice| f64::from(choice.time_us))
        };
        let two_shot_below = first_without(|bytes| once(bytes).min(twice(bytes)) < of_nccl(bytes));
        let one_shot_below = first_without(|bytes| once(bytes) <= twice(bytes)).min(two_shot_below);
        Some([one_shot_below, two_shot_below])
    }
}

/// The crossovers of a set.
///
/// # Errors
/// These kernels do not serve the set, and why.
pub(super) fn of(set: &PlannedSet, calls: Calls) -> Result<Crossovers, &'static str> {
    let host = host(set)?;
    let [vllm, v1, v2] = [
        ["vllm", "CUSTOM"],
        ["sglang", "CUSTOM v1"],
        ["sglang", "CUSTOM v2"],
    ]
    .map(|it| serves(&host, it));
    if !(vllm || v1 || v2) {
        return Err(match host.peer {
            Peer::None => {
                "the driver grants the GPUs no peer access, so vLLM and SGLang leave them to NCCL"
            }
            _ => "vLLM and SGLang leave more than two GPUs to NCCL unless NVLink joins every pair",
        });
    }
    let sizes = Crossovers::modelled(&set.plan, calls);
    let [one_shot_below, two_shot_below] = sizes.ok_or("the plan has no costs of rings")?;
    let largest = |below: u64| below.saturating_sub(GRAIN);
    Ok(Crossovers {
        gpus: set.gpus.clone(),
        ranks: host.ranks,
        needs_peer_access: !host.nvlink,
        one_shot_below,
        two_shot_below,
        vllm: vllm.then_some(Vllm {
            max_size: two_shot_below,
        }),
        sglang: v2.then(|| Sglang {
            one_shot_push_threshold: largest(one_shot_below),
            one_shot_pull_threshold: largest(one_shot_below),
            two_shot_pull_threshold: largest(two_shot_below),
        }),
    })
}
