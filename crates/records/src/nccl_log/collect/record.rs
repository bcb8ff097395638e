//! The log of one rank of one communicator.

use std::collections::{BTreeMap, BTreeSet};

use plan::Algorithm;
use program::{Collective, Protocol};

use super::strings::Text;
use crate::nccl_log::decisions::{ChannelCounts, ConnectionFacts, Neighbors};
use crate::nccl_log::statement::Stage;

/// The log of one rank of one communicator. What it did not log is empty or `None`.
#[derive(Debug, Default)]
pub struct Record {
    /// The host's name.
    pub host: Text,
    /// The process.
    pub process: u32,
    /// The process's number of the GPU.
    pub gpu: Option<u32>,
    /// The rank.
    pub rank: Option<u32>,
    /// Ranks of the communicator.
    pub ranks: Option<u32>,
    /// Nodes of the communicator.
    pub nodes: Option<u32>,
    /// Ranks of the node.
    pub local_ranks: Option<u32>,
    /// The driver's number of the GPU.
    pub nvml_device: Option<u32>,
    /// The GPU's bus id as NCCL's number.
    pub bus_id: Option<u64>,
    /// The communicator's id.
    pub id: Option<Text>,
    /// How far it came.
    pub stage: Option<Stage>,
    /// The file and line in which its initialisation begins.
    pub begun: Option<(Text, u64)>,
    /// Its connections exist, such as `rings`.
    pub connected: Vec<Text>,
    /// By channel the ranks of the ring, from rank 0.
    pub rings: BTreeMap<u32, Vec<u32>>,
    /// By channel the ranks before and after this one in the ring.
    pub ring_neighbors: BTreeMap<u32, (Option<u32>, u32)>,
    /// By channel and rank the neighbors in the tree.
    pub trees: BTreeMap<(u32, u32), Neighbors>,
    /// A line with trees was too short for all channels.
    pub trees_cut: bool,
    /// By head its rank in each node.
    pub nvls_heads: BTreeMap<u32, Vec<u32>>,
    /// Its neighbors in the two trees of NVLink SHARP over nodes.
    pub nvls_trees: Option<(u32, [Neighbors; 2])>,
    /// Connections of rings and trees, by channel, sender and receiver.
    pub connections: BTreeMap<(u32, u32, u32), ConnectionFacts>,
    /// Connections by what carries them: all, and those of point-to-point transfers.
    pub transports: BTreeMap<Text, u64>,
    /// By network and port: connections with GPUDirect RDMA and without.
    pub ports: BTreeMap<(Text, i32), [u64; 2]>,
    /// Numbers of channels.
    pub counts: Option<ChannelCounts>,
    /// Channels, chunk and largest chunk of trees of NVLink SHARP, bytes.
    pub nvls: Option<[i64; 3]>,
    /// NVLink SHARP can be used.
    pub nvls_available: Option<bool>,
    /// Chunk of point-to-point transfers, bytes.
    pub p2p_chunk: Option<i64>,
    /// Time of the initialisation and its phases, s.
    pub timings: Option<(f32, Vec<(Text, f32)>)>,
    /// The graphs of the search.
    pub graphs: Vec<GraphText>,
    /// NCCL's view of the machine.
    pub system: Vec<Text>,
    /// That view is complete.
    pub system_ended: bool,
    /// The columns of the cost table that is being read.
    pub columns: Vec<(Option<Algorithm>, Option<Protocol>)>,
    /// Latency (µs) and bandwidth (GB/s), as rounded in the log.
    pub model: BTreeMap<(Collective, Algorithm, Protocol), [f32; 2]>,
    /// By collective and bytes what NCCL took.
    pub choices: BTreeMap<(Collective, u64), (Algorithm, Protocol)>,
}

/// A graph of the search, as NCCL logs it.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct GraphText {
    /// NCCL's number of the pattern.
    pub pattern: u32,
    /// Channels may leave through another port than they entered.
    pub cross_nic: u32,
    /// Number of channels.
    pub channels: u32,
    /// Bandwidth of a channel inside a node and between nodes, GB/s.
    pub bandwidths: [f32; 2],
    /// Path types inside a node and to the network.
    pub types: Text,
    /// The devices of each channel.
    pub devices: Vec<Text>,
}

impl Record {
    /// The rank, also from its rings and trees.
    pub fn own_rank(&self) -> Option<u32> {
        let of_trees = || {
            let mut ranks = self.trees.keys().map(|(_, rank)| *rank);
            let first = ranks.next()?;
            ranks.all(|rank| rank == first).then_some(first)
        };
        self.rank.or_else(of_trees)
    }

    /// Whether it holds connections only.
    pub fn is_connections_only(&self) -> bool {
        self.rank.is_none()
            && self.trees.is_empty()
            && self.rings.is_empty()
            && self.ring_neighbors.is_empty()
            && self.counts.is_none()
            && self.graphs.is_empty()
            && self.system.is_empty()
            && !self.transports.is_empty()
    }

    /// Adds the connections of another record.
    pub fn add_connections(&mut self, other: Self) {
        for (ends, connected) in other.connections {
            let own = self.connections.entry(ends).or_default();
            own.local = own.local.or(connected.local);
            own.sender = own.sender.or(connected.sender);
            own.receiver = own.receiver.or(connected.receiver);
        }
        for (kind, count) in other.transports {
            *self.transports.entry(kind).or_default() += count;
        }
        for (port, [with, without]) in other.ports {
            let own = self.ports.entry(port).or_default();
            own[0] += with;
            own[1] += without;
        }
    }
}

/// The log of one process.
#[derive(Debug, Default)]
pub struct Process {
    /// Its place among processes, in the order of their beginning.
    pub place: usize,
    /// The file and line that names it first.
    pub begun: Option<(Text, u64)>,
    /// NCCL's version.
    pub version: Option<Text>,
    /// The version of the CUDA driver.
    pub driver: Option<u32>,
    /// By variable its value.
    pub settings: BTreeMap<Text, Text>,
    /// The network.
    pub network: Option<Text>,
    /// By network its ports, in NCCL's words.
    pub listed_ports: BTreeMap<Text, Text>,
    /// The interface over which ranks meet.
    pub bootstrap: Option<Text>,
    /// By port or pair of GPU and port: GPUDirect RDMA is used, and why not.
    pub gdr: BTreeMap<Text, (bool, Text)>,
    /// The NVLink fabrics of its GPUs: cluster and clique.
    pub fabrics: BTreeSet<(Text, Text)>,
    /// Functions that failed: place and error, with their number.
    pub failed: BTreeMap<(Text, u32), u64>,
    /// It says when the initialisation of a rank begins, as NCCL does since 2.18.
    pub says_starts: bool,
}
