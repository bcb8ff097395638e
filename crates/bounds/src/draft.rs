//! A host's graph while it is made.

use std::collections::BTreeMap;

use plan::certificate::Vertex;
use topology::NodeType;

/// Vertices and links of one host.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Devices, switches and ports.
    pub vertices: Vec<Vertex>,
    /// Bandwidth by where a link begins, where it ends, and its type.
    pub links: BTreeMap<(u32, u32, String), u64>,
    /// The vertex of each part of the machine.
    pub known: BTreeMap<Key, u32>,
}

/// The key of a vertex. Positions are the same in all views of a machine, which differ in ranks
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A rank by its number in the machine.
    Rank(i32),
    /// A node by its position among those of its type.
    Node(NodeType, usize),
    /// A port by host, guid and port number.
    Port(u32, u64, i32),
}

impl Draft {
    /// A new vertex without a rank.
    pub(crate) fn vertex(&mut self, name: String) -> u32 {
        self.vertices.push(Vertex { name, rank: false });
        self.vertices.len() as u32 - 1
    }
}
