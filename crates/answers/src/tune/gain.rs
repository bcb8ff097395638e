//! The gain of a proposal at each size, with error bars.
//!
//! The model predicts times; machines reach a share of the predicted bandwidth. The bars come from
//! the two ways in which plans are compared, and from the shares that published runs reached
//! ([`SharesAtSize`]): the lesser gain if the job reached the greatest share before and reaches the
//! least after, and the greater gain the other way round.

use program::Collective;
use records::results::published::SharesAtSize;

use super::priced::{ChosenStep, Priced};

/// The gains of a collective.
#[derive(Debug)]
pub struct CollectiveGains {
    /// The collective.
    pub collective: Collective,
    /// Its sizes.
    pub sizes: Vec<Gain>,
}

/// The gain at one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The size of the whole message, bytes.
    pub bytes: u64,
    /// NCCL's choice now.
    pub before: ChosenStep,
    /// The choice of the proposal.
    pub after: ChosenStep,
    /// How many times as fast it is as NCCL rates its channels, where that counts.
    pub rated: Option<f64>,
    /// The least and the greatest gain, if something changes and more than one figure is known.
    pub bars: Option<[f64; 2]>,
    /// Where the bars come from.
    pub source: BarSource,
}

/// Where error bars come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarSource {
    /// From the two ways in which plans are compared only: fewer than two published runs measured
    /// messages of this size.
    Model,
    /// Also from the shares of published runs of jobs that are joined or reduce otherwise.
    OtherRuns,
    /// Also from the shares of published runs of jobs that are joined and reduce alike.
    Runs,
}

impl BarSource {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::OtherRuns => "other-runs",
            Self::Runs => "runs",
        }
    }
}

impl Gain {
    /// How many times as fast the message is.
    pub fn gain(&self) -> f64 {
        match self.after.time_us > 0.0 {
            true => self.before.time_us / self.after.time_us,
            false => 1.0,
        }
    }

    /// Whether something changes.
    pub fn changes(&self) -> bool {
        let differs = |gain: f64| (gain - 1.0).abs() > super::priced::EQUAL;
        differs(self.gain()) || self.rated.is_some_and(differs)
    }

    /// The greater of both gains.
    pub fn most(&self) -> f64 {
        self.rated.map_or(self.gain(), |it| it.max(self.gain()))
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
                before: steps[0],
                after: steps[1],
                rated: rated.map(|(before, after)| before / after),
                bars: None,
                source: BarSource::Model,
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
    let links = gain.gain();
    let rated = gain.rated.unwrap_or(links);
    let (least, most) = (links.min(rated), links.max(rated));
    match of(gain.before).zip(of(gain.after)) {
        None => Gain {
            bars: (least < most).then_some([least, most]),
            ..gain
        },
        Some((before, after)) => Gain {
            bars: Some([
                least * after.low / before.high,
                most * after.high / before.low,
            ]),
            source: match before.alike && after.alike {
                true => BarSource::Runs,
                false => BarSource::OtherRuns,
            },
            ..gain
        },
    }
}
