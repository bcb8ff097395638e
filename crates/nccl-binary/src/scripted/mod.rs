//! Ranks that do what a script says: some never come, wait in another order, or make communicators
//! until one fails. What NCCL then logs and what its RAS answers is the evidence of such a fault.
//!
//! Kernels do nothing, so a rank does not hang in a collective as it would on a GPU: NCCL counts
//! the call, and the rank stands still where the script ends.
//!
//! In reading order: this module (scripts), `host` (a child process), [`job`] (its parent), [`ras`]
//! (a client of RAS).

mod host;
pub mod job;
pub mod ras;

use serde::{Deserialize, Serialize};

use crate::message::Request;
pub use host::serve;
pub use job::{Evidence, ScriptedJob};

/// A step of a host's script. Its ranks are those of the host that are in a list of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Ranks make a communicator, and wait until all of the list have come.
    Make {
        /// Which of the job's unique ids it gets.
        id: u32,
        /// The ranks of the job, by their rank in the communicator.
        ranks: Vec<u32>,
    },
    /// Ranks start an all-reduce.
    AllReduce {
        /// The communicator's unique id.
        id: u32,
        /// Its elements, of 4 bytes.
        elements: u32,
    },
}

/// What a host is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Script {
    /// Devices, library and variables.
    pub request: Request,
    /// The job's rank of its first GPU.
    pub first: u32,
    /// Unique ids, which the first host makes.
    pub ids: u32,
    /// Multicast objects that the NVSwitches have room for.
    pub multicast: Option<u32>,
    /// What it does.
    pub steps: Vec<Step>,
}

/// What a host says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The job's unique ids, as hexadecimal digits.
    Ids(Vec<String>),
    /// It begins a step.
    Begins(usize),
    /// All steps are done, or one failed: NCCL's error.
    Ends(Option<String>),
    /// The library cannot be asked.
    Unusable(String),
}
