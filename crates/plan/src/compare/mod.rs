//! Two plans compared by meaning: what a job would notice, not how a plan is written.
//!
//! Compared are the machines (GPUs, ports, processors), the channels with their orders, ports, paths and bandwidths, what
//! all ranks have in common, the cost table, and the choice and its predicted time for each size. Not compared are names
//! and numbers that stand for the same thing: bus ids, device and NUMA numbers, ids and names of ports (they count by
//! their order), what the plan was made by and for, the settings as such, and how the searches went.
//!
//! In reading order: [`compare`], `canonical` (what is left out and renumbered), `tree` (the differences of what remains).

mod canonical;
mod tree;

use serde::Serialize;
use serde_json::Value;

use crate::algorithm::Algorithm;
use crate::cost::CostTable;
use crate::error::Error;
use crate::plan::Plan;
use program::{Collective, Protocol};

/// How two plans differ.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Comparison {
    /// What stands in the plans.
    pub facts: Vec<PlanDifference>,
    /// What is chosen for a size, and its predicted time.
    pub choices: Vec<ChoiceDifference>,
}

impl Comparison {
    /// Whether the plans mean the same.
    pub const fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.choices.is_empty()
    }
}

/// One value that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanDifference {
    /// Where it stands: keys and numbers, from the plan down.
    pub at: Vec<String>,
    /// The first plan's value; `None` where it has none.
    pub first: Option<Value>,
    /// The second plan's value; `None` where it has none.
    pub second: Option<Value>,
}

/// One size for which the plans differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChoiceDifference {
    /// The collective.
    pub collective: Collective,
    /// The whole message, bytes.
    pub bytes: u64,
    /// What the first plan takes; `None` if no way is left.
    pub first: Option<Chosen>,
    /// What the second plan takes; `None` if no way is left.
    pub second: Option<Chosen>,
}

/// What is taken for a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Chosen {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels used.
    pub channels: u32,
    /// Warps of 32 threads on each channel.
    pub warps: u32,
    /// Predicted time, µs.
    pub time_us: f32,
}

impl Chosen {
    /// What a table takes for a size; `None` if no way is left.
    pub fn of(costs: &CostTable, collective: Collective, bytes: u64) -> Option<Self> {
        let choice = costs.choose(collective, bytes).ok()?;
        Some(Self {
            algorithm: choice.algorithm,
            protocol: choice.protocol,
            channels: choice.channels,
            warps: choice.warps,
            time_us: choice.time_us,
        })
    }
}

/// Compares two plans; choices are compared for these sizes (bytes).
///
/// # Errors
/// A plan holds numbers that cannot be written.
pub fn compare(first: &Plan, second: &Plan, sizes: &[u64]) -> Result<Comparison, Error> {
    let facts = tree::differences(&canonical::value(first)?, &canonical::value(second)?);
    let mut choices = Vec::new();
    if let (Some(one), Some(other)) = (&first.costs, &second.costs) {
        for collective in Collective::TUNED {
            for &bytes in sizes {
                let (first, second) = (
                    Chosen::of(one, collective, bytes),
                    Chosen::of(other, collective, bytes),
                );
                if first != second {
                    choices.push(ChoiceDifference {
                        collective,
                        bytes,
                        first,
                        second,
                    });
                }
            }
        }
    }
    Ok(Comparison { facts, choices })
}
