//! The memory of a job's communicators, as an answer.

use pages::Page;
use plan::Algorithm;
use planner::memory::Ledger;
use serde::Serialize;

use super::Limit;
use crate::JsonSchema;
use crate::report::Report;

/// The memory, channels, connections and multicast slots of a job's communicators.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u64,
    /// The profile of NCCL's version.
    pub profile: String,
    /// Algorithms connect when they are first used; otherwise all at the start.
    pub connects_late: bool,
    /// GPU memory is allocated in pages of 2 MiB (CUDA's virtual memory).
    pub virtual_memory: bool,
    /// The communicators.
    pub communicators: Vec<Communicator>,
    /// The sum of all communicators for each GPU of the first host.
    pub gpus: Vec<GpuMemory>,
    /// What is bounded; that which runs out first is first.
    pub limits: Vec<Limit>,
}

/// Communicators that are alike.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Communicator {
    /// Size and stride; absent for the communicator of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Ranks of one.
    pub ranks: u32,
    /// Nodes of one.
    pub nodes: u32,
    /// Those with ranks on the first host, or in the first NVLink domain.
    pub number: u32,
    /// Channels that are set up.
    pub channels: u32,
    /// Most thread blocks of a collective's kernel.
    pub most_blocks: u32,
    /// Most thread blocks of a kernel of NVLink SHARP.
    pub most_nvls_blocks: u32,
    /// Most thread blocks of a kernel of transfers.
    pub most_peer_blocks: u32,
    /// The algorithms that the calls take.
    pub algorithms: Vec<Algorithm>,
    /// The rank whose GPU holds most; the bytes below are its.
    pub rank: u32,
    /// Bytes on its GPU.
    pub device_bytes: u64,
    /// Bytes on its host for it.
    pub host_bytes: u64,
    /// The same by call and purpose.
    pub parts: Vec<AllocatedPart>,
    /// Ends of connections that the rank makes.
    pub connections: Vec<StageNumber>,
    /// Multicast objects of one communicator on a node.
    pub multicast_objects: Vec<StageNumber>,
    /// What the rank holds.
    #[serde(skip)]
    pub(super) most: Ledger,
}

/// What is allocated with a first call, for a purpose.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AllocatedPart {
    /// The first call: `start`, an algorithm, or `peers` (transfers between all ranks).
    pub stage: &'static str,
    /// The purpose.
    pub purpose: &'static str,
    /// Bytes on the GPU.
    pub device_bytes: u64,
    /// Bytes on the host.
    pub host_bytes: u64,
}

/// A number of a first call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StageNumber {
    /// The first call.
    pub stage: &'static str,
    /// The number.
    pub number: u32,
}

/// The sum for a GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuMemory {
    /// The GPU's device number.
    pub gpu: i32,
    /// Bytes of its memory.
    pub device_bytes: u64,
    /// Bytes of its host's memory.
    pub host_bytes: u64,
}

impl Report for MemoryReport {
    const FORMAT: &'static str = "topo-memory";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}
