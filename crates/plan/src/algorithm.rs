//! NCCL's algorithms.

use crate::JsonSchema;
use program::{Collective, named};
use serde::{Deserialize, Serialize};

/// An algorithm of NCCL.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Algorithm {
    /// A double binary tree between nodes, chains inside.
    Tree = 0,
    /// Rings.
    Ring = 1,
    /// A network that reduces (SHARP), each NIC's head GPU exchanging with all others of the node.
    CollNetDirect = 2,
    /// A network that reduces, chains inside the node.
    CollNetChain = 3,
    /// NVSwitches that reduce and multicast (NVLink SHARP), with a reducing network between nodes.
    #[serde(rename = "NVLS")]
    Nvls = 4,
    /// NVSwitches inside, trees between nodes.
    #[serde(rename = "NVLSTree")]
    NvlsTree = 5,
    /// Parallel aggregated trees, one rank per node.
    #[serde(rename = "PAT")]
    Pat = 6,
}

impl Algorithm {
    /// Whether the network reduces.
    pub const fn is_collnet(self) -> bool {
        matches!(self, Self::CollNetDirect | Self::CollNetChain)
    }

    /// Whether NVSwitches reduce.
    pub const fn is_nvls(self) -> bool {
        matches!(self, Self::Nvls | Self::NvlsTree)
    }

    /// Whether NVSwitches or the network reduce.
    pub const fn reduces_in_switches(self) -> bool {
        self.is_nvls() || self.is_collnet()
    }

    /// Whether NCCL has this algorithm for a collective.
    pub const fn serves(self, collective: Collective) -> bool {
        match collective {
            Collective::Broadcast | Collective::Reduce => matches!(self, Self::Ring),
            Collective::AllGather | Collective::ReduceScatter => {
                matches!(
                    self,
                    Self::Ring | Self::Nvls | Self::CollNetDirect | Self::Pat
                )
            }
            Collective::AllReduce => !matches!(self, Self::Pat),
            Collective::AllToAll
            | Collective::Gather
            | Collective::Scatter
            | Collective::SendRecv => false,
        }
    }
}

named!(Algorithm, "algorithm", |known, text| known.name().eq_ignore_ascii_case(text), {
    Tree = "Tree",
    Ring = "Ring",
    CollNetDirect = "CollNetDirect",
    CollNetChain = "CollNetChain",
    Nvls = "NVLS",
    NvlsTree = "NVLSTree",
    Pat = "PAT",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("nvlstree".parse(), Ok(Algorithm::NvlsTree));
    }

    #[test]
    fn serde_uses_the_same_names() {
        for algorithm in Algorithm::ALL {
            assert_eq!(
                serde_json::to_string(&algorithm).ok(),
                Some(format!("\"{algorithm}\""))
            );
        }
    }
}
