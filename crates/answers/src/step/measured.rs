//! Measured times of calls beside the predicted ones.

use serde::Serialize;
use workload::Workload;

use super::StepCall;
use crate::JsonSchema;

/// What calls that are alike took, without waiting for later ranks where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredCalls {
    /// Calls that ran.
    pub count: usize,
    /// The middle one, µs.
    pub median_us: f64,
    /// The shortest and the longest, µs.
    pub range_us: [f64; 2],
    /// What they waited for later ranks besides, all together, µs; null if it is not known.
    pub waiting_us: Option<f64>,
    /// How much longer the prediction is than the middle one, as a share of that.
    pub error: f64,
    /// The same of the call for which it is farthest from 0.
    #[serde(rename = "worst_error")]
    pub worst: f64,
}

/// Adds what a workload measured; `of_call` has the kind of each of its calls.
pub(super) fn add(calls: &mut [StepCall], workload: &Workload, of_call: &[usize]) {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); calls.len()];
    let mut waiting: Vec<Option<f64>> = vec![None; calls.len()];
    for (measured, at) in workload.measured.iter().zip(of_call) {
        let waited = measured.waiting_us.unwrap_or(0.0);
        times[*at].push(measured.time_us - waited);
        if let Some(time) = measured.waiting_us {
            *waiting[*at].get_or_insert(0.0) += time;
        }
    }
    for ((call, mut times), waiting_us) in calls.iter_mut().zip(times).zip(waiting) {
        times.retain(|time| *time > 0.0);
        times.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            continue;
        };
        let error = |time: f64| call.price.time_us / time - 1.0;
        let median_us = times[times.len() / 2];
        let ends = [error(*first), error(*last)];
        call.measured = Some(MeasuredCalls {
            count: times.len(),
            median_us,
            range_us: [*first, *last],
            waiting_us,
            error: error(median_us),
            worst: match ends[0].abs() > ends[1].abs() {
                true => ends[0],
                false => ends[1],
            },
        });
    }
}
