//! The costs of communicators, as JSON.

use crate::JsonSchema;
use plan::Algorithm;
use serde::Serialize;

use super::{Limit, MemoryAnswer};
use crate::report::Report;

/// The memory, channels, connections and multicast slots of a job's communicators.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u64,
    /// The profile of NCCL's version.
    profile: String,
    /// Algorithms connect when they are first used; otherwise all at the start.
    connects_late: bool,
    /// GPU memory is allocated in pages of 2 MiB (CUDA's virtual memory).
    virtual_memory: bool,
    /// The communicators.
    communicators: Vec<CommunicatorReport>,
    /// The sum of all communicators for each GPU of the first host.
    gpus: Vec<GpuReport>,
    /// What is bounded; that which runs out first is first.
    limits: Vec<LimitReport>,
}

/// Communicators that are alike.
#[derive(Debug, Serialize, JsonSchema)]
struct CommunicatorReport {
    /// Size and stride; absent for the communicator of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    /// Ranks of one.
    ranks: u32,
    /// Nodes of one.
    nodes: u32,
    /// Those with ranks on the first host, or in the first NVLink domain.
    number: u32,
    /// Channels that are set up.
    channels: u32,
    /// Most thread blocks of a collective's kernel.
    most_blocks: u32,
    /// Most thread blocks of a kernel of NVLink SHARP.
    most_nvls_blocks: u32,
    /// Most thread blocks of a kernel of transfers.
    most_peer_blocks: u32,
    /// The algorithms that the calls take.
    algorithms: Vec<Algorithm>,
    /// The rank whose GPU holds most; the bytes below are its.
    rank: u32,
    /// Bytes on its GPU.
    device_bytes: u64,
    /// Bytes on its host for it.
    host_bytes: u64,
    /// The same by call and purpose.
    parts: Vec<PartReport>,
    /// Ends of connections that the rank makes.
    connections: Vec<StageNumber>,
    /// Multicast objects of one communicator on a node.
    multicast_objects: Vec<StageNumber>,
}

/// What is allocated with a first call, for a purpose.
#[derive(Debug, Serialize, JsonSchema)]
struct PartReport {
    /// The first call: `start`, an algorithm, or `peers` (transfers between all ranks).
    stage: &'static str,
    /// The purpose.
    purpose: &'static str,
    /// Bytes on the GPU.
    device_bytes: u64,
    /// Bytes on the host.
    host_bytes: u64,
}

/// A number of a first call.
#[derive(Debug, Serialize, JsonSchema)]
struct StageNumber {
    /// The first call.
    stage: &'static str,
    /// The number.
    number: u32,
}

/// The sum for a GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct GpuReport {
    /// The GPU's device number.
    gpu: i32,
    /// Bytes of its memory.
    device_bytes: u64,
    /// Bytes of its host's memory.
    host_bytes: u64,
}

/// Something that is bounded.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitReport {
    /// Its name.
    name: &'static str,
    /// What the communicators take.
    taken: u64,
    /// What there is.
    room: u64,
}

impl LimitReport {
    pub(crate) fn of(limit: &Limit) -> Self {
        Self {
            name: limit.name,
            taken: limit.taken,
            room: limit.room,
        }
    }
}

impl Report for MemoryReport {
    const FORMAT: &'static str = "topo-memory";
    const VERSION: u32 = 1;
}

impl MemoryReport {
    /// The report of an answer.
    pub fn of(answer: &MemoryAnswer) -> Self {
        let communicators = answer.communicators.iter().map(|it| {
            let total = it.most.total(|_| true);
            let parts = it.most.bytes.iter();
            let parts = parts.map(|((stage, purpose), bytes)| PartReport {
                stage: stage.name(),
                purpose: purpose.name(),
                device_bytes: bytes.device,
                host_bytes: bytes.host,
            });
            let number = |(stage, number): (&planner::memory::Stage, &u32)| StageNumber {
                stage: stage.name(),
                number: *number,
            };
            CommunicatorReport {
                shape: it.shape.map(|shape| shape.to_string()),
                ranks: it.ranks,
                nodes: it.nodes,
                number: it.number,
                channels: it.channels,
                most_blocks: it.blocks[0],
                most_nvls_blocks: it.blocks[1],
                most_peer_blocks: it.blocks[2],
                algorithms: it.algorithms.clone(),
                rank: it.rank,
                device_bytes: total.device,
                host_bytes: total.host,
                parts: parts.collect(),
                connections: it.most.connections.iter().map(number).collect(),
                multicast_objects: it.multicast_objects.iter().map(number).collect(),
            }
        });
        let gpus = answer.gpus.iter().map(|(gpu, bytes)| GpuReport {
            gpu: *gpu,
            device_bytes: bytes.device,
            host_bytes: bytes.host,
        });
        let limits = answer.limits();
        let limits = limits.iter().map(LimitReport::of);
        Self {
            name: answer.name.clone(),
            hosts: answer.hosts,
            ranks: answer.ranks,
            profile: answer.profile.clone(),
            connects_late: answer.settings.connects_late,
            virtual_memory: answer.settings.virtual_memory,
            communicators: communicators.collect(),
            gpus: gpus.collect(),
            limits: limits.collect(),
        }
    }
}
