//! A cost profile: every constant of the cost model, so that another machine or version can be
//! described by a file.

use plan::{Algorithm, NcclVersion};
use program::Protocol;
use serde::{Deserialize, Serialize};

/// The version of the files' format.
pub const FORMAT: u32 = 1;

/// The text of the file of a built-in profile, to print or to start another one from.
pub const fn built_in_toml(version: NcclVersion) -> &'static str {
    match version {
        NcclVersion::V2_27 => include_str!("../../profiles/nccl-2.27.toml"),
        NcclVersion::V2_28 => include_str!("../../profiles/nccl-2.28.toml"),
        NcclVersion::V2_29 => include_str!("../../profiles/nccl-2.29.toml"),
        NcclVersion::V2_30 => include_str!("../../profiles/nccl-2.30.toml"),
        NcclVersion::V2_31 => include_str!("../../profiles/nccl-2.31.toml"),
        NcclVersion::V2_32 | NcclVersion::V2_32_6 => {
            include_str!("../../profiles/nccl-2.32.toml")
        }
    }
}

/// One value per protocol: LL, LL128, Simple.
pub type PerProtocol = [f64; 3];

/// One value for 1, 2, and 3 or more nodes.
pub type PerScale = [f64; 3];

/// Every constant of the cost model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CostProfile {
    /// Version of the format; [`FORMAT`].
    pub format: u32,
    /// Name, as it stands in plans.
    pub name: String,
    /// Where the values come from, by section.
    pub sources: ProfileSources,
    /// Time to start any message, µs.
    pub base_latency_us: PerAlgorithm,
    /// Time of one step, µs, by what it crosses.
    pub hardware_latency_us: HardwareLatency,
    /// Upper bounds of bandwidth, GB/s.
    pub bandwidth_limits_gbps: BandwidthLimits,
    /// What remains of the links' bandwidth.
    pub efficiency: Efficiency,
    /// Factors of a tree's bandwidth by size.
    pub tree_correction: TreeFactors,
    /// Further parts of the latency.
    pub latency: ExtraLatency,
    /// Threads.
    pub threads: ThreadLimits,
}

/// Where the values of each section come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProfileSources {
    /// Of [`CostProfile::base_latency_us`].
    pub base_latency_us: String,
    /// Of [`CostProfile::hardware_latency_us`].
    pub hardware_latency_us: String,
    /// Of [`CostProfile::bandwidth_limits_gbps`].
    pub bandwidth_limits_gbps: String,
    /// Of [`CostProfile::efficiency`].
    pub efficiency: String,
    /// Of [`CostProfile::tree_correction`].
    pub tree_correction: String,
    /// Of [`CostProfile::latency`].
    pub latency: String,
    /// Of [`CostProfile::threads`].
    pub threads: String,
}

/// Values per algorithm and protocol (LL, LL128, Simple).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are the algorithms")]
pub struct PerAlgorithm {
    pub tree: PerProtocol,
    pub ring: PerProtocol,
    pub collnet_direct: PerProtocol,
    pub collnet_chain: PerProtocol,
    pub nvls: PerProtocol,
    pub nvls_tree: PerProtocol,
    pub pat: PerProtocol,
}

impl PerAlgorithm {
    /// The value of an algorithm with a protocol.
    pub const fn of(&self, algorithm: Algorithm, protocol: Protocol) -> f64 {
        let row = match algorithm {
            Algorithm::Tree => &self.tree,
            Algorithm::Ring => &self.ring,
            Algorithm::CollNetDirect => &self.collnet_direct,
            Algorithm::CollNetChain => &self.collnet_chain,
            Algorithm::Nvls => &self.nvls,
            Algorithm::NvlsTree => &self.nvls_tree,
            Algorithm::Pat => &self.pat,
        };
        row[protocol as usize]
    }
}

/// Time of one step, µs, by what it crosses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HardwareLatency {
    /// NVLink.
    pub nvlink: PerAlgorithm,
    /// PCI Express, and any other link inside a node.
    pub pci: PerAlgorithm,
    /// The network.
    pub net: PerAlgorithm,
}

/// What a step crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hardware {
    /// NVLink.
    Nvlink,
    /// PCI Express, and any other link inside a node.
    Pci,
    /// The network.
    Net,
}

impl HardwareLatency {
    /// The values for a kind of hardware.
    pub const fn of(&self, hardware: Hardware) -> &PerAlgorithm {
        match hardware {
            Hardware::Nvlink => &self.nvlink,
            Hardware::Pci => &self.pci,
            Hardware::Net => &self.net,
        }
    }
}

/// Values per generation of GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PerGeneration<T> {
    /// Compute capability below 8.0.
    pub volta: T,
    /// 8.x.
    pub ampere: T,
    /// 9.x.
    pub hopper: T,
    /// 10.0 and above.
    pub blackwell: T,
}

impl<T> PerGeneration<T> {
    /// The value for a compute capability × 10.
    pub const fn of(&self, cc: i32) -> &T {
        match cc {
            100.. => &self.blackwell,
            90.. => &self.hopper,
            80.. => &self.ampere,
            _ => &self.volta,
        }
    }
}

/// Upper bounds of bandwidth, GB/s, each for 1, 2, and 3 or more nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BandwidthLimits {
    /// LL, all channels together. Between nodes the row is not the generation's: `ampere` holds
    /// with AMD or mixed processors, `volta` with others.
    pub ll: PerGeneration<PerScale>,
    /// A ring's channel with LL128.
    pub ring_ll128_channel: PerGeneration<PerScale>,
    /// A tree's channel with LL128.
    pub tree_ll128_channel: PerGeneration<PerScale>,
    /// A tree's channel.
    pub tree_channel: PerGeneration<PerScale>,
    /// A channel of NVLSTree.
    pub nvls_tree_channel: PerGeneration<PerScale>,
}

/// What remains of the links' bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Efficiency {
    /// Rings with LL.
    pub ring_ll: f64,
    /// Rings with LL128.
    pub ring_ll128: f64,
    /// Rings with Simple. NCCL takes all of the links' bandwidth for granted; files without this
    /// key do, too.
    pub ring_simple: f64,
    /// Trees.
    pub tree: f64,
    /// Divisor of trees with LL.
    pub tree_ll_divisor: f64,
    /// Trees with LL128 on one node.
    pub tree_ll128_one_node: f64,
    /// Trees with LL128 on several nodes.
    pub tree_ll128_several_nodes: f64,
    /// Trees whose parent and children all connect to one GPU.
    pub tree_on_one_gpu: f64,
    /// PAT.
    pub pat: f64,
    /// NVLS and NVLSTree.
    pub nvls: PerGeneration<f64>,
    /// Share of the network's bandwidth that CollNetDirect reaches when it gathers or scatters.
    pub collnet_direct_gather: f64,
    /// CollNetDirect all-reduce on Hopper and newer.
    pub collnet_direct_hopper: f64,
}

/// Factors of a tree's bandwidth by size; index k holds from 64·2^k bytes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are the protocols")]
pub struct TreeFactors {
    pub ll: [f64; 24],
    pub ll128: [f64; 24],
    pub simple: [f64; 24],
}

/// Further parts of the latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExtraLatency {
    /// The processor's time for one network message, µs.
    pub net_overhead_us: f64,
    /// The same on x86 processors of AMD, µs.
    pub net_overhead_amd_us: f64,
    /// Messages of one step with Simple.
    pub net_overhead_simple_factor: f64,
    /// CollNetDirect: time for each further GPU of the node, µs.
    pub collnet_direct_gpu_us: f64,
    /// PAT: steps that run at once.
    pub pat_overlap: f64,
    /// PAT: time for each rank, µs.
    pub pat_rank_us: f64,
    /// Factor of a ring all-reduce between nodes with Simple once messages are long, below compute
    /// capability 8.0.
    pub ring_simple_volta_factor: f64,
    /// The same from 8.0 on.
    pub ring_simple_factor: f64,
    /// Bytes per channel and rank from which that factor holds.
    pub ring_simple_bytes: u64,
}

/// Threads of a channel, and bytes per thread below which there are fewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ThreadLimits {
    /// Most threads of a ring with Simple where its bandwidth is small.
    pub ring_simple_slow: u32,
    /// Bandwidth of all channels up to which it is small, GB/s.
    pub ring_simple_slow_gbps: f64,
    /// Most threads of rings and trees with Simple.
    pub simple: u32,
    /// Most threads with LL.
    pub ll: u32,
    /// Most threads with LL128.
    pub ll128: u32,
    /// Threads of CollNet and NVLS.
    pub switch: u32,
    /// Bytes per thread with LL (and per rank in a ring).
    pub threshold_ll: u32,
    /// Bytes per thread with LL128.
    pub threshold_ll128: u32,
    /// Bytes per thread with Simple.
    pub threshold_simple: u32,
    /// Bytes per thread with Simple for CollNet.
    pub threshold_collnet: u32,
}
