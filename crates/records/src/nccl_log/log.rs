//! The content of a log, as values.

use std::collections::{BTreeMap, BTreeSet};

use plan::Algorithm;
use program::{Collective, Protocol};
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::nccl_log::collect::{BrokenLine, Counts, Warning};
use crate::nccl_log::decisions::{ChannelCounts, ConnectionFacts, Neighbors};
use crate::nccl_log::json;
use crate::nccl_log::statement::Stage;

/// Settings that every host has for itself.
pub(crate) const OWN: [&str; 4] = [
    "NCCL_HOSTID",
    "NCCL_COMM_ID",
    "NCCL_DEBUG_FILE",
    "NCCL_TOPO_DUMP_FILE",
];

/// The content of a log.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Log {
    /// The files, in order.
    pub files: Vec<String>,
    /// Too much for the memory was said, and something was left out.
    #[serde(rename = "incomplete")]
    pub is_full: bool,
    /// Numbers of lines.
    #[serde(rename = "lines")]
    pub counts: Counts,
    /// NCCL's versions, and how often each is said.
    #[serde(serialize_with = "json::keys")]
    #[schemars(with = "Vec<String>")]
    pub versions: BTreeMap<String, u64>,
    /// The facts of each host.
    #[serde(serialize_with = "list")]
    #[schemars(with = "Vec<Host<'_>>")]
    pub hosts: BTreeMap<String, HostFacts>,
    /// The GPUs that nccl-tests lists: by rank host and model.
    #[serde(serialize_with = "json::gpus")]
    #[schemars(with = "Vec<json::Gpu<'_>>")]
    pub gpus: BTreeMap<u32, (String, String)>,
    /// Communicators, in the order in which they begin.
    pub communicators: Vec<Communicator>,
    /// Its runs, in the order of their beginning, if there are several.
    #[serde(skip)]
    pub runs: Vec<Run>,
    /// Collectives that were called, by NCCL's name, and how often.
    pub operations: BTreeMap<String, u64>,
    /// Hosts that differ from most.
    pub odd_hosts: Vec<Oddity>,
    /// Kinds of warnings, the most frequent first.
    pub warnings: Vec<Warning>,
    /// Rings, trees and channels in an unknown form, the first ones; in JSON `file:line: text`.
    #[schemars(with = "Vec<String>")]
    pub broken: Vec<BrokenLine>,
    /// Kinds of lines that are not known, the most frequent first, and how often; numbers are `#`.
    pub unknown: Vec<(String, u64)>,
}

/// A host.
#[derive(Serialize, JsonSchema)]
struct Host<'a> {
    /// Its name.
    name: &'a str,
    #[serde(flatten)]
    facts: &'a HostFacts,
}

fn list<S: Serializer>(hosts: &BTreeMap<String, HostFacts>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(hosts.iter().map(|(name, facts)| Host { name, facts }))
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

    /// Whether no line is NCCL's.
    pub const fn has_nothing(&self) -> bool {
        self.counts.recognized + self.counts.ignored + self.counts.warnings == 0
    }

    /// Hosts, then ranks, that differ from most: ranks with their communicator, if there are
    /// several; no hosts if there are several runs, whose settings may differ.
    pub fn odd(&self) -> Vec<Oddity> {
        let several = self.communicators.len() > 1;
        let ranks = self.communicators.iter().enumerate();
        let ranks = ranks.flat_map(|(number, communicator)| {
            let name = match (&communicator.id, several) {
                (_, false) => String::new(),
                (Some(id), true) => format!(" ({id})"),
                (None, true) => format!(" (#{number})"),
            };
            let odd = communicator.odd_ranks.iter().cloned();
            odd.map(move |it| Oddity {
                what: it.what + &name,
                ..it
            })
        });
        let hosts = self.odd_hosts.iter().filter(|_| self.runs.is_empty());
        hosts.cloned().chain(ranks).collect()
    }

    /// By variable the values that any process has, without variables that each host has for
    /// itself.
    pub fn settings(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, values) in self.hosts.values().flat_map(|it| &it.settings) {
            if !OWN.contains(&name.as_str()) {
                all.entry(name.clone())
                    .or_default()
                    .extend(values.iter().cloned());
            }
        }
        all
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
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct HostFacts {
    /// Processes.
    pub processes: usize,
    /// By name what is said: `version`, `driver`, `network`, `ports`, `interface`.
    pub values: BTreeMap<&'static str, BTreeSet<String>>,
    /// By variable its values.
    pub settings: BTreeMap<String, BTreeSet<String>>,
    /// By port or pair of GPU and port: GPUDirect RDMA is used, and why not.
    #[serde(serialize_with = "json::gdr")]
    #[schemars(with = "Vec<json::Gdr<'_>>")]
    pub gdr: BTreeMap<String, (bool, String)>,
    /// The NVLink fabrics of its GPUs, each with the clique in it. `0.0` is no fabric.
    #[serde(skip)]
    pub fabrics: BTreeSet<(String, String)>,
    /// Functions that failed: place, error and how often.
    #[serde(serialize_with = "json::failed")]
    #[schemars(with = "Vec<json::Failed<'_>>")]
    pub failed: BTreeMap<(String, u32), u64>,
}

/// A communicator.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Communicator {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its ranks; as many as the log names if it does not say.
    pub ranks: u32,
    /// Its nodes; as many as there are hosts if the log does not say.
    pub nodes: u32,
    /// Its ranks in the log, by rank.
    pub members: Vec<RankFacts>,
    /// The decisions of NCCL.
    #[serde(flatten)]
    pub decisions: Decisions,
    /// Ranks that differ from most.
    pub odd_ranks: Vec<Oddity>,
}

/// The facts of a rank.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct RankFacts {
    /// The rank, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The host.
    pub host: String,
    /// The process.
    pub process: u32,
    /// The process's number of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// The driver's number of the GPU.
    #[serde(skip)]
    pub nvml_device: Option<u32>,
    /// The GPU's bus id as NCCL's number; hexadecimal in JSON.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "json::hexadecimal"
    )]
    #[schemars(with = "Option<String>")]
    pub bus_id: Option<u64>,
    /// How far it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The file and line in which its initialisation begins.
    #[serde(skip)]
    pub begun: Option<(String, u64)>,
    /// The algorithms whose connections exist.
    pub connected: Vec<String>,
    /// Numbers of channels.
    #[serde(skip)]
    pub counts: Option<ChannelCounts>,
    /// NVLink SHARP can be used.
    #[serde(skip)]
    pub nvls_available: Option<bool>,
    /// Time of the initialisation, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f32>,
    /// By phase, s.
    pub phases: Vec<(String, f32)>,
    /// Connections by what carries them.
    pub transports: BTreeMap<String, u64>,
    /// By network and port: connections with GPUDirect RDMA and without.
    #[serde(serialize_with = "json::ports")]
    #[schemars(with = "Vec<(String, i32, u64, u64)>")]
    pub ports: BTreeMap<(String, i32), [u64; 2]>,
    /// Its view of the machine, without names of devices.
    #[serde(skip)]
    pub view: Vec<String>,
}

/// The decisions of NCCL for a communicator.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Decisions {
    /// Numbers of channels; in JSON of collectives, of NVLS, point to point, per peer.
    #[serde(
        rename = "channels",
        skip_serializing_if = "Option::is_none",
        serialize_with = "json::channels"
    )]
    #[schemars(with = "Option<[u32; 4]>")]
    pub counts: Option<ChannelCounts>,
    /// By channel the ranks of the ring, from rank 0.
    pub rings: BTreeMap<u32, Vec<u32>>,
    /// Rings that lack their last ranks, because NCCL cuts them after 20.
    pub cut_rings: BTreeSet<u32>,
    /// By channel and rank the neighbors in the tree; in JSON channels, and the chains from the
    /// root.
    #[serde(serialize_with = "json::trees")]
    #[schemars(with = "Vec<(String, String)>")]
    pub trees: BTreeMap<(u32, u32), Neighbors>,
    /// A line with trees was too short for all channels.
    #[serde(skip)]
    pub trees_cut: bool,
    /// By head of NVLS its rank in each node.
    pub nvls_heads: BTreeMap<u32, Vec<u32>>,
    /// By rank its neighbors in the two trees of NVLink SHARP over nodes.
    #[serde(skip)]
    pub nvls_trees: BTreeMap<u32, [Neighbors; 2]>,
    /// Connections of rings and trees, by channel, sender and receiver.
    #[serde(skip)]
    pub connections: BTreeMap<(u32, u32, u32), ConnectionFacts>,
    /// Channels, chunk and largest chunk of trees of NVLink SHARP, bytes.
    #[serde(skip)]
    pub nvls: Option<[i64; 3]>,
    /// Chunk of point-to-point transfers, bytes.
    #[serde(skip)]
    pub p2p_chunk: Option<i64>,
    /// The graphs of the search, of the lowest rank that logs them.
    pub graphs: Vec<Graph>,
    /// NCCL's view of the machine, of the lowest rank that logs it.
    pub system: Vec<String>,
    /// Latency (µs) and bandwidth (GB/s), as rounded in the log.
    #[serde(rename = "costs", serialize_with = "json::costs")]
    #[schemars(with = "Vec<(String, String, String, f32, f32)>")]
    pub model: BTreeMap<(Collective, Algorithm, Protocol), [f32; 2]>,
    /// By collective and bytes of the whole message what NCCL took.
    #[serde(serialize_with = "json::choices")]
    #[schemars(with = "Vec<(String, u64, String, String)>")]
    pub choices: BTreeMap<(Collective, u64), (Algorithm, Protocol)>,
}

/// A graph of the search.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Graph {
    /// NCCL's number of the pattern; in JSON its name.
    #[serde(serialize_with = "json::name")]
    #[schemars(with = "String")]
    pub pattern: u32,
    /// Number of channels.
    pub channels: u32,
    /// Channels may leave through another port than they entered; a bool in JSON.
    #[serde(serialize_with = "json::is_set")]
    #[schemars(with = "bool")]
    pub cross_nic: u32,
    /// Bandwidth of a channel inside a node and between nodes, GB/s.
    pub bandwidths: [f32; 2],
    /// Path types inside a node and to the network.
    pub types: String,
    /// The devices of each channel.
    pub devices: Vec<String>,
}

/// A value of which some hosts or ranks have another one than most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
