//! One rank in one channel: the input of every algorithm.

use super::hierarchy::Hierarchy;
use super::placed_forest::PlacedForest;
use super::request::ProgramRequest;
use super::trees::Trees;
use super::write::copy;
use crate::{Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

pub(super) struct ChannelMember<'a> {
    pub request: &'a ProgramRequest<'a>,
    pub rank: u32,
    pub channel: u16,
    pub trees: &'a Trees,
    pub forest: &'a PlacedForest,
    /// The leaders of the hosts, for hierarchical algorithms.
    pub hierarchy: Option<&'a Hierarchy>,
    /// Whether callers' buffers are at one place of all ranks' windows.
    pub registered: bool,
}

pub(super) struct ChannelLanes {
    /// Pieces of a window; equal on all ranks and channels.
    pub pieces: u16,
    pub scratch_blocks: u32,
    pub lanes: Vec<Lane>,
}

impl ChannelLanes {
    pub(super) fn new(pieces: u32, lanes: Vec<Lane>) -> Self {
        Self::with_scratch(pieces, 0, lanes)
    }

    pub(super) fn with_scratch(pieces: u32, blocks: u32, lanes: Vec<Lane>) -> Self {
        Self {
            // At most the number of ranks, which `Channels` bounds.
            pieces: u16::try_from(pieces).unwrap_or(u16::MAX),
            scratch_blocks: blocks,
            lanes,
        }
    }
}

impl ChannelMember<'_> {
    pub(super) const fn ranks(&self) -> u32 {
        self.request.channels.ranks()
    }

    pub(super) const fn root(&self) -> u32 {
        self.request.root
    }

    pub(super) const fn is_root(&self) -> bool {
        self.rank == self.request.root
    }

    pub(super) const fn in_place(&self) -> bool {
        self.request.in_place
    }

    pub(super) const fn after(&self, distance: u32) -> u32 {
        (self.rank + distance) % self.ranks()
    }

    pub(super) const fn before(&self, distance: u32) -> u32 {
        (self.rank + self.ranks() - distance % self.ranks()) % self.ranks()
    }

    /// All other ranks, beginning with the one after this, so that not all ranks start with the
    /// same peer.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> {
        (1..self.ranks()).map(|distance| self.after(distance))
    }

    pub(super) const fn connection(&self, peer: u32) -> ConnectionEnd {
        ConnectionEnd {
            peer,
            channel: self.channel,
            port: 0,
        }
    }

    pub(super) const fn fifo(&self, peer: u32) -> Operand {
        Operand::Fifo(self.connection(peer))
    }

    /// The FIFO of a second lane with the same peer.
    pub(super) const fn second_fifo(&self, peer: u32) -> Operand {
        Operand::Fifo(ConnectionEnd {
            peer,
            channel: self.channel,
            port: 1,
        })
    }

    /// The position of this rank in the channel's ring, and the ring.
    pub(super) fn ring(&self) -> (u32, &[u32]) {
        let ring = &self.request.channels.rings()[self.channel as usize];
        let position = ring.iter().zip(0..).find(|(rank, _)| **rank == self.rank);
        (position.map_or(0, |(_, position)| position), ring)
    }

    /// A lane without prologue and epilogue.
    pub(super) fn lane(&self, body: Vec<Step>) -> Lane {
        Lane {
            channel: self.channel,
            prologue: Vec::new(),
            body,
            epilogue: Vec::new(),
        }
    }

    /// Copies the rank's own block from input to output, for collectives that do not reduce; `None`
    /// if both are the same memory or one does not exist.
    pub(super) fn own_copy(&self) -> Option<Step> {
        let has_both = !self.request.collective.has_root() || self.is_root();
        (has_both && !self.in_place()).then(|| {
            let (from, to) = self.own_blocks();
            copy(Pieces::one(0), Operand::input(from), [Operand::output(to)])
        })
    }

    /// The blocks of input and output that hold the rank's own data.
    pub(super) const fn own_blocks(&self) -> (u32, u32) {
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

    /// The lanes of a single rank. A reduction applies the operation's first and last part, also in
    /// place.
    pub(super) fn alone(&self) -> ChannelLanes {
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
