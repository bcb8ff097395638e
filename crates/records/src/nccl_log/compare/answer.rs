//! NCCL's decisions, as values.

use std::collections::{BTreeMap, BTreeSet};

pub use crate::nccl_log::decisions::{ChannelCounts, ConnectionFacts, Local, Neighbors, Port};
use plan::Algorithm;
use plan::cost::Calls;
use program::{Collective, Protocol};
use serde::{Deserialize, Serialize};

/// NCCL's decisions for a job. What it did not say is empty or `None`.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Not all of it is there: what is missing does not differ.
    pub is_partial: bool,
    /// Another tuner plug-in than the stand-in was loaded, so NCCL's times are not known.
    pub other_tuner: bool,
    /// NCCL's version as its number, such as 23007.
    pub version: i32,
    /// The answer of NCCL instead of a communicator.
    pub refusal: Option<String>,
    /// NCCL's warnings, each once.
    pub warnings: Vec<String>,
    /// Collectives that failed.
    pub failures: Vec<Failure>,
    /// Ranks of the job.
    pub ranks: Option<u32>,
    /// Nodes, as NCCL counts them.
    pub nodes: Option<u32>,
    /// Numbers of channels.
    pub channels: Option<ChannelCounts>,
    /// Channels, chunk and largest chunk of trees of NVLink SHARP, bytes.
    pub nvls: Option<[i64; 3]>,
    /// Chunk of point-to-point transfers, bytes.
    pub p2p_chunk: Option<i64>,
    /// The topology that rank 0 planned on.
    pub topology: Option<String>,
    /// The graphs of rank 0.
    pub graphs: Option<String>,
    /// By channel the ranks in ring order.
    pub rings: BTreeMap<u32, Vec<u32>>,
    /// Channels whose ring lacks its last ranks.
    pub cut_rings: BTreeSet<u32>,
    /// By channel and rank the neighbors in the tree.
    pub trees: BTreeMap<(u32, u32), Neighbors>,
    /// A line with trees was too short for all channels.
    pub trees_cut: bool,
    /// By head its rank in each node.
    pub nvls_heads: BTreeMap<u32, Vec<u32>>,
    /// By rank its neighbors in the two trees over nodes; the first below is the switch.
    pub nvls_trees: BTreeMap<u32, [Neighbors; 2]>,
    /// Connections of rings and trees, by channel, sender and receiver.
    pub connections: BTreeMap<(u32, u32, u32), ConnectionFacts>,
    /// By sender and receiver the channels of their point-to-point connections; `None` if not all
    /// ranks send to each other.
    pub peers: Option<BTreeMap<(u32, u32), BTreeSet<u32>>>,
    /// NCCL's error when all ranks sent to each other.
    pub peers_failure: Option<String>,
    /// By rank the bytes that are allocated on its GPU once there is a communicator, and those that
    /// the first transfers between all ranks add.
    pub gpu_memory: BTreeMap<u32, [u64; 2]>,
    /// Multicast objects that ranks of the first host made for the communicator.
    pub multicast_objects: u32,
    /// Latency (µs) and bandwidth (GB/s), as rounded in the log.
    pub model: BTreeMap<(Collective, Algorithm, Protocol), [f32; 2]>,
    /// The calls, for [`Answer::times`] and the fields after it.
    pub calls: Calls,
    /// By collective and bytes of all calls: the time of each choice that NCCL considers, µs.
    pub times: BTreeMap<(Collective, u64), BTreeMap<(Algorithm, Protocol), f32>>,
    /// By collective and bytes of a call what NCCL took.
    pub choices: BTreeMap<(Collective, u64), (Algorithm, Protocol)>,
    /// By collective and bytes of a call: the first and the last channel of each call, in order.
    pub spread: BTreeMap<(Collective, u64), Vec<[u32; 2]>>,
    /// Collectives and bytes of all calls that NCCL carried out without any kernel.
    pub without_kernel: BTreeSet<(Collective, u64)>,
    /// By collective and bytes of all calls of a kernel: the kernel for registered windows that
    /// NCCL took, its thread blocks and calls.
    pub window_kernels: BTreeMap<(Collective, u64), (String, u32, u32)>,
    /// The NVLink domains that the tuner plug-in was told.
    pub nvlink_domains: Option<NvlinkDomains>,
}

/// A collective that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// NCCL's error.
    pub error: String,
}

/// NVLink domains of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvlinkDomains {
    /// Their number.
    pub count: i32,
    /// Fewest ranks of one.
    pub least_ranks: i32,
    /// Most ranks of one.
    pub most_ranks: i32,
}
