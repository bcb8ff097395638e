//! Sets of vertices, and the bandwidth of the links that leave and enter them.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::CapacityGraph;

/// Which links of a set of vertices are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Links into the set.
    In,
    /// Links out of the set.
    Out,
}

/// A set of vertices of the whole job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// The network's vertices in the set, ascending.
    pub network: Vec<u32>,
    /// For every host its vertices in the set. The counts of a class add up to its hosts.
    pub sides: Vec<Side>,
}

/// The vertices of some equal hosts that belong to a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// The class of the hosts.
    pub class: u32,
    /// Number of hosts of which these vertices belong to the set.
    pub count: u32,
    /// The vertices of each, ascending.
    pub inside: Vec<u32>,
}

/// A set of a partition of the ranks, or equal sets of equal hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Number of equal sets: 1, or all hosts of a class where the set has ranks of one host only.
    pub times: u32,
    /// The set.
    pub set: Cut,
}

/// The content of a set of vertices, and the bandwidth over its border, 0.1 MB/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crossing {
    /// Ranks in the set.
    pub ranks: u128,
    /// Bandwidth of the links that leave it.
    pub out: u128,
    /// Bandwidth of the links that enter it.
    pub into: u128,
}

/// Whether numbers are ascending and below a limit.
fn ascending(numbers: &[u32], limit: usize) -> bool {
    numbers.is_sorted_by(|one, next| one < next)
        && numbers.last().is_none_or(|last| (*last as usize) < limit)
}

impl Cut {
    /// Counts the ranks in the set, and sums the links over its border.
    ///
    /// # Errors
    /// The set names unknown vertices, or not every host; the text says which.
    pub fn measure(&self, graph: &CapacityGraph) -> Result<Crossing, String> {
        if !ascending(&self.network, graph.network.len()) {
            return Err("the network's vertices are not ascending, or unknown".to_owned());
        }
        let mut counted = vec![0u64; graph.hosts.len()];
        let mut crossing = Crossing::default();
        for side in &self.sides {
            let unknown = || format!("there is no class {} of hosts", side.class);
            let class = graph.hosts.get(side.class as usize).ok_or_else(unknown)?;
            let own = class.vertices.len();
            if side.count == 0 {
                return Err(format!("a side of class {} has no host", side.class));
            }
            if !ascending(&side.inside, own) {
                return Err(format!(
                    "the vertices of class {} are not ascending, or unknown",
                    side.class
                ));
            }
            counted[side.class as usize] += u64::from(side.count);
            let mut inside = vec![false; own + graph.network.len()];
            let network = self.network.iter().map(|vertex| own + *vertex as usize);
            for vertex in side.inside.iter().map(|it| *it as usize).chain(network) {
                inside[vertex] = true;
            }
            let times = u128::from(side.count);
            let ranks = side.inside.iter();
            let ranks = ranks.filter(|vertex| class.vertices[**vertex as usize].rank);
            crossing.ranks += times * ranks.count() as u128;
            for link in &class.links {
                let capacity = times * u128::from(link.capacity);
                match (inside[link.from as usize], inside[link.to as usize]) {
                    (true, false) => crossing.out += capacity,
                    (false, true) => crossing.into += capacity,
                    _ => {}
                }
            }
        }
        for (at, (class, counted)) in graph.hosts.iter().zip(&counted).enumerate() {
            if u64::from(class.count) != *counted {
                return Err(format!(
                    "the set describes {counted} hosts of class {at}; expected {}",
                    class.count
                ));
            }
        }
        Ok(crossing)
    }

    /// Vertices and links that [`measure`](Self::measure) looks at.
    pub(super) fn steps(&self, graph: &CapacityGraph) -> u128 {
        let network = graph.network.len();
        let of = |side: &Side| match graph.hosts.get(side.class as usize) {
            Some(class) => class.vertices.len() + network + class.links.len(),
            None => 1,
        };
        let sides = self.sides.iter().map(|side| of(side) as u128);
        graph.hosts.len() as u128 + sides.sum::<u128>()
    }

    /// Whether the set has rank 0 of the job: the first rank of a host of the first class. Hosts of
    /// a class are equal, so any host whose first rank is in the set may be called the first.
    pub fn has_root(&self, graph: &CapacityGraph) -> bool {
        let Some((class, vertex)) = graph.root() else {
            return false;
        };
        let mut sides = self.sides.iter();
        sides.any(|side| side.class == class && side.inside.contains(&vertex))
    }
}
