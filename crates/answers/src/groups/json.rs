//! Groups of equal machines as JSON.

use crate::JsonSchema;
use serde::Serialize;
use topology::differences::MachineDifference;

use super::{Group, Groups};
use crate::differences::words;
use crate::ring_price::Cost;

/// Equal machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GroupRow {
    /// Their files.
    files: Vec<String>,
    /// Whether the others are compared with these: the largest group that can be planned, the
    /// fastest if several are as large.
    reference: bool,
    /// Whether a job would notice that they differ from the reference.
    noticed: bool,
    /// Why they cannot be planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_be_planned: Option<String>,
    /// Why they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_be_read: Option<String>,
    /// How they differ from the reference, device by device.
    differences: Vec<DifferenceRow>,
    /// Bandwidth lost against the reference; null if the planner cannot tell.
    cost: Option<Cost>,
}

/// A difference from the reference, or from A.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DifferenceRow {
    /// The devices that differ alike; none for the order of all devices.
    devices: Vec<String>,
    /// The value of the reference, or of A; null if it has none.
    expected: Option<String>,
    /// The value of these machines, or of B; null if they have none.
    found: Option<String>,
    /// The difference in words.
    text: String,
}

impl GroupRow {
    fn of(group: &Group, reference: bool) -> Self {
        Self {
            files: group.files.clone(),
            reference,
            noticed: group.noticed,
            cannot_be_planned: group.problem.clone(),
            cannot_be_read: group.unreadable.clone(),
            differences: group.differences.iter().map(DifferenceRow::of).collect(),
            cost: group.cost,
        }
    }
}

impl DifferenceRow {
    /// A difference.
    pub fn of(difference: &MachineDifference) -> Self {
        Self {
            devices: difference.devices.clone(),
            expected: difference.expected.clone(),
            found: difference.found.clone(),
            text: words(difference),
        }
    }
}

impl Groups {
    /// The groups for JSON.
    pub fn rows(&self) -> Vec<GroupRow> {
        let rows = self.all.iter().enumerate();
        rows.map(|(at, group)| GroupRow::of(group, at == 0))
            .collect()
    }
}
