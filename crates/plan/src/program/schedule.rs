//! The algorithms for which programs are written.

use std::fmt;

/// An algorithm that writes programs. Names are those of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// The plan's rings; for a root, the pipelined chain that is a ring without its last link.
    Ring,
    /// The plan's (double binary) trees.
    Tree,
    /// A reduce to one rank, then a broadcast from it.
    ReduceBroadcast,
    /// Recursive halving, then recursive doubling.
    HalvingDoubling,
    /// Everyone with everyone in one phase.
    Mesh,
    /// Everyone with everyone in two phases: each rank reduces its piece of all inputs, then all get all pieces.
    TwoPhaseMesh,
    /// Bruck: twice the data in each round, for any number of ranks.
    Bruck,
    /// Exchange with partners at distance 1, 2, 4 …, twice the data in each round.
    RecursiveDoubling,
    /// Exchange with partners at distance p/2, p/4 …, half the data in each round.
    RecursiveHalving,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ring,
        Self::Tree,
        Self::ReduceBroadcast,
        Self::HalvingDoubling,
        Self::Mesh,
        Self::TwoPhaseMesh,
        Self::Bruck,
        Self::RecursiveDoubling,
        Self::RecursiveHalving,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::ReduceBroadcast => "reduce-broadcast",
            Self::HalvingDoubling => "halving-doubling",
            Self::Mesh => "mesh",
            Self::TwoPhaseMesh => "two-phase-mesh",
            Self::Bruck => "bruck",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// How a mesh moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transfer {
    /// Through FIFOs, by whatever protocol the launch uses.
    Fifo,
    /// By reading and writing the peers' buffers where they are.
    Direct,
}
