//! Compares two plans by meaning: differences that a job would notice.
//!
//! Compared are the machines (GPUs, ports, processors), the channels (orders, ports, paths,
//! bandwidths), what all ranks have in common, the cost table, and the choice and its predicted
//! time for each size. Not compared are bus ids, device and NUMA numbers, ids and names of ports
//! (only their order counts), the producer and the input, the settings, and the trails.
//!
//! In reading order: [`compare`], `canonical` (drops and renumbers), `tree` (the differences of the
//! rest).

mod canonical;
mod tree;

use crate::JsonSchema;
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
    /// Values of the plans that differ.
    pub facts: Vec<PlanDifference>,
    /// Sizes for which the choice or its predicted time differs.
    pub choices: Vec<ChoiceDifference>,
}

impl Comparison {
    /// Whether the plans mean the same.
    pub const fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.choices.is_empty()
    }
}

/// One value that differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanDifference {
    /// Its path: keys and numbers, from the plan down.
    pub at: Vec<String>,
    /// The first plan's value; `None` if it has none.
    pub first: Option<Value>,
    /// The second plan's value; `None` if it has none.
    pub second: Option<Value>,
}

/// One size for which the plans differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ChoiceDifference {
    /// The collective.
    pub collective: Collective,
    /// The whole message, bytes.
    pub bytes: u64,
    /// The first plan's choice; `None` if none is left.
    pub first: Option<SizeChoice>,
    /// The second plan's choice; `None` if none is left.
    pub second: Option<SizeChoice>,
}

/// The choice for a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SizeChoice {
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

impl SizeChoice {
    /// The choice of a table for a size; `None` if none is left.
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
                    SizeChoice::of(one, collective, bytes),
                    SizeChoice::of(other, collective, bytes),
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
