//! Cost tables, times and choices.

use std::collections::BTreeSet;

use plan::cost::TunedOperation;
use plan::{Algorithm, CostTable, Plan};
use program::{Collective, Protocol};

use crate::answer::Answer;
use crate::tally::Tally;

/// Half a digit of the log's numbers, which have one behind the point, and the rounding of 32-bit
/// numbers.
const HALF_DIGIT: f32 = 0.0501;

/// Relative difference that the order of 32-bit operations may make.
const ROUNDING: f32 = 1e-4;

fn is_near(said: f32, planned: f32, least: f32) -> bool {
    (said - planned).abs() <= least + ROUNDING * planned.abs()
}

pub(super) fn model(answer: &Answer, costs: &CostTable, tally: &mut Tally) {
    for ((collective, algorithm, protocol), said) in &answer.model {
        let entry = costs.entry(*collective, *algorithm, *protocol);
        let planned = entry.map_or([0.0, 0.0], |entry| [entry.latency, entry.bandwidth]);
        let what = format!("{collective} {algorithm}/{protocol}");
        let [latency, bandwidth] = planned;
        // What is off has no bandwidth, or -1 from 2.31 on.
        if said[1] <= 0.0 && bandwidth == 0.0 {
            tally.agree();
            continue;
        }
        let same = is_near(said[0], latency, HALF_DIGIT) && is_near(said[1], bandwidth, HALF_DIGIT);
        let show = |[latency, bandwidth]: [f32; 2]| format!("{latency} µs, {bandwidth} GB/s");
        match same {
            true => tally.agree(),
            false => tally.differ(what, show(*said), show(planned)),
        }
    }
}

pub(super) fn times(answer: &Answer, plan: &Plan, tally: &mut Tally) {
    let Some(costs) = plan.costs.as_ref() else {
        return;
    };
    if answer.other_tuner {
        return tally.absent("the tuner plug-in was told the times");
    }
    for ((collective, bytes), said) in &answer.times {
        let operation = TunedOperation {
            pipelined: said.operations,
            ..TunedOperation::new(*collective, *bytes)
        };
        let planned = costs.candidates(&operation);
        let time_of = |wanted: &(Algorithm, Protocol)| {
            let found = planned.iter().find(|(choice, _)| choice == wanted);
            found.map(|(_, time)| *time)
        };
        let choices = planned.iter().map(|(choice, _)| *choice);
        let choices: BTreeSet<_> = choices.chain(said.of.keys().copied()).collect();
        for choice in choices {
            let (algorithm, protocol) = choice;
            let what = format!("{collective} of {bytes} bytes, {algorithm}/{protocol}");
            let show = |time: Option<f32>| match time {
                Some(time) => format!("{time} µs"),
                None => "not considered".to_owned(),
            };
            match (said.of.get(&choice).copied(), time_of(&choice)) {
                (Some(said), Some(planned)) if is_near(said, planned, 0.0) => tally.agree(),
                (said, planned) => tally.differ(what, show(said), show(planned)),
            }
        }
    }
}

pub(super) fn choices(answer: &Answer, plan: &Plan, tally: &mut Tally) {
    let Some(costs) = plan.costs.as_ref() else {
        return;
    };
    let show = |collective: Collective, bytes: u64| format!("{collective} of {bytes} bytes");
    for ((collective, bytes), said) in &answer.choices {
        let what = show(*collective, *bytes);
        let name = |(algorithm, protocol): (Algorithm, Protocol)| format!("{algorithm}/{protocol}");
        let operations = answer.times.get(&(*collective, *bytes));
        let operation = TunedOperation {
            pipelined: operations.map_or(1, |times| times.operations),
            ..TunedOperation::new(*collective, *bytes)
        };
        match costs.choose_for(&operation) {
            Ok(choice) if (choice.algorithm, choice.protocol) == *said => tally.agree(),
            Ok(choice) => {
                let planned = name((choice.algorithm, choice.protocol));
                tally.differ(what, name(*said), planned);
            }
            Err(error) => tally.differ(what, name(*said), error),
        }
    }
}
