//! The content of a file: communicators, and the choice for each collective and size.

/// All choices of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The communicators; several may have the same numbers of nodes and ranks.
    pub communicators: Vec<Communicator>,
}

/// A kind of communicator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Communicator {
    /// Nodes, as NCCL counts them.
    pub nodes: u64,
    /// Ranks.
    pub ranks: u64,
    /// The GPU sets for which it was made, such as `0-3,6`; for readers only.
    pub gpus: Vec<String>,
    /// NCCL's own costs of rings. They tell GPU sets of one size apart.
    pub costs: Vec<RingCost>,
    /// The choices, ascending by collective and size; ranges of one collective do not overlap.
    pub choices: Vec<Choice>,
}

/// NCCL's expectation of rings: an operation takes latency + bytes / bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingCost {
    /// NCCL's number of the collective.
    pub collective: u8,
    /// NCCL's number of the protocol.
    pub protocol: u8,
    /// Time of an empty message, µs.
    pub latency: f32,
    /// Message bytes per time, GB/s; above 0.
    pub bandwidth: f32,
}

/// The choice for the messages of a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// NCCL's number of the collective.
    pub collective: u8,
    /// Fewest bytes of the whole message.
    pub least: u64,
    /// Most bytes of the whole message.
    pub most: u64,
    /// NCCL's number of the algorithm.
    pub algorithm: u8,
    /// NCCL's number of the protocol.
    pub protocol: u8,
    /// Most channels; `None` for NCCL's number.
    pub channels: Option<u8>,
    /// Largest chunk, bytes; `None` for NCCL's.
    pub chunk: Option<u32>,
}

impl Communicator {
    /// The choice for a message of `bytes` bytes.
    pub fn choice(&self, collective: u8, bytes: u64) -> Option<&Choice> {
        let after = |it: &Choice| (it.collective, it.least) <= (collective, bytes);
        let found = self.choices[..self.choices.partition_point(after)].last()?;
        (found.collective == collective && bytes <= found.most).then_some(found)
    }
}
