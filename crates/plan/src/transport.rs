//! Transports between two ranks: directly, through shared memory, or over the network, and why.
//!
//! A plan stores them once per group of a machine ([`Transports`]). The [`Connection`] of any two
//! ranks follows from them.

use std::fmt;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::PathType;

use crate::graph::GraphKind;

/// Why two GPUs do not talk directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NotDirect {
    /// They are in different hosts without a common NVLink domain.
    OtherHost,
    /// They are in different nodes of one host: the sender planned without the receiver.
    OtherNode,
    /// The path between them is worse than the limit.
    Path {
        /// Their path.
        #[schemars(with = "crate::schema::PathTypeName")]
        path: PathType,
        /// The worst that is allowed (`NCCL_P2P_LEVEL`).
        #[schemars(with = "crate::schema::PathTypeName")]
        limit: PathType,
    },
    /// The driver grants no peer access.
    Refused,
    /// A GPU in between would have to relay, but the driver's copies cannot
    /// (`NCCL_P2P_USE_CUDA_MEMCPY`).
    Relay,
    /// Both reach a close NIC with more bandwidth than each other.
    NetworkFaster,
}

/// Why two ranks do not share host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NotShared {
    /// They are in different hosts.
    OtherHost,
    /// It is switched off (`NCCL_SHM_DISABLE`).
    Disabled,
    /// They are in different nodes of one host, which share none with NCCL 2.31 and newer, or with
    /// `NCCL_SHM_DISABLE`.
    OtherNode,
    /// Both reach a close NIC with more bandwidth than each other.
    NetworkFaster,
}

/// Why a NIC does not use GPUDirect RDMA, so that data goes through the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NoGdr {
    /// The port or its driver cannot.
    Nic,
    /// The GPU or its driver cannot.
    Gpu,
    /// The rank runs on a part of a GPU.
    Partition,
    /// Reading GPU memory is slow on GPUs before sm 80, or `NCCL_NET_GDR_READ` forbids it.
    Read,
    /// The path is worse than the limit.
    Path {
        /// The path from the GPU, or from the GPU that drives the port for it.
        #[schemars(with = "crate::schema::PathTypeName")]
        path: PathType,
        /// The worst that is allowed (`NCCL_NET_GDR_LEVEL`).
        #[schemars(with = "crate::schema::PathTypeName")]
        limit: PathType,
    },
    /// No rank runs on the GPU that would have to drive the port.
    NoProxy,
}

/// GPUDirect RDMA between a GPU and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Gdr {
    /// The NIC reaches GPU memory.
    Direct,
    /// The NIC reaches GPU memory over PCI although the GPU has a C2C link to its CPU.
    Pci,
    /// Data goes through host memory.
    Host(NoGdr),
}

impl Gdr {
    /// Whether the NIC reaches GPU memory.
    pub const fn is_direct(self) -> bool {
        !matches!(self, Self::Host(_))
    }
}

/// The transport between two GPUs of one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum GpuTransport {
    /// GPU to GPU.
    Direct {
        /// The GPU that relays, by its rank in the machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<u32>,
        /// The receiver reads instead of the sender writing.
        read: bool,
        /// The path.
        #[schemars(with = "crate::schema::PathTypeName")]
        path: PathType,
        /// Its bandwidth, GB/s.
        bw: f32,
    },
    /// Through memory of the host.
    SharedMemory {
        /// Why not directly.
        not_direct: NotDirect,
        /// The path between the GPUs.
        #[schemars(with = "crate::schema::PathTypeName")]
        path: PathType,
        /// Its bandwidth, GB/s.
        bw: f32,
    },
    /// Over the network.
    Network {
        /// Why not directly.
        not_direct: NotDirect,
        /// Why not through the host's memory.
        not_shared: NotShared,
    },
}

/// How a GPU uses a network port.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortUse {
    /// The GPU, by its rank in the machine.
    pub gpu: u32,
    /// The port ([`MachineNic::id`](crate::MachineNic::id)).
    pub net: i64,
    /// The GPU whose rank drives the port when this one sends (PXN); left out if it does so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<u32>,
    /// The path to it.
    #[serde(rename = "type")]
    #[schemars(with = "crate::schema::PathTypeName")]
    pub path_type: PathType,
    /// Bandwidth of the path, GB/s.
    pub bw: f32,
    /// Whether the NIC reads GPU memory when sending.
    pub send: Gdr,
    /// Whether the NIC writes GPU memory when receiving.
    pub receive: Gdr,
}

/// Ports of a GPU for point-to-point transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct P2pPorts {
    /// The GPU, by its rank in the machine.
    pub gpu: u32,
    /// Its own ports, on which it receives, for channels 0, 1 …; then they repeat.
    pub own: Vec<i64>,
    /// The ports on which it sends to GPUs with the device number of another GPU here, if they are
    /// not its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<Rail>,
}

/// The ports on which a GPU sends to a GPU of another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rail {
    /// Device number of the receiver's GPU.
    pub dev: i32,
    /// The ports of channels 0, 1 …; then they repeat.
    pub ports: Vec<RailPort>,
}

/// A port on which a GPU sends, and the GPU that drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RailPort {
    /// The port.
    pub net: i64,
    /// The GPU whose rank drives it (PXN); left out if the sender does so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<u32>,
}

/// The ports of a graph whose channels stay in their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InnerPorts {
    /// The graph.
    pub kind: GraphKind,
    /// The port of a channel's first GPU, and that of all others.
    pub nets: [i64; 2],
}

/// The transports of a group's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transports {
    /// The distinct transports between two GPUs of the group.
    #[serde(rename = "ways")]
    pub distinct: Vec<GpuTransport>,
    /// For each GPU of the group, ascending, the transport to each of them, as indices into `ways`.
    pub between: Vec<Vec<u16>>,
    /// How GPUs use the ports on which they may send or receive, by GPU and port.
    pub ports: Vec<PortUse>,
    /// Ports for point-to-point transfers, by GPU; those without ports are left out.
    pub p2p: Vec<P2pPorts>,
    /// Ports that graphs name for channels inside the group, by graph: those of a fallback channel
    /// from NCCL 2.29 on. Other graphs without ports have port 0 there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<InnerPorts>,
    /// Channels between one pair of ranks as the group's ranks count them, if rank 0 counts others:
    /// before NCCL 2.29 each rank looks at its own host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_peer: Option<u32>,
}

impl Transports {
    /// How a GPU uses a port.
    pub fn port(&self, gpu: u32, net: i64) -> Option<&PortUse> {
        let at = self
            .ports
            .binary_search_by_key(&(gpu, net), |port| (port.gpu, port.net));
        self.ports.get(at.ok()?)
    }

    /// The ports that a graph names for channels inside the group; `None` if it names none.
    pub fn inner(&self, kind: GraphKind) -> Option<[i64; 2]> {
        let found = self.inner.iter().find(|inner| inner.kind == kind);
        found.map(|inner| inner.nets)
    }

    /// Ports of a GPU for point-to-point transfers.
    pub fn p2p(&self, gpu: u32) -> Option<&P2pPorts> {
        let at = self.p2p.binary_search_by_key(&gpu, |ports| ports.gpu);
        self.p2p.get(at.ok()?)
    }

    /// The first two GPUs of the group, by their places, between which transports differ in kind by
    /// direction. Each rank decides by its own path, so a sender then offers what the receiver does
    /// not expect, and NCCL fails to connect them.
    pub fn contradictory_pair(&self) -> Option<(usize, usize)> {
        let kind = |from: usize, to: usize| {
            let index = self.between.get(from)?.get(to)?;
            let transport = self.distinct.get(usize::from(*index))?;
            Some(std::mem::discriminant(transport))
        };
        let places = 0..self.between.len();
        let mut pairs = places.flat_map(|to| (0..to).map(move |from| (from, to)));
        pairs.find(|(from, to)| kind(*from, *to) != kind(*to, *from))
    }
}

/// One side of a connection over the network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NetEnd {
    /// The port ([`MachineNic::id`](crate::MachineNic::id)).
    pub net: i64,
    /// The rank whose proxy drives the port: the rank itself, or with PXN the rank beside the port.
    pub proxy: u32,
    /// Whether the NIC reaches the GPU's memory.
    pub gdr: Gdr,
    /// The path from the GPU to the port.
    #[serde(rename = "type")]
    #[schemars(with = "crate::schema::PathTypeName")]
    pub path_type: PathType,
    /// Bandwidth of that path, GB/s.
    pub bw: f32,
}

/// The connection from one rank to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// GPU to GPU.
    Direct {
        /// The rank on the GPU that relays.
        via: Option<u32>,
        /// The receiver reads instead of the sender writing.
        read: bool,
        /// The path.
        #[schemars(with = "crate::schema::PathTypeName")]
        path: PathType,
        /// Its bandwidth, GB/s.
        bw: f32,
    },
    /// Through memory of the host.
    SharedMemory {
        /// Why not directly.
        not_direct: NotDirect,
        /// The path between the GPUs and its bandwidth, GB/s, if the sender's view holds both.
        #[schemars(with = "Option<(crate::schema::PathTypeName, f32)>")]
        path: Option<(PathType, f32)>,
    },
    /// Over the network.
    Network {
        /// Why not directly.
        not_direct: NotDirect,
        /// Why not through the host's memory.
        not_shared: NotShared,
        /// The sender's port.
        sender: NetEnd,
        /// The receiver's port.
        receiver: NetEnd,
    },
}

impl fmt::Display for NotDirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherHost => f.write_str("the GPUs are in different hosts"),
            Self::OtherNode => f.write_str("the GPUs are in different nodes of the host"),
            Self::Path { path, limit } => {
                write!(f, "{path} is farther than {limit} (NCCL_P2P_LEVEL)")
            }
            Self::Refused => f.write_str("the driver grants them no peer access"),
            Self::Relay => f.write_str(
                "a GPU in between cannot relay what the driver copies (NCCL_P2P_USE_CUDA_MEMCPY)",
            ),
            Self::NetworkFaster => f.write_str("the network is faster"),
        }
    }
}

impl fmt::Display for NotShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherHost => "the hosts share no memory",
            Self::Disabled => "shared memory is off (NCCL_SHM_DISABLE)",
            Self::OtherNode => "nodes of a host share none (NCCL 2.31 and newer, NCCL_SHM_DISABLE)",
            Self::NetworkFaster => "the network is faster",
        })
    }
}

impl fmt::Display for NoGdr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nic => f.write_str("the NIC has no GPUDirect RDMA"),
            Self::Gpu => f.write_str("the GPU has no GPUDirect RDMA"),
            Self::Partition => f.write_str("the rank runs on a part of a GPU"),
            Self::Read => f.write_str("reading GPU memory is off (NCCL_NET_GDR_READ)"),
            Self::Path { path, limit } => {
                write!(f, "{path} is farther than {limit} (NCCL_NET_GDR_LEVEL)")
            }
            Self::NoProxy => f.write_str("no rank runs on the GPU beside the NIC"),
        }
    }
}

impl fmt::Display for Gdr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("GDR"),
            Self::Pci => f.write_str("GDR over PCI"),
            Self::Host(why) => write!(f, "no GDR: {why}"),
        }
    }
}
