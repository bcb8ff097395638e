//! The graph while it is being built: nodes by type, links kept sorted by bandwidth.

use super::{MAX_LINKS_PER_NODE, MAX_NODES_PER_TYPE, document_place};
use crate::error::Error;
use crate::link::{Link, LinkType};
use crate::node::{NcclId, Node, NodeData, NodeType};
use crate::system::Draft;
use crate::xml::{Document, Element};

/// Names a node under construction; stays valid when other nodes are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DraftId(usize);

#[derive(Debug, Clone, Copy)]
pub(super) struct DraftLink {
    pub to: DraftId,
    pub link: Link,
}

#[derive(Debug)]
struct DraftNode {
    node: Node,
    links: Vec<DraftLink>,
    /// The parent in the PCI tree.
    parent: Option<DraftId>,
}

/// All nodes under construction.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    nodes: Vec<DraftNode>,
    by_kind: [Vec<DraftId>; NodeType::ALL.len()],
}

impl Drafts {
    pub(super) fn add(
        &mut self,
        document: &Document,
        element: &Element,
        id: NcclId,
        data: NodeData,
    ) -> Result<DraftId, Error> {
        let node = Node { id, data };
        let list = &mut self.by_kind[node.kind() as usize];
        if list.len() == MAX_NODES_PER_TYPE {
            return Err(Error::new(
                element.place(&document.file, None),
                format!("too many {} nodes", node.kind()),
                format!("number {}", MAX_NODES_PER_TYPE + 1),
                format!("at most {MAX_NODES_PER_TYPE} of one type, NCCL's limit"),
            ));
        }
        let draft = DraftId(self.nodes.len());
        list.push(draft);
        self.nodes.push(DraftNode {
            node,
            links: Vec::new(),
            parent: None,
        });
        Ok(draft)
    }

    pub(super) fn of_kind(&self, kind: NodeType) -> &[DraftId] {
        &self.by_kind[kind as usize]
    }

    pub(super) fn node(&self, id: DraftId) -> &Node {
        &self.nodes[id.0].node
    }

    pub(super) fn node_mut(&mut self, id: DraftId) -> &mut Node {
        &mut self.nodes[id.0].node
    }

    pub(super) fn links(&self, id: DraftId) -> &[DraftLink] {
        &self.nodes[id.0].links
    }

    pub(super) fn links_mut(&mut self, id: DraftId) -> &mut Vec<DraftLink> {
        &mut self.nodes[id.0].links
    }

    pub(super) fn find(&self, kind: NodeType, id: NcclId) -> Option<DraftId> {
        self.of_kind(kind)
            .iter()
            .copied()
            .find(|draft| self.node(*draft).id == id)
    }

    /// Adds bandwidth in one direction. Links stay sorted by descending bandwidth, older first.
    pub(super) fn connect(&mut self, from: DraftId, to: DraftId, kind: LinkType, bw: f32) {
        let links = &mut self.nodes[from.0].links;
        let mut at = match links
            .iter()
            .position(|known| known.to == to && known.link.kind == kind)
        {
            Some(at) => {
                links[at].link.bw += bw;
                at
            }
            None => {
                links.push(DraftLink {
                    to,
                    link: Link { kind, bw },
                });
                links.len() - 1
            }
        };
        while at > 0 && links[at - 1].link.bw < links[at].link.bw {
            links.swap(at - 1, at);
            at -= 1;
        }
    }

    /// Connects both directions, child to parent first.
    pub(super) fn connect_both(
        &mut self,
        child: DraftId,
        parent: DraftId,
        kind: LinkType,
        bw: f32,
    ) {
        self.connect(child, parent, kind, bw);
        self.connect(parent, child, kind, bw);
    }

    /// Hangs a node into the PCI tree.
    pub(super) fn hang(&mut self, child: DraftId, parent: DraftId, kind: LinkType, bw: f32) {
        self.nodes[child.0].parent = Some(parent);
        self.connect_both(child, parent, kind, bw);
    }

    /// Takes over a removed switch's place in the PCI tree.
    pub(super) fn move_under(&mut self, child: DraftId, parent: DraftId) {
        self.nodes[child.0].parent = Some(parent);
    }

    /// The CPU at the root of a node's PCI tree.
    pub(super) fn cpu_above(&self, mut node: DraftId) -> Option<DraftId> {
        loop {
            if self.node(node).kind() == NodeType::Cpu {
                return Some(node);
            }
            node = self.nodes[node.0].parent?;
        }
    }

    /// Takes a node out of its list and drops all links to it.
    pub(super) fn remove(&mut self, id: DraftId) {
        let kind = self.node(id).kind();
        self.by_kind[kind as usize].retain(|known| *known != id);
        for node in &mut self.nodes {
            node.links.retain(|link| link.to != id);
        }
    }

    /// Moves each node's uplink to the end of its links, going down the PCI trees from the CPUs.
    pub(super) fn sort_links(&mut self) {
        for cpu in self.of_kind(NodeType::Cpu).to_vec() {
            // Only links of the CPU that existed before are followed, so a copy is safe.
            for child in self.pci_children(cpu, None) {
                self.sort_below(child, cpu);
            }
        }
    }

    fn pci_children(&self, node: DraftId, except: Option<DraftId>) -> Vec<DraftId> {
        let links = self.links(node).iter();
        links
            .filter(|link| link.link.kind == LinkType::Pci && Some(link.to) != except)
            .map(|link| link.to)
            .collect()
    }

    fn sort_below(&mut self, node: DraftId, parent: DraftId) {
        let links = &mut self.nodes[node.0].links;
        // NCCL takes the first link to the parent of any type; beside PCI that is the C2C link.
        if let Some(at) = links.iter().position(|link| link.to == parent) {
            links[at..].rotate_left(1);
        }
        for child in self.pci_children(node, Some(parent)) {
            self.sort_below(child, node);
        }
    }

    pub(super) fn check_links(&self, document: &Document) -> Result<(), Error> {
        match self
            .nodes
            .iter()
            .find(|node| node.links.len() > MAX_LINKS_PER_NODE)
        {
            None => Ok(()),
            Some(node) => Err(Error::new(
                document_place(document),
                format!(
                    "{} node {:#x} has too many links",
                    node.node.kind(),
                    node.node.id.0
                ),
                node.links.len().to_string(),
                format!("at most {MAX_LINKS_PER_NODE}, NCCL's limit"),
            )),
        }
    }

    /// The nodes type by type, links renumbered to match.
    pub(super) fn into_order(mut self) -> Vec<Draft> {
        let order: Vec<DraftId> = self.by_kind.concat();
        let mut number = vec![usize::MAX; self.nodes.len()];
        for (index, id) in order.iter().enumerate() {
            number[id.0] = index;
        }
        order
            .iter()
            .map(|id| {
                let draft = &mut self.nodes[id.0];
                let node = std::mem::replace(
                    &mut draft.node,
                    Node {
                        id: NcclId(0),
                        data: NodeData::Nic,
                    },
                );
                let links = draft
                    .links
                    .iter()
                    .map(|link| (number[link.to.0], link.link))
                    .collect();
                Draft { node, links }
            })
            .collect()
    }
}
