//! The time of a step with Simple over hops whose latency was measured.
//!
//! With Simple a rank writes data to its peer, waits at a fence until the peer has them, and then
//! writes a counter that the peer polls: data, acknowledgement and counter cross the hop one after
//! the other. NCCL has one constant for all machines whose GPUs PCI Express joins: 5.7 µs for a
//! step of a ring.

use plan::GraphKind;
use planner::Planned;
use planner::cost::CostProfile;
use program::Protocol;
use records::latency::Latencies;
use serde::Serialize;
use topology::PathType;

use crate::JsonSchema;

/// What a message with Simple takes where nothing lies between its ends, µs: barriers of its
/// threads, the poll, loads and stores. Measured between two blocks of an H200
/// (docs/gpu.md): data behind a counter and the answer by a counter take 2.5 µs, and one by LL
/// with the same answer 1.8, of which the answer is half.
const HANDOVER_US: f64 = 1.6;

/// How often a message crosses a hop: the data, their acknowledgement, the counter.
const CROSSINGS: f64 = 3.0;

/// A step with Simple inside a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredStep {
    /// Mean latency of a write over a hop of the rings, µs.
    pub hop_us: f64,
    /// What NCCL takes a step of a ring for, µs.
    pub nccl_us: f64,
    /// The time that is used, µs: NCCL's where that is less than the parts together, because they
    /// are an upper limit (each waits for the one before).
    pub used_us: f64,
}

impl MeasuredStep {
    /// The step of a job's rings; `None` if a hop between two of its GPUs was not measured.
    pub(super) fn of(
        planned: &Planned,
        latencies: &Latencies,
        profile: &CostProfile,
    ) -> Option<Self> {
        let node = planned.machines().first()?.nodes.first()?;
        let used = planned.job.common().graph(GraphKind::Ring)?;
        let (ring, system) = (node.graph(GraphKind::Ring)?, node.view.system());
        let number = |rank: &i32| {
            let mut gpus = system.gpus().map(|(_, gpu)| gpu);
            usize::try_from(gpus.find(|gpu| gpu.rank == *rank)?.dev).ok()
        };
        // Channels that leave the host do not return to their first GPU inside.
        let closes = planned.job.layout().nodes() == 1;
        let (mut sum, mut count) = (0.0, 0_u32);
        for channel in ring.channels.iter().take(used.channels as usize) {
            let gpus: Vec<usize> = channel.ranks.iter().map(number).collect::<Option<_>>()?;
            let next = gpus.iter().skip(1).chain(gpus.first().filter(|_| closes));
            for (from, to) in gpus.iter().zip(next).filter(|(from, to)| from != to) {
                sum += f64::from(latencies.between(*from, *to)?);
                count += 1;
            }
        }
        let steps = &profile.hardware_latency_us;
        let steps = match used.type_intra {
            PathType::Nvl => &steps.nvlink,
            _ => &steps.pci,
        };
        let hop_us = sum / f64::from(count);
        let nccl_us = steps.ring[Protocol::Simple as usize];
        (count > 0).then(|| Self {
            hop_us,
            nccl_us,
            used_us: by_parts(hop_us).min(nccl_us),
        })
    }

    /// Gives a profile this time for steps inside a host.
    pub(super) fn apply(&self, profile: &mut CostProfile) {
        let steps = &mut profile.hardware_latency_us;
        for row in [&mut steps.nvlink, &mut steps.pci] {
            for steps in [&mut row.ring, &mut row.tree] {
                let simple = &mut steps[Protocol::Simple as usize];
                *simple = simple.min(by_parts(self.hop_us));
            }
        }
    }
}

/// What a step takes by its parts, µs.
fn by_parts(hop_us: f64) -> f64 {
    HANDOVER_US + CROSSINGS * hop_us
}
