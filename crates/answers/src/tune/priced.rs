//! A plan with the times of its choices on the links of the machine.

use bounds::rings::restate;
use plan::cost::TunedOperation;
use plan::{Algorithm, CostTable, GraphKind};
use planner::search::hops::Hops;
use planner::{Error, Job, Planned};
use program::{Collective, Protocol};
use serde::Serialize;

use super::{LARGEST, SMALLEST};
use crate::JsonSchema;

/// Times that differ by less than this share are equal.
pub(super) const EQUAL: f64 = 0.001;

/// A choice and its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ChosenStep {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// The time on the machine's links, µs.
    pub time_us: f64,
}

/// A plan, and its costs with the bandwidth that the links carry.
#[derive(Debug, Clone)]
pub(super) struct Priced {
    /// The plan, with the costs that decide for NCCL.
    pub planned: Planned,
    /// What the choices really cost.
    pub carried: CostTable,
}

impl Priced {
    /// Prices a plan. `job` has the cost profile of the machine, if there is one; `optimism` is
    /// that of [`restate`].
    pub(super) fn of(job: &Job, planned: Planned, optimism: f32) -> Result<Self, Error> {
        let mut carried = restate(job, &planned, optimism)?;
        // What NCCL rules out cannot be chosen.
        for entry in &mut carried.entries {
            let own = planned
                .costs
                .entry(entry.collective, entry.algorithm, entry.protocol);
            if own.is_none_or(|own| own.bandwidth <= 0.0) {
                entry.bandwidth = 0.0;
            }
        }
        Ok(Self { planned, carried })
    }

    /// NCCL's own choice for a size, bytes.
    pub(super) fn own(&self, collective: Collective, bytes: u64) -> Option<ChosenStep> {
        let operation = TunedOperation::new(collective, bytes);
        let choice = self.planned.costs.choose_for(&operation).ok()?;
        let pair = (choice.algorithm, choice.protocol);
        let time = self.carried.time_us(&operation, pair);
        Some(ChosenStep {
            algorithm: choice.algorithm,
            protocol: choice.protocol,
            time_us: time.unwrap_or(choice.time_us).into(),
        })
    }

    /// The time of NCCL's own choice as NCCL rates its channels, µs.
    pub(super) fn rated(&self, collective: Collective, bytes: u64) -> Option<f64> {
        let choice = self.planned.costs.choose(collective, bytes).ok()?;
        Some(choice.time_us.into())
    }

    /// Ring channels that the job uses, and what NCCL gives each, GB/s.
    pub(super) fn rings(&self) -> (u32, f32) {
        let ring = self.planned.job.common().graph(GraphKind::Ring);
        ring.map_or((0, 0.0), |it| (it.channels, it.bw_intra))
    }

    /// Whether NCCL decides and rates everything alike, and the same other rings are possible.
    pub(super) fn is_like(&self, other: &Planned) -> bool {
        let nodes = |planned: &Planned| {
            let nodes = planned.machines().iter().flat_map(|it| &it.nodes);
            let of = nodes.map(|node| (node.graphs.clone(), Hops::of(&node.view)));
            of.collect::<Vec<_>>()
        };
        let own = &self.planned;
        own.costs == other.costs
            && own.plan().common == other.plan().common
            && nodes(own) == nodes(other)
    }

    /// The best choice for a size, bytes; NCCL's own where none is better.
    pub(super) fn best(&self, collective: Collective, bytes: u64) -> Option<ChosenStep> {
        let own = self.own(collective, bytes)?;
        let operation = TunedOperation::new(collective, bytes);
        let Ok(choice) = self.carried.choose_for(&operation) else {
            return Some(own);
        };
        let best = ChosenStep {
            algorithm: choice.algorithm,
            protocol: choice.protocol,
            time_us: choice.time_us.into(),
        };
        let is_better = best.time_us < own.time_us * (1.0 - EQUAL);
        Some(if is_better { best } else { own })
    }
}

/// The operations at which plans are compared: the collectives that NCCL tunes, at all powers of
/// two from 1 KiB to 8 GiB.
fn operations() -> impl Iterator<Item = (Collective, u64)> {
    let all = Collective::TUNED.into_iter();
    all.flat_map(|it| plan::cost::doubling(SMALLEST, LARGEST).map(move |bytes| (it, bytes)))
}

/// The times of a plan for all of [`operations`], µs; `None` where NCCL has no choice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Times(Vec<Option<f64>>);

/// The least gain at some size that is worth a change.
pub(super) const WORTH_IT: f64 = 1.01;

/// How times compare with others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    /// The mean logarithm of the gain.
    pub mean: f64,
    /// The greatest gain: how many times as fast.
    pub most: (f64, Collective, u64),
    /// The greatest loss, the same way: below 1 if something is slower.
    pub least: (f64, Collective, u64),
    /// The largest message that is slower, and the largest that is noticeably faster, bytes; 0:
    /// none.
    pub last_loss: u64,
    pub last_gain: u64,
}

impl Times {
    /// Those of NCCL's own choices.
    pub(super) fn own(of: &Priced) -> Self {
        Self::by(|collective, bytes| of.own(collective, bytes))
    }

    /// Those of the best choices.
    pub(super) fn best(of: &Priced) -> Self {
        Self::by(|collective, bytes| of.best(collective, bytes))
    }

    /// Those of NCCL's own choices, as NCCL rates its channels.
    pub(super) fn rated(of: &Priced) -> Self {
        let all = operations().map(|(collective, bytes)| of.rated(collective, bytes));
        Self(all.collect())
    }

    fn by(step: impl Fn(Collective, u64) -> Option<ChosenStep>) -> Self {
        let all = operations().map(|(collective, bytes)| step(collective, bytes));
        Self(all.map(|it| it.map(|it| it.time_us)).collect())
    }

    /// Compares these times with those before.
    ///
    /// Messages below `from` bytes do not count.
    pub(super) fn against(&self, before: &Self, from: u64) -> Compared {
        let none = (1.0, Collective::AllReduce, 0);
        let (mut sum, mut most, mut least) = (0.0, none, none);
        let (mut last_loss, mut last_gain) = (0, 0);
        for ((collective, bytes), (before, after)) in operations().zip(before.0.iter().zip(&self.0))
        {
            if bytes < from {
                continue;
            }
            let gain = match (before, after) {
                (Some(before), Some(after)) if *after > 0.0 => before / after,
                (Some(_), None) => 0.0,
                _ => 1.0,
            };
            sum += gain.max(1e-6).ln();
            if gain > most.0 {
                most = (gain, collective, bytes);
            }
            if gain < least.0 {
                least = (gain, collective, bytes);
            }
            if gain < 1.0 - EQUAL {
                last_loss = last_loss.max(bytes);
            }
            if gain >= WORTH_IT {
                last_gain = last_gain.max(bytes);
            }
        }
        Compared {
            mean: sum / self.0.len().max(1) as f64,
            most,
            least,
            last_loss,
            last_gain,
        }
    }
}

impl Compared {
    /// Together with how NCCL rates the same: its losses always count, its gains if `counts`.
    pub(super) fn and(self, rated: &Self, counts: bool) -> Self {
        let gains = counts && rated.most.0 > self.most.0;
        let mean = if counts { rated.mean.max(0.0) } else { 0.0 };
        Self {
            mean: self.mean + mean,
            most: if gains { rated.most } else { self.most },
            least: match rated.least.0 < self.least.0 {
                true => rated.least,
                false => self.least,
            },
            last_loss: self.last_loss.max(rated.last_loss),
            last_gain: match counts {
                true => self.last_gain.max(rated.last_gain),
                false => self.last_gain,
            },
        }
    }

    /// The size from which on some messages are faster and none slower, bytes, if there is one
    /// where some are slower.
    pub(super) fn helps_from(&self) -> Option<u64> {
        (self.last_loss > 0 && self.last_gain > self.last_loss).then_some(2 * self.last_loss)
    }

    /// Whether nothing is slower.
    pub(super) fn loses_nothing(&self) -> bool {
        self.least.0 >= 1.0 - EQUAL
    }
}
