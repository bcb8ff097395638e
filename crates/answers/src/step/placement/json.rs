//! A placement as JSON.

use crate::JsonSchema;
use serde::Serialize;

use super::{MovedGroup, Placement};

/// A placement of ranks beside the order of the job. Pairs are of that order and of this one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlacementReport {
    /// The GPU of each rank; numbers of a host begin behind the largest of the host before.
    gpus: Vec<u32>,
    /// Whether it is better.
    better: bool,
    /// The step, µs.
    step_us: [f64; 2],
    /// The groups.
    groups: Vec<MovedReport>,
    /// Orders that were priced.
    tried: usize,
    /// Whether the search ended by itself.
    ended: bool,
    /// No order that gives a communicator the same GPUs on each of its hosts takes less, µs; null
    /// if that is not known.
    floor_us: Option<f64>,
}

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
struct MovedReport {
    /// Its name.
    name: String,
    /// Time of all its calls, µs.
    time_us: [f64; 2],
    /// Time that computation waits, µs.
    exposed_us: [f64; 2],
    /// Fewest and most hosts of a communicator.
    hosts: [[u32; 2]; 2],
}

impl PlacementReport {
    /// The report of a placement.
    pub fn of(placement: &Placement) -> Self {
        let groups = placement
            .groups
            .iter()
            .map(|group: &MovedGroup| MovedReport {
                name: group.name.clone(),
                time_us: group.time_us,
                exposed_us: group.exposed_us,
                hosts: group.hosts,
            });
        Self {
            gpus: placement.gpus(),
            better: placement.is_better(),
            step_us: placement.step_us,
            groups: groups.collect(),
            tried: placement.tried,
            ended: placement.ended,
            floor_us: placement.floor.map(|it| it.step_us),
        }
    }
}
