//! The values of a cost table.

use std::fmt;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::cost::window::costs::WindowCosts;
use program::{Collective, Protocol};

/// Traffic of a channel below which fewer channels are used, bytes.
pub const CHANNEL_TRAFFIC: u64 = 32 << 10;
/// The same before NCCL 2.29.
pub const NARROW_CHANNEL_TRAFFIC: u64 = 16 << 10;

/// Bandwidth and latency of every collective, algorithm and protocol, with what the choice needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    /// Name of the cost profile whose constants were used.
    pub profile: String,
    /// The communicator.
    pub job: CostJob,
    /// The entries, by collective, algorithm and protocol. A combination without an entry does not
    /// exist.
    pub entries: Vec<CostEntry>,
    /// Threads of each algorithm, in the order of [`Algorithm::ALL`].
    pub threads: Vec<Threads>,
    /// The share of their bandwidth that trees reach, by size.
    pub tree_correction: TreeCorrection,
    /// How latency grows with the message.
    pub latency_factors: LatencyFactors,
    /// How PAT is taken.
    pub pat: PatCosts,
    /// The model of NCCL 2.32.6 for Rubin; absent where only the older one holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineCosts>,
    /// What kernels for symmetric windows depend on; absent where NCCL has none for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowCosts>,
}

impl CostTable {
    /// The entry of a combination, if there is one.
    pub fn entry(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<&CostEntry> {
        self.entries.iter().find(|entry| {
            (entry.collective, entry.algorithm, entry.protocol) == (collective, algorithm, protocol)
        })
    }

    /// The threads of an algorithm; 0 if the table has no row.
    pub fn threads(&self, algorithm: Algorithm) -> Threads {
        let row = self.threads.iter().find(|row| row.algorithm == algorithm);
        row.copied().unwrap_or(Threads {
            algorithm,
            most: [0; 3],
            threshold: [0; 3],
        })
    }
}

/// The cost of one collective by one algorithm and protocol.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Entry")]
pub struct CostEntry {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Message bytes per time, GB/s (NCCL's algorithm bandwidth); 0 is unavailable.
    pub bandwidth: f32,
    /// Time of an empty message, µs.
    pub latency: f32,
    /// Why it is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Off>,
}

/// Why a combination is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Off {
    /// The user excluded the algorithm (`NCCL_ALGO`).
    AlgorithmSetting,
    /// The user excluded the protocol (`NCCL_PROTO`).
    ProtocolSetting,
    /// It joins nodes, and there is only one.
    OneNode,
    /// It needs a network that reduces.
    NoCollnet,
    /// Chains begin at GPUs that are not heads of the network.
    ChainHeads,
    /// It needs an NVSwitch.
    NoNvSwitch,
    /// 128 bytes may arrive out of order on these links or with these GPUs.
    Ll128Unsafe,
    /// LL128 needs a newer driver on this path to the network.
    Ll128Driver,
    /// The plug-in of the network, or the number of heads, does not allow this collective.
    NetworkLacksCollective,
    /// The algorithm does not support the protocol.
    ProtocolUnfit,
    /// There are no channels of this kind.
    NoChannels,
}

impl Off {
    /// The reason in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::AlgorithmSetting => "NCCL_ALGO leaves it out",
            Self::ProtocolSetting => "NCCL_PROTO leaves it out",
            Self::OneNode => "needs several nodes",
            Self::NoCollnet => "needs a network that reduces (CollNet)",
            Self::ChainHeads => "its chains begin at GPUs that are no heads of the network",
            Self::NoNvSwitch => "needs an NVSwitch",
            Self::Ll128Driver => {
                "Rubin's LL128 over C2C or PXN to the network needs a driver of CUDA 13.3 or newer"
            }
            Self::Ll128Unsafe => "LL128 is not safe on these links or GPUs",
            Self::NetworkLacksCollective => {
                "the network's plug-in or its heads do not allow this collective"
            }
            Self::ProtocolUnfit => "the algorithm has no such protocol",
            Self::NoChannels => "no channels of this kind were found",
        }
    }
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.reason())
    }
}

/// Threads of one algorithm, per protocol (LL, LL128, Simple).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threads {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Most threads of one channel.
    pub most: [i32; 3],
    /// Fewest bytes of a message per thread that make the thread worthwhile.
    pub threshold: [i64; 3],
}

/// The share of its bandwidth that a tree reaches, by size: the factor at index k holds from 64·2^k
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeCorrection {
    /// Protocol LL.
    pub ll: [f32; 24],
    /// Protocol LL128.
    pub ll128: [f32; 24],
    /// Protocol Simple.
    pub simple: [f32; 24],
    /// NVLSTree follows the factors, too, on Blackwell with x86 processors (NCCL 2.29 and newer).
    pub nvls_tree: bool,
    /// The message size, bytes, below which NVLSTree follows them in hosts of 4 Blackwell GPUs on
    /// Arm with fast ports, too (NCCL 2.31 and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvls_tree_on_arm: Option<u64>,
}

impl TreeCorrection {
    /// The factors of a protocol.
    pub const fn of(&self, protocol: Protocol) -> &[f32; 24] {
        match protocol {
            Protocol::Ll => &self.ll,
            Protocol::Ll128 => &self.ll128,
            Protocol::Simple => &self.simple,
        }
    }
}

/// How latency grows with the message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyFactors {
    /// Factor of a ring all-reduce between nodes with Simple, once every rank's piece of a channel
    /// has [`LatencyFactors::ring_simple_bytes`].
    pub ring_simple: f64,
    /// Bytes per channel and rank from which the factor holds.
    pub ring_simple_bytes: u64,
    /// How rings with Simple grow on one node (NCCL 2.31 and newer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_growth: Option<RingGrowth>,
}

/// How PAT is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pat")]
pub struct PatCosts {
    /// It is priced as if it took forever (NCCL 2.31 and newer, several ranks of a node): it is
    /// taken only if nothing else is left.
    pub last: bool,
    /// It reduces and scatters averages, too (NCCL 2.31 and newer).
    pub averages: bool,
}

/// What an algorithm with a protocol costs in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineEntry {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Time to start, µs.
    pub base_us: f64,
    /// Round trip of a step inside the node, and of one to the next, µs.
    pub round_us: [f64; 2],
    /// Bandwidth of a searched channel inside the node, and to the network, GB/s. Of NVLS what its
    /// efficiency leaves inside.
    pub bandwidth: [f64; 2],
    /// Searched channels.
    pub channels: u32,
    /// Thread blocks that share a searched channel. Of NVLS they follow from its channels.
    pub blocks: u32,
}

/// The pipeline model of a communicator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineCosts {
    /// The entries; other combinations have NCCL's older model.
    pub entries: Vec<PipelineEntry>,
    /// Fewest ranks of a node.
    pub min_local_ranks: u32,
}

/// How the latency of rings with Simple grows with their steps, once every rank's piece of a
/// channel has [`LatencyFactors::ring_simple_bytes`]: by 1 + growth · (1 - share^(steps - 1)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingGrowth {
    /// It holds for all-reduce, too, not only for all-gather and reduce-scatter.
    pub all_reduce: bool,
    /// Growth of many steps.
    pub growth: f64,
    /// The same for long messages.
    pub long_growth: f64,
    /// Bytes per channel and rank from which messages are long.
    pub long_bytes: u64,
    /// Bytes per channel and rank from which growth falls evenly to that of long messages; 0 if it
    /// falls at once.
    #[serde(default)]
    pub falls_from: u64,
    /// What a step leaves of the difference to that growth; 0 for the same growth of any number of
    /// steps.
    pub step_share: f64,
}

impl RingGrowth {
    /// The factor of a collective, for pieces of `bytes` bytes; 1 where latency does not grow.
    pub fn factor(&self, collective: Collective, ranks: u32, bytes: u64) -> f64 {
        let steps = match collective {
            Collective::AllReduce if self.all_reduce => ranks.saturating_sub(1).saturating_mul(2),
            Collective::AllGather | Collective::ReduceScatter => ranks.saturating_sub(1),
            _ => return 1.0,
        };
        let growth = match self.long_bytes {
            0 => self.growth,
            long if bytes >= long => self.long_growth,
            long if self.falls_from > 0 && bytes > self.falls_from => {
                let fallen = (bytes - self.falls_from) as f64 / (long - self.falls_from) as f64;
                self.growth + (self.long_growth - self.growth) * fallen
            }
            _ => self.growth,
        };
        if self.step_share == 0.0 {
            return 1.0 + growth;
        }
        let left = self.step_share.powf(f64::from(steps.saturating_sub(1)));
        1.0 + growth * (1.0 - left)
    }
}

/// The communicator, as the choice needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Job")]
pub struct CostJob {
    /// Ranks.
    pub ranks: u32,
    /// Nodes: ranks that reach each other without the network.
    pub nodes: u32,
    /// Most ranks of one node.
    pub max_local_ranks: u32,
    /// Smallest compute capability × 10.
    pub min_cc: i32,
    /// Collectives refuse 8-bit floating-point numbers: GPUs before compute capability 9.0 with
    /// NCCL 2.27.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_fp8: bool,
    /// All processors are x86.
    pub x86: bool,
    /// Channels of collectives.
    pub channels: u32,
    /// NVSwitches that reduce.
    pub nvls: Option<NvlsCosts>,
    /// A network that reduces.
    pub collnet: Option<Collnet>,
    /// Bytes of a channel's buffer per protocol (LL, LL128, Simple).
    pub buffer_bytes: [i64; 3],
    /// How calls are spread over channels.
    pub calls: CallLimits,
    /// What registered buffers gain.
    pub registered: RegisteredBuffers,
    /// The user restricted algorithms or protocols, so there may be none left.
    pub restricted: bool,
}

/// How calls are spread over channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallLimits {
    /// Traffic of a channel below which fewer channels are used, bytes.
    pub channel_traffic: u64,
    /// Fewest and most thread blocks of a kernel, one per channel.
    pub blocks: [u32; 2],
    /// Fewest channels of a call.
    pub fewest_channels: u32,
}

/// How the communicator uses registered buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisteredBuffers {
    /// The job is one node, whose GPUs reach each other's memory.
    pub direct_peers: bool,
    /// Channels of all-gathers and broadcasts in a ring of nodes of one GPU, 0 where ports do not
    /// reach the buffers directly. Absent where a node has several GPUs; and in older plans, for
    /// which ports always reach them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_gpu_ring: Option<u32>,
    /// Channels of NVLS; absent where it does not reach the buffers: a node has several hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvls: Option<RegisteredNvls>,
    /// All-gathers and reduce-scatters take NVLS where that needs no more channels
    /// (`NCCL_CTA_POLICY`).
    pub prefers_nvls: bool,
    /// Symmetric windows can be registered.
    pub windows: bool,
}

/// Channels of NVLS for registered buffers, by collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisteredNvls {
    /// All-reduce.
    pub all_reduce: u32,
    /// All-gather.
    pub all_gather: u32,
    /// Reduce-scatter.
    pub reduce_scatter: u32,
}

impl RegisteredNvls {
    /// The channels of a collective.
    pub const fn of(&self, collective: Collective) -> u32 {
        match collective {
            Collective::AllGather => self.all_gather,
            Collective::ReduceScatter => self.reduce_scatter,
            _ => self.all_reduce,
        }
    }
}

/// NVSwitches that reduce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nvls")]
pub struct NvlsCosts {
    /// Channels.
    pub channels: u32,
    /// Heads: GPUs that each own a part of the message.
    pub heads: u32,
    /// Largest chunk, bytes.
    pub chunk_bytes: i64,
    /// Largest chunk with trees between nodes, bytes.
    pub tree_chunk_bytes: i64,
}

/// A network that reduces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collnet {
    /// Heads of CollNetDirect: GPUs that talk to the network.
    pub heads: u32,
    /// Levels of CollNetDirect: 1 when each GPU is alone, otherwise 2.
    pub depth: u32,
}
