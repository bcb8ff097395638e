//! The choice of algorithm and protocol for each size, and its time.
//!
//! In reading order: `question`, this file, [`forest`], [`transfers`], `page`.

pub mod beside;
pub mod forest;
mod page;
mod question;
pub mod transfers;

use pages::Page;
use plan::cost::choose::AlgorithmProtocol;
use plan::cost::{Calls, Candidate, NoChoice, TunedOperation, WindowChoice};
use plan::{
    Algorithm, CostTable, DecidingAssumption, GraphKind, NcclVersion, Plan, Setting, SlowHosts,
};
use planner::Planned;
use planner::cost::{AlphaBeta, CostProfile};
use program::{Collective, Protocol};
use serde::Serialize;

use crate::JsonSchema;
use crate::measured::{MeasuredLinks, OnMeasured};
use crate::names;
use crate::report::Report;
use forest::ForestCost;
pub use question::{CallOptions, CostQuestion, ElementOptions};
use transfers::Transfers;

/// A job with its costs.
#[derive(Debug)]
pub struct PricedJob {
    /// Names of the machines.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// The plan's costs, of the algorithms and protocols that were asked for.
    pub costs: CostTable,
    /// The α–β model of the same job, where it is known.
    pub alpha_beta: Option<AlphaBeta>,
    /// The measured links, with the costs of NCCL's channels on them.
    pub measured: Option<(MeasuredLinks, CostTable)>,
    /// The assumptions that decide.
    pub assumptions: Vec<DecidingAssumption>,
}

/// Which algorithm and protocol NCCL takes for which size, and the predicted time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CostReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u64,
    /// The hosts that slow the job.
    pub slow_hosts: Vec<SlowHosts>,
    /// The cost profile.
    pub profile: String,
    /// NCCL's settings that were given and can change a decision.
    pub settings: Vec<Setting>,
    /// The calls; absent for a single sum of 32-bit numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// The measured links; absent if none were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredLinks>,
    /// The collectives that were asked for.
    pub collectives: Vec<CollectiveCosts>,
    /// Bandwidth and latency of every algorithm and protocol, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<CostTable>,
    /// The assumptions that decide; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<DecidingAssumption>,
    /// The job.
    #[serde(skip)]
    pub job: PricedJob,
}

/// One collective.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectiveCosts {
    /// The collective.
    pub collective: Collective,
    /// The choice for each size; empty if NCCL makes the collective of point-to-point transfers.
    pub sizes: Vec<SizeCosts>,
    /// The transfers of which NCCL makes the collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// The costs of the plan's trees, if it has any.
    #[serde(skip)]
    forest: Option<ForestCost>,
}

/// The choice for a size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SizeCosts {
    /// Size of the whole message.
    pub bytes: u64,
    /// The algorithm or the protocol differs from that of the size before.
    pub changed: bool,
    /// The second fastest choice.
    pub runner_up: Option<Candidate>,
    /// Everything that NCCL compares, in its order.
    pub candidates: Vec<Candidate>,
    /// Why nothing is taken.
    pub refused: Option<String>,
    /// The choice where the buffers are symmetric windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowChoice>,
    /// The times on measured links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredTimes>,
    /// NCCL's choice.
    #[serde(flatten)]
    pub choice: Option<Choice>,
}

/// The times on measured links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredTimes {
    /// Of what NCCL takes, µs.
    pub time_us: f64,
    /// The fastest of what NCCL compares.
    pub fastest: Candidate,
}

/// NCCL's choice.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels that a call uses.
    pub channels: u32,
    /// The first and the last channel of each call of a group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<[u32; 2]>,
    /// Threads of each channel.
    pub threads: u32,
    /// Predicted time, µs.
    pub time_us: f64,
    /// Message bytes per time, GB/s.
    pub algorithm_bandwidth_gbps: Option<f64>,
    /// Bandwidth that nccl-tests call bus bandwidth, GB/s.
    pub bus_bandwidth_gbps: Option<f64>,
}

impl Report for CostReport {
    const FORMAT: &'static str = "topo-cost";
    const VERSION: u32 = 3;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

/// Why there are no costs.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// The plan was made without costs.
    #[error("{0} is a plan without a cost table; expected one that was written with its costs")]
    NoTable(String),
    /// No collective has a choice at any size.
    #[error("{0}: {1}")]
    NothingToChoose(String, NoChoice),
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// There are too many sizes.
    #[error("{0}")]
    Sizes(String),
}

impl PricedJob {
    /// A job that was planned with a cost profile; none: that of its version.
    pub fn of(planned: &Planned, profile: Option<&CostProfile>) -> Self {
        let plan = planned.plan();
        let built_in;
        let profile = match profile {
            Some(profile) => profile,
            None => {
                built_in = CostProfile::of(planned.version());
                &built_in
            }
        };
        Self {
            name: names::job(plan),
            plan: plan.clone(),
            alpha_beta: AlphaBeta::of(&planned.job.cost_inputs(), profile),
            costs: planned.costs.clone(),
            measured: None,
            assumptions: Vec::new(),
        }
    }

    /// The same job with the assumptions that decide.
    #[must_use]
    pub fn with_assumptions(self, assumptions: &[DecidingAssumption]) -> Self {
        Self {
            assumptions: assumptions.to_vec(),
            ..self
        }
    }

    /// The same job, also priced on measured links.
    #[must_use]
    pub fn on_measured(self, measured: &OnMeasured) -> Self {
        Self {
            measured: Some((measured.links.clone(), measured.costs.clone())),
            ..self
        }
    }

    /// The times of an operation on measured links.
    fn measured_times(
        &self,
        operation: &TunedOperation,
        taken: AlgorithmProtocol,
    ) -> Option<MeasuredTimes> {
        let (_, costs) = self.measured.as_ref()?;
        let compared = self.costs.entries.iter();
        let compared: Vec<AlgorithmProtocol> = compared
            .map(|entry| (entry.algorithm, entry.protocol))
            .collect();
        let mut times = costs.candidates(operation);
        times.retain(|(choice, _)| compared.contains(choice));
        let fastest = times.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        Some(MeasuredTimes {
            time_us: times.iter().find(|it| it.0 == taken)?.1.into(),
            fastest: (*fastest?).into(),
        })
    }

    /// A plan with the costs that it was made with. `name` is its name.
    ///
    /// # Errors
    /// It has none.
    pub fn of_plan(name: String, plan: Plan) -> Result<Self, CostError> {
        let version = NcclVersion::of_profile(&plan.profile).unwrap_or_default();
        let costs = plan.costs.clone();
        let costs = costs.ok_or_else(|| CostError::NoTable(name.clone()))?;
        let common = plan.common.as_ref();
        let ring = common.and_then(|common| common.graph(GraphKind::Ring));
        let alpha_beta = ring.and_then(|ring| {
            let profile = CostProfile::of(version);
            AlphaBeta::of_ring(costs.job.nodes, &ring.into(), &profile)
        });
        Ok(Self {
            name,
            plan,
            costs,
            alpha_beta,
            measured: None,
            assumptions: Vec::new(),
        })
    }

    /// Prices collectives.
    ///
    /// # Errors
    /// No collective has a choice at any size, nor is made of transfers; or there are too many
    /// sizes.
    pub fn ask(mut self, question: &CostQuestion) -> Result<CostReport, CostError> {
        let (algorithms, protocols) = (&question.algorithm, &question.protocol);
        let sizes = question.sizes().map_err(CostError::Sizes)?;
        let calls = question.calls.calls();
        self.costs.entries.retain(|entry| {
            (algorithms.is_empty() || algorithms.contains(&entry.algorithm))
                && (protocols.is_empty() || protocols.contains(&entry.protocol))
        });
        let mut refusal = None;
        let mut collectives = Vec::new();
        for collective in question.collectives() {
            collectives.push(self.collective(collective, &sizes, calls, &mut refusal)?);
        }
        let chosen = |it: &CollectiveCosts| {
            it.transfers.is_some() || it.sizes.iter().any(|size| size.choice.is_some())
        };
        if let Some(problem) =
            refusal.filter(|_| !question.table && !collectives.iter().any(chosen))
        {
            return Err(CostError::NothingToChoose(self.name, problem));
        }
        for found in &mut collectives {
            if !Collective::TUNED.contains(&found.collective) {
                found.sizes.clear();
            }
        }
        let measured = self.measured.as_ref();
        Ok(CostReport {
            name: self.name.clone(),
            hosts: self.plan.request.hosts,
            ranks: self.plan.rank_count(),
            slow_hosts: self.plan.slow_hosts(),
            profile: self.costs.profile.clone(),
            settings: self.plan.settings.clone(),
            calls: (calls != Calls::ONE).then_some(calls),
            measured: measured.map(|it| it.0.clone()),
            collectives,
            table: question.table.then(|| self.costs.clone()),
            assumptions: std::mem::take(&mut self.assumptions),
            job: self,
        })
    }

    fn collective(
        &self,
        collective: Collective,
        all: &[u64],
        calls: Calls,
        refusal: &mut Option<NoChoice>,
    ) -> Result<CollectiveCosts, CostError> {
        let mut sizes: Vec<SizeCosts> = Vec::new();
        for bytes in all {
            let operation = TunedOperation {
                collective,
                bytes: *bytes,
                calls,
            };
            let mut size = self.size(&operation, refusal);
            let taken = |it: &SizeCosts| {
                let choice = it.choice.as_ref();
                choice.map(|choice| (choice.algorithm, choice.protocol))
            };
            let before = sizes.last();
            size.changed = before.is_some_and(|before| taken(before) != taken(&size));
            sizes.push(size);
        }
        let model = self.alpha_beta.as_ref();
        Ok(CollectiveCosts {
            collective,
            sizes,
            forest: ForestCost::of(&self.plan, collective),
            transfers: Transfers::of(&self.plan, model, collective, all)?,
        })
    }

    fn size(&self, operation: &TunedOperation, refusal: &mut Option<NoChoice>) -> SizeCosts {
        let choice = self.costs.choose_for(operation);
        let refused = choice.as_ref().err();
        if refusal.is_none() {
            *refusal = refused.copied();
        }
        let taken = choice.as_ref().ok();
        SizeCosts {
            bytes: operation.bytes,
            changed: false,
            runner_up: taken.and_then(|taken| taken.runner_up),
            candidates: {
                let compared = self.costs.candidates(operation).into_iter();
                compared.map(Candidate::from).collect()
            },
            refused: refused.map(ToString::to_string),
            window: self.costs.window_choice(operation),
            measured: taken
                .and_then(|it| self.measured_times(operation, (it.algorithm, it.protocol))),
            choice: taken.map(|taken| {
                let spread = self.costs.spread(taken);
                let most = spread.iter().map(|it| it.clone().count() as u32).max();
                Choice {
                    algorithm: taken.algorithm,
                    protocol: taken.protocol,
                    channels: most.unwrap_or(0),
                    spread: match &spread[..] {
                        [] | [_] => Vec::new(),
                        calls => calls.iter().map(|it| [*it.start(), *it.end()]).collect(),
                    },
                    threads: taken.warps * 32,
                    time_us: taken.time_us.into(),
                    algorithm_bandwidth_gbps: taken.algorithm_bandwidth,
                    bus_bandwidth_gbps: taken.bus_bandwidth,
                }
            }),
        }
    }
}
