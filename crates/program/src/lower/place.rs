//! One rank's place in one channel: what every algorithm starts from.

use super::request::ProgramRequest;
use super::trees::Trees;
use super::write::copy;
use crate::{Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

/// A rank and a channel.
pub struct ChannelMember<'a> {
    pub request: &'a ProgramRequest<'a>,
    pub rank: u32,
    pub channel: u16,
    pub trees: &'a Trees,
}

/// The lanes of one rank and channel.
pub struct ChannelLanes {
    /// Pieces of a window; all ranks and channels say the same.
    pub pieces: u16,
    /// Blocks of scratch memory.
    pub scratch_blocks: u16,
    pub lanes: Vec<Lane>,
}

impl ChannelLanes {
    /// Without scratch memory.
    pub fn new(pieces: u32, lanes: Vec<Lane>) -> Self {
        Self::with_scratch(pieces, 0, lanes)
    }

    /// With scratch memory.
    pub fn with_scratch(pieces: u32, blocks: u32, lanes: Vec<Lane>) -> Self {
        // Both are at most the number of ranks, which `Channels` bounds.
        let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        Self {
            pieces: small(pieces),
            scratch_blocks: small(blocks),
            lanes,
        }
    }
}

impl ChannelMember<'_> {
    pub const fn ranks(&self) -> u32 {
        self.request.channels.ranks()
    }

    pub const fn root(&self) -> u32 {
        self.request.root
    }

    pub const fn is_root(&self) -> bool {
        self.rank == self.request.root
    }

    pub const fn in_place(&self) -> bool {
        self.request.in_place
    }

    /// The rank that is `distance` further.
    pub const fn after(&self, distance: u32) -> u32 {
        (self.rank + distance) % self.ranks()
    }

    /// The rank that is `distance` back.
    pub const fn before(&self, distance: u32) -> u32 {
        (self.rank + self.ranks() - distance % self.ranks()) % self.ranks()
    }

    /// All other ranks, each rank beginning with the one after it, so that not all meet at one.
    pub fn others(&self) -> impl Iterator<Item = u32> {
        (1..self.ranks()).map(|distance| self.after(distance))
    }

    pub const fn connection(&self, peer: u32) -> ConnectionEnd {
        ConnectionEnd {
            peer,
            channel: self.channel,
            port: 0,
        }
    }

    pub const fn fifo(&self, peer: u32) -> Operand {
        Operand::Fifo(self.connection(peer))
    }

    /// A FIFO beside the ordinary one, for a second lane with the same peer.
    pub const fn second_fifo(&self, peer: u32) -> Operand {
        Operand::Fifo(ConnectionEnd {
            peer,
            channel: self.channel,
            port: 1,
        })
    }

    /// The position of this rank in the channel's ring, and the ring.
    pub fn ring(&self) -> (u32, &[u32]) {
        let ring = &self.request.channels.rings()[self.channel as usize];
        let position = ring.iter().zip(0..).find(|(rank, _)| **rank == self.rank);
        (position.map_or(0, |(_, position)| position), ring)
    }

    /// A lane that is all body.
    pub fn lane(&self, body: Vec<Step>) -> Lane {
        Lane {
            channel: self.channel,
            prologue: Vec::new(),
            body,
            epilogue: Vec::new(),
        }
    }

    /// From the rank's own block of the input to its own block of the output, for collectives that reduce nothing;
    /// none where both are the same memory or one is not there.
    pub fn own_copy(&self) -> Option<Step> {
        let has_both = !self.request.collective.has_root() || self.is_root();
        (has_both && !self.in_place()).then(|| {
            let (from, to) = self.own_blocks();
            copy(Pieces::one(0), Operand::input(from), [Operand::output(to)])
        })
    }

    /// The blocks of input and output between which the rank's own data moves.
    pub const fn own_blocks(&self) -> (u32, u32) {
        match self.request.collective {
            Collective::AllGather | Collective::Gather => (0, self.rank),
            Collective::ReduceScatter | Collective::Scatter => (self.rank, 0),
            Collective::AllToAll => (self.rank, self.rank),
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv => (0, 0),
        }
    }

    /// The only rank there is. Reducing means to apply the operation's first and last part, also in place.
    pub fn alone(&self) -> ChannelLanes {
        let mut body: Vec<Step> = Vec::new();
        if self.request.collective.reduces() {
            let mut step = copy(Pieces::one(0), Operand::input(0), [Operand::output(0)]);
            step.finish = true;
            body.push(step);
        } else {
            body.extend(self.own_copy());
        }
        ChannelLanes::new(1, vec![self.lane(body)])
    }
}
