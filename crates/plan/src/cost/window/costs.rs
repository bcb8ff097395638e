//! The costs of kernels for symmetric windows, as the planner writes them.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::kernel::WindowKernel;

/// Kernels and copy engines for symmetric windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Windows")]
pub struct WindowCosts {
    /// The kernels that the job may take.
    pub kernels: Vec<KernelCosts>,
    /// Of kernels with equal prices, the last is taken; otherwise the first.
    pub takes_last: bool,
    /// Thread blocks of each kernel (`NCCL_SYM_CTAS`); absent: as many as suit the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Numbers of thread blocks are 1 or multiples of this.
    pub block_step: u32,
    /// Bytes of the cells into which messages are cut, so that blocks without a cell do not start;
    /// absent: all blocks start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_bytes: Option<u64>,
    /// Most calls of a group that one kernel carries out; absent: groups take ordinary kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_calls: Option<u32>,
    /// Kernels reduce averages, too, not only sums.
    pub averages: bool,
    /// `NCCL_SYM_KERNEL` is set, so that kernels are taken for messages that do not suit them.
    pub forced: bool,
    /// Copy engines; absent: kernels gather messages of all sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<EngineCosts>,
}

/// All-gathers by copy engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Engines")]
pub struct EngineCosts {
    /// They are taken for more elements of a rank than these; -1: for all.
    pub above_elements: i64,
    /// How they copy, the fastest of which is taken; none where the version's model is not public.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<EngineCopy>,
}

/// One way of copy engines to gather.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineCopy {
    /// NVSwitches copy to all ranks; otherwise each rank copies to each other.
    pub multicast: bool,
    /// Time of an empty message, µs.
    pub latency: f32,
    /// Bandwidth, GB/s.
    pub bandwidth: f32,
    /// Bandwidth of a rank's copy to itself, out of place, over its host's memory, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bandwidth: Option<f32>,
}

impl EngineCosts {
    /// The time for `bytes` bytes of each rank, µs; `None` if the model is not public.
    pub(super) fn time_us(&self, ranks: u32, bytes: u64, in_place: bool) -> Option<f64> {
        let times = self.copies.iter().map(|copy| {
            let targets = if copy.multicast { ranks } else { ranks - 1 };
            let time = |bytes: f64, bandwidth: f32| bytes / f64::from(bandwidth) / 1e3;
            let own = copy.own_bandwidth.filter(|_| !in_place);
            let own = own.map_or(0.0, |it| time(bytes as f64, it));
            let all = time(bytes as f64 * f64::from(targets), copy.bandwidth);
            f64::from(copy.latency) + all.max(own)
        });
        times.reduce(f64::min)
    }
}

/// The costs of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Kernel")]
pub struct KernelCosts {
    /// The kernel.
    pub kernel: WindowKernel,
    /// Most thread blocks.
    pub most_blocks: u32,
    /// A choice pays this share of its time for each thread block.
    pub block_price: f32,
    /// Bytes of a call below which the kernel is not taken.
    pub least_bytes: u64,
    /// The same for each thread block.
    pub least_block_bytes: u64,
    /// Its time.
    pub time: KernelTime,
    /// The time of a single call, the first row for its sums; absent: as `time`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub single: Vec<CallTime>,
}

/// The sums that a row is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sums {
    /// Of floating-point numbers of 16 bits.
    TwoBytes,
    /// Of floating-point numbers of 8 bits.
    OneByte,
}

/// NCCL's model of a single call: latencies, and the longer of what thread blocks and links need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallTime {
    /// The sums that it is for; absent: all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<Sums>,
    /// Time of an empty message, µs.
    pub base: f64,
    /// Time for each other rank, µs.
    pub rank: f64,
    /// Bandwidth of a thread block, GB/s.
    pub block: f64,
    /// The same in pieces of 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small: Option<f64>,
    /// The same in what the pieces leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<f64>,
    /// Bandwidth at which a block handles the flags of LL, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ll: Option<f64>,
    /// Blocks handle flags before links move data; otherwise at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// Bandwidth of the links, GB/s.
    pub peak: f64,
    /// Links carry the rank's own share, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub switched: bool,
    /// Factor of the bandwidth of one block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one: Option<f64>,
    /// Factors of the bandwidth of 8 and of 32 blocks, with more than 4 ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<[f64; 2]>,
    /// Most blocks whose work overlaps with the latencies of ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<f64>,
    /// From 14 blocks on, with 2 more than a multiple of 4: further time, µs, and bandwidth of the
    /// links, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trough: Option<[f64; 2]>,
    /// Bandwidth of the links with fewer blocks than ranks, GB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub few: Option<f64>,
    /// A choice pays this share of its time for each thread block.
    #[serde(default = "single_price")]
    pub block_price: f32,
}

/// The price of a thread block in a single call.
const fn single_price() -> f32 {
    0.02
}

/// The time of a kernel for a message by its thread blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum KernelTime {
    /// NCCL's model, with soft limits, µs.
    Smooth {
        /// Time of an empty message, µs.
        latency: f64,
        /// Bandwidth of a thread block, GiB/s.
        block: f64,
        /// How often a byte of a block counts on the links.
        fan_out: f64,
        /// Bandwidth of the links, GiB/s.
        peak: f64,
    },
    /// Of plans from before NCCL's model of single calls was known. Fitted to choices, which tell
    /// ratios only: in a unit of its own.
    Longest {
        /// Time of an empty message.
        base: f64,
        /// Time of one block for a KiB of one rank.
        block: f64,
        /// Factor of several blocks.
        several: f64,
        /// Time of the links for a KiB of one rank.
        link: f64,
    },
}

impl KernelTime {
    /// Whether it is in a unit of its own.
    pub(super) const fn is_fitted(&self) -> bool {
        matches!(self, Self::Longest { .. })
    }
}
