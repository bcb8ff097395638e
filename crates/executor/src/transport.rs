//! How one rank reaches another.

use std::fmt;

/// How a rank reaches another, in NCCL's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Both are in one address space, or one's device accesses the memory of the other's: buffers are accessed where they
    /// are.
    P2p,
    /// Both are on one host: FIFOs lie in shared memory; buffers are accessed through memory that both map, or by the
    /// kernel's reads and writes of another process.
    Shm,
    /// They are on different hosts, or cannot share memory: FIFOs are carried by a network.
    Net,
}

impl Transport {
    /// NCCL's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P2p => "P2P",
            Self::Shm => "SHM",
            Self::Net => "NET",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
