//! Bytes by stage and purpose.

use std::collections::BTreeMap;

/// The call with which something is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The start of the communicator.
    Start,
    /// The first collective that takes rings.
    Ring,
    /// The first collective that takes trees.
    Tree,
    /// The first collective that takes PAT.
    Pat,
    /// The first collective that takes NVLink SHARP.
    Nvls,
    /// The first collective that takes NVLink SHARP and trees over nodes.
    NvlsTree,
    /// The first transfers between all ranks.
    Peers,
}

impl Stage {
    /// All, in the order in which NCCL connects what connects at once.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Ring,
        Self::Tree,
        Self::Pat,
        Self::Nvls,
        Self::NvlsTree,
        Self::Peers,
    ];

    /// Its name on pages and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Pat => "pat",
            Self::Nvls => "nvls",
            Self::NvlsTree => "nvls-tree",
            Self::Peers => "peers",
        }
    }
}

/// A part of a connection's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The buffer of LL.
    Ll,
    /// The buffer of LL128.
    Ll128,
    /// The buffer of Simple.
    Simple,
    /// Heads and tails, and what is left of the last page.
    Control,
}

/// The purpose of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Tables of channels, peers and ranks.
    Tables,
    /// Descriptors of work and counters.
    Work,
    /// Connections between GPUs.
    Direct(Part),
    /// Connections through the host's memory.
    SharedMemory(Part),
    /// Connections over the network.
    Network(Part),
    /// The buffers that all point-to-point connections of a GPU over the network share.
    NetworkPool,
    /// NVLink SHARP.
    Switches,
}

impl Purpose {
    /// Its name on pages and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Work => "work",
            Self::Direct(Part::Ll) => "P2P LL",
            Self::Direct(Part::Ll128) => "P2P LL128",
            Self::Direct(Part::Simple) => "P2P Simple",
            Self::Direct(Part::Control) => "P2P control",
            Self::SharedMemory(Part::Ll) => "SHM LL",
            Self::SharedMemory(Part::Ll128) => "SHM LL128",
            Self::SharedMemory(Part::Simple) => "SHM Simple",
            Self::SharedMemory(Part::Control) => "SHM control",
            Self::Network(Part::Ll) => "NET LL",
            Self::Network(Part::Ll128) => "NET LL128",
            Self::Network(Part::Simple) => "NET Simple",
            Self::Network(Part::Control) => "NET control",
            Self::NetworkPool => "NET shared",
            Self::Switches => "NVLS",
        }
    }
}

/// Bytes on a GPU and on its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Memory of the GPU.
    pub device: u64,
    /// Pinned or shared memory of the host.
    pub host: u64,
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.device += other.device;
        self.host += other.host;
    }
}

/// What one rank's GPU and host hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Bytes by stage and purpose.
    pub bytes: BTreeMap<(Stage, Purpose), Bytes>,
    /// Ends of connections that the rank makes at each stage.
    pub connections: BTreeMap<Stage, u32>,
}

impl Ledger {
    /// The bytes of some stages.
    pub fn total(&self, of: impl Fn(Stage) -> bool) -> Bytes {
        let mut total = Bytes::default();
        let bytes = self.bytes.iter().filter(|((stage, _), _)| of(*stage));
        bytes.for_each(|(_, bytes)| total += *bytes);
        total
    }
}
