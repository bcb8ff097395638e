//! A job's graph with some hosts alone and the others of each class as one.
//!
//! The least minimum cut towards a sink is fixed by every automorphism that fixes the sink. So all
//! hosts of a class but the sink's may become one host, with capacities and numbers of ranks times
//! their number, and the cut keeps its value.

use plan::certificate::{CapacityGraph, Cut, Direction, Side};

/// A graph for flows, with what is needed to turn its cuts into cuts of the job.
#[derive(Debug, Clone)]
pub struct CollapsedGraph {
    /// Ranks at each vertex. Vertices of the network come first.
    pub ranks: Vec<u32>,
    /// Links as (from, to).
    pub ends: Vec<(u32, u32)>,
    /// Their capacities, 0.1 MB/s.
    pub capacities: Vec<i128>,
    groups: Vec<Group>,
    network: usize,
}

/// Equal hosts as one.
#[derive(Debug, Clone, Copy)]
struct Group {
    class: u32,
    count: u32,
    /// The first of its vertices.
    first: usize,
    vertices: usize,
}

impl CollapsedGraph {
    /// One host of each class of `alone` by itself, the other hosts class by class. A class may be
    /// listed as often as it has hosts. With `Direction::In` all links are turned around.
    pub fn new(graph: &CapacityGraph, alone: &[u32], direction: Direction) -> Self {
        let mut counts: Vec<u32> = graph.hosts.iter().map(|class| class.count).collect();
        let mut sizes: Vec<(u32, u32)> = Vec::new();
        for class in alone {
            counts[*class as usize] -= 1;
            sizes.push((*class, 1));
        }
        sizes.extend((0..).zip(counts).filter(|(_, count)| *count > 0));
        let mut collapsed = Self::empty(graph);
        for (class, count) in sizes {
            collapsed.add(graph, class, count, direction);
        }
        collapsed
    }

    /// One host of a class and the network, without the other hosts.
    pub fn only(graph: &CapacityGraph, class: u32, direction: Direction) -> Self {
        let mut collapsed = Self::empty(graph);
        collapsed.add(graph, class, 1, direction);
        collapsed
    }

    fn empty(graph: &CapacityGraph) -> Self {
        let network = graph.network.len();
        Self {
            ranks: vec![0; network],
            ends: Vec::new(),
            capacities: Vec::new(),
            groups: Vec::new(),
            network,
        }
    }

    fn add(&mut self, graph: &CapacityGraph, class: u32, count: u32, direction: Direction) {
        let host = &graph.hosts[class as usize];
        let (first, own) = (self.ranks.len(), host.vertices.len());
        self.groups.push(Group {
            class,
            count,
            first,
            vertices: own,
        });
        let ranks = host.vertices.iter().map(|it| u32::from(it.rank) * count);
        self.ranks.extend(ranks);
        let number = |vertex: u32| match vertex as usize {
            vertex if vertex < own => (first + vertex) as u32,
            vertex => (vertex - own) as u32,
        };
        for link in &host.links {
            let (from, to) = (number(link.from), number(link.to));
            self.ends.push(match direction {
                Direction::Out => (from, to),
                Direction::In => (to, from),
            });
            let capacity = i128::from(link.capacity) * i128::from(count);
            self.capacities.push(capacity);
        }
    }

    /// Number of vertices.
    pub fn vertices(&self) -> usize {
        self.ranks.len()
    }

    /// The vertices with ranks of the host that is the `at`-th alone, in rank order.
    pub fn ranks_of(&self, at: usize) -> Vec<usize> {
        let group = self.groups[at];
        let own = group.first..group.first + group.vertices;
        own.filter(|vertex| self.ranks[*vertex] > 0).collect()
    }

    /// A set of vertices as a set of the job's.
    pub fn cut(&self, inside: &[bool]) -> Cut {
        let chosen = |first: usize, count: usize| -> Vec<u32> {
            let own = (0..count).filter(|vertex| inside[first + vertex]);
            own.map(|vertex| vertex as u32).collect()
        };
        let sides = self.groups.iter().map(|group| Side {
            class: group.class,
            count: group.count,
            inside: chosen(group.first, group.vertices),
        });
        Cut {
            network: chosen(0, self.network),
            sides: sides.collect(),
        }
    }

    /// Bandwidth of the links that leave a set.
    pub fn leaving(&self, inside: &[bool]) -> i128 {
        let links = self.ends.iter().zip(&self.capacities);
        let leaving =
            links.filter(|((from, to), _)| inside[*from as usize] && !inside[*to as usize]);
        leaving.map(|(_, capacity)| capacity).sum()
    }

    /// Ranks in a set.
    pub fn ranks_in(&self, inside: &[bool]) -> i128 {
        let ranks = self.ranks.iter().zip(inside);
        let within = ranks.filter(|(_, inside)| **inside);
        within.map(|(ranks, _)| i128::from(*ranks)).sum()
    }
}
