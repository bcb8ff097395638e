//! The time of kernels for symmetric windows.

use program::{Collective, Reduction};

use super::costs::{CallTime, KernelCosts, KernelTime, Sums};
use crate::cost::kernel::WindowKernel;
use crate::cost::operation::Calls;

/// A message of LL moves so many times its bytes: flags, and no unrolled loops.
const LL_TRAFFIC: f64 = 9.0;

/// GiB/s in bytes per µs.
const GIB_PER_S: f64 = (1u64 << 30) as f64 / 1e6;

/// Bytes of a KiB.
const KIB: f64 = 1024.0;

/// Bytes of the cells that a thread block takes at least, in the model of single calls.
const CELL: u64 = 1024;

/// Bytes of the pieces in which kernels that read others' memory reduce: with the tensor memory
/// accelerator, without it, and of what these leave.
const PIECES: [u64; 3] = [16 << 10, 8 << 10, 2 << 10];

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

impl KernelCosts {
    /// The model of a single call like these, if it has one.
    pub(super) fn single_call(&self, calls: Calls) -> Option<&CallTime> {
        let sums = match calls.data_type.bytes() {
            _ if calls.reduction != Reduction::Sum => None,
            1 => Some(Sums::OneByte),
            2 => Some(Sums::TwoBytes),
            _ => None,
        };
        let of = |sums| self.single.iter().find(move |row| row.sums == sums);
        of(sums).or_else(|| of(None))
    }
}

impl CallTime {
    /// The time of a call of `bytes` bytes, µs: those of one rank where a collective gathers or
    /// scatters. There is at least one byte.
    pub(super) fn time(
        &self,
        kernel: WindowKernel,
        ranks: u32,
        bytes: u64,
        blocks: u32,
        in_place: bool,
    ) -> f64 {
        let used = used_blocks(bytes.div_ceil(CELL), blocks);
        let n = f64::from(ranks);
        let others = n - 1.0;
        let (copies, crossings) = copied(kernel, n, in_place);
        let share = if self.switched { others / n } else { 1.0 };
        let (mut peak, mut base) = (self.peak, self.base);
        if let Some([more, links]) = self.trough
            && used >= 14
            && used % 4 == 2
        {
            peak = peak.min(links);
            base += more;
        }
        if let Some(links) = self.few
            && used < u64::from(ranks)
        {
            peak = peak.min(links);
        }
        let scaled = used as f64 * self.scale(ranks, used);
        let [flags, links] = [
            self.ll.map_or(0.0, |ll| 1.0 / (scaled * ll)),
            crossings / (peak * share),
        ];
        // µs for bytes that blocks move at a bandwidth.
        let moved = |bytes: u64, block: f64| {
            let blocks = copies / (scaled * block);
            let each = match self.apart {
                true => flags + blocks.max(links),
                false => (flags + blocks).max(links),
            };
            bytes as f64 / 1e3 * each
        };
        let work = match pieces(kernel) {
            None => moved(bytes, self.block),
            Some(sizes) => {
                let group = u64::from(ranks).saturating_mul(used);
                let mut rest = bytes;
                let cut = sizes.map(|size| {
                    let group = group.saturating_mul(size);
                    let whole = rest / group * group;
                    rest -= whole;
                    whole
                });
                moved(cut[0], self.block)
                    + moved(cut[1], self.small.unwrap_or(self.block))
                    + moved(rest, self.rest.unwrap_or(self.block))
            }
        };
        let latency = others * self.rank;
        match self.overlap {
            None => base + latency + work,
            Some(most) => {
                let exposed = 1.0 - (most / used as f64).min(1.0);
                base + latency.max(work) + exposed * latency.min(work)
            }
        }
    }

    /// The factor of the bandwidth of blocks.
    fn scale(&self, ranks: u32, used: u64) -> f64 {
        match (self.one, self.scale) {
            (Some(one), _) if used == 1 => one,
            (_, Some([eight, many])) if ranks > 4 && (5..64).contains(&used) => {
                let log = (used as f64).log2();
                let (from, to, [low, high]) = match log {
                    ..=3.0 => (2.0, 3.0, [1.0, eight]),
                    ..=5.0 => (3.0, 5.0, [eight, many]),
                    _ => (5.0, 6.0, [many, 1.0]),
                };
                low + (log - from) / (to - from) * (high - low)
            }
            _ => 1.0,
        }
    }
}

/// How often thread blocks move a byte, and how often it crosses the links, on `n` ranks. A rank
/// that gathers in place does not write to itself.
fn copied(kernel: WindowKernel, n: f64, in_place: bool) -> (f64, f64) {
    let others = n - 1.0;
    let switched = kernel.writes_to_all() || kernel.reads_reduced();
    match (kernel.collective(), kernel.is_ll()) {
        (Collective::AllGather, _) if in_place && !switched => (others, others),
        (_, true) => (n, others),
        // Reads to reduce, and writes of the result.
        (Collective::AllReduce, _) if switched => (2.0 / n, 2.0 * others / n),
        (Collective::AllReduce, _) => (2.0, 2.0 * others / n),
        _ if switched => (1.0, others),
        _ => (n, others),
    }
}

/// The pieces in which a kernel reduces: of each size as many as every block of every rank gets.
fn pieces(kernel: WindowKernel) -> Option<[u64; 2]> {
    let [accelerated, usual, small] = PIECES;
    match kernel {
        WindowKernel::ReduceScatterTma | WindowKernel::AllReduceTma => Some([accelerated, small]),
        WindowKernel::ReduceScatterDirect | WindowKernel::AllReduceDirect => Some([usual, small]),
        _ => None,
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
