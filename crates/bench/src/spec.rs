//! The work of all ranks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use device_runtime::LaunchOptions;
use executor::check::{Check, Sample};
use executor::{Request, Settings};
use plan::PlannedForest;
use program::{Channels, Schedule, Transfer, Tree};
use program::{Collective, ElementType, Protocol, Reduction};
use serde::{Deserialize, Serialize};

use crate::latency;
use crate::network::NetworkOptions;

/// The runner of the programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsOn {
    /// The processors of this machine.
    #[default]
    Cpu,
    /// Its NVIDIA GPUs: rank i on GPU i; with more ranks than GPUs, several ranks share one.
    Cuda,
    /// Emulated GPUs for tests, one per process.
    #[cfg(feature = "emulator")]
    Emulator,
}

/// The work of all ranks. Processes get it as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// Ranks of the job.
    pub ranks: u32,
    /// Whether each rank is a process; otherwise all are threads of one.
    pub processes: bool,
    /// Hosts as which processes of this machine act.
    pub hosts: u32,
    /// How they are joined; `None` on one host.
    #[serde(default)]
    pub network: Option<NetworkOptions>,
    /// Whether buffers are not the communicator's.
    #[serde(default)]
    pub callers_memory: bool,
    /// The runner of the programs.
    pub backend: RunsOn,
    /// Options of ranks on GPUs.
    #[serde(default)]
    pub devices: Devices,
    /// The collective that runs.
    pub collective: Collective,
    /// Only this algorithm.
    pub algorithm: Option<Schedule>,
    /// Only this transfer.
    pub transfer: Option<Transfer>,
    /// Only this protocol.
    pub protocol: Option<Protocol>,
    /// Most channels.
    pub channels: Option<u16>,
    /// Type of the elements.
    pub element: ElementType,
    /// The operation, where elements are reduced.
    pub op: Reduction,
    /// The root; for send-recv the distance to the receiver.
    pub root: u32,
    /// Sizes of messages, bytes.
    pub sizes: Vec<u64>,
    /// Timed launches of each size; without it, as many as fill the time.
    pub iterations: Option<u32>,
    /// Untimed launches before them.
    pub warmup: u32,
    /// Time to spend on each figure, ms.
    pub time_ms: u64,
    /// Whether every element is checked.
    pub check: bool,
    /// Whether each size is also run in place.
    pub in_place: bool,
    /// Whether the last rank answers each broadcast by one; the time is half of both.
    pub reply: bool,
    /// Whether each rank gets a core of its own, where there are enough.
    pub bind: bool,
    /// Only compare the choices for these collectives, instead of running the job's.
    pub survey: Vec<Collective>,
    /// Whether the choices that may be the fastest are also compared.
    pub compares: bool,
    /// Choices of which the expected times are wanted.
    pub explained: usize,
    /// How long a rank waits, s.
    pub timeout_s: u64,
    /// The plan's rings, one per channel; empty without a plan.
    pub rings: Vec<Vec<u32>>,
    /// The plan's trees: each rank's parent.
    pub trees: Vec<Vec<Option<u32>>>,
    /// By rank: its host in the plan; empty without a plan.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// The plan's trees for the collective.
    #[serde(default)]
    pub forest: Option<PlannedForest>,
    /// Hash of the plan that all ranks must share.
    #[serde(default)]
    pub plan: Option<String>,
}

/// Options of ranks on GPUs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Devices {
    /// How kernels are launched and GPUs reach each other.
    pub launches: LaunchOptions,
    /// Whether the driver returns from a launch only when the kernel has ended
    /// (`CUDA_LAUNCH_BLOCKING`).
    pub blocking_launches: bool,
    /// Timed launches in a graph; 0 is no graph.
    pub graph: u32,
    /// Time of launches before the first figure, so that the GPUs' clocks are up, ms.
    #[serde(default)]
    pub warm_ms: u64,
    /// Print when the channels of the last launch began and ended.
    pub timeline: bool,
    /// Where a trace of the channels is written.
    pub trace: Option<PathBuf>,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            launches: LaunchOptions::nccl(),
            blocking_launches: false,
            graph: 0,
            warm_ms: 0,
            timeline: false,
            trace: None,
        }
    }
}

/// Buffers begin at multiples of this.
const PAGE_BYTES: u64 = 4096;

/// The loss of a rank's block in a channel to boundaries, at most.
const ROUNDING_BYTES: u64 = 128;

impl Spec {
    /// One message of 8 bytes on threads of this host. The root is 0, the distance of send-recv 1.
    pub fn new(ranks: u32, collective: Collective) -> Self {
        Self {
            ranks,
            processes: false,
            hosts: 1,
            network: None,
            callers_memory: false,
            backend: RunsOn::Cpu,
            devices: Devices::default(),
            collective,
            algorithm: None,
            transfer: None,
            protocol: None,
            channels: None,
            element: ElementType::F32,
            op: Reduction::Sum,
            root: u32::from(collective == Collective::SendRecv),
            sizes: vec![8],
            iterations: None,
            warmup: 0,
            time_ms: 1,
            check: true,
            in_place: false,
            reply: false,
            bind: true,
            survey: Vec::new(),
            compares: false,
            explained: 0,
            timeout_s: 60,
            rings: Vec::new(),
            trees: Vec::new(),
            nodes: Vec::new(),
            forest: None,
            plan: None,
        }
    }

    /// The host as which a rank acts: each has as many ranks as another, or one more.
    pub fn host(&self, rank: u32) -> u32 {
        let host = u64::from(rank) * u64::from(self.hosts) / u64::from(self.ranks.max(1));
        u32::try_from(host).unwrap_or(0)
    }

    /// A communicator's settings.
    ///
    /// # Errors
    /// The rings or trees are not of these ranks.
    pub fn settings(&self) -> Result<Settings> {
        let channels = if self.rings.is_empty() {
            None
        } else {
            let trees = self.trees.iter().cloned();
            let trees = trees.map(|parents| Tree { parents }).collect();
            let channels = Channels::new(self.ranks, self.rings.clone(), trees)?;
            Some(match &self.forest {
                Some(forest) => channels.with_forest(forest.program_forest(self.ranks)?)?,
                None => channels,
            })
        };
        Ok(Settings {
            channels,
            longest_wait: self.longest_wait(),
            buffer_bytes: Some(self.arena_bytes()),
            callers_memory: self.callers_memory,
            ..Settings::default()
        })
    }

    /// How long a rank waits for another one, and for the driver of its GPU to start.
    pub(crate) const fn longest_wait(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// Bytes of the two buffers of the largest size, of scratch memory for it, and of the numbers
    /// that ranks compare.
    fn arena_bytes(&self) -> usize {
        let ranks = u64::from(self.ranks);
        let element = u64::from(self.element.bytes());
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        // The times of single launches are compared by a message too.
        let largest = largest.max(latency::CHUNK_BYTES);
        // No message has less than an element of each rank.
        let buffer = largest.max(ranks * element).next_multiple_of(PAGE_BYTES);
        // Scratch memory is at most a buffer, plus padding to cache lines of each rank's block in
        // each channel. It is rounded up to a power of two, since freed pages may be on both sides
        // of it.
        let forest = self.forest.as_ref().map_or(0, |it| it.channels.len());
        let channels = self.rings.len().max(self.channels.unwrap_or(2).into());
        let channels = channels.max(forest) as u64;
        let scratch = buffer.saturating_add(ranks * channels * ROUNDING_BYTES);
        let scratch = scratch.checked_next_power_of_two().unwrap_or(u64::MAX);
        let all = buffer.saturating_add(scratch).saturating_mul(2);
        let all = all.saturating_add(latency::CHUNK_BYTES.next_multiple_of(PAGE_BYTES));
        // More is only a bound, for pages are taken when they are used.
        let most = (shared_memory::machine_bytes() / 2).max(buffer.saturating_mul(2));
        usize::try_from(all.min(most)).unwrap_or(usize::MAX)
    }

    /// The same for another collective, with the usual root. A broadcast is answered, so that its
    /// time is that of a program that waits for it.
    pub(crate) fn of_collective(&self, collective: Collective) -> Self {
        Self {
            collective,
            root: u32::from(collective == Collective::SendRecv),
            reply: collective == Collective::Broadcast,
            survey: Vec::new(),
            ..self.clone()
        }
    }

    /// A message of `bytes`, or the next smaller possible one, of this type.
    pub fn check<T: Sample>(&self, bytes: u64) -> Check {
        let blocks = self.collective.blocks(self.ranks);
        let count = (bytes / size_of::<T>() as u64 / blocks).max(1);
        Check {
            collective: self.collective,
            reduction: self.op,
            ranks: self.ranks,
            root: self.root,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            seed: bytes,
        }
    }
}

/// The request to the communicator for a message, with two buffers.
pub fn request<T: Sample>(check: &Check) -> Request {
    Request {
        collective: check.collective,
        element: T::TYPE,
        reduction: check.reduction,
        root: check.root,
        to: 0,
        tag: 0,
        in_place: false,
        count: check.count as u64,
        choice: None,
    }
}
