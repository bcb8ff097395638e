//! A machine as a graph: nodes in NCCL's order, and each node's links in NCCL's order.

use std::ops::Range;

use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};

use crate::link::{Link, LinkId, LinkType};
use crate::node::{Cpu, Dev, Gpu, NcclId, Net, Node, NodeData, NodeId, NodeType};

/// The graph of a machine, or of several machines in an NVLink domain.
///
/// Nodes are numbered by type ([`NodeType::ALL`]), then in NCCL's list order. Links are numbered
/// by node, in the node's link order, so each node's links are a range. Both orders decide ties.
#[derive(Debug, Clone)]
pub struct System {
    graph: DiGraph<Node, Link>,
    first_of_kind: [u32; NodeType::ALL.len() + 1],
    first_link: Vec<u32>,
    hosts: Vec<u64>,
    host: u32,
}

/// A node for [`System::assemble`], with its links as (target's position, link).
pub(crate) struct Draft {
    pub node: Node,
    pub links: Vec<(usize, Link)>,
}

impl System {
    /// Assembles a graph of nodes in their final order, grouped by type.
    pub(crate) fn assemble(drafts: Vec<Draft>, hosts: Vec<u64>, host: u32) -> Self {
        let links: usize = drafts.iter().map(|draft| draft.links.len()).sum();
        let mut graph = DiGraph::with_capacity(drafts.len(), links);
        let mut first_of_kind = [0u32; NodeType::ALL.len() + 1];
        for draft in &drafts {
            first_of_kind[draft.node.kind() as usize + 1] += 1;
        }
        for kind in 0..NodeType::ALL.len() {
            first_of_kind[kind + 1] += first_of_kind[kind];
        }
        let mut first_link = Vec::with_capacity(drafts.len() + 1);
        let mut all_links = Vec::with_capacity(links);
        for (index, draft) in drafts.into_iter().enumerate() {
            graph.add_node(draft.node);
            first_link.push(all_links.len() as u32);
            all_links.extend(
                draft
                    .links
                    .into_iter()
                    .map(|(target, link)| (index, target, link)),
            );
        }
        first_link.push(all_links.len() as u32);
        for (source, target, link) in all_links {
            graph.add_edge(NodeIndex::new(source), NodeIndex::new(target), link);
        }
        Self {
            graph,
            first_of_kind,
            first_link,
            hosts,
            host,
        }
    }

    /// The graph. Its node and edge indices equal [`NodeId`] and [`LinkId`].
    pub const fn graph(&self) -> &DiGraph<Node, Link> {
        &self.graph
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.graph.node_count()
    }

    /// Number of links.
    pub fn link_count(&self) -> usize {
        self.graph.edge_count()
    }

    /// The numbers of all nodes of a type.
    pub const fn range(&self, kind: NodeType) -> Range<usize> {
        self.first_of_kind[kind as usize] as usize..self.first_of_kind[kind as usize + 1] as usize
    }

    /// The number of nodes of a type.
    pub const fn count(&self, kind: NodeType) -> usize {
        (self.first_of_kind[kind as usize + 1] - self.first_of_kind[kind as usize]) as usize
    }

    /// The nodes of a type, in NCCL's order.
    pub fn nodes(
        &self,
        kind: NodeType,
    ) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        let range = self.range(kind);
        (range.start as u32..range.end as u32).map(NodeId)
    }

    /// The n-th node of a type.
    ///
    /// # Panics
    /// There are not so many.
    pub fn nth(&self, kind: NodeType, index: usize) -> NodeId {
        let range = self.range(kind);
        assert!(index < range.len(), "no {kind} number {index}");
        NodeId((range.start + index) as u32)
    }

    /// The position of a node among those of its type.
    pub fn position(&self, node: NodeId) -> usize {
        node.index() - self.range(self.kind(node)).start
    }

    /// A node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.graph[NodeIndex::new(node.index())]
    }

    /// The type of a node.
    pub fn kind(&self, node: NodeId) -> NodeType {
        let number = node.0;
        let after = self.first_of_kind[1..]
            .iter()
            .position(|first| number < *first);
        NodeType::ALL[after.unwrap_or(NodeType::ALL.len() - 1)]
    }

    /// The first node of a type with this id.
    pub fn find(&self, kind: NodeType, id: NcclId) -> Option<NodeId> {
        self.nodes(kind).find(|node| self.node(*node).id == id)
    }

    /// The links of a node, in NCCL's order.
    pub fn links(&self, node: NodeId) -> impl ExactSizeIterator<Item = LinkId> + use<> {
        (self.first_link[node.index()]..self.first_link[node.index() + 1]).map(LinkId)
    }

    /// A link.
    pub fn link(&self, link: LinkId) -> Link {
        self.graph[EdgeIndex::new(link.index())]
    }

    /// The start and end of a link.
    ///
    /// # Panics
    /// The link is of another system.
    pub fn ends(&self, link: LinkId) -> (NodeId, NodeId) {
        match self.graph.edge_endpoints(EdgeIndex::new(link.index())) {
            Some((from, to)) => (NodeId(from.index() as u32), NodeId(to.index() as u32)),
            None => panic!("link {} of another system", link.0),
        }
    }

    /// The end of a link.
    pub fn target(&self, link: LinkId) -> NodeId {
        self.ends(link).1
    }

    /// The first link of `from` that leads to `to` and has this type.
    pub fn link_between(&self, from: NodeId, to: NodeId, kind: LinkType) -> Option<LinkId> {
        self.links(from)
            .find(|link| self.target(*link) == to && self.link(*link).kind == kind)
    }

    /// The data of a GPU node; `None` for other nodes.
    pub fn gpu(&self, node: NodeId) -> Option<&Gpu> {
        match &self.node(node).data {
            NodeData::Gpu(gpu) => Some(gpu),
            _ => None,
        }
    }

    /// The data of a DEV node; `None` for other nodes.
    pub fn dev(&self, node: NodeId) -> Option<&Dev> {
        match &self.node(node).data {
            NodeData::Dev(dev) => Some(dev),
            _ => None,
        }
    }

    /// The data of a NET node; `None` for other nodes.
    pub fn net(&self, node: NodeId) -> Option<&Net> {
        match &self.node(node).data {
            NodeData::Net(net) => Some(net),
            _ => None,
        }
    }

    /// The data of a CPU node; `None` for other nodes.
    pub fn cpu(&self, node: NodeId) -> Option<&Cpu> {
        match &self.node(node).data {
            NodeData::Cpu(cpu) => Some(cpu),
            _ => None,
        }
    }

    /// The DEV node that holds a GPU node.
    pub fn device_of(&self, gpu: NodeId) -> Option<NodeId> {
        self.links(gpu)
            .map(|link| self.target(link))
            .find(|node| self.kind(*node) == NodeType::Dev)
    }

    /// All GPUs with their data, in node order.
    pub fn gpus(&self) -> impl Iterator<Item = (NodeId, &Gpu)> {
        self.nodes(NodeType::Gpu)
            .filter_map(|node| Some((node, self.gpu(node)?)))
    }

    /// All physical GPUs with their data, in node order.
    pub fn devs(&self) -> impl Iterator<Item = (NodeId, &Dev)> {
        self.nodes(NodeType::Dev)
            .filter_map(|node| Some((node, self.dev(node)?)))
    }

    /// All network ports with their data, in node order.
    pub fn nets(&self) -> impl Iterator<Item = (NodeId, &Net)> {
        self.nodes(NodeType::Net)
            .filter_map(|node| Some((node, self.net(node)?)))
    }

    /// All CPUs with their data, in node order.
    pub fn cpus(&self) -> impl Iterator<Item = (NodeId, &Cpu)> {
        self.nodes(NodeType::Cpu)
            .filter_map(|node| Some((node, self.cpu(node)?)))
    }

    /// The GPU node of a rank.
    pub fn gpu_of_rank(&self, rank: i32) -> Option<NodeId> {
        self.gpus()
            .find(|(_, gpu)| gpu.rank == rank)
            .map(|(node, _)| node)
    }

    /// Host hashes in order of first appearance, indexed by [`NcclId::system`].
    pub fn hosts(&self) -> &[u64] {
        &self.hosts
    }

    /// The index of the host that this system is seen from.
    pub const fn host(&self) -> u32 {
        self.host
    }

    /// Renumbers the ranks: `rank_of` gives each GPU's new rank.
    pub fn set_ranks(&mut self, mut rank_of: impl FnMut(NodeId, &Gpu) -> i32) {
        for node in self.nodes(NodeType::Gpu) {
            if let NodeData::Gpu(gpu) = &mut self.graph[NodeIndex::new(node.index())].data {
                gpu.rank = rank_of(node, gpu);
            }
        }
    }

    /// Gives every network port a plug-in for collectives in the network (CollNet).
    pub fn enable_collnet(&mut self) {
        for node in self.nodes(NodeType::Net) {
            if let NodeData::Net(net) = &mut self.graph[NodeIndex::new(node.index())].data {
                net.coll = true;
            }
        }
    }

    /// The same system with other bandwidths of links, GB/s.
    #[must_use]
    pub fn with_bandwidths(&self, mut bandwidth: impl FnMut(LinkId) -> f32) -> Self {
        let mut changed = self.clone();
        for (number, link) in changed.graph.edge_weights_mut().enumerate() {
            link.bw = bandwidth(LinkId(number as u32));
        }
        changed
    }

    /// The same system without some nodes.
    #[must_use]
    pub fn without(&self, mut removed: impl FnMut(NodeId) -> bool) -> Self {
        let mut new_number = vec![None; self.node_count()];
        let mut kept = Vec::new();
        for (index, number) in new_number.iter_mut().enumerate() {
            let node = NodeId(index as u32);
            if removed(node) {
                continue;
            }
            *number = Some(kept.len());
            kept.push(node);
        }
        let drafts = kept
            .iter()
            .map(|node| Draft {
                node: self.node(*node).clone(),
                links: self
                    .links(*node)
                    .filter_map(|link| {
                        Some((new_number[self.target(link).index()]?, self.link(link)))
                    })
                    .collect(),
            })
            .collect();
        Self::assemble(drafts, self.hosts.clone(), self.host)
    }
}
