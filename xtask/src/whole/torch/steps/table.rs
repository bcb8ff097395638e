//! Tables of steps that were measured and predicted.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

/// Errors of exposed communication beyond this fail, in the median.
const LARGEST_MEDIAN: f64 = 0.15;

/// Times of a rank in a run, µs.
pub(super) struct Times {
    /// Communication that computation waited for, without waiting for later ranks.
    pub measured: f64,
    /// Waiting for later ranks.
    pub waiting: f64,
    /// Communication that computation waits for, by NCCL's model.
    pub plain: f64,
    /// The same, corrected by measurements.
    pub corrected: f64,
    /// Calls that are alike.
    pub calls: Vec<CallTimes>,
}

/// Times of calls that are alike, µs.
#[derive(Clone)]
pub(super) struct CallTimes {
    collective: String,
    bytes: u64,
    count: u64,
    measured: f64,
    plain: f64,
    corrected: f64,
}

/// The calls of a step, as `topo step` reports them with and without corrections.
///
/// # Errors
/// A report lacks them.
pub(super) fn calls(plain: &Value, corrected: &Value) -> Result<Vec<CallTimes>> {
    let rows = |report: &Value| report["calls"].as_array().cloned().context("no calls");
    let others = rows(corrected)?;
    let mut found = Vec::new();
    for row in rows(plain)? {
        let same = |it: &&Value| {
            ["group", "collective", "bytes", "data_type", "reduction"]
                .iter()
                .all(|key| it[*key] == row[*key])
        };
        let other = others.iter().find(same).context("other calls")?;
        let number = |row: &Value, key: &str| row[key].as_f64().context("a number");
        found.push(CallTimes {
            collective: row["collective"].as_str().unwrap_or_default().to_owned(),
            bytes: row["bytes"].as_u64().unwrap_or(0),
            count: row["count"].as_u64().unwrap_or(0),
            measured: number(&row["measured"], "median_us")?,
            plain: number(&row, "time_us")?,
            corrected: number(other, "time_us")?,
        });
    }
    found.sort_by_key(|it| (it.collective.clone(), it.bytes));
    Ok(found)
}

/// A run by its training, Mbit/s and hosts.
type Run = (&'static str, u32, u32);

/// All runs.
#[derive(Default)]
pub(super) struct Tables {
    runs: Vec<(Run, f64, Times)>,
}

impl Tables {
    /// Adds a run with its number of steps.
    pub(super) fn add(&mut self, run: Run, steps: u32, times: Times) {
        self.runs.push((run, f64::from(steps), times));
    }

    /// Whether corrected times of exposed communication are near enough, in the median.
    pub(super) fn is_good(&self) -> bool {
        self.error(|it| it.corrected) <= LARGEST_MEDIAN
    }

    /// The median error of exposed communication.
    fn error(&self, predicted: impl Fn(&Times) -> f64) -> f64 {
        let runs = self.runs.iter().map(|(.., it)| it);
        median(runs.map(|it| (predicted(it) / it.measured - 1.0).abs()))
    }

    /// The kinds of runs in order.
    fn kinds(&self) -> Vec<Run> {
        let mut kinds: Vec<Run> = self.runs.iter().map(|(run, ..)| *run).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn of(&self, kind: Run) -> impl Iterator<Item = (f64, &Times)> + Clone {
        let its = self.runs.iter().filter(move |(run, ..)| *run == kind);
        its.map(|(_, steps, times)| (*steps, times))
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| training | Mbit/s | hosts | exposed ms | waiting ms | NCCL's model ms | error | corrected ms | error | errors |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")?;
        for kind in self.kinds() {
            let its = self.of(kind);
            let each = |of: &dyn Fn(&Times) -> f64| {
                median(its.clone().map(|(steps, it)| of(it) / steps / 1e3))
            };
            let error = |it: &Times| it.corrected / it.measured - 1.0;
            let mut errors: Vec<f64> = its.clone().map(|(_, it)| error(it)).collect();
            errors.sort_by(f64::total_cmp);
            writeln!(
                f,
                "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {} | {:.1} | {} | {} to {} |",
                kind.0,
                kind.1,
                kind.2,
                each(&|it| it.measured),
                each(&|it| it.waiting),
                each(&|it| it.plain),
                percent(median(
                    its.clone().map(|(_, it)| it.plain / it.measured - 1.0)
                )),
                each(&|it| it.corrected),
                percent(median(errors.iter().copied())),
                percent(errors.first().copied().unwrap_or(0.0)),
                percent(errors.last().copied().unwrap_or(0.0)),
            )?;
        }
        writeln!(
            f,
            "\nmedian error of exposed communication: {:.1} % by NCCL's model, {:.1} % corrected; \
             at most {:.0} %\n",
            100.0 * self.error(|it| it.plain),
            100.0 * self.error(|it| it.corrected),
            100.0 * LARGEST_MEDIAN
        )?;
        self.write_calls(f)
    }
}

impl Tables {
    /// A table of calls that are alike.
    fn write_calls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| training | Mbit/s | hosts | collective | bytes | calls | measured ms | NCCL's model | corrected |"
        )?;
        writeln!(f, "|---|---:|---:|---|---:|---:|---:|---:|---:|")?;
        for kind in self.kinds() {
            let runs: Vec<&Times> = self.of(kind).map(|(_, it)| it).collect();
            let steps = self.of(kind).map(|(steps, _)| steps).next().unwrap_or(1.0);
            let Some(first) = runs.first() else {
                continue;
            };
            for call in &first.calls {
                let same =
                    |it: &&CallTimes| (&it.collective, it.bytes) == (&call.collective, call.bytes);
                let its: Vec<&CallTimes> = runs
                    .iter()
                    .filter_map(|run| run.calls.iter().find(same))
                    .collect();
                let error = |of: fn(&CallTimes) -> f64| {
                    percent(median(its.iter().map(|it| of(it) / it.measured - 1.0)))
                };
                writeln!(
                    f,
                    "| {} | {} | {} | {} | {} | {} | {:.2} | {} | {} |",
                    kind.0,
                    kind.1,
                    kind.2,
                    call.collective,
                    call.bytes,
                    call.count as f64 / steps,
                    median(its.iter().map(|it| it.measured)) / 1e3,
                    error(|it| it.plain),
                    error(|it| it.corrected),
                )?;
            }
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// The middle of some numbers, or the mean of the two in the middle; 0 of none.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let Some(last) = numbers.len().checked_sub(1) else {
        return 0.0;
    };
    (numbers[last / 2] + numbers[last.div_ceil(2)]) / 2.0
}
