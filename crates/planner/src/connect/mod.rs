//! From the plans of single hosts to the plan of the job: rings and trees over all nodes, channel
//! counts, buffers.
//!
//! [`JobPlan`] keeps the decisions of each distinct machine once, so a job of many equal hosts is
//! as small as a job of two. Its [`Expansion`] computes what any one rank does. In reading order:
//! [`summary`] (what ranks exchange), `channels`, `nvls`, `p2p`, `transports`, `costing` (the
//! inputs of the cost model).

mod channels;
mod costing;
mod notes;
mod nvls;
mod p2p;
pub mod summary;
mod transports;

pub use summary::GatheredGraphs;

use std::sync::Arc;

use plan::{Buffers, Common, Expansion, GraphKind, JobLayout, NodeParts, NodePlace, Transports};

use crate::cluster::ClusterPlan;
use crate::error::Error;
use crate::host_plan::HostPlan;
use crate::rules::NetPeerChannels;
use crate::settings::{Settings, Tuning};

fn buffers(tuning: &Tuning) -> Buffers {
    let [ll, ll128, simple] = tuning.buffer_bytes;
    let [default_ll, default_ll128, default_simple] = crate::cost::tables::BUFFER_BYTES;
    Buffers {
        ll: ll.unwrap_or(default_ll),
        ll128: ll128.unwrap_or(default_ll128),
        simple: simple.unwrap_or(default_simple),
    }
}

/// A job with its hosts joined.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// The decisions of single machines, and where ranks are.
    pub hosts: ClusterPlan,
    /// Facts that hold for all ranks.
    pub facts: GatheredGraphs,
    /// The peers and connections of any one rank.
    pub expansion: Arc<Expansion>,
}

impl JobPlan {
    /// Joins the hosts of a job as NCCL does after every rank has searched its graphs.
    ///
    /// # Errors
    /// Hosts differ in what NCCL wants equal, or a channel does not hold each GPU of its node once.
    pub(crate) fn new(plan: ClusterPlan, settings: &Settings) -> Result<Self, Error> {
        let connect = &settings.connect;
        let mut facts = GatheredGraphs::merge(&plan, connect)?;
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
        let rules = settings.rules;
        let hosts = plan.layout.hosts();
        let nvls_channels = nvls::channels(&facts, nodes, hosts, connect, rules);
        let least = nvls_channels.filter(|_| !rules.separates_nvls_channels);
        let least = least.unwrap_or(0);
        let channels = channels::channels(&facts, nodes, ranks, collnet, connect, least);
        let buffers = buffers(&settings.tuning);
        let first = plan.layout.rank(0).ok_or(Error::NoHosts)?;
        let p2p = p2p::p2p_channels(
            &facts,
            &GatheredGraphs::of(plan.node(first.node), connect),
            &plan.layout,
            channels.count(),
            buffers,
            connect,
            rules,
        );
        let mut parts = parts(&plan, searched)?;
        let nvls = nvls_channels
            .map(|channels| nvls::nvls(&facts, &parts, nodes, channels, connect, rules));
        let merged = |kind| facts.graph(kind).channels;
        let crosses = facts.graph(GraphKind::Ring).cross_nic;
        let paired = !rules.swaps_rings_by_node
            && crosses == 2
            && plan.distinct().any(|host| {
                let ring = host.graph(GraphKind::Ring);
                ring.is_some_and(|ring| ring.cross_nic != crosses)
            });
        for (parts, machine) in parts.iter_mut().zip(&plan.machines) {
            for (part, host) in parts.iter_mut().zip(&machine.nodes) {
                part.set_transports(transports::inner(host)?);
                let mut found = transports::transports(host, part, &channels.base, merged, paired)?;
                if rules.net_peer_channels == NetPeerChannels::Halved {
                    let own = GatheredGraphs::of(host, connect);
                    let own = p2p::halved(&own, &plan.layout, channels.count(), connect);
                    found.per_peer = (own != p2p.per_peer).then_some(own);
                }
                part.set_transports(found);
            }
        }
        let common = Common {
            graphs: facts.graphs.to_vec(),
            channels,
            nvls,
            collnet,
            p2p,
            buffers,
            shared_memory: !settings.shm_disable
                && (settings.rules.shares_between_nodes
                    || settings.net_disable_intra
                    || plan.machines.iter().all(|machine| machine.nodes.len() == 1)),
            swaps_rings_together: paired,
        };
        Ok(Self {
            expansion: Arc::new(Expansion::new(plan.layout.clone(), parts, common)),
            hosts: plan,
            facts,
        })
    }

    /// Where ranks and nodes are.
    pub const fn layout(&self) -> &JobLayout {
        &self.hosts.layout
    }

    /// The common part of all ranks.
    pub fn common(&self) -> &Common {
        self.expansion.common()
    }

    /// The decisions of a node's ranks.
    pub fn node_plan(&self, node: NodePlace) -> &HostPlan {
        self.hosts.node(node)
    }
}

/// The channel orders of the nodes of each machine.
fn parts(plan: &ClusterPlan, searched: u32) -> Result<Vec<Vec<NodeParts>>, Error> {
    let mut machines: Vec<Vec<NodeParts>> = plan.machines.iter().map(|_| Vec::new()).collect();
    for (machine, first_node) in plan.layout.runs() {
        let nodes = &mut machines[machine as usize];
        if !nodes.is_empty() {
            continue;
        }
        for (index, host) in plan.machines[machine as usize].nodes.iter().enumerate() {
            let system = host.view.system();
            let mut gpus: Vec<(u32, i32)> = system
                .gpus()
                .map(|(_, gpu)| (gpu.rank as u32, gpu.dev))
                .collect();
            gpus.sort_unstable();
            let parts = NodeParts::new(&host.graphs, searched, &gpus, Transports::default());
            nodes.push(parts.map_err(|broken| Error::BrokenChannel {
                graph: broken.graph,
                channel: broken.channel,
                node: first_node + index as u32,
                gpus: broken.gpus,
            })?);
        }
    }
    Ok(machines)
}
