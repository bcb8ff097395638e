//! Ranks that do what a script says: some never come, wait in another order, end, or make calls of
//! which one fails. What NCCL then logs and what its RAS answers is the evidence of such a fault.
//!
//! A process has some GPUs of a host; the processes of a host share memory, and each host has an
//! address. Kernels do nothing, so a rank does not hang in a collective as it would on a GPU: NCCL
//! counts the call, and the rank stands still where the script ends.
//!
//! In reading order: this module (scripts), `host` (a child process), [`job`] (its parent), [`ras`]
//! (a client of RAS).

mod host;
pub mod job;
pub mod ras;

use std::path::PathBuf;

use program::Collective;
use serde::{Deserialize, Serialize};

use crate::message::Request;
use crate::plant::Plant;
pub use host::serve;
pub use job::{Evidence, ScriptedJob};

/// A step of a process's script. Its ranks are those of the process that are in a list of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Ranks make a communicator, and wait until all of the list have come.
    Make {
        /// Which of the job's unique ids it gets.
        id: u32,
        /// The ranks of the job, by their rank in the communicator.
        ranks: Vec<u32>,
    },
    /// Ranks start a collective.
    Call {
        /// The communicator's unique id.
        id: u32,
        /// The collective.
        collective: Collective,
        /// Its elements.
        elements: u32,
        /// NCCL's number of their type, whose elements have 4 bytes at most.
        data_type: i32,
        /// NCCL's number of the reduction.
        reduction: i32,
    },
    /// Nothing happens for some milliseconds.
    Pause(u32),
    /// Steps so many times.
    Repeat(u32, Vec<Step>),
    /// The process is stopped for some seconds.
    Stop(u32),
    /// Ranks destroy the communicator of a unique id.
    Destroy(u32),
    /// The process ends.
    Exit,
}

/// What a process is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Script {
    /// Devices, library, variables, and the ranks of this process's GPUs.
    pub request: Request,
    /// The number of the first of its GPUs.
    pub first_gpu: u32,
    /// Unique ids, which the first process makes.
    pub ids: u32,
    /// Calls that fail.
    pub plants: Vec<Plant>,
    /// The folder of the host's shared memory.
    pub shared_memory: PathBuf,
    /// What it does.
    pub steps: Vec<Step>,
}

/// What a process says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The job's unique ids, as hexadecimal digits.
    Ids(Vec<String>),
    /// It begins a step.
    Begins(usize),
    /// All steps are done, or one failed: NCCL's error. It then ends.
    Ends(Option<String>),
    /// The library cannot be asked.
    Unusable(String),
}
