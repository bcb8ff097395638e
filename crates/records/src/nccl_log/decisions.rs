//! Values that NCCL decides.

/// Numbers of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelCounts {
    /// Of collectives.
    pub collectives: u32,
    /// Of NVLink SHARP; 0 in versions that do not have it.
    pub nvls: u32,
    /// Of point-to-point transfers.
    pub p2p: u32,
    /// Between one pair of ranks.
    pub per_peer: u32,
}

/// The neighbors of a rank in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbors {
    /// Above; `None` for the root.
    pub up: Option<u32>,
    /// Below, in NCCL's slots.
    pub down: [Option<u32>; 3],
}

/// How one rank sends to another on a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// Directly or through the host's memory.
    pub local: Option<Local>,
    /// The sender's port.
    pub sender: Option<Port>,
    /// The receiver's port.
    pub receiver: Option<Port>,
}

/// A connection inside a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    /// GPU to GPU.
    Direct {
        /// The rank on the GPU that relays.
        via: Option<u32>,
        /// The receiver reads.
        read: bool,
    },
    /// Through the host's memory.
    SharedMemory,
}

/// A network port of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port {
    /// The plug-in's number.
    pub device: i32,
    /// The rank that drives it.
    pub proxy: u32,
    /// The NIC reaches the GPU's memory.
    pub gdr: bool,
}

/// The name of a pattern of the search by its number in the log.
pub const fn pattern(number: u32) -> &'static str {
    match number {
        1 => "balanced tree",
        2 => "split tree",
        3 => "tree",
        4 => "ring",
        5 => "NVLS",
        6 => "CollNet direct",
        _ => "unknown",
    }
}
