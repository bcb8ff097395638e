//! Cost tables, times and choices.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use plan::cost::{Calls, Registration, TunedOperation};
use plan::{Algorithm, CostTable, Plan};
use program::{Collective, Protocol};

use crate::nccl_log::compare::answer::Answer;
use crate::nccl_log::compare::tally::Tally;

/// Half a digit of the log's numbers, which have one behind the point, and the rounding of 32-bit
/// numbers.
const HALF_DIGIT: f32 = 0.0501;

/// Relative difference that the order of 32-bit operations may make.
const ROUNDING: f32 = 1e-4;

/// Why there are neither times nor choices where every collective failed.
const NONE_STARTS: &str = "NCCL starts no collective";

fn is_near(said: f32, planned: f32, least: f32) -> bool {
    (said - planned).abs() <= least + ROUNDING * planned.abs()
}

pub(super) fn model(answer: &Answer, costs: &CostTable, tally: &mut Tally) {
    let pipelines = costs.pipeline.as_ref().map(|it| it.entries.as_slice());
    for ((collective, algorithm, protocol), said) in &answer.model {
        // NCCL logs zeros for pipelines (2.32.6, source).
        let mut pipelines = pipelines.unwrap_or_default().iter();
        if pipelines.any(|it| (it.algorithm, it.protocol) == (*algorithm, *protocol)) {
            tally.absent("NCCL logs no costs of pipelines, only their times");
            continue;
        }
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
    let mut are_considered = false;
    for ((collective, bytes), said) in &answer.times {
        // The plug-in was told the bytes of all calls together.
        let operation = TunedOperation {
            collective: *collective,
            bytes: *bytes / u64::from(answer.calls.number.max(1)),
            calls: answer.calls,
        };
        let planned = costs.candidates(&operation);
        let time_of = |wanted: &(Algorithm, Protocol)| {
            let found = planned.iter().find(|(choice, _)| choice == wanted);
            found.map(|(_, time)| *time)
        };
        let choices = planned.iter().map(|(choice, _)| *choice);
        let choices: BTreeSet<_> = choices.chain(said.keys().copied()).collect();
        are_considered |= !choices.is_empty();
        for choice in choices {
            let (algorithm, protocol) = choice;
            let what = format!("{collective} of {bytes} bytes, {algorithm}/{protocol}");
            let show = |time: Option<f32>| match time {
                Some(time) => format!("{time} µs"),
                None => "not considered".to_owned(),
            };
            match (said.get(&choice).copied(), time_of(&choice)) {
                (Some(said), Some(planned)) if is_near(said, planned, 0.0) => tally.agree(),
                (said, planned) => tally.differ(what, show(said), show(planned)),
            }
        }
    }
    if !are_considered && !answer.failures.is_empty() {
        tally.absent(NONE_STARTS);
    }
}

/// Collectives that NCCL refuses: the plan must have no choice for them, either.
pub(super) fn failures(answer: &Answer, plan: &Plan, tally: &mut Tally) {
    for failure in &answer.failures {
        let operation = TunedOperation {
            calls: answer.calls,
            ..TunedOperation::new(failure.collective, failure.bytes)
        };
        let costs = plan.costs.as_ref();
        let planned = match costs.map(|costs| costs.choose_for(&operation)) {
            Some(Err(_)) => {
                tally.agree();
                continue;
            }
            Some(Ok(choice)) => format!("{}/{}", choice.algorithm, choice.protocol),
            None => "a choice".to_owned(),
        };
        let what = format!("{} of {} bytes", failure.collective, failure.bytes);
        tally.differ(what, format!("refused: {}", failure.error), planned);
    }
}

pub(super) fn choices(answer: &Answer, plan: &Plan, tally: &mut Tally) {
    let Some(costs) = plan.costs.as_ref() else {
        return;
    };
    if starts_none(answer) {
        return tally.absent(NONE_STARTS);
    }
    // They are compared as windows.
    let on_windows = answer.calls.registration == Registration::Symmetric;
    if on_windows && answer.choices.is_empty() {
        return tally.absent("all collectives that NCCL starts use windows");
    }
    let show = |collective: Collective, bytes: u64| format!("{collective} of {bytes} bytes");
    for ((collective, bytes), said) in &answer.choices {
        let what = show(*collective, *bytes);
        let name = |(algorithm, protocol): (Algorithm, Protocol)| format!("{algorithm}/{protocol}");
        let operation = TunedOperation {
            collective: *collective,
            bytes: *bytes,
            calls: answer.calls,
        };
        match costs.choose_for(&operation) {
            Ok(choice) if (choice.algorithm, choice.protocol) == *said => {
                tally.agree();
                if let Some(said) = answer.spread.get(&(*collective, *bytes)) {
                    spread(&what, said, &costs.spread(&choice), tally);
                }
            }
            Ok(choice) => {
                let planned = name((choice.algorithm, choice.protocol));
                tally.differ(what, name(*said), planned);
            }
            Err(error) => tally.differ(what, name(*said), error),
        }
    }
}

/// Whether NCCL refused all collectives.
fn starts_none(answer: &Answer) -> bool {
    let started = !answer.choices.is_empty()
        || !answer.window_kernels.is_empty()
        || !answer.without_kernel.is_empty();
    !started && !answer.failures.is_empty()
}

/// The channels of each call.
fn spread(what: &str, said: &[[u32; 2]], planned: &[RangeInclusive<u32>], tally: &mut Tally) {
    // Sizes that round to the same bytes were called again.
    if said.is_empty() || planned.is_empty() {
        return;
    }
    if !said.len().is_multiple_of(planned.len()) {
        let count = |calls: usize| format!("channels of {calls} calls");
        return tally.differ(what, count(said.len()), count(planned.len()));
    }
    for (call, (said, planned)) in said.iter().zip(planned).enumerate() {
        let [first, last] = *said;
        if (first..=last) == *planned {
            tally.agree();
            continue;
        }
        let planned = format!("channels {}..{}", planned.start(), planned.end());
        let what = format!("{what}, call {call}");
        tally.differ(what, format!("channels {first}..{last}"), planned);
    }
}

/// The choices for registered windows.
pub(super) fn windows(answer: &Answer, plan: &Plan, tally: &mut Tally) {
    if answer.calls.registration != Registration::Symmetric {
        return tally.absent("no buffer is registered as a window");
    }
    if starts_none(answer) {
        return tally.absent(NONE_STARTS);
    }
    let Some(costs) = plan.costs.as_ref() else {
        return;
    };
    let kernels = answer.window_kernels.iter();
    let kernels = kernels.map(|((collective, bytes), (kernel, blocks, calls))| {
        let one = bytes / u64::from((*calls).max(1));
        (*collective, one, *calls, format!("{kernel} × {blocks}"))
    });
    let number = answer.calls.number.max(1);
    let without = answer.without_kernel.iter();
    let without = without.map(|(collective, bytes)| {
        let one = bytes / u64::from(number);
        (*collective, one, number, "copy engines".to_owned())
    });
    let ordinary = answer.choices.keys();
    let ordinary = ordinary
        .map(|(collective, bytes)| (*collective, *bytes, number, "an ordinary kernel".to_owned()));
    for (collective, bytes, number, said) in kernels.chain(without).chain(ordinary) {
        let planned = costs.window_choice(&TunedOperation {
            collective,
            bytes,
            calls: Calls {
                number,
                ..answer.calls
            },
        });
        let planned = match planned {
            Some(choice) if choice.kernel.is_none() => choice.name().to_owned(),
            Some(choice) => format!("{} × {}", choice.name(), choice.blocks),
            None => "an ordinary kernel".to_owned(),
        };
        match said == planned {
            true => tally.agree(),
            false => tally.differ(format!("{collective} of {bytes} bytes"), said, planned),
        }
    }
}
