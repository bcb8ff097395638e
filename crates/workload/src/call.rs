//! The calls of a step, in the order in which a rank makes them.

use plan::cost::DataType;
use program::{Collective, Reduction};

use crate::groups::Members;
use crate::tokens::{self, Tokens};

/// Most entries of a workload.
pub const MOST_CALLS: usize = 1 << 20;

/// Most groups of a workload.
pub const MOST_GROUPS: usize = 1 << 10;

/// Most times that an entry repeats.
pub const MOST_REPEATS: u64 = 1 << 32;

/// Longest time of an entry, µs: about 31 years.
pub const MOST_US: f64 = 1e15;

/// The communication of one step, as each rank makes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// Ranks of the job, where the workload says it.
    pub ranks: Option<u32>,
    /// The groups that call.
    pub groups: Vec<Group>,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// What computation waits for after the last call.
    pub waits_after: Vec<Wait>,
    /// Computation after the last call and these waits, µs.
    pub compute_after_us: f64,
    /// The pipeline, where there is one.
    pub pipeline: Option<Pipeline>,
    /// What each call took, if it was measured: one for each call, or none.
    pub measured: Vec<Measured>,
    /// What the reader assumed, in sentences.
    pub notes: Vec<String>,
}

/// Computation that goes before a wait for calls that do not block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wait {
    /// Computation, µs.
    pub compute_us: f64,
    /// Earlier entries whose end it then waits for.
    pub after: Vec<usize>,
}

/// The time of a call that ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What its kernel took, µs.
    pub time_us: f64,
    /// The part in which it waited for later ranks, µs; `None` if no trace of another rank says it.
    pub waiting_us: Option<f64>,
}

/// Ranks that call together. Each rank of the job is in one communicator of the group, or in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, such as `tp`.
    pub name: String,
    /// The ranks of its communicators.
    pub members: Members,
}

/// Equal calls of a group, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its name, such as that of the layer; may be empty.
    pub name: String,
    /// Index of its group.
    pub group: usize,
    /// The collective.
    pub collective: Collective,
    /// An all-to-all that moves tokens in two stages; its bytes are those of all copies.
    pub tokens: Option<Tokens>,
    /// Bytes of the whole message: all ranks' pieces together for a collective that gathers or
    /// scatters.
    pub bytes: u64,
    /// The type of the elements.
    pub data_type: DataType,
    /// How they are reduced.
    pub reduction: Reduction,
    /// How often it is called; at least 1.
    pub count: u64,
    /// What computation waits for before the first call.
    pub waits: Vec<Wait>,
    /// Computation before each call, µs.
    pub compute_us: f64,
    /// Computation at the same time as each call, µs.
    pub overlap_us: f64,
    /// The first call starts no earlier, µs after the step begins.
    pub start_us: Option<f64>,
    /// It starts after these earlier entries.
    pub after: Vec<usize>,
    /// Computation waits for its end. Otherwise only a later entry or the end of the step does.
    pub blocks: bool,
    /// Each micro-batch has it, so that the bubble of a pipeline has its share.
    pub micro_batch: bool,
}

impl Call {
    /// A call of 32-bit sums that is made once and blocks.
    pub const fn new(group: usize, collective: Collective, bytes: u64) -> Self {
        Self {
            name: String::new(),
            group,
            collective,
            tokens: None,
            bytes,
            data_type: DataType::F32,
            reduction: Reduction::Sum,
            count: 1,
            waits: Vec::new(),
            compute_us: 0.0,
            overlap_us: 0.0,
            start_us: None,
            after: Vec::new(),
            blocks: true,
            micro_batch: false,
        }
    }

    /// The name of its collective, or of the exchange.
    pub const fn operation(&self) -> &'static str {
        tokens::call_name(self.collective, self.tokens)
    }
}

/// A pipeline of stages with interleaved chunks of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipeline {
    /// Stages.
    pub stages: u32,
    /// Chunks of layers on each stage.
    pub chunks: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
}

impl Pipeline {
    /// The time that a rank idles, as a share of what it works for all micro-batches: (p − 1) / (v
    /// m) for p stages, v chunks and m micro-batches (Narayanan et al., "Efficient Large-Scale
    /// Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2).
    pub fn bubble(&self) -> f64 {
        let work = f64::from(self.chunks.max(1)) * f64::from(self.micro_batches.max(1));
        f64::from(self.stages.saturating_sub(1)) / work
    }
}

impl Workload {
    /// The place of the group of this name, which is added if there is none.
    pub(crate) fn group(&mut self, name: &str, members: Members) -> usize {
        let known = self.groups.iter().position(|group| group.name == name);
        known.unwrap_or_else(|| {
            self.groups.push(Group {
                name: name.to_owned(),
                members,
            });
            self.groups.len() - 1
        })
    }
}
