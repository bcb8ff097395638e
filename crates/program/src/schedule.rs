//! The algorithms for which programs are written.

use crate::collective::Collective;
use crate::element::{ElementType, Reduction};
use crate::named;

/// An algorithm that writes programs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Schedule {
    /// The channels' rings; with a root, the pipelined chain that is a ring without its last link.
    Ring,
    /// The channels' trees, normally a double binary tree.
    Tree,
    /// A reduce to one rank, then a broadcast from it.
    ReduceBroadcast,
    /// Recursive halving, then recursive doubling.
    HalvingDoubling,
    /// Every rank with every other, in one phase.
    Mesh,
    /// Every rank with every other, in two phases: each reduces its piece, then all get all pieces.
    TwoPhaseMesh,
    /// One rank per channel moves and reduces everything in the buffers of all ranks.
    Leader,
    /// Bruck: twice the data in each round, for any number of ranks.
    Bruck,
    /// Exchange with partners at distance 1, 2, 4 …: to gather, twice the data in each round; to
    /// reduce, the whole message.
    RecursiveDoubling,
    /// Exchange with partners at distance p/2, p/4 …, half the data in each round.
    RecursiveHalving,
    /// Trees with shares of the message: for each rank's block or each piece its own.
    Forest,
    /// NVLS: the switch reduces all ranks' data on a read, and stores to all ranks on a write.
    Nvls,
}

impl Schedule {
    /// Whether the algorithm can apply a reduction to an element type.
    ///
    /// A switch has the reductions of PTX's `multimem.ld_reduce`; averages are divided sums.
    pub const fn reduces(self, element: ElementType, reduction: Reduction) -> bool {
        use ElementType::{F32, F64, I8, U8};
        match (self, reduction) {
            (Self::Nvls, Reduction::Product) => false,
            (Self::Nvls, Reduction::Minimum | Reduction::Maximum) => {
                !matches!(element, I8 | U8 | F32 | F64)
            }
            (Self::Nvls, _) => !matches!(element, I8 | U8),
            _ => true,
        }
    }

    /// Whether this algorithm implements a collective with this kind of transfer.
    pub const fn serves(self, collective: Collective, transfer: Transfer) -> bool {
        use Collective::{
            AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
        };
        match (self, transfer) {
            (Self::Forest, Transfer::Hierarchical) => false,
            (_, Transfer::Hierarchical) => {
                use Collective::SendRecv;
                !matches!(collective, Gather | Scatter | SendRecv)
                    && self.serves(collective, Transfer::Fifo)
            }
            (Self::Nvls, Transfer::Direct) => {
                matches!(collective, AllReduce | AllGather | ReduceScatter)
            }
            (Self::Leader, Transfer::Direct) => {
                matches!(collective, AllReduce | AllGather | ReduceScatter | AllToAll)
            }
            (Self::Nvls | Self::Leader, Transfer::Fifo) => false,
            (Self::Mesh, Transfer::Staged) => !matches!(collective, Collective::SendRecv),
            (Self::Mesh, _) => true,
            (Self::TwoPhaseMesh, _) => matches!(collective, AllReduce),
            (_, Transfer::Direct | Transfer::Staged) => false,
            (Self::Ring | Self::Forest, Transfer::Fifo) => matches!(
                collective,
                AllReduce | AllGather | ReduceScatter | Broadcast | Reduce
            ),
            (Self::Tree, Transfer::Fifo) => matches!(
                collective,
                AllReduce | Broadcast | Reduce | Gather | Scatter
            ),
            (Self::ReduceBroadcast | Self::HalvingDoubling, Transfer::Fifo) => {
                matches!(collective, AllReduce)
            }
            (Self::Bruck, Transfer::Fifo) => matches!(collective, AllGather | AllToAll),
            (Self::RecursiveDoubling, Transfer::Fifo) => {
                matches!(collective, AllReduce | AllGather)
            }
            (Self::RecursiveHalving, Transfer::Fifo) => matches!(collective, ReduceScatter),
        }
    }
}

named!(Schedule, "algorithm", |known, text| known.name() == text, {
    Ring = "ring",
    Tree = "tree",
    ReduceBroadcast = "reduce-broadcast",
    HalvingDoubling = "halving-doubling",
    Mesh = "mesh",
    TwoPhaseMesh = "two-phase-mesh",
    Leader = "leader",
    Bruck = "bruck",
    RecursiveDoubling = "recursive-doubling",
    RecursiveHalving = "recursive-halving",
    Forest = "forest",
    Nvls = "nvls",
});

/// How an algorithm moves data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Transfer {
    /// Through FIFOs, by the protocol of the launch.
    Fifo,
    /// By reading and writing the peers' buffers in place.
    Direct,
    /// Through scratch memory of the communicator, which peers read: for buffers that they cannot
    /// access, or only slowly.
    Staged,
    /// On each host one rank per channel, the leader, reads and writes the buffers of all; between
    /// the leaders through FIFOs, as if each host were one rank.
    Hierarchical,
}

impl Transfer {
    /// Whether it has a protocol, because data moves through FIFOs.
    pub const fn has_protocol(self) -> bool {
        matches!(self, Self::Fifo | Self::Hierarchical)
    }

    /// Whether ranks access each other's inputs and outputs.
    pub const fn accesses_buffers(self) -> bool {
        matches!(self, Self::Direct | Self::Hierarchical)
    }

    /// Whether all ranks must be on one host, unless the backend reaches memory of others.
    pub const fn stays_on_host(self) -> bool {
        matches!(self, Self::Direct | Self::Staged)
    }
}

named!(Transfer, "transfer", |known, text| known.name() == text, {
    Fifo = "fifo",
    Direct = "direct",
    Staged = "staged",
    Hierarchical = "hierarchical",
});
