//! Requests to a communicator, and the choice of how to run them.

use std::fmt;

use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};

/// A collective as the caller requests it. All ranks request the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// The collective.
    pub collective: Collective,
    /// Type of the elements.
    pub element: ElementType,
    /// The reduction, for collectives that reduce.
    pub reduction: Reduction,
    /// The root, or the sender of a transfer; 0 for other collectives.
    pub root: u32,
    /// The receiver of a transfer; 0 otherwise.
    pub to: u32,
    /// The tag of a transfer: transfers between two ranks match in order within a tag. 0 for
    /// collectives, at most [`BoundProgram::MOST_TAG`](program::BoundProgram::MOST_TAG).
    pub tag: u32,
    /// Whether input and output are in one buffer.
    pub in_place: bool,
    /// Elements of one block: the message, or each rank's part if the collective gathers or
    /// scatters.
    pub count: u64,
    /// The choice; `None` lets the backend choose.
    pub choice: Option<Choice>,
}

impl Request {
    /// A transfer of bytes between two ranks.
    pub(crate) const fn transfer((from, to): (u32, u32), tag: u32, bytes: u64) -> Self {
        Self {
            collective: Collective::SendRecv,
            element: ElementType::U8,
            reduction: Reduction::Sum,
            root: from,
            to,
            tag,
            in_place: false,
            count: bytes,
            choice: None,
        }
    }

    /// The least lengths of a rank's input and output, bytes.
    pub fn lengths(&self, rank: u32, ranks: u32) -> (u64, u64) {
        let block = self.count.saturating_mul(self.element.bytes().into());
        let all = block.saturating_mul(ranks.into());
        let at_root = |bytes| if rank == self.root { bytes } else { 0 };
        match self.collective {
            Collective::AllReduce => (block, block),
            Collective::AllGather => (block, all),
            Collective::ReduceScatter => (all, block),
            Collective::AllToAll => (all, all),
            Collective::Broadcast => (at_root(block), block),
            // In place the partial results of other ranks take the place of their inputs.
            Collective::Reduce if self.in_place => (block, block),
            Collective::Reduce => (block, at_root(block)),
            Collective::Gather => (block, at_root(all)),
            Collective::Scatter => (at_root(all), block),
            Collective::SendRecv => (at_root(block), if rank == self.to { block } else { 0 }),
        }
    }

    /// Bytes of the message as cost models count them: all ranks' parts together if the collective
    /// gathers or scatters.
    pub fn bytes(&self, ranks: u32) -> u64 {
        self.count
            .saturating_mul(u64::from(self.element.bytes()))
            .saturating_mul(self.collective.blocks(ranks))
    }
}

/// How a collective is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The algorithm.
    pub schedule: Schedule,
    /// How data is moved.
    pub transfer: Transfer,
    /// The protocol of FIFOs. Ignored by direct transfers, which use signals only.
    pub protocol: Protocol,
    /// Channels that are used.
    pub channels: u16,
    /// Most bytes of a piece; 0 is no bound.
    pub piece_bytes: u32,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transfer {
            Transfer::Direct | Transfer::Staged => write!(f, "{} {}", self.schedule, self.transfer),
            Transfer::Fifo => write!(f, "{} {}", self.schedule, self.protocol),
            Transfer::Hierarchical => {
                write!(f, "{} {} {}", self.schedule, self.transfer, self.protocol)
            }
        }
    }
}
