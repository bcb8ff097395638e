//! From the plans of single hosts to the plan of the job: rings and trees over all nodes, channel counts, buffers.
//!
//! [`Joined`] keeps what the distinct machines decided once, and answers questions about any rank by arithmetic, so a job
//! of many equal hosts is as small as one of two. In reading order: [`summary`] (what ranks tell each other),
//! [`channels`], [`rings`], [`trees`], [`nvls`], [`collnet`], [`p2p`], [`ports`], [`connections`],
//! [`costing`] (what the cost model asks).

pub mod channels;
pub mod collnet;
pub mod connections;
pub mod costing;
pub mod nvls;
pub mod p2p;
pub mod ports;
pub mod rings;
pub mod summary;
pub mod trees;

mod chains;

pub use channels::Channels;
pub use collnet::{ChainPlace, DirectPlace};
pub use connections::{Connection, NotDirect, NotShared, RingEdge};
pub use nvls::{Nvls, NvlsPlace};
pub use p2p::P2pChannels;
pub use ports::NetEnd;
pub use rings::RingPlace;
pub use summary::{Facts, GraphSummary};
pub use trees::{TreePlace, double_tree};

use plan::GraphKind;

use crate::cluster::{ClusterPlan, Layout, NodePlace};
use crate::error::Error;
use crate::host::HostPlan;
use crate::settings::{Settings, Tuning};
use chains::NodeChains;

/// Bytes of one connection's buffers, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// LL.
    pub ll: i64,
    /// LL128.
    pub ll128: i64,
    /// Simple.
    pub simple: i64,
}

impl Buffers {
    fn new(tuning: &Tuning) -> Self {
        let [ll, ll128, simple] = tuning.buffer_bytes;
        Self {
            ll: ll.unwrap_or(524_288),
            ll128: ll128.unwrap_or(4_915_200),
            simple: simple.unwrap_or(4_194_304),
        }
    }
}

/// A job with its hosts joined.
#[derive(Debug, Clone)]
pub struct Joined {
    /// What single machines decided, and where ranks are.
    pub plan: ClusterPlan,
    /// What holds for all ranks.
    pub facts: Facts,
    /// Channels of collectives.
    pub channels: Channels,
    /// NVLink SHARP, if all nodes have it.
    pub nvls: Option<Nvls>,
    /// The network reduces (CollNet).
    pub collnet: bool,
    /// Point-to-point transfers.
    pub p2p: P2pChannels,
    /// Buffers of each connection.
    pub buffers: Buffers,
    /// For each machine and each of its nodes the GPU orders of its channels.
    chains: Vec<Vec<NodeChains>>,
}

impl Joined {
    /// Joins the hosts of a job as NCCL does after every rank has searched its graphs.
    ///
    /// # Errors
    /// Hosts differ in what NCCL wants equal, or a channel does not hold each GPU of its node once.
    pub fn new(plan: ClusterPlan, settings: &Settings) -> Result<Self, Error> {
        let connect = &settings.connect;
        let mut facts = Facts::merge(&plan, connect)?;
        let searched = facts
            .graph(GraphKind::Ring)
            .channels
            .min(facts.graph(GraphKind::Tree).channels);
        facts.graph_mut(GraphKind::Ring).channels = searched;
        facts.graph_mut(GraphKind::Tree).channels = searched;
        let (nodes, ranks) = (plan.layout.nodes(), plan.layout.ranks());
        let collnet = plan.collnet
            && facts.graph(GraphKind::CollnetChain).channels > 0
            && i64::from(nodes) >= connect.collnet_node_threshold;
        let channels = Channels::new(&facts, nodes, ranks, collnet, connect);
        let chains = chains::of_machines(&plan, searched)?;
        let buffers = Buffers::new(&settings.tuning);
        let p2p = P2pChannels::new(&facts, &plan.layout, channels.count(), buffers, connect);
        let nvls = Nvls::new(&facts, &chains, nodes, connect);
        Ok(Self {
            plan,
            facts,
            channels,
            nvls,
            collnet,
            p2p,
            buffers,
            chains,
        })
    }

    /// Where ranks and nodes are.
    pub const fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    /// What a node's ranks decided on their own.
    pub fn node_plan(&self, node: NodePlace) -> &HostPlan {
        self.plan.node(node)
    }

    fn chains(&self, node: NodePlace) -> &NodeChains {
        &self.chains[node.machine as usize][node.index as usize]
    }
}
