//! The time of a call on the communicators of its group, and its bound.

use std::collections::HashMap;

use bounds::reach::collective as of_operation;
use plan::Algorithm;
use plan::certificate::UNITS;
use plan::cost::{Calls, DataType, TunedOperation};
use planner::Planned;
use planner::cost::{AlphaBeta, CostProfile};
use program::{Collective, Protocol, Reduction};
use serde::Serialize;
use workload::tokens::{Tokens, call_name};

use super::StepError;
use super::calibration::{Calibration, Scope};
use super::exchanges::Exchanges;
use crate::JsonSchema;
use crate::bound::{BoundQuestion, bound};
use crate::cost::transfers::Transfers;
use crate::report::as_text;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct CallKind {
    /// Index of its group.
    #[serde(skip)]
    pub group: usize,
    /// The collective.
    pub collective: Collective,
    /// An all-to-all that moves tokens in two stages; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Bytes of the whole message; of all copies of tokens.
    pub bytes: u64,
    /// The type of the elements.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub data_type: DataType,
    /// How they are reduced.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub reduction: Reduction,
}

impl CallKind {
    /// The name of its collective, or of the exchange.
    pub const fn operation(&self) -> &'static str {
        call_name(self.collective, self.tokens)
    }
}

/// What NCCL takes for a call, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Price {
    /// The algorithm; absent for point-to-point transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// The protocol; absent if nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Channels: of all, or between two ranks.
    pub channels: u32,
    /// The communicator for which it is longest, of those of its group, from 0.
    pub slowest: usize,
    /// Time of one with what sharing links costs: predicted, or corrected by measurements, µs.
    pub time_us: f64,
    /// Time of a message of a byte with the same algorithm and protocol, µs, not corrected.
    #[serde(skip)]
    pub latency_us: f64,
    /// The least and the most, if it is as far from the corrected time as measurements that were
    /// left out, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_us: Option<[f64; 2]>,
    /// No schedule takes less, µs.
    pub bound_us: Option<f64>,
}

impl Price {
    /// The price of a communicator of one rank, which sends nothing.
    const FREE: Self = Self {
        algorithm: None,
        protocol: None,
        channels: 0,
        slowest: 0,
        time_us: 0.0,
        latency_us: 0.0,
        range_us: None,
        bound_us: Some(0.0),
    };

    /// The price of an exchange in two stages.
    const fn simulated(time_us: f64, latency_us: f64) -> Self {
        Self {
            protocol: Some(Protocol::Simple),
            time_us,
            latency_us,
            bound_us: None,
            ..Self::FREE
        }
    }
}

/// Prices calls on plans.
#[derive(Debug, Default)]
pub(super) struct Pricer {
    /// Bus bandwidth of the bound, GB/s, by plan and collective.
    bounds: HashMap<(usize, Collective), Option<f64>>,
    /// The α–β model of each plan.
    models: HashMap<usize, Option<AlphaBeta>>,
    /// The constants whose times count; none: NCCL's.
    profile: Option<CostProfile>,
    /// Exchanges of tokens that were simulated.
    exchanges: Exchanges,
    /// Corrections by measurements.
    pub(super) calibration: Calibration,
}

impl Pricer {
    /// Prices by these constants.
    pub(super) fn of(profile: Option<CostProfile>) -> Self {
        Self {
            profile,
            ..Self::default()
        }
    }

    /// The price of a call on plan `at`, whose times are those of `timed`. The bytes of the message
    /// take `sharing` times as long as alone.
    pub(super) fn price(
        &mut self,
        (planned, timed): (&Planned, &Planned),
        at: usize,
        call: &CallKind,
        of: (&str, f64),
    ) -> Result<Price, StepError> {
        let mut price = self.predicted((planned, timed), at, call, of)?;
        let scope = Scope {
            collective: call.collective,
            across: planned.job.layout().nodes() > 1,
        };
        // Measurements are of NCCL's collectives.
        let correction = self
            .calibration
            .find(scope)
            .filter(|_| call.tokens.is_none());
        if let Some(correction) = correction {
            price.time_us = correction.time_us(price.latency_us, price.time_us);
            price.range_us = Some(correction.range.map(|times| times * price.time_us));
        }
        Ok(price)
    }

    fn predicted(
        &mut self,
        (planned, timed): (&Planned, &Planned),
        at: usize,
        call: &CallKind,
        (group, sharing): (&str, f64),
    ) -> Result<Price, StepError> {
        // A message of a byte has the latency alone.
        let shared = |time: f64, latency: f64| match sharing > 1.0 {
            true => latency.min(time) + (time - latency).max(0.0) * sharing,
            false => time,
        };
        let ranks = planned.job.layout().ranks();
        if ranks < 2 {
            return Ok(Price::FREE);
        }
        let refused = |why: String| StepError::NoPrice {
            group: group.to_owned(),
            operation: call.operation(),
            why,
        };
        if let Some(tokens) = call.tokens {
            let found = self.exchanges.times(planned, at, call.bytes, tokens);
            let [time, latency] = found.map_err(refused)?;
            return Ok(Price::simulated(shared(time, latency), latency));
        }
        let bound_us = self.bound(planned, at, call.collective);
        let bound_us = bound_us.map(|bandwidth| {
            // Bytes by GB/s are ns.
            call.bytes as f64 * call.collective.bus_factor(ranks) / bandwidth / 1e3
        });
        if Collective::TUNED.contains(&call.collective) {
            let operation = TunedOperation {
                collective: call.collective,
                bytes: call.bytes,
                calls: Calls {
                    data_type: call.data_type,
                    reduction: call.reduction,
                    ..Calls::ONE
                },
            };
            let choice = planned.costs.choose_for(&operation);
            let choice = choice.map_err(|why| refused(why.to_string()))?;
            let spread = planned.costs.spread(&choice).into_iter();
            let least = TunedOperation {
                bytes: 1,
                ..operation
            };
            let taken = (choice.algorithm, choice.protocol);
            let of = |operation| timed.costs.time_us(operation, taken);
            let latency = f64::from(of(&least).unwrap_or(0.0));
            let time = f64::from(of(&operation).unwrap_or(choice.time_us));
            return Ok(Price {
                algorithm: Some(choice.algorithm),
                protocol: Some(choice.protocol),
                channels: spread.map(|it| it.count() as u32).max().unwrap_or(0),
                slowest: 0,
                time_us: shared(time, latency),
                latency_us: latency,
                range_us: None,
                bound_us,
            });
        }
        let model = self.model(at, timed);
        let sizes = [call.bytes, 1];
        let found = Transfers::of(planned.plan(), model, call.collective, &sizes)?;
        let none = "NCCL makes it of transfers of the caller's; give these as send-recv";
        let found = found.ok_or_else(|| refused(none.to_owned()))?;
        let [size, least] = &found.sizes[..] else {
            return Err(refused(none.to_owned()));
        };
        let pair = size.remote.or(size.local);
        let time = size.time_us.ok_or_else(|| {
            refused("its communicator has no rings, from which the time is estimated".to_owned())
        })?;
        Ok(Price {
            algorithm: None,
            protocol: pair.map(|pair| pair.protocol),
            channels: pair.map_or(0, |pair| pair.channels),
            slowest: 0,
            time_us: shared(time, least.time_us.unwrap_or(0.0)),
            latency_us: least.time_us.unwrap_or(0.0),
            range_us: None,
            bound_us,
        })
    }

    /// The α–β model of plan `at`.
    fn model(&mut self, at: usize, timed: &Planned) -> Option<&AlphaBeta> {
        let model = self.models.entry(at).or_insert_with(|| {
            let inputs = timed.job.cost_inputs();
            match &self.profile {
                Some(profile) => AlphaBeta::of(&inputs, profile),
                None => AlphaBeta::of(&inputs, &CostProfile::of(timed.version())),
            }
        });
        model.as_ref()
    }

    /// Bus bandwidth that no schedule exceeds, GB/s.
    fn bound(&mut self, planned: &Planned, at: usize, collective: Collective) -> Option<f64> {
        let known = self.bounds.entry((at, collective));
        *known.or_insert_with(|| {
            let question = BoundQuestion {
                collective: Some(collective),
                without_trees: true,
                ..BoundQuestion::default()
            };
            // A collective without a bound, or a network of which the speed is not known.
            let answer = bound(planned, &question).ok()?;
            let bounds = answer.certificate.bounds.iter();
            let its = bounds.filter(|it| of_operation(it.operation) == collective);
            let bandwidths = its.map(|it| it.bandwidth.per(f64::from(UNITS)));
            bandwidths.filter(|it| *it > 0.0).max_by(f64::total_cmp)
        })
    }
}
