//! Compares the cost model of a case: tables, and the choice for each message size.

use plan::{Algorithm, CostTable};
use program::{Collective, Protocol};
use serde_json::Value;

use super::compare::{self, Difference};

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn check(table: &CostTable, expected: &Value) -> Result<(), Difference> {
    for algorithm in Algorithm::ALL {
        let row = table.threads(algorithm);
        for protocol in Protocol::ALL {
            let at = |section: &str| format!("{section}.{algorithm}.{protocol}");
            let theirs = |section: &str| &expected[section][algorithm.name()][protocol.name()];
            let index = protocol as usize;
            let (most, threshold) = (i64::from(row.most[index]), row.threshold[index]);
            compare::integer(&at("maxThreads"), most, theirs("maxThreads"))?;
            compare::integer(
                &at("threadThresholds"),
                threshold,
                theirs("threadThresholds"),
            )?;
        }
    }
    for collective in Collective::TUNED {
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                let entry = table.entry(collective, algorithm, protocol);
                let mine = entry.map_or((0.0, 0.0), |entry| (entry.bandwidth, entry.latency));
                for (section, mine) in [("bandwidths", mine.0), ("latencies", mine.1)] {
                    let row = &expected[section][collective.name()][algorithm.name()];
                    // Rows without a value are left out.
                    let theirs = if row.is_null() {
                        &Value::from(0)
                    } else {
                        &row[protocol.name()]
                    };
                    let name = format!("{section}.{collective}.{algorithm}.{protocol}");
                    compare::float(&name, mine, theirs)?;
                }
            }
        }
        let choices = list(&expected["selection"][collective.name()]);
        if choices.is_empty() {
            return Err(Difference::new(
                format!("selection.{collective}"),
                "some",
                "none",
            ));
        }
        for theirs in choices {
            let name = format!("selection.{collective}[{}]", theirs[0]);
            check_choice(table, collective, theirs)
                .map_err(|difference| difference.within(&name))?;
        }
    }
    Ok(())
}

fn check_choice(
    table: &CostTable,
    collective: Collective,
    expected: &Value,
) -> Result<(), Difference> {
    let mut bytes = expected[0].as_u64().unwrap_or(0);
    if collective.splits_message() {
        // The cases ask for whole 32-bit numbers per rank, at least one.
        let numbers = u64::from(table.job.ranks) * 4;
        bytes = (bytes / numbers).max(1) * numbers;
    }
    let choice = match table.choose(collective, bytes) {
        Ok(choice) => choice,
        Err(_) => return compare::text("choice", "refused", &expected[1]),
    };
    compare::text("algorithm", choice.algorithm.name(), &expected[1])?;
    compare::text("protocol", choice.protocol.name(), &expected[2])?;
    compare::float("time", choice.time_us, &expected[3])?;
    compare::integer("channels", i64::from(choice.channels), &expected[4])?;
    compare::integer("warps", i64::from(choice.warps), &expected[5])
}
