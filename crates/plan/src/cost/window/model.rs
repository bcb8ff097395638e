//! The time of kernels for symmetric windows.

use super::costs::{KernelCosts, KernelTime};
use crate::cost::kernel::WindowKernel;

/// A message of LL moves so many times its bytes: flags, and no unrolled loops.
const LL_TRAFFIC: f64 = 9.0;

/// GiB/s in bytes per µs.
const GIB_PER_S: f64 = (1u64 << 30) as f64 / 1e6;

/// Bytes of a KiB.
const KIB: f64 = 1024.0;

impl KernelCosts {
    /// The time for `bytes` bytes of all calls together with a number of thread blocks: µs, or in a
    /// unit of its own where it is fitted. The bytes are those of one rank where a collective
    /// gathers or scatters.
    pub(super) fn time(&self, ranks: u32, bytes: u64, blocks: u32) -> f64 {
        match self.time {
            KernelTime::Smooth {
                latency,
                block,
                fan_out,
                peak,
            } => {
                let (block, peak) = (block * GIB_PER_S, peak * GIB_PER_S);
                let offered = f64::from(blocks) * block * fan_out;
                let bandwidth = soft_minimum(offered, peak, block);
                latency + soft_positive(traffic(self.kernel, ranks, bytes) / bandwidth - 1.0)
            }
            KernelTime::Longest {
                base,
                block,
                several,
                link,
            } => {
                let kib = bytes as f64 / KIB;
                let used = used_blocks(kib.ceil() as u64, blocks);
                let block = if used > 1 { block * several } else { block };
                base + (block * kib / used as f64).max(link * kib)
            }
        }
    }
}

/// What a kernel sends or receives, bytes.
fn traffic(kernel: WindowKernel, ranks: u32, bytes: u64) -> f64 {
    use WindowKernel::{AllReduceDirect, AllReduceMulticast, AllReduceTma};
    let ranks = u64::from(ranks.max(1));
    match kernel {
        _ if kernel.is_ll() => (ranks.saturating_mul(bytes) as f64 * LL_TRAFFIC).trunc(),
        AllReduceTma | AllReduceDirect => {
            (bytes.saturating_mul(2).saturating_mul(ranks - 1) / ranks) as f64
        }
        AllReduceMulticast => (bytes / ranks + bytes) as f64,
        _ => (ranks - 1).saturating_mul(bytes) as f64,
    }
}

/// The thread blocks that get a piece of a message by its cells.
pub(super) fn used_blocks(cells: u64, blocks: u32) -> u64 {
    let cells = cells.max(1);
    cells.div_ceil(cells.div_ceil(u64::from(blocks.max(1))))
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
