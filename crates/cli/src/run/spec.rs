//! What all ranks do.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use executor::check::{Check, Sample};
use executor::{Request, Settings};
use program::{Channels, Schedule, Transfer, Tree};
use program::{Collective, ElementType, Protocol, Reduction};
use serde::{Deserialize, Serialize};

use super::latency;
use crate::arguments::run::BackendName;

/// What all ranks do. Processes get it as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// Ranks.
    pub ranks: u32,
    /// One process per rank.
    pub processes: bool,
    /// What runs the programs.
    pub backend: BackendName,
    /// What concerns ranks on GPUs.
    #[serde(default)]
    pub devices: Devices,
    /// The collective.
    pub collective: Collective,
    /// Name of the only algorithm.
    pub algorithm: Option<String>,
    /// Name of the only transfer.
    pub transfer: Option<String>,
    /// The only protocol.
    pub protocol: Option<Protocol>,
    /// Channels.
    pub channels: Option<u16>,
    /// Name of the element type.
    pub element: String,
    /// Name of the operation.
    pub op: String,
    /// The root; of transfers, how far further each rank sends.
    pub root: u32,
    /// Sizes, bytes.
    pub sizes: Vec<u64>,
    /// Timed launches.
    pub iterations: Option<u32>,
    /// Launches before.
    pub warmup: u32,
    /// Time for each figure, ms.
    pub time_ms: u64,
    /// Whether elements are checked.
    pub check: bool,
    /// Whether it is run in place too.
    pub in_place: bool,
    /// Whether broadcasts are answered.
    pub reply: bool,
    /// Whether each rank gets a core of its own, where there are enough.
    pub bind: bool,
    /// Whether every way is measured instead of the one that is chosen.
    pub survey: bool,
    /// How long a rank waits, s.
    pub timeout_s: u64,
    /// The plan's rings, one per channel; empty without a plan.
    pub rings: Vec<Vec<u32>>,
    /// The plan's trees: each rank's parent.
    pub trees: Vec<Vec<Option<u32>>>,
    /// By rank: its host in the plan; empty without a plan.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// The plan's fingerprint.
    #[serde(default)]
    pub plan: Option<String>,
}

/// What concerns ranks on GPUs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Devices {
    /// Whether GPUs may access each other's memory (`NCCL_P2P_DISABLE` says no).
    pub p2p: bool,
    /// Whether ranks of a host may share its memory (`NCCL_SHM_DISABLE` says no).
    pub shm: bool,
    /// Whether NICs may read and write memory of GPUs (`NCCL_NET_GDR_LEVEL=LOC` says no).
    pub rdma: bool,
    /// Whether they may read it to send (`NCCL_NET_GDR_READ=0` says no).
    pub rdma_read: bool,
    /// Whether what they wrote is flushed whatever the GPU is (`NCCL_NET_FORCE_FLUSH`).
    pub force_flush: bool,
    /// The only kind of memory that is shared with other processes, by its name.
    pub memory: Option<String>,
    /// So many timed launches are one graph; 0 is none.
    pub graph: u32,
    /// Whether it is said when the channels of the last launch began and ended.
    pub timeline: bool,
    /// Where that is written of all launches.
    pub trace: Option<PathBuf>,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            p2p: true,
            shm: true,
            rdma: true,
            rdma_read: true,
            force_flush: false,
            memory: None,
            graph: 0,
            timeline: false,
            trace: None,
        }
    }
}

/// Buffers begin at multiples of this.
const PAGE_BYTES: u64 = 4096;

/// What a rank's block loses in a channel to boundaries, at most.
const ROUNDING_BYTES: u64 = 128;

impl Spec {
    /// The element type.
    pub fn element(&self) -> Result<ElementType> {
        self.element.parse().map_err(|problem| anyhow!("{problem}"))
    }

    /// The operation.
    pub fn reduction(&self) -> Result<Reduction> {
        self.op.parse().map_err(|problem| anyhow!("{problem}"))
    }

    /// The only algorithm, if one is wanted.
    pub fn schedule(&self) -> Result<Option<Schedule>> {
        let name = self.algorithm.as_deref();
        name.map(|name| name.parse().map_err(|problem| anyhow!("{problem}")))
            .transpose()
    }

    /// The only transfer, if one is wanted.
    pub fn transfer(&self) -> Result<Option<Transfer>> {
        let name = self.transfer.as_deref();
        name.map(|name| name.parse().map_err(|problem| anyhow!("{problem}")))
            .transpose()
    }

    /// Settings of the communicator.
    pub fn settings(&self) -> Result<Settings> {
        let channels = if self.rings.is_empty() {
            None
        } else {
            let trees = self.trees.iter().cloned();
            let trees = trees.map(|parents| Tree { parents }).collect();
            Some(Channels::new(self.ranks, self.rings.clone(), trees)?)
        };
        Ok(Settings {
            channels,
            longest_wait: Duration::from_secs(self.timeout_s),
            buffer_bytes: Some(self.arena_bytes()?),
            ..Settings::default()
        })
    }

    /// Bytes of the two buffers of the largest size and of scratch memory for it.
    fn arena_bytes(&self) -> Result<usize> {
        let ranks = u64::from(self.ranks);
        let element = u64::from(self.element()?.bytes());
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        // The times of single launches are compared by a message too.
        let largest = largest.max(latency::CHUNK_BYTES);
        // No message has less than an element of each rank.
        let buffer = largest.max(ranks * element).next_multiple_of(PAGE_BYTES);
        // No way has more scratch memory than a buffer, and some bytes of each rank's block in each channel so that no two
        // share a cache line. It is rounded up to a power of two, while pages that were freed are on both sides of it.
        let channels = self.rings.len().max(self.channels.unwrap_or(2).into()) as u64;
        let scratch = buffer.saturating_add(ranks * channels * ROUNDING_BYTES);
        let scratch = scratch.checked_next_power_of_two().unwrap_or(u64::MAX);
        let all = buffer.saturating_add(scratch).saturating_mul(2);
        // More is only a bound, for pages are taken when they are used.
        let most = (shared_memory::machine_bytes() / 2).max(buffer.saturating_mul(2));
        Ok(usize::try_from(all.min(most)).unwrap_or(usize::MAX))
    }

    /// A message of so many bytes, or the next smaller one that there is, of this type.
    pub fn check<T: Sample>(&self, bytes: u64) -> Result<Check> {
        let blocks = if self.collective.splits_message() {
            u64::from(self.ranks)
        } else {
            1
        };
        let count = (bytes / size_of::<T>() as u64 / blocks).max(1);
        Ok(Check {
            collective: self.collective,
            reduction: self.reduction()?,
            ranks: self.ranks,
            root: self.root,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            seed: bytes,
        })
    }
}

/// What is asked of the communicator for a message, with two buffers.
pub fn request<T: Sample>(check: &Check) -> Request {
    Request {
        collective: check.collective,
        element: T::TYPE,
        reduction: check.reduction,
        root: check.root,
        to: 0,
        in_place: false,
        count: check.count as u64,
        choice: None,
    }
}
