//! Compares the cost model of an answer: tables, times and the choice for each size.

use plan::{Algorithm, CostTable};
use planner::Planned;
use program::{Collective, Protocol};
use serde_json::Value;

use plan::cost::TunedOperation;

use crate::compare::{self, Difference, decimal};

type FieldCheck = Result<(), Difference>;

/// Every algorithm with every protocol, with the name that answers have.
fn columns() -> impl Iterator<Item = (Algorithm, Protocol, String)> {
    Algorithm::ALL.into_iter().flat_map(|algorithm| {
        Protocol::ALL.map(|protocol| (algorithm, protocol, format!("{algorithm}/{protocol}")))
    })
}

/// Compares latencies and bandwidths, as NCCL logs them. A single rank only copies; its costs mean
/// nothing.
pub(super) fn model(planned: &Planned, expected: &Value) -> FieldCheck {
    if planned.costs.job.ranks == 1 {
        return Ok(());
    }
    let costs = planned.logged_costs();
    for collective in Collective::TUNED {
        let row = &expected[collective.name()];
        for (algorithm, protocol, name) in columns() {
            let entry = costs.entry(collective, algorithm, protocol);
            // Less is written as 0.
            let entry = entry.filter(|entry| entry.bandwidth >= 0.05);
            let theirs = row
                .get(&name)
                .filter(|theirs| theirs[1].as_f64() != Some(-1.0));
            let name = format!("model.{collective}.{name}");
            match (entry, theirs) {
                (None, None) => {}
                (Some(entry), Some(theirs)) => {
                    decimal(&format!("{name} latency"), entry.latency, &theirs[0])?;
                    decimal(&format!("{name} bandwidth"), entry.bandwidth, &theirs[1])?;
                }
                (mine, theirs) => {
                    let mine = mine.map(|entry| (entry.latency, entry.bandwidth));
                    let (mine, theirs) = (format!("{mine:?}"), format!("{theirs:?}"));
                    return Err(Difference::new(name, mine, theirs));
                }
            }
        }
    }
    Ok(())
}

/// Calls `compare` for the choice of each collective and size.
fn each(
    planned: &Planned,
    expected: &Value,
    compare: impl Fn(&CostTable, &TunedOperation, &Value) -> FieldCheck,
) -> FieldCheck {
    for collective in Collective::TUNED {
        let choices = expected[collective.name()].as_array();
        for theirs in choices.into_iter().flatten() {
            let bytes = theirs["bytes"].as_u64().unwrap_or(0);
            let operation = TunedOperation::new(collective, bytes);
            compare(&planned.costs, &operation, theirs)
                .map_err(|difference| difference.within(&format!("{collective}[{bytes}]")))?;
        }
    }
    Ok(())
}

/// Compares the predicted times.
pub(super) fn costs(planned: &Planned, expected: &Value) -> FieldCheck {
    each(planned, expected, |table, operation, theirs| {
        let candidates = table.candidates(operation);
        for (algorithm, protocol, name) in columns() {
            let mine = candidates
                .iter()
                .find(|(choice, _)| *choice == (algorithm, protocol));
            match (mine, theirs["us"].get(&name)) {
                (None, None) => {}
                (Some((_, time)), Some(theirs)) => compare::float(&name, *time, theirs)?,
                (mine, theirs) => {
                    let mine = format!("{:?}", mine.map(|(_, time)| time));
                    return Err(Difference::new(name, mine, format!("{theirs:?}")));
                }
            }
        }
        Ok(())
    })
}

/// Compares algorithm and protocol.
pub(super) fn choices(planned: &Planned, expected: &Value) -> FieldCheck {
    each(planned, expected, |table, operation, theirs| {
        let choice = table
            .choose_for(operation)
            .map_err(|none| Difference::new("choice", none.to_string(), theirs.to_string()))?;
        compare::text("algorithm", choice.algorithm.name(), &theirs["algorithm"])?;
        compare::text("protocol", choice.protocol.name(), &theirs["protocol"])
    })
}

/// Compares the channels that a single operation uses.
pub(super) fn channels(planned: &Planned, expected: &Value) -> FieldCheck {
    each(planned, expected, |table, operation, theirs| {
        let Ok(choice) = table.choose_for(operation) else {
            return Ok(());
        };
        let used = table.spread(&choice).into_iter().next();
        let last = used.map_or(-1, |used| i64::from(*used.end()));
        compare::integer("first channel", 0, &theirs["channels"][0])?;
        compare::integer("last channel", last, &theirs["channels"][1])
    })
}
