//! Fits constants of the cost model to measured times.
//!
//! The choice of algorithm and protocol is NCCL's own and stays; only the time of each choice is
//! fitted. Errors are relative, so that short and long messages count alike, and single
//! measurements that are wide of the others count less (Huber).
//!
//! In reading order: [`constants`] (the constants of a profile), `solve` (least squares, and which
//! constants data determine), [`trust`] (residuals and held-out sizes).

pub mod constants;
mod solve;
pub mod trust;

use plan::Algorithm;
use planner::Rules;
use planner::cost::{CostProfile, CostTable, Inputs, TunedOperation, table};
use planner::settings::Tuning;
use program::{Collective, Protocol};
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::report::as_text;
use constants::{Changeable, Constant};
use solve::Verdict;
use trust::{HeldOutErrors, StepError, Summary};

/// Relative change of a constant whose effect on times is looked at.
const PROBE: f64 = 1e-3;

/// Relative error of a time before anything is known of it.
const USUAL_NOISE: f64 = 0.05;

/// Constants that are determined less exactly than this relative error keep their value.
const LEAST_EXACT: f64 = 0.25;

/// Most steps of a fit, and most choices of constants.
const MOST_STEPS: usize = 60;
const MOST_ROUNDS: usize = 5;

/// How much a constant may change, as the logarithm of its factor (× 50).
const MOST_CHANGE: f64 = 3.912;

/// Errors beyond so many times the usual one count less.
const OUTLYING: f64 = 2.5;

/// The least usual error, because times are rounded.
const LEAST_NOISE: f64 = 0.002;

/// A job whose collectives were measured.
#[derive(Debug, Clone)]
pub struct FitJob {
    /// The inputs of the cost model from its plan.
    pub inputs: Inputs,
    /// Its settings.
    pub tuning: Tuning,
    /// The version's rules.
    pub rules: Rules,
}

/// A measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// Which job.
    pub job: usize,
    /// The collective.
    pub collective: Collective,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// NCCL's choice.
    pub choice: (Algorithm, Protocol),
    /// Time, µs.
    pub time_us: f64,
}

/// A fitted constant.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FittedConstant {
    /// Its keys in the file of the profile.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub constant: Constant,
    /// Its value before.
    pub before: f64,
    /// Its value.
    pub value: f64,
    /// Its relative standard error; null if the measurements say only that it is at least this.
    #[serde(rename = "relative_error")]
    pub error: Option<f64>,
}

/// A constant that keeps its value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UndeterminedConstant {
    /// Its keys in the file of the profile.
    pub constant: String,
    /// The fitted constant that changes times as this one does.
    pub like: Option<String>,
    /// The relative error that it would have.
    pub relative_error: Option<f64>,
}

/// A fit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Fit {
    /// The cost profile, in TOML.
    #[serde(serialize_with = "as_toml")]
    #[schemars(with = "Option<String>")]
    pub profile: CostProfile,
    /// Measured times that were used.
    #[serde(rename = "measurements")]
    pub used: usize,
    /// Measured times of choices that the model does not have.
    pub unmodelled: usize,
    /// The fitted constants.
    pub constants: Vec<FittedConstant>,
    /// Constants that the measurements do not determine; they keep their values.
    pub undetermined: Vec<UndeterminedConstant>,
    /// Constants on which no measurement depends.
    pub untouched: usize,
    /// Errors of predicted times with the constants before.
    pub before: Summary,
    /// Errors of predicted times with the fitted constants.
    pub after: Summary,
    /// Errors at sizes that the fit had not seen; null with too few sizes.
    #[serde(rename = "held_out")]
    pub held: Option<HeldOutErrors>,
    /// Errors by choice.
    pub steps: Vec<StepError>,
}

fn as_toml<S: Serializer>(profile: &CostProfile, to: S) -> Result<S::Ok, S::Error> {
    profile.to_toml().ok().serialize(to)
}

/// Why nothing can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There are no measurements of choices that the model has.
    #[error(
        "no measured time belongs to an algorithm and protocol of the plan; expected tables of its collectives"
    )]
    NoMeasurements,
    /// No constant is determined.
    #[error(
        "{0} measured times determine no constant; expected more sizes, both short and long messages"
    )]
    NothingDetermined(usize),
}

/// Fits the constants of a profile to measurements.
///
/// # Errors
/// The measurements determine nothing.
pub fn fit(
    jobs: &[FitJob],
    measurements: &[Measurement],
    start: &CostProfile,
) -> Result<Fit, FitError> {
    let before = Model::new(jobs, Changeable::new(start));
    let is_modelled = |it: &&Measurement| before.time(it).is_some() && it.time_us > 0.0;
    let used: Vec<Measurement> = measurements.iter().filter(is_modelled).copied().collect();
    if used.is_empty() {
        return Err(FitError::NoMeasurements);
    }
    let all = before.changeable.constants();
    let mut free: Vec<usize> = Vec::new();
    let mut verdicts = Vec::new();
    let mut fitted = before.changeable.clone();
    let mut noise = USUAL_NOISE;
    for _ in 0..MOST_ROUNDS {
        let model = Model::new(jobs, fitted.clone());
        let columns = model.columns(&all, &used);
        let order: Vec<u8> = all.iter().map(|it| it.order).collect();
        verdicts = solve::judge(&columns, &order, noise, LEAST_EXACT);
        let mut chosen: Vec<usize> = (0..all.len())
            .filter(|at| verdicts[*at] == Verdict::Free || free.contains(at))
            .collect();
        // A constant that went out of force cannot be told apart from anything any more.
        chosen.retain(|at| !matches!(verdicts[*at], Verdict::Like(_) | Verdict::Weak(_)));
        if chosen == free {
            break;
        }
        free = chosen;
        for (_, kept) in all.iter().enumerate().filter(|(at, _)| !free.contains(at)) {
            fitted.set(kept, before.changeable.get(kept));
        }
        let constants: Vec<&Constant> = free.iter().map(|at| &all[*at]).collect();
        fitted = improve(jobs, fitted, &constants, &used);
        noise = Model::new(jobs, fitted.clone())
            .noise(&used)
            .max(LEAST_NOISE);
    }
    if free.is_empty() {
        return Err(FitError::NothingDetermined(used.len()));
    }
    let constants: Vec<&Constant> = free.iter().map(|at| &all[*at]).collect();
    let after = Model::new(jobs, fitted);
    let held = trust::held_out(&used, |rest| {
        let start = before.changeable.clone();
        Model::new(jobs, improve(jobs, start, &constants, rest))
    });
    Ok(Fit {
        profile: after
            .changeable
            .profile()
            .ok_or(FitError::NothingDetermined(used.len()))?,
        constants: fitted_constants(&before, &after, &constants, &used),
        undetermined: undetermined(&all, &verdicts, &free),
        untouched: verdicts
            .iter()
            .filter(|it| **it == Verdict::WithoutInfluence)
            .count(),
        unmodelled: measurements.len() - used.len(),
        before: Summary::of(&before, &used),
        after: Summary::of(&after, &used),
        held,
        steps: trust::steps(&before, &after, &used),
        used: used.len(),
    })
}

fn fitted_constants(
    before: &Model,
    after: &Model,
    constants: &[&Constant],
    used: &[Measurement],
) -> Vec<FittedConstant> {
    let owned: Vec<Constant> = constants.iter().map(|it| (*it).clone()).collect();
    let columns = after.columns(&owned, used);
    let noise = after.noise(used).max(LEAST_NOISE);
    let errors = solve::standard_errors(&columns, &vec![1.0; used.len()]);
    let each = owned.into_iter().zip(errors);
    each.map(|(constant, error)| FittedConstant {
        before: before.changeable.get(&constant),
        value: after.changeable.get(&constant),
        error: error.is_finite().then_some(error * noise),
        constant,
    })
    .collect()
}

fn undetermined(
    all: &[Constant],
    verdicts: &[Verdict],
    free: &[usize],
) -> Vec<UndeterminedConstant> {
    let each = all.iter().zip(verdicts).enumerate();
    each.filter(|(at, _)| !free.contains(at))
        .filter_map(|(_, (constant, verdict))| match verdict {
            Verdict::Like(other) => Some(UndeterminedConstant {
                constant: constant.name.clone(),
                like: Some(all.get(*other)?.name.clone()),
                relative_error: None,
            }),
            Verdict::Weak(error) => Some(UndeterminedConstant {
                constant: constant.name.clone(),
                like: None,
                relative_error: Some(*error),
            }),
            Verdict::Free | Verdict::WithoutInfluence => None,
        })
        .collect()
}

/// The cost model with some constants.
pub(crate) struct Model<'a> {
    jobs: &'a [FitJob],
    changeable: Changeable,
    tables: Vec<Option<CostTable>>,
}

impl<'a> Model<'a> {
    fn new(jobs: &'a [FitJob], changeable: Changeable) -> Self {
        let profile = changeable.profile();
        let of_job =
            |job: &FitJob| table(&job.inputs, &job.tuning, profile.as_ref()?, job.rules).ok();
        Self {
            jobs,
            tables: jobs.iter().map(of_job).collect(),
            changeable,
        }
    }

    /// The predicted time, µs; `None` if the choice is not available.
    fn time(&self, measurement: &Measurement) -> Option<f64> {
        let table = self.tables.get(measurement.job)?.as_ref()?;
        let operation = TunedOperation::new(measurement.collective, measurement.bytes);
        let time = f64::from(table.time_us(&operation, measurement.choice)?);
        (time > 0.0 && time.is_finite()).then_some(time)
    }

    /// The logarithm of measured by predicted time; 0 where nothing is predicted.
    fn error(&self, measurement: &Measurement) -> f64 {
        let time = self.time(measurement);
        time.map_or(0.0, |time| (measurement.time_us / time).ln())
    }

    fn errors(&self, used: &[Measurement]) -> Vec<f64> {
        used.iter().map(|it| self.error(it)).collect()
    }

    /// The usual size of an error, from the median of all.
    fn noise(&self, used: &[Measurement]) -> f64 {
        let mut sizes: Vec<f64> = self.errors(used).iter().map(|it| it.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        // Half of normally distributed errors are within 0.6745 standard deviations.
        sizes.get(sizes.len() / 2).copied().unwrap_or(0.0) / 0.6745
    }

    /// By constant the change of the logarithm of each time by that of the constant.
    fn columns(&self, constants: &[Constant], used: &[Measurement]) -> Vec<Vec<f64>> {
        let times: Vec<f64> = used.iter().map(|it| self.time(it).unwrap_or(1.0)).collect();
        let column = |constant: &Constant| {
            let mut changed = self.changeable.clone();
            changed.set(constant, self.changeable.get(constant) * (1.0 + PROBE));
            let changed = Model::new(self.jobs, changed);
            let pairs = used.iter().zip(&times);
            let change = |(it, time): (&Measurement, &f64)| {
                let change = (changed.time(it).unwrap_or(*time) / time).ln() / PROBE;
                // Times have 24 bits.
                if change.abs() < 1e-3 { 0.0 } else { change }
            };
            pairs.map(change).collect()
        };
        constants.iter().map(column).collect()
    }
}

/// Weights that make errors count linearly beyond the usual ones.
fn weights(errors: &[f64], noise: f64) -> Vec<f64> {
    let most = OUTLYING * noise.max(LEAST_NOISE);
    let weight = |error: &f64| (most / error.abs().max(f64::MIN_POSITIVE)).min(1.0);
    errors.iter().map(weight).collect()
}

/// The sum that a fit makes small.
fn loss(errors: &[f64], noise: f64) -> f64 {
    let most = OUTLYING * noise.max(LEAST_NOISE);
    let one = |error: &f64| match error.abs() {
        size if size <= most => size * size,
        size => most * (2.0 * size - most),
    };
    errors.iter().map(one).sum()
}

/// Changes these constants so that times fit best (Levenberg and Marquardt's method).
fn improve(
    jobs: &[FitJob],
    start: Changeable,
    constants: &[&Constant],
    used: &[Measurement],
) -> Changeable {
    let owned: Vec<Constant> = constants.iter().map(|it| (*it).clone()).collect();
    let first: Vec<f64> = owned.iter().map(|it| start.get(it)).collect();
    let mut model = Model::new(jobs, start);
    let mut damping = 1e-3;
    for _ in 0..MOST_STEPS {
        let errors = model.errors(used);
        let noise = model.noise(used);
        let weights = weights(&errors, noise);
        let columns = model.columns(&owned, used);
        // A column without influence would make the equations singular.
        let live: Vec<usize> = (0..owned.len())
            .filter(|at| columns[*at].iter().any(|it| *it != 0.0))
            .collect();
        let some: Vec<Vec<f64>> = live.iter().map(|at| columns[*at].clone()).collect();
        let loss_before = loss(&errors, noise);
        let mut better = None;
        while better.is_none() && damping < 1e6 {
            let Some(step) = solve::step(&some, &weights, &errors, damping) else {
                damping *= 10.0;
                continue;
            };
            let mut changed = model.changeable.clone();
            for (at, change) in live.iter().zip(&step) {
                let before = (model.changeable.get(&owned[*at]) / first[*at]).ln();
                let now = (before + change.clamp(-1.0, 1.0)).clamp(-MOST_CHANGE, MOST_CHANGE);
                changed.set(&owned[*at], first[*at] * now.exp());
            }
            let changed = Model::new(jobs, changed);
            let loss_after = loss(&changed.errors(used), noise);
            if loss_after < loss_before {
                better = Some((changed, 1.0 - loss_after / loss_before));
                damping = (damping / 10.0).max(1e-9);
            } else {
                damping *= 10.0;
            }
        }
        match better {
            Some((changed, gain)) => {
                model = changed;
                if gain < 1e-9 {
                    break;
                }
            }
            None => break,
        }
    }
    model.changeable
}
