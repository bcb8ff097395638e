//! The time of an operation as a pipeline of slices, which NCCL 2.32.6 computes on Rubin. Source:
//! NCCL's public source after 2.32.3; no binary has judged it.

use program::{Collective, Protocol};

use crate::algorithm::Algorithm;
use crate::cost::operation::TunedOperation;
use crate::cost::table::{CostJob, PipelineCosts, PipelineEntry};

/// Slots of a channel's buffer.
const SLOTS: u64 = 8;

/// Bytes of a vector, of which each rank's piece of a ring holds whole ones.
const VECTOR: u64 = 16;

/// The share of the links' bandwidth that LL, LL128 and Simple leave to data.
const DATA_SHARE: [f64; 3] = [0.5, 120.0 / 128.0, 1.0];

/// How far from the larger one of two bounds the smaller one begins to bend, as a share of it.
const SOFTNESS: f64 = 0.1;

/// Steps of one kind.
struct Steps {
    count: f64,
    /// Of one step, µs.
    latency: f64,
    /// Bytes per µs.
    bandwidth: f64,
}

impl PipelineCosts {
    /// The entry of a combination, if it has this model.
    pub fn entry(&self, choice: (Algorithm, Protocol)) -> Option<&PipelineEntry> {
        let mut entries = self.entries.iter();
        entries.find(|it| (it.algorithm, it.protocol) == choice)
    }

    /// The time of an operation on these channels, µs; `None` where NCCL considers none.
    pub fn time_us(
        &self,
        job: &CostJob,
        entry: &PipelineEntry,
        operation: &TunedOperation,
        channels: u32,
    ) -> Option<f64> {
        let bytes = operation.all_bytes();
        let channel_bytes = bytes.div_ceil(u64::from(channels).max(1));
        let (slice, slices) = slices(job, entry, operation, channel_bytes)?;
        let slice = slice as f64;
        let kinds = kinds(job, entry, operation.collective);
        let step = |it: &Steps| it.latency + slice / it.bandwidth;
        let used = kinds.iter().filter(|it| it.count != 0.0);
        let first: f64 = used.map(|it| it.count * step(it)).sum();
        let slow = kinds.iter().filter(|it| it.count > 0.0);
        let delay = slow.map(|it| slice / it.bandwidth).fold(0.0, f64::max);
        let pipe = first + slices.saturating_sub(1) as f64 * delay;
        let bus = self.bus_bandwidth(job, entry, operation.collective);
        let most = bus * f64::from(job.ranks) / steps(job.ranks, operation.collective);
        let unbounded = channel_bytes as f64 / pipe / 1000.0 * f64::from(channels);
        let soft = SOFTNESS * most;
        let bent = ((most / soft).exp() - 1.0) * (-unbounded / soft).exp();
        let bandwidth = most - soft * bent.ln_1p();
        let turns = match entry.algorithm {
            Algorithm::Ring => operation.calls.number,
            _ => operation.calls.number.div_ceil(SLOTS as u32),
        };
        let time = entry.base_us * f64::from(turns) + bytes as f64 / (1000.0 * bandwidth);
        (pipe > 0.0 && time.is_finite() && bandwidth > 0.0).then_some(time)
    }

    /// Most bandwidth on the links, GB/s.
    fn bus_bandwidth(&self, job: &CostJob, entry: &PipelineEntry, collective: Collective) -> f64 {
        let channels = f64::from(entry.channels);
        let [inside, outside] = entry.bandwidth;
        let own = if job.nodes > 1 { outside } else { inside };
        let share = DATA_SHARE[entry.protocol as usize];
        let ranks = f64::from(job.ranks);
        match entry.algorithm {
            Algorithm::Tree => channels * share * own * (ranks - 1.0) / ranks,
            Algorithm::Ring => channels * share * own,
            _ => {
                let least = f64::from(self.min_local_ranks);
                let spread = inside * (channels - 1.0) / channels;
                let spread = match collective {
                    Collective::AllReduce => spread * 2.0,
                    _ => spread * (least - 1.0) / least,
                };
                let trees = entry.algorithm == Algorithm::NvlsTree && job.nodes <= 2;
                channels * spread.min(outside * if trees { 2.0 } else { 1.0 })
            }
        }
    }
}

/// Steps of a ring.
fn steps(ranks: u32, collective: Collective) -> f64 {
    let ranks = f64::from(ranks);
    match collective {
        Collective::AllReduce => 2.0 * (ranks - 1.0),
        Collective::AllGather | Collective::ReduceScatter => ranks - 1.0,
        _ => ranks,
    }
}

/// The steps inside nodes and between them.
fn kinds(job: &CostJob, entry: &PipelineEntry, collective: Collective) -> [Steps; 2] {
    let nodes = f64::from(job.nodes);
    let levels = 2.0 * f64::from(job.nodes.max(1).ilog2());
    let all_reduce = collective == Collective::AllReduce;
    let counts = match entry.algorithm {
        Algorithm::Ring => {
            let all = steps(job.ranks, collective);
            let outside = match job.nodes {
                1 => 0.0,
                _ if job.ranks == job.nodes => all,
                _ if all_reduce => 2.0 * nodes,
                _ => nodes,
            };
            [all - outside, outside]
        }
        Algorithm::Tree => [2.0 * (f64::from(job.max_local_ranks) - 1.0), levels],
        Algorithm::NvlsTree => [2.0, levels],
        _ => [if all_reduce { 2.0 } else { 1.0 }, 0.0],
    };
    let share = match entry.algorithm {
        Algorithm::Ring | Algorithm::Tree => {
            DATA_SHARE[entry.protocol as usize] / f64::from(entry.blocks.max(1))
        }
        _ => 1.0,
    };
    [0, 1].map(|at| Steps {
        count: counts[at],
        latency: entry.round_us[at] / 2.0,
        bandwidth: 1000.0 * share * entry.bandwidth[at],
    })
}

/// Bytes of a slice, and how many pass a channel; `None` where NCCL fails.
fn slices(
    job: &CostJob,
    entry: &PipelineEntry,
    operation: &TunedOperation,
    channel_bytes: u64,
) -> Option<(u64, u64)> {
    let collective = operation.collective;
    let element = u64::from(operation.calls.data_type.bytes()).max(1);
    let ranks = u64::from(job.ranks.max(1));
    let ring = entry.algorithm == Algorithm::Ring;
    let passes_all = !matches!(collective, Collective::Broadcast | Collective::Reduce);
    let simple = entry.protocol == Protocol::Simple;
    // Slots of a chunk, and of a slice.
    let [chunk_slots, slice_slots] = match ring && simple && passes_all {
        true => [4, 2],
        false => [1, 1],
    };
    let slot = u64::try_from(job.buffer_bytes[entry.protocol as usize]).ok()? / SLOTS;
    let nominal = slot * chunk_slots;
    let nominal = match entry.protocol {
        Protocol::Ll => nominal / 2,
        Protocol::Ll128 => nominal / 16 * 15,
        Protocol::Simple => nominal,
    };
    let mut work = channel_bytes;
    if ring && passes_all {
        let vector = (VECTOR / element).max(1);
        let piece = channel_bytes.div_ceil(element).div_ceil(ranks);
        work = work.min(piece.next_multiple_of(vector).saturating_mul(element));
    }
    let chunk = nominal.min(work);
    let whole = nominal / chunk_slots * slice_slots;
    let slice = match simple {
        true => {
            let parts = 16 * chunk_slots / slice_slots;
            let least = chunk.div_ceil(element).div_ceil(parts) * 16;
            chunk.min(least.max(whole / element / 32) * element)
        }
        false => chunk.min(whole),
    };
    let count = channel_bytes.checked_div(slice)?;
    let count = count + u64::from(!channel_bytes.is_multiple_of(slice));
    let all = steps(job.ranks, collective) as u64;
    Some(match entry.algorithm {
        Algorithm::Ring => {
            let last = u64::from(collective == Collective::AllReduce && job.ranks > 2);
            let passed = count.saturating_mul(all).div_ceil(ranks);
            (slice, passed.saturating_sub(last))
        }
        Algorithm::Tree => (slice, count.saturating_mul(2).saturating_sub(1)),
        _ => (slice, count),
    })
}
