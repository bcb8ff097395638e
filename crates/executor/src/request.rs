//! What is asked of a communicator, and the way it is carried out.

use std::fmt;

use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};

/// One collective as a caller asks for it. All ranks ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// What all ranks do together.
    pub collective: Collective,
    /// Type of the elements.
    pub element: ElementType,
    /// How elements are reduced, by collectives that do.
    pub reduction: Reduction,
    /// The rank that has or gets the message, of a transfer the sender; 0 where there is no root.
    pub root: u32,
    /// The receiver of a transfer; 0 otherwise.
    pub to: u32,
    /// Whether the output is (the rank's block of) the input.
    pub in_place: bool,
    /// Elements of one block: of the message, or of each rank's piece where the collective gathers or scatters.
    pub count: u64,
    /// The way to take; the backend chooses if there is none.
    pub choice: Option<Choice>,
}

impl Request {
    /// Bytes of the message as cost models count them: all ranks' pieces together where the collective gathers or
    /// scatters.
    pub fn bytes(&self, ranks: u32) -> u64 {
        let blocks = if self.collective.splits_message() {
            u64::from(ranks)
        } else {
            1
        };
        self.count
            .saturating_mul(u64::from(self.element.bytes()))
            .saturating_mul(blocks)
    }
}

/// How a collective is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The algorithm.
    pub schedule: Schedule,
    /// How a mesh moves data.
    pub transfer: Transfer,
    /// How slots are handed over. Without meaning for a direct transfer, which uses signals only.
    pub protocol: Protocol,
    /// Channels that are used.
    pub channels: u16,
    /// Most bytes of a piece; 0 is no bound.
    pub piece_bytes: u32,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transfer {
            Transfer::Direct => write!(f, "{} {}", self.schedule, self.transfer),
            Transfer::Fifo => write!(f, "{} {}", self.schedule, self.protocol),
        }
    }
}
