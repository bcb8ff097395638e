//! Nodes: the parts of a machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bus_id::BusId;

/// The type of a node, in the order of NCCL's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
pub enum NodeType {
    /// A rank on a GPU.
    Gpu = 0,
    /// A PCI switch.
    Pci = 1,
    /// All NVSwitches of the machine, seen as one.
    Nvs = 2,
    /// A CPU, one NUMA node.
    Cpu = 3,
    /// A network adapter.
    Nic = 4,
    /// A network port.
    Net = 5,
    /// A port for GPU-initiated networking.
    Gin = 6,
    /// A port for one-sided access.
    Rma = 7,
    /// The physical GPU with its links. NCCL 2.30 separates it from the rank ([`NodeType::Gpu`]).
    Dev = 8,
    /// The shared C2C port of a partitioned GPU.
    Cxb = 9,
}

impl NodeType {
    /// All types in list order.
    pub const ALL: [Self; 10] = [
        Self::Gpu,
        Self::Pci,
        Self::Nvs,
        Self::Cpu,
        Self::Nic,
        Self::Net,
        Self::Gin,
        Self::Rma,
        Self::Dev,
        Self::Cxb,
    ];

    /// NCCL's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Pci => "PCI",
            Self::Nvs => "NVS",
            Self::Cpu => "CPU",
            Self::Nic => "NIC",
            Self::Net => "NET",
            Self::Gin => "GIN",
            Self::Rma => "RMA",
            Self::Dev => "DEV",
            Self::Cxb => "CXB",
        }
    }
}

impl fmt::Display for NodeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The family of an x86 processor as NCCL before 2.31 writes it: it shifts the extended family by
/// 4 bits, where Linux adds it.
pub const fn nccl_family(linux: i32) -> i32 {
    const EXTENDED: i32 = 15;
    if linux < EXTENDED || linux > EXTENDED + 0xff {
        linux
    } else {
        EXTENDED + ((linux - EXTENDED) << 4)
    }
}

/// A node of a [`System`](crate::System). Nodes are numbered by type, in NCCL's list order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The 64-bit id that NCCL gives a node: the host's number in the top 8 bits, a local id below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NcclId(pub u64);

impl NcclId {
    const LOCAL_MASK: u64 = 0x00ff_ffff_ffff_ffff;

    /// Packs a host number and a local id.
    pub const fn new(system: u32, local: u64) -> Self {
        Self(((system as u64) << 56) | (local & Self::LOCAL_MASK))
    }

    /// The host's number in the system.
    pub const fn system(self) -> u32 {
        (self.0 >> 56) as u32
    }

    /// The local part.
    pub const fn local(self) -> u64 {
        self.0 & Self::LOCAL_MASK
    }
}

/// Processor architectures that NCCL tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuArch {
    /// x86-64.
    X86,
    /// IBM POWER.
    Power,
    /// 64-bit Arm.
    Arm,
    /// Not one of these.
    Unknown,
}

/// Processor vendors that NCCL tells apart (on x86 only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Zhaoxin (VIA, Shanghai).
    Zhaoxin,
    /// Not one of these.
    Unknown,
}

/// Processor generations that differ in the bandwidth between sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuModel {
    /// Intel up to Broadwell.
    IntelBroadwell,
    /// Intel Skylake to Ice Lake.
    IntelSkylake,
    /// Intel Sapphire Rapids.
    IntelSapphireRapids,
    /// Intel Emerald Rapids and newer; from NCCL 2.31 on Granite Rapids and Sierra Forest, too.
    IntelEmeraldRapids,
    /// AMD up to Zen 2 (Rome), and what NCCL 2.31 and newer do not know.
    AmdRome,
    /// AMD Zen 3 and Zen 4 (Milan, Genoa).
    AmdMilan,
    /// AMD Zen 5 (Turin).
    AmdTurin,
    /// Zhaoxin Yongfeng.
    ZhaoxinYongfeng,
    /// Anything else.
    Other,
}

/// Data of a CPU node.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpu {
    /// NUMA node number; -1 is unknown.
    pub numa: i32,
    /// Architecture.
    pub arch: CpuArch,
    /// Vendor.
    pub vendor: CpuVendor,
    /// Generation.
    pub model: CpuModel,
    /// The node's processors: groups of hexadecimal words, as in the file.
    pub affinity: Option<String>,
}

/// Data of a GPU node (one rank).
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// Rank in the communicator.
    pub rank: i32,
    /// NVML device number.
    pub dev: i32,
    /// Compute capability × 10.
    pub sm: i32,
    /// Whether GPUDirect RDMA is possible.
    pub gdr: bool,
    /// Partition of the device; `None` for a whole GPU.
    pub mlopart: Option<i32>,
    /// Device numbers of GPUs of its host with which the driver grants it no peer access: the
    /// attribute [`NO_P2P`] of topo's own, which NCCL does not read.
    pub no_p2p: Vec<i32>,
    /// PCI bus id.
    pub bus_id: BusId,
}

/// The attribute of a `<gpu>` that lists GPUs without peer access, by device number.
pub const NO_P2P: &str = "no_p2p";

/// Data of a DEV node (the physical GPU).
#[derive(Debug, Clone, PartialEq)]
pub struct Dev {
    /// NVML device number.
    pub dev: i32,
    /// Compute capability × 10.
    pub sm: i32,
    /// Vendor, device, subsystem vendor, subsystem device, 16 bits each.
    pub device_code: u64,
    /// PCI bus id.
    pub bus_id: BusId,
}

/// Data of a NET node (a network port).
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    /// The net plug-in's device number.
    pub dev: i32,
    /// Name, if the file gives one.
    pub name: Option<String>,
    /// The adapter's guid; NETs with equal guid and port are one port.
    pub asic: u64,
    /// Bandwidth, GB/s.
    pub bw: f32,
    /// Latency, µs.
    pub latency: f32,
    /// Port number.
    pub port: i32,
    /// Whether GPUDirect RDMA is possible.
    pub gdr: bool,
    /// Whether CollNet (SHARP) is possible.
    pub coll: bool,
    /// Most connections.
    pub max_connections: i32,
    /// Rail of a rail-optimized fabric.
    pub rail: Option<i32>,
    /// Plane of a multi-plane fabric.
    pub plane: Option<i32>,
    /// Name of the PCI function: the nearest ancestor's bus id, or the guid.
    pub pci_function: String,
    /// Its card is a ConnectX-8.
    pub connectx8: bool,
}

/// A node's own data, by type.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeData {
    /// A rank.
    Gpu(Gpu),
    /// A PCI switch.
    Pci {
        /// Vendor, device, subsystem vendor, subsystem device, 16 bits each. The low 16 bits are
        /// all set once the switch has absorbed its lower switches.
        device_code: u64,
    },
    /// The NVSwitches.
    Nvs,
    /// A NUMA node.
    Cpu(Cpu),
    /// An adapter.
    Nic,
    /// A port.
    Net(Net),
    /// A port for GPU-initiated networking, with its bandwidth in GB/s.
    Gin {
        /// The plug-in's device number.
        dev: i32,
        /// Bandwidth, GB/s.
        bw: f32,
    },
    /// A port for one-sided access, with its bandwidth in GB/s.
    Rma {
        /// The plug-in's device number.
        dev: i32,
        /// Bandwidth, GB/s.
        bw: f32,
    },
    /// A physical GPU.
    Dev(Dev),
    /// The C2C port of a partitioned GPU.
    Cxb,
}

/// A part of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// NCCL's id.
    pub id: NcclId,
    /// The node's own data.
    pub data: NodeData,
}

impl Node {
    /// The node's type.
    pub const fn kind(&self) -> NodeType {
        match self.data {
            NodeData::Gpu(_) => NodeType::Gpu,
            NodeData::Pci { .. } => NodeType::Pci,
            NodeData::Nvs => NodeType::Nvs,
            NodeData::Cpu(_) => NodeType::Cpu,
            NodeData::Nic => NodeType::Nic,
            NodeData::Net(_) => NodeType::Net,
            NodeData::Gin { .. } => NodeType::Gin,
            NodeData::Rma { .. } => NodeType::Rma,
            NodeData::Dev(_) => NodeType::Dev,
            NodeData::Cxb => NodeType::Cxb,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_as_nccl_counts_them() {
        // EPYC Rome is family 23 to Linux and 143 to NCCL, Milan 25 and 175; Xeons are 6 to both.
        for (linux, nccl) in [(6, 6), (15, 15), (23, 143), (25, 175)] {
            assert_eq!(nccl_family(linux), nccl);
        }
    }
}
