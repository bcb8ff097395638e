//! The whole way: equal lanes once if that is exact, all of them otherwise.

use crate::model::Model;
use crate::outcome::{Deadlock, Outcome};

/// Most steps that are executed in a simulation; a million takes about a second.
const MOST_STEPS: u64 = 1_000_000_000;

/// Why a job was not simulated to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The programs do not end.
    #[error(transparent)]
    Stuck(#[from] Deadlock),
    /// It would take too long.
    #[error(
        "{steps} steps of {lanes} lanes are too many to simulate; expected at most {MOST_STEPS}. Hosts that do the same are simulated once: take equal hosts, and a size that is a multiple of 64 bytes times ranks times channels"
    )]
    TooManySteps {
        /// Steps.
        steps: u64,
        /// Lanes.
        lanes: usize,
    },
}

/// A simulated job.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The model that ran: the job, or one of each class of equal lanes.
    pub model: Model,
    /// For each lane of `model` its number in the job, and how many of the job it is.
    pub lanes: Vec<(u32, u32)>,
    /// For each link of `model` its number in the job, and how many of the job it is.
    pub links: Vec<(u32, u32)>,
    /// For each connection of `model` the ranks that send and receive in the job.
    pub connections: Vec<(u32, u32)>,
    /// Lanes and steps of the whole job.
    pub whole: (u64, u64),
    /// The result.
    pub outcome: Outcome,
}

/// Simulates a job. `spans` is the largest number of spans to record; `collapse` allows to simulate
/// equal lanes once.
///
/// # Errors
/// The job is too large, or its programs do not end.
pub fn simulate(model: Model, spans: usize, collapse: bool) -> Result<Simulation, SimulateError> {
    let whole = (model.lanes.len() as u64, model.executed());
    let small = if collapse { model.collapsed() } else { None };
    let ranks = |number: u32| {
        let connection = &model.connections[number as usize];
        let rank = |lane: u32| model.lanes[lane as usize].rank;
        (rank(connection.sender), rank(connection.receiver))
    };
    let (small, lanes, links, connections) = match small {
        Some(small) => {
            let connections = small.connections.iter().map(|it| ranks(*it)).collect();
            (Some(small.model), small.lanes, small.links, connections)
        }
        None => {
            let each = |count: usize| (0..count as u32).map(|at| (at, 1)).collect();
            let (lanes, links) = (each(model.lanes.len()), each(model.links.len()));
            let connections = (0..model.connections.len() as u32).map(ranks).collect();
            (None, lanes, links, connections)
        }
    };
    let model = small.unwrap_or(model);
    let steps = model.executed();
    if steps > MOST_STEPS {
        let lanes = model.lanes.len();
        return Err(SimulateError::TooManySteps { steps, lanes });
    }
    let outcome = model.run(spans)?;
    Ok(Simulation {
        model,
        lanes,
        links,
        connections,
        whole,
        outcome,
    })
}
