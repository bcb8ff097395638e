//! The content of a log, as values.

use std::collections::{BTreeMap, BTreeSet};

use plan::Algorithm;
use program::{Collective, Protocol};

use crate::collect::{BrokenLine, Counts, Warning};
use crate::decisions::{ChannelCounts, ConnectionFacts, Neighbors};
use crate::statement::Stage;

/// The content of a log.
#[derive(Debug, Default)]
pub struct Log {
    /// The files, in order.
    pub files: Vec<String>,
    /// Numbers of lines.
    pub counts: Counts,
    /// NCCL's versions, and how often each is said.
    pub versions: BTreeMap<String, u64>,
    /// Communicators, in the order in which they begin.
    pub communicators: Vec<Communicator>,
    /// The facts of each host.
    pub hosts: BTreeMap<String, HostFacts>,
    /// Its runs, in the order of their beginning, if there are several.
    pub runs: Vec<Run>,
    /// Collectives that were called, by NCCL's name.
    pub operations: BTreeMap<String, u64>,
    /// The GPUs that nccl-tests lists: by rank host and model.
    pub gpus: BTreeMap<u32, (String, String)>,
    /// Hosts that differ from most.
    pub odd_hosts: Vec<Oddity>,
    /// Kinds of warnings, the most frequent first.
    pub warnings: Vec<Warning>,
    /// Kinds of lines that are not known, the most frequent first.
    pub unknown: Vec<(String, u64)>,
    /// Rings, trees and channels in an unknown form.
    pub broken: Vec<BrokenLine>,
    /// Too much for the memory was said, and something was left out.
    pub is_full: bool,
}

/// NCCL's choices, by number of ranks, collective and size.
pub type LoggedChoices = BTreeMap<(u32, Collective, u64), (Algorithm, Protocol)>;

impl Log {
    /// The content of each run, if there are several.
    pub fn parts(&self) -> Vec<Self> {
        let part = |run: &Run| Self {
            communicators: run
                .communicators
                .iter()
                .filter_map(|at| self.communicators.get(*at).cloned())
                .collect(),
            hosts: run.hosts.clone(),
            counts: self.counts,
            versions: self.versions.clone(),
            gpus: self.gpus.clone(),
            is_full: self.is_full,
            ..Self::default()
        };
        self.runs.iter().map(part).collect()
    }

    /// The run of a line, by its place.
    pub fn run_of(&self, file: &str, line: u64) -> usize {
        let begun = |run: &Run| run.begun.get(file).is_some_and(|first| *first <= line);
        let first = |run: &Run| run.begun.contains_key(file);
        let last = self.runs.iter().rposition(begun);
        last.or_else(|| self.runs.iter().position(first))
            .unwrap_or(0)
    }

    /// NCCL's choices, in all communicators.
    pub fn choices(&self) -> LoggedChoices {
        let communicators = self.communicators.iter();
        let choices = communicators.flat_map(|communicator| {
            let choices = communicator.decisions.choices.iter();
            choices
                .map(|((collective, bytes), it)| ((communicator.ranks, *collective, *bytes), *it))
        });
        choices.collect()
    }
}

/// Processes of one job, or of one attempt at it: other processes used the same GPUs.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Its communicators, by their places in the log, in order.
    pub communicators: Vec<usize>,
    /// The facts of each host.
    pub hosts: BTreeMap<String, HostFacts>,
    /// By file the line that names one of its processes first.
    pub begun: BTreeMap<String, u64>,
}

/// The facts of a host's processes. Processes that differ have several values.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// Processes.
    pub processes: usize,
    /// By name what is said: `version`, `driver`, `network`, `ports`, `interface`.
    pub values: BTreeMap<&'static str, BTreeSet<String>>,
    /// By variable its values.
    pub settings: BTreeMap<String, BTreeSet<String>>,
    /// By port or pair of GPU and port: GPUDirect RDMA is used, and why not.
    pub gdr: BTreeMap<String, (bool, String)>,
    /// The NVLink fabrics of its GPUs, each with the clique in it. `0.0` is no fabric.
    pub fabrics: BTreeSet<(String, String)>,
    /// Functions that failed: place, error and how often.
    pub failed: BTreeMap<(String, u32), u64>,
}

/// A communicator.
#[derive(Debug, Clone, Default)]
pub struct Communicator {
    /// Its id.
    pub id: Option<String>,
    /// Its ranks; as many as the log names if it does not say.
    pub ranks: u32,
    /// Its nodes; as many as there are hosts if the log does not say.
    pub nodes: u32,
    /// Its ranks in the log, by rank.
    pub members: Vec<RankFacts>,
    /// The decisions of NCCL.
    pub decisions: Decisions,
    /// Ranks that differ from most.
    pub odd_ranks: Vec<Oddity>,
}

/// The facts of a rank.
#[derive(Debug, Clone, Default)]
pub struct RankFacts {
    /// The rank, if it is known.
    pub rank: Option<u32>,
    /// The host.
    pub host: String,
    /// The process.
    pub process: u32,
    /// The process's number of the GPU.
    pub gpu: Option<u32>,
    /// The driver's number of the GPU.
    pub nvml_device: Option<u32>,
    /// The GPU's bus id as NCCL's number.
    pub bus_id: Option<u64>,
    /// How far it came.
    pub stage: Option<Stage>,
    /// The file and line in which its initialisation begins.
    pub begun: Option<(String, u64)>,
    /// The algorithms whose connections exist.
    pub connected: Vec<String>,
    /// Numbers of channels.
    pub counts: Option<ChannelCounts>,
    /// NVLink SHARP can be used.
    pub nvls_available: Option<bool>,
    /// Time of the initialisation, s.
    pub seconds: Option<f32>,
    /// By phase, s.
    pub phases: Vec<(String, f32)>,
    /// Connections by what carries them.
    pub transports: BTreeMap<String, u64>,
    /// By network and port: connections with GPUDirect RDMA and without.
    pub ports: BTreeMap<(String, i32), [u64; 2]>,
    /// Its view of the machine, without names of devices.
    pub view: Vec<String>,
}

/// The decisions of NCCL for a communicator.
#[derive(Debug, Clone, Default)]
pub struct Decisions {
    /// By channel the ranks of the ring, from rank 0.
    pub rings: BTreeMap<u32, Vec<u32>>,
    /// Rings that lack their last ranks, because NCCL cuts them after 20.
    pub cut_rings: BTreeSet<u32>,
    /// By channel and rank the neighbors in the tree.
    pub trees: BTreeMap<(u32, u32), Neighbors>,
    /// A line with trees was too short for all channels.
    pub trees_cut: bool,
    /// By head its rank in each node.
    pub nvls_heads: BTreeMap<u32, Vec<u32>>,
    /// By rank its neighbors in the two trees of NVLink SHARP over nodes.
    pub nvls_trees: BTreeMap<u32, [Neighbors; 2]>,
    /// Connections of rings and trees, by channel, sender and receiver.
    pub connections: BTreeMap<(u32, u32, u32), ConnectionFacts>,
    /// Numbers of channels.
    pub counts: Option<ChannelCounts>,
    /// Channels, chunk and largest chunk of trees of NVLink SHARP, bytes.
    pub nvls: Option<[i64; 3]>,
    /// Chunk of point-to-point transfers, bytes.
    pub p2p_chunk: Option<i64>,
    /// Latency (µs) and bandwidth (GB/s), as rounded in the log.
    pub model: BTreeMap<(Collective, Algorithm, Protocol), [f32; 2]>,
    /// By collective and bytes of the whole message what NCCL took.
    pub choices: BTreeMap<(Collective, u64), (Algorithm, Protocol)>,
    /// The graphs of the search, of the lowest rank that logs them.
    pub graphs: Vec<Graph>,
    /// NCCL's view of the machine, of the lowest rank that logs it.
    pub system: Vec<String>,
}

/// A graph of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// NCCL's number of the pattern.
    pub pattern: u32,
    /// Channels may leave through another port than they entered.
    pub cross_nic: u32,
    /// Number of channels.
    pub channels: u32,
    /// Bandwidth of a channel inside a node and between nodes, GB/s.
    pub bandwidths: [f32; 2],
    /// Path types inside a node and to the network.
    pub types: String,
    /// The devices of each channel.
    pub devices: Vec<String>,
}

/// A value of which some hosts or ranks have another one than most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// The variable or value that differs, such as `NCCL_IB_HCA`.
    pub what: String,
    /// The value of most.
    pub usual: String,
    /// How many have it.
    pub usual_count: usize,
    /// Other values, and who has them.
    pub others: Vec<(String, Vec<String>)>,
}
