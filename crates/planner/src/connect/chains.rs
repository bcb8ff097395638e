//! The GPU orders of one node's channels, with the way back from GPU to position.

use plan::{Graph, GraphKind};

use crate::cluster::ClusterPlan;
use crate::error::Error;
use crate::host::HostPlan;

/// The channels of one graph.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains {
    /// Ranks of the island, channel after channel.
    order: Vec<u32>,
    /// For each channel and each of the node's ranks (by position among them) where it stands in the channel.
    position: Vec<u32>,
    gpus: usize,
}

impl Chains {
    /// The first `channels` channels of a graph over these ranks (ascending).
    fn new(graph: &Graph, channels: usize, members: &[u32], node: u32) -> Result<Self, Error> {
        let gpus = members.len();
        let mut chains = Self {
            order: Vec::new(),
            position: Vec::new(),
            gpus,
        };
        for (channel, found) in graph.channels.iter().take(channels).enumerate() {
            let broken = || Error::BrokenChannel {
                graph: graph.kind,
                channel,
                node,
                gpus,
            };
            let mut position = vec![u32::MAX; gpus];
            for (at, rank) in found.ranks.iter().enumerate() {
                let rank = u32::try_from(*rank).map_err(|_| broken())?;
                let member = members.binary_search(&rank).map_err(|_| broken())?;
                if position[member] != u32::MAX {
                    return Err(broken());
                }
                position[member] = at as u32;
                chains.order.push(rank);
            }
            if found.ranks.len() != gpus {
                return Err(broken());
            }
            chains.position.extend(position);
        }
        Ok(chains)
    }

    /// The GPUs of a channel in order; empty for channels that the graph does not have.
    pub fn order(&self, channel: u32) -> &[u32] {
        let first = channel as usize * self.gpus;
        self.order.get(first..first + self.gpus).unwrap_or_default()
    }

    /// Where a rank (by position among the node's ranks) stands in a channel.
    pub fn position(&self, channel: u32, member: u32) -> u32 {
        self.position
            .get(channel as usize * self.gpus + member as usize)
            .copied()
            .unwrap_or(0)
    }
}

/// What joining asks of one node, all in ranks of its island.
#[derive(Debug, Clone)]
pub(super) struct NodeChains {
    pub ring: Chains,
    pub tree: Chains,
    pub collnet_chain: Chains,
    pub collnet_direct: Chains,
    /// The heads of NVLink SHARP: distinct first GPUs of its channels.
    pub nvls_heads: Vec<u32>,
}

impl NodeChains {
    fn new(plan: &HostPlan, searched: u32, members: &[u32], node: u32) -> Result<Self, Error> {
        let chains = |kind, channels| match plan.graph(kind) {
            Some(graph) => Chains::new(graph, channels, members, node),
            None => Ok(Chains::default()),
        };
        let mut nvls_heads: Vec<u32> = Vec::new();
        if let Some(nvls) = plan.graph(GraphKind::Nvls) {
            for head in nvls
                .channels
                .iter()
                .filter_map(|channel| channel.ranks.first())
            {
                let head = *head as u32;
                if !nvls_heads.contains(&head) {
                    nvls_heads.push(head);
                }
            }
        }
        Ok(Self {
            ring: chains(GraphKind::Ring, searched as usize)?,
            tree: chains(GraphKind::Tree, searched as usize)?,
            collnet_chain: chains(GraphKind::CollnetChain, usize::MAX)?,
            collnet_direct: chains(GraphKind::CollnetDirect, usize::MAX)?,
            nvls_heads,
        })
    }
}

/// The chains of all distinct nodes of a job.
pub(super) fn of_machines(
    plan: &ClusterPlan,
    searched: u32,
) -> Result<Vec<Vec<NodeChains>>, Error> {
    let mut machines: Vec<Vec<NodeChains>> = plan.machines.iter().map(|_| Vec::new()).collect();
    for (machine, _, first_node) in plan.layout.runs() {
        let nodes = &mut machines[machine as usize];
        if !nodes.is_empty() {
            continue;
        }
        for (index, host) in plan.machines[machine as usize].nodes.iter().enumerate() {
            let node = first_node + index as u32;
            let members = plan
                .layout
                .node(node)
                .map_or(&[][..], |place| plan.layout.members(place));
            nodes.push(NodeChains::new(host, searched, members, node)?);
        }
    }
    Ok(machines)
}
