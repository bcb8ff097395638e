//! The host and the GPU of each rank of a job.

use planner::{Job, RankPlacement, gpu_devices};

use super::StepError;

/// Most ranks of a job whose step is priced.
pub(super) const MOST_RANKS: u64 = 1 << 24;

/// The places of a job's ranks.
#[derive(Debug, Clone)]
pub(super) struct Places {
    kinds: Vec<HostKind>,
    /// The slot of each rank; none: rank by slot.
    order: Option<Vec<u32>>,
    ranks: u32,
    hosts: u32,
}

/// Equal hosts in a row.
#[derive(Debug, Clone)]
struct HostKind {
    first_host: u32,
    first_slot: u32,
    /// Device numbers, ascending.
    devices: Vec<i32>,
}

/// The place of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its host, from 0.
    pub(super) host: u32,
    /// Index of the host's entry in the job.
    pub(super) kind: usize,
    /// Device number of its GPU.
    pub(super) device: i32,
}

impl Places {
    /// The places of a job's ranks.
    pub(super) fn of(job: &Job) -> Result<Self, StepError> {
        let (mut kinds, mut ranks, mut hosts) = (Vec::new(), 0u64, 0u64);
        let mut runs = Vec::new();
        for equal in &job.hosts {
            if equal.document.recorded_hosts() > 1 {
                return Err(StepError::SeveralHosts);
            }
            let devices = gpu_devices(&equal.document);
            runs.push((devices.len() as u32, equal.count));
            let first = (hosts, ranks);
            hosts += u64::from(equal.count);
            ranks += u64::from(equal.count) * devices.len() as u64;
            if ranks > MOST_RANKS {
                return Err(StepError::TooManyRanks { ranks });
            }
            kinds.push(HostKind {
                first_host: first.0 as u32,
                first_slot: first.1 as u32,
                devices,
            });
        }
        let (ranks, hosts) = (ranks as u32, hosts as u32);
        let order = match &job.ranks {
            RankPlacement::HostByHost => None,
            RankPlacement::RoundRobin => Some(plan::RankOrder::round_robin(&runs).slots(ranks)?),
            RankPlacement::Listed(order) => Some(order.slots(ranks)?),
        };
        Ok(Self {
            kinds,
            order,
            ranks,
            hosts,
        })
    }

    /// The same job with another slot for each rank.
    pub(super) fn with(&self, slots: Vec<u32>) -> Self {
        Self {
            order: Some(slots),
            ..self.clone()
        }
    }

    /// The slot of each rank.
    pub(super) fn slots(&self) -> Vec<u32> {
        self.order
            .clone()
            .unwrap_or_else(|| (0..self.ranks).collect())
    }

    /// Device numbers of the GPUs of each host, if all hosts are alike.
    pub(super) fn alike(&self) -> Option<&[i32]> {
        match &self.kinds[..] {
            [kind] => Some(&kind.devices),
            _ => None,
        }
    }

    /// Ranks of the job.
    pub(super) const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Hosts of the job.
    pub(super) const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The place of a rank; `None` if there is no such rank.
    pub(super) fn place(&self, rank: u32) -> Option<Place> {
        if rank >= self.ranks {
            return None;
        }
        let slot = match &self.order {
            Some(order) => *order.get(rank as usize)?,
            None => rank,
        };
        let next = self.kinds.partition_point(|kind| kind.first_slot <= slot);
        let kind = next.checked_sub(1)?;
        let HostKind {
            first_host,
            first_slot,
            devices,
        } = self.kinds.get(kind)?;
        let inside = slot - first_slot;
        let each = devices.len() as u32;
        Some(Place {
            host: first_host + inside.checked_div(each)?,
            kind,
            device: *devices.get(inside.checked_rem(each)? as usize)?,
        })
    }
}
