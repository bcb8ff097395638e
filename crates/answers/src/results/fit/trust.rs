//! The worth of a fit: its errors, by step, and on sizes that it has not seen.

use std::collections::{BTreeMap, BTreeSet};

use plan::Algorithm;
use program::{Collective, Protocol};
use serde::Serialize;

use super::{Measurement, Model};
use crate::JsonSchema;

/// Parts of the sizes that are held out one after the other.
const PARTS: usize = 4;

/// Fewest sizes of which some can be held out.
const LEAST_SIZES: usize = 2 * PARTS;

/// How wide predicted times are of measured ones, as shares of the measured ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Half of the errors are at most this.
    pub median: f64,
    /// Nine of ten errors are at most this.
    #[serde(rename = "ninth_tenth")]
    pub most: f64,
    /// The largest.
    pub worst: f64,
    /// The size that has the worst, bytes.
    pub worst_bytes: u64,
}

/// Errors of sizes that a fit had not seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct HeldOutErrors {
    /// Sizes, each held out once.
    #[serde(skip)]
    pub sizes: usize,
    /// Their errors.
    #[serde(flatten)]
    pub errors: Summary,
}

/// The errors of one choice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StepError {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Measurements.
    #[serde(rename = "measurements")]
    pub count: usize,
    /// The median of measured by predicted time − 1, before the fit.
    pub bias_before: f64,
    /// The same after it.
    pub bias: f64,
    /// Errors after the fit.
    pub after: Summary,
}

impl Summary {
    /// The errors of a model.
    pub(super) fn of(model: &Model<'_>, used: &[Measurement]) -> Self {
        Self::of_errors(used.iter().map(|it| (model.error(it), it.bytes)).collect())
    }

    /// Of errors as logarithms, with their sizes.
    fn of_errors(errors: Vec<(f64, u64)>) -> Self {
        // Predicted by measured time, − 1.
        let share = |error: f64| ((-error).exp() - 1.0).abs();
        let mut errors: Vec<(f64, u64)> = errors
            .into_iter()
            .map(|(error, bytes)| (share(error), bytes))
            .collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |share: f64| {
            let at = (share * errors.len() as f64) as usize;
            errors
                .get(at.min(errors.len().saturating_sub(1)))
                .map_or(0.0, |it| it.0)
        };
        let (worst, worst_bytes) = errors.last().copied().unwrap_or((0.0, 0));
        Self {
            median: at(0.5),
            most: at(0.9),
            worst,
            worst_bytes,
        }
    }
}

/// Fits without a part of the sizes, and looks at the errors there; `None` with too few sizes.
pub(super) fn held_out<'a>(
    used: &[Measurement],
    fit: impl Fn(&[Measurement]) -> Model<'a>,
) -> Option<HeldOutErrors> {
    let sizes: BTreeSet<u64> = used.iter().map(|it| it.bytes).collect();
    if sizes.len() < LEAST_SIZES {
        return None;
    }
    let part: BTreeMap<u64, usize> = sizes.iter().copied().zip((0..PARTS).cycle()).collect();
    let mut errors = Vec::new();
    for held in 0..PARTS {
        let is_held = |it: &&Measurement| part.get(&it.bytes) == Some(&held);
        let rest: Vec<Measurement> = used.iter().filter(|it| !is_held(it)).copied().collect();
        let model = fit(&rest);
        let unseen = used.iter().filter(is_held);
        errors.extend(unseen.map(|it| (model.error(it), it.bytes)));
    }
    Some(HeldOutErrors {
        sizes: sizes.len(),
        errors: Summary::of_errors(errors),
    })
}

/// The errors by choice.
pub(super) fn steps(before: &Model<'_>, after: &Model<'_>, used: &[Measurement]) -> Vec<StepError> {
    let mut steps: BTreeMap<(Collective, Algorithm, Protocol), Vec<&Measurement>> = BTreeMap::new();
    for it in used {
        let key = (it.collective, it.choice.0, it.choice.1);
        steps.entry(key).or_default().push(it);
    }
    let of = |((collective, algorithm, protocol), all): (_, Vec<&Measurement>)| {
        let bias = |model: &Model<'_>| {
            let mut errors: Vec<f64> = all.iter().map(|it| model.error(it)).collect();
            errors.sort_by(f64::total_cmp);
            errors
                .get(errors.len() / 2)
                .map_or(0.0, |it| it.exp() - 1.0)
        };
        let errors = all.iter().map(|it| (after.error(it), it.bytes));
        StepError {
            collective,
            algorithm,
            protocol,
            count: all.len(),
            bias_before: bias(before),
            bias: bias(after),
            after: Summary::of_errors(errors.collect()),
        }
    };
    steps.into_iter().map(of).collect()
}
