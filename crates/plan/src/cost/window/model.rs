//! The time of kernels for symmetric windows.

use program::Collective;

use super::CELL;
use crate::cost::kernel::WindowKernel;
use crate::version::NcclVersion;

/// Most thread blocks of a kernel (`ncclSymkMaxBlocks`).
const MOST_BLOCKS: u32 = 64;

/// A message of LL moves so many times its bytes: flags, and no unrolled loops.
const LL_TRAFFIC: f64 = 9.0;

/// GiB/s in bytes per µs.
const GIB_PER_S: f64 = (1u64 << 30) as f64 / 1e6;

/// NCCL's model of a kernel on GPUs of a compute capability × 10, for bytes of all calls together:
/// of one rank where a collective gathers or scatters.
pub(super) fn smooth(
    nccl: NcclVersion,
    kernel: WindowKernel,
    (ranks, cc): (u32, i32),
    bytes: u64,
) -> KernelModel {
    let (blackwell, newer) = (cc >= 100, nccl >= NcclVersion::V2_31);
    let (traffic, fan_out, most_blocks) = traffic(newer, kernel, (ranks, blackwell), bytes);
    let (latency, block, peak) = speed(newer, kernel, blackwell);
    KernelModel {
        most_blocks,
        time: TimeModel::Smooth {
            traffic,
            latency,
            block: block * GIB_PER_S,
            fan_out,
            peak: peak * GIB_PER_S,
        },
    }
}

/// What a kernel sends or receives, bytes; how often a byte of a block counts on the links; and
/// most blocks.
fn traffic(
    newer: bool,
    kernel: WindowKernel,
    (ranks, blackwell): (u32, bool),
    bytes: u64,
) -> (f64, f64, u32) {
    use WindowKernel::{
        AllGatherDirect, AllGatherLl, AllGatherLlMulticast, AllGatherMulticast, AllGatherTma,
        AllGatherTmaMulticast, AllReduceDirect, AllReduceLl, AllReduceLlMulticast,
        AllReduceMulticast, AllReduceTma, ReduceScatterDirect, ReduceScatterLl,
        ReduceScatterMulticast, ReduceScatterTma,
    };
    let width = f64::from(ranks);
    let switched = if blackwell { 32_u32 } else { 16 }.div_ceil(ranks);
    let ranks = u64::from(ranks);
    let whole = |bytes: u64| bytes as f64;
    let others = (ranks - 1).saturating_mul(bytes);
    match kernel {
        AllReduceLl | AllGatherLl | ReduceScatterLl => (
            (ranks.saturating_mul(bytes) as f64 * LL_TRAFFIC).trunc(),
            1.0,
            MOST_BLOCKS,
        ),
        // A little above 1, so that they are preferred.
        AllReduceLlMulticast | AllGatherLlMulticast => (
            (ranks.saturating_mul(bytes) as f64 * LL_TRAFFIC).trunc(),
            1.1,
            MOST_BLOCKS,
        ),
        AllReduceTma | AllReduceDirect => (
            whole(bytes.saturating_mul(2).saturating_mul(ranks - 1) / ranks),
            1.0,
            MOST_BLOCKS,
        ),
        AllReduceMulticast => (whole(bytes / ranks + bytes), width, switched),
        AllGatherTma | AllGatherDirect | ReduceScatterTma | ReduceScatterDirect => {
            (whole(others), 1.0, MOST_BLOCKS)
        }
        AllGatherTmaMulticast if newer => (whole(others), 0.99 * 0.55 * width, switched),
        AllGatherTmaMulticast | AllGatherMulticast | ReduceScatterMulticast => {
            (whole(others), 0.55 * width, switched)
        }
    }
}

/// Time of an empty message, µs; bandwidth of a thread block, and of the links, GiB/s.
fn speed(newer: bool, kernel: WindowKernel, blackwell: bool) -> (f64, f64, f64) {
    let (is_ll, collective) = (kernel.is_ll(), kernel.collective());
    let reduces_all = collective == Collective::AllReduce;
    let in_switch = kernel == WindowKernel::AllReduceMulticast;
    let (mut latency, block, mut peak) = match blackwell {
        false => (
            if is_ll { 4.5 } else { 7.8 },
            if reduces_all { 65.0 } else { 44.0 },
            if in_switch { 480.0 } else { 320.0 },
        ),
        true => (
            match (is_ll, collective) {
                (true, Collective::AllGather) => 8.5,
                (true, Collective::ReduceScatter) if newer => 10.5,
                (true, _) => 11.0,
                (false, Collective::AllReduce) => 19.5,
                (false, _) => 13.0,
            },
            55.0,
            match collective {
                _ if in_switch => 1000.0,
                Collective::ReduceScatter if newer => 650.0,
                _ => 600.0,
            },
        ),
    };
    if blackwell && newer && kernel.is_tma() {
        latency += 4.0;
        if kernel == WindowKernel::AllGatherTma {
            peak = 700.0;
            latency += 19.0;
        }
        if kernel != WindowKernel::AllGatherTmaMulticast {
            peak *= 1.07;
        }
    }
    (latency, block, peak)
}

/// NCCL's model of a kernel for a message.
pub(super) struct KernelModel {
    /// Most thread blocks.
    pub(super) most_blocks: u32,
    /// Its time.
    time: TimeModel,
}

/// The time of a kernel for a message by its thread blocks.
enum TimeModel {
    /// With soft limits.
    Smooth {
        /// Bytes that it sends or receives.
        traffic: f64,
        /// Time of an empty message, µs.
        latency: f64,
        /// Bandwidth of a thread block, bytes per µs.
        block: f64,
        /// How often a byte of a block counts on the links.
        fan_out: f64,
        /// Bandwidth of the links, bytes per µs.
        peak: f64,
    },
    /// The longer of what blocks and what links need.
    Longest {
        /// KiB of one rank.
        kib: f64,
        /// Time of an empty message.
        base: f64,
        /// Time of one block for a KiB.
        block: f64,
        /// Factor of several blocks.
        several: f64,
        /// Time of the links for a KiB.
        link: f64,
    },
}

impl KernelModel {
    /// The time with a number of thread blocks: µs, or in a unit of its own where it is fitted to
    /// choices, which tell ratios only.
    pub(super) fn time_us(&self, blocks: u32) -> f64 {
        match self.time {
            TimeModel::Smooth {
                traffic,
                latency,
                block,
                fan_out,
                peak,
            } => {
                let offered = f64::from(blocks) * block * fan_out;
                let bandwidth = soft_minimum(offered, peak, block);
                latency + soft_positive(traffic / bandwidth - 1.0)
            }
            TimeModel::Longest {
                kib,
                base,
                block,
                several,
                link,
            } => {
                let used = used_blocks(kib.ceil() as u64, blocks);
                let block = if used > 1 { block * several } else { block };
                base + (block * kib / used as f64).max(link * kib)
            }
        }
    }
}

/// The thread blocks that get a piece of a message by its cells.
pub(super) fn used_blocks(cells: u64, blocks: u32) -> u64 {
    let cells = cells.max(1);
    cells.div_ceil(cells.div_ceil(u64::from(blocks.max(1))))
}

/// The model of all-gathers on Blackwell in NCCL 2.32, fitted to 12,000 block counts and 6,800
/// choices of the binary of 2.32.3 for 2 to 16 ranks. It reproduces all block counts of the kernels
/// without LL but one, and 95 to 100 % of the free choices; LLMC is approximate. `bytes` are those
/// of one rank, all calls together.
pub(super) fn gathered(kernel: WindowKernel, ranks: u32, bytes: u64) -> KernelModel {
    let n = f64::from(ranks);
    let others = n - 1.0;
    let (base, block, several, link) = match kernel {
        WindowKernel::AllGatherTma => (
            629.79 + 4.172 * n,
            1.0048 * n,
            1.0,
            1.0048 * others / 10.4663,
        ),
        WindowKernel::AllGatherMulticast => (515.57 + 4.745 * n, 1.2698, 1.0, 0.09029 * n),
        WindowKernel::AllGatherTmaMulticast => (514.31 + 4.823 * n, 1.0953, 1.1434, 0.09029 * n),
        WindowKernel::AllGatherLl => (
            444.651 + 5.1398 * n,
            25.825 + 4.2166 * n,
            1.025,
            0.16868 * n + 0.0897,
        ),
        WindowKernel::AllGatherLlMulticast => (
            445.616 + 5.8212 * n,
            (37.206 - 0.345 * n).max(0.0),
            1.067,
            0.13971 * n + 0.2323,
        ),
        _ => (663.51 + 3.4613 * n, n, 1.0, others / 10.0878),
    };
    KernelModel {
        most_blocks: match kernel.writes_to_all() && !kernel.is_ll() {
            true => 32_u32.div_ceil(ranks),
            false => MOST_BLOCKS,
        },
        time: TimeModel::Longest {
            kib: bytes as f64 / CELL as f64,
            base,
            block,
            several,
            link,
        },
    }
}

/// A smooth min(value, ceiling).
fn soft_minimum(value: f64, ceiling: f64, softness: f64) -> f64 {
    let excess = ((ceiling / softness).exp() - 1.0) * (-value / softness).exp();
    ceiling - softness * excess.ln_1p()
}

/// A smooth max(0, value).
fn soft_positive(value: f64) -> f64 {
    if value >= 100.0 {
        value
    } else {
        value.exp().ln_1p()
    }
}
