//! The gain of a proposal at each size, with error bars.
//!
//! The model predicts times; machines reach a share of the predicted bandwidth. The bars come from
//! the two ways in which plans are compared, and from the shares that published runs reached
//! ([`SharesAtSize`]): the lesser gain if the job reached the greatest share before and reaches the
//! least after, and the greater gain the other way round.

use program::Collective;
use records::results::shares::SharesAtSize;
use serde::Serialize;

use super::priced::{ChosenStep, Priced};
use crate::JsonSchema;

/// The gains of a collective.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectiveGains {
    /// The collective.
    pub collective: Collective,
    /// Its sizes.
    pub sizes: Vec<Gain>,
}

/// The gain at one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Gain {
    /// Size of the whole message, bytes.
    pub bytes: u64,
    /// NCCL's choice now.
    pub now: ChosenStep,
    /// The choice of the proposal.
    pub tuned: ChosenStep,
    /// How many times as fast by the links; from `from` on never below 0.999.
    pub gain: f64,
    /// How many times as fast as NCCL rates its channels; null where that does not count: there
    /// are no other rings and no more channels, or NCCL had found no bandwidth.
    pub rated_gain: Option<f64>,
    /// The least gain with error bars; null if nothing changes, or only one figure is known.
    pub least_gain: Option<f64>,
    /// The greatest gain, likewise.
    pub most_gain: Option<f64>,
    /// Where the bars come from.
    pub bars: BarSource,
}

/// Where error bars come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BarSource {
    /// From the two ways in which plans are compared only: fewer than two published runs measured
    /// messages of this size.
    Model,
    /// Also from the shares of published runs of jobs that are joined or reduce otherwise.
    OtherRuns,
    /// Also from the shares of published runs of jobs that are joined and reduce alike.
    Runs,
}

impl Gain {
    /// Whether something changes.
    pub fn changes(&self) -> bool {
        let differs = |gain: f64| (gain - 1.0).abs() > super::priced::EQUAL;
        differs(self.gain) || self.rated_gain.is_some_and(differs)
    }

    /// The greater of both gains.
    pub fn most(&self) -> f64 {
        self.rated_gain.map_or(self.gain, |it| it.max(self.gain))
    }
}

impl CollectiveGains {
    /// The gains from one plan to another, none without another. `counts`: NCCL's rating counts.
    pub(super) fn of(
        collective: Collective,
        sizes: &[u64],
        (before, after): (&Priced, Option<&Priced>),
        counts: bool,
    ) -> Self {
        let gain = |bytes: &u64| {
            let own = before.own(collective, *bytes)?;
            let steps = match after {
                Some(after) => [own, after.best(collective, *bytes)?],
                None => [own, own],
            };
            let of = |priced: &Priced| priced.rated(collective, *bytes);
            let rated = of(before).zip(after.and_then(of)).filter(|_| counts);
            let gain = Gain {
                bytes: *bytes,
                now: steps[0],
                tuned: steps[1],
                gain: match steps[1].time_us > 0.0 {
                    true => steps[0].time_us / steps[1].time_us,
                    false => 1.0,
                },
                rated_gain: rated.map(|(before, after)| before / after),
                least_gain: None,
                most_gain: None,
                bars: BarSource::Model,
            };
            let several = before.planned.job.layout().nodes() > 1;
            Some(if gain.changes() {
                with_bars(gain, several)
            } else {
                gain
            })
        };
        Self {
            collective,
            sizes: sizes.iter().filter_map(gain).collect(),
        }
    }
}

fn with_bars(gain: Gain, several_nodes: bool) -> Gain {
    let of = |step: ChosenStep| SharesAtSize::of(several_nodes, step.algorithm, gain.bytes);
    let rated = gain.rated_gain.unwrap_or(gain.gain);
    let (least, most) = (gain.gain.min(rated), gain.gain.max(rated));
    match of(gain.now).zip(of(gain.tuned)) {
        None => Gain {
            least_gain: (least < most).then_some(least),
            most_gain: (least < most).then_some(most),
            ..gain
        },
        Some((before, after)) => Gain {
            least_gain: Some(least * after.low / before.high),
            most_gain: Some(most * after.high / before.low),
            bars: match before.alike && after.alike {
                true => BarSource::Runs,
                false => BarSource::OtherRuns,
            },
            ..gain
        },
    }
}
