//! How ranks are numbered over the machines of a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::MachineGpu;
use crate::plan::Plan;

/// Equal machines in a row. A job of thousands of equal hosts is one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRun {
    /// Which machine, as an index into the plan's `machines`.
    pub machine: u32,
    /// How many of them.
    pub count: u32,
    /// Rank of the first GPU of the first one. The ranks of a machine are consecutive, and so are its copies.
    pub first_rank: u32,
}

/// Where a rank of the job lives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankPlace<'a> {
    /// Which machine, as an index into the plan's `machines`.
    pub machine: usize,
    /// Which machine of the job, counted over all runs from 0.
    pub position: u64,
    /// The machine's first rank in the job.
    pub first_rank: u32,
    /// The GPU.
    pub gpu: &'a MachineGpu,
}

impl Plan {
    /// How many ranks the job has.
    pub fn rank_count(&self) -> u64 {
        self.hosts
            .iter()
            .map(|run| {
                let gpus = self
                    .machines
                    .get(run.machine as usize)
                    .map_or(0, |machine| machine.gpus.len());
                (gpus as u64).saturating_mul(u64::from(run.count))
            })
            .fold(0, u64::saturating_add)
    }

    /// Where a rank of the job lives; `None` if the job has no such rank.
    pub fn place(&self, rank: u32) -> Option<RankPlace<'_>> {
        let mut before = 0u64;
        for run in &self.hosts {
            let index = run.machine as usize;
            let gpus = &self.machines.get(index)?.gpus;
            let offset = rank.checked_sub(run.first_rank)? as usize;
            if let (Some(copy), Some(gpu)) = (
                offset.checked_div(gpus.len()),
                offset.checked_rem(gpus.len()),
            ) && copy < run.count as usize
            {
                return Some(RankPlace {
                    machine: index,
                    position: before + copy as u64,
                    first_rank: rank - gpu as u32,
                    gpu: gpus.get(gpu)?,
                });
            }
            before += u64::from(run.count);
        }
        None
    }
}
