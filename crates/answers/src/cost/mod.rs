//! The choice of algorithm and protocol for each size, and its time.
//!
//! In reading order: this file, [`forest`], [`transfers`], [`json`].

pub mod forest;
pub mod json;
pub mod transfers;

use std::ops::RangeInclusive;

use plan::cost::choose::AlgorithmProtocol;
use plan::cost::{
    Calls, CostModel, Estimate, NoChoice, OperationChoice, TunedOperation, WindowChoice,
};
use plan::{Algorithm, CostTable, GraphKind, Plan};
use planner::cost::{AlphaBeta, CostProfile, Scheme};
use planner::{NcclVersion, Planned};
use program::{Collective, Protocol};

use crate::measured::{MeasuredLinks, OnMeasured};
use crate::names;
use forest::ForestCost;
pub use json::CostReport;
use transfers::Transfers;

/// A question about costs.
#[derive(Debug, Clone, Default)]
pub struct CostQuestion {
    /// The collectives; each once.
    pub collectives: Vec<Collective>,
    /// Sizes of the whole message, bytes, ascending.
    pub sizes: Vec<u64>,
    /// How often, with which type and operation each is called.
    pub calls: Calls,
    /// Only these algorithms; none: all.
    pub algorithms: Vec<Algorithm>,
    /// Only these protocols; none: all.
    pub protocols: Vec<Protocol>,
    /// Also algorithms that NCCL does not have, by the α–β model.
    pub alpha_beta: bool,
}

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
}

/// The times of a size on measured links, µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredTimes {
    /// Of what NCCL takes.
    pub taken: f32,
    /// The fastest of what NCCL compares, and its time.
    pub fastest: (AlgorithmProtocol, f32),
}

/// The choice for a size, with its time.
#[derive(Debug)]
pub struct SizeCost {
    /// Size of the whole message, bytes.
    pub bytes: u64,
    /// The choice, or why there is none.
    pub choice: Result<OperationChoice, NoChoice>,
    /// Equal calls of this size in a group.
    pub calls: u32,
    /// The choice where the buffers are symmetric windows.
    pub window: Option<WindowChoice>,
    /// The channels that each call really uses.
    pub spread: Vec<RangeInclusive<u32>>,
    /// Everything that NCCL compares, in its order, with the times, µs.
    pub candidates: Vec<(AlgorithmProtocol, f32)>,
    /// The times on measured links, if there are any.
    pub measured: Option<MeasuredTimes>,
}

/// One collective.
#[derive(Debug)]
pub struct Sweep {
    /// The collective.
    pub collective: Collective,
    /// The choice for each size.
    pub sizes: Vec<SizeCost>,
    /// The algorithms of the α–β model for each size, bytes, fastest first.
    pub schemes: Vec<(u64, Vec<Estimate<Scheme>>)>,
    /// The costs of the plan's trees, if it has any.
    pub forest: Option<ForestCost>,
    /// The transfers of which NCCL makes the collective.
    pub transfers: Option<Transfers>,
}

/// The costs of a job's collectives.
#[derive(Debug)]
pub struct CostAnswer {
    /// The job.
    pub job: PricedJob,
    /// The calls.
    pub calls: Calls,
    /// The collectives.
    pub sweeps: Vec<Sweep>,
}

/// Why there are no costs.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// The plan was made without costs.
    #[error("{0} is a plan without a cost table; expected one that was written with its costs")]
    NoTable(String),
    /// The α–β model has no figures.
    #[error("{0} has no ring channels, from which the α–β model takes its figures")]
    NoRings(String),
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] plan::Error),
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
            taken: times.iter().find(|it| it.0 == taken)?.1,
            fastest: *fastest?,
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
            AlphaBeta::of_ring(costs.job.ranks, costs.job.nodes, &ring.into(), &profile)
        });
        Ok(Self {
            name,
            plan,
            costs,
            alpha_beta,
            measured: None,
        })
    }

    /// Prices collectives.
    ///
    /// # Errors
    /// The α–β model is asked for, and the job has no rings.
    pub fn ask(mut self, question: &CostQuestion) -> Result<CostAnswer, CostError> {
        let (algorithms, protocols) = (&question.algorithms, &question.protocols);
        self.costs.entries.retain(|entry| {
            (algorithms.is_empty() || algorithms.contains(&entry.algorithm))
                && (protocols.is_empty() || protocols.contains(&entry.protocol))
        });
        let schemes = self.alpha_beta.filter(|_| question.alpha_beta);
        if question.alpha_beta && schemes.is_none() {
            return Err(CostError::NoRings(self.name));
        }
        let collectives = question.collectives.iter();
        let sweeps = collectives.map(|it| self.sweep(*it, question, schemes.as_ref()));
        let sweeps = sweeps.collect::<Result<_, _>>()?;
        Ok(CostAnswer {
            calls: question.calls,
            sweeps,
            job: self,
        })
    }

    fn sweep(
        &self,
        collective: Collective,
        question: &CostQuestion,
        schemes: Option<&AlphaBeta>,
    ) -> Result<Sweep, CostError> {
        let sizes = &question.sizes;
        let size = |bytes: &u64| {
            let operation = TunedOperation {
                collective,
                bytes: *bytes,
                calls: question.calls,
            };
            let choice = self.costs.choose_for(&operation);
            let spread = choice.as_ref().ok();
            let spread = spread.map(|choice| self.costs.spread(choice));
            let taken = choice.as_ref().ok();
            let taken = taken.map(|choice| (choice.algorithm, choice.protocol));
            SizeCost {
                bytes: *bytes,
                measured: taken.and_then(|taken| self.measured_times(&operation, taken)),
                calls: question.calls.number,
                window: self.costs.window_choice(&operation),
                choice,
                spread: spread.unwrap_or_default(),
                candidates: self.costs.candidates(&operation),
            }
        };
        let fastest_first = |model: &AlphaBeta, bytes: u64| {
            let mut estimates = model.estimates(collective, bytes);
            estimates.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
            (bytes, estimates)
        };
        let schemes = schemes.map(|model| sizes.iter().map(|it| fastest_first(model, *it)));
        let model = self.alpha_beta.as_ref();
        Ok(Sweep {
            collective,
            sizes: sizes.iter().map(size).collect(),
            schemes: schemes.map_or_else(Vec::new, Iterator::collect),
            forest: ForestCost::of(&self.plan, collective),
            transfers: Transfers::of(&self.plan, model, collective, sizes)?,
        })
    }
}

impl CostAnswer {
    /// Why no collective has a choice at any size; `None` if one has, is made of transfers, or the
    /// α–β model judges it.
    pub fn refusal(&self) -> Option<&NoChoice> {
        let all = || self.sweeps.iter().flat_map(|sweep| &sweep.sizes);
        let mut sweeps = self.sweeps.iter();
        let judged = sweeps.any(|it| !it.schemes.is_empty() || it.transfers.is_some());
        if judged || all().any(|size| size.choice.is_ok()) {
            return None;
        }
        all().next()?.choice.as_ref().err()
    }
}

impl SizeCost {
    /// Channels that a call uses, at most.
    pub fn used_channels(&self) -> u32 {
        let calls = self.spread.iter().cloned();
        calls.map(|it| it.count() as u32).max().unwrap_or(0)
    }
}

impl Sweep {
    /// Whether algorithm or protocol differ from those at the size before.
    pub fn changes(&self, at: usize) -> bool {
        let choice = |index: usize| {
            let choice = self.sizes.get(index)?.choice.as_ref().ok()?;
            Some((choice.algorithm, choice.protocol))
        };
        at > 0 && choice(at) != choice(at - 1)
    }
}
