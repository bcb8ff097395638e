//! How one rank reaches another.

use std::fmt;

use crate::bootstrap::Bootstrap;

/// How a rank reaches another, in NCCL's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Both are in one address space: buffers are accessed where they are.
    P2p,
    /// Both are on one host: FIFOs lie in shared memory; buffers are accessed through memory that both map, or by the
    /// kernel's reads and writes of another process.
    Shm,
}

impl Transport {
    /// The transport from the own rank to `peer`.
    pub fn to(bootstrap: &dyn Bootstrap, peer: u32) -> Self {
        if bootstrap.shares_memory(peer) {
            Self::P2p
        } else {
            Self::Shm
        }
    }

    /// NCCL's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P2p => "P2P",
            Self::Shm => "SHM",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
