//! The way from one rank to another.

use std::fmt;

/// How one rank reaches another, with NCCL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Both are in one address space, or their devices access each other's memory: buffers are
    /// accessed in place.
    P2p,
    /// Both are on one host: FIFOs are in shared memory; buffers are accessed through memory that
    /// both map, or by the kernel (`process_vm_readv`).
    Shm,
    /// They are on different hosts, or cannot share memory: proxies move FIFOs over a network.
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
