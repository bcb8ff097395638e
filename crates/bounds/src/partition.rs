//! The partition bound of all-reduce without reduction in switches.
//!
//! Contract disjoint sets P₁ … P_k of ranks that have all ranks between them. Before the first rank
//! has a total, k − 1 messages arrived somewhere; afterwards each of the other k − 1 sets needs one
//! more. So the bandwidth is at most Σ f(Pᵢ) / (2(k − 1)), where f(P) is the least bandwidth into a
//! set of vertices that has exactly the ranks P. The mirror image counts bandwidth out.
//!
//! f is intersecting submodular, so for a value μ the partition with the least Σ (f(Pᵢ) − 2μ) is
//! found by one greedy pass with a flow per rank (Dilworth truncation; Cunningham 1985, Frank and
//! Tardos 1988). Newton's method on μ ends at the least ratio. Sets are those of one host, the same
//! in all equal hosts; for a job of one host this is every partition.

use plan::certificate::{CapacityGraph, Cut, Direction, Part, Side};

use crate::collapse::CollapsedGraph;
use crate::flow::FlowGraph;

/// Σ f(Pᵢ) and 2(k − 1) of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ratio {
    bandwidth: i128,
    messages: i128,
}

/// A partition of the ranks, and its ratio.
struct Partition {
    ratio: Ratio,
    parts: Vec<Part>,
}

/// The tightest partition; `None` if the ranks of the job cannot be parted.
pub fn partition(graph: &CapacityGraph, direction: Direction) -> Option<Vec<Part>> {
    let classes = (0..).zip(&graph.hosts).filter(|(_, it)| it.ranks() > 0);
    let beyond = Beyond::all(graph, direction);
    let mut hosts: Vec<Host> = classes
        .map(|(class, it)| Host::new(graph, class, it.count, direction, beyond.as_deref()))
        .collect();
    let each_rank = |host: &mut Host| {
        let ranks = host.ranks.iter();
        ranks.map(|rank| vec![*rank]).collect()
    };
    let mut best = of(&mut hosts, each_rank)?;
    loop {
        let ratio = best.ratio;
        match of(&mut hosts, |host| host.least(ratio)) {
            Some(next)
                if next.ratio.bandwidth * ratio.messages
                    < ratio.bandwidth * next.ratio.messages =>
            {
                best = next;
            }
            _ => return Some(best.parts),
        }
    }
}

/// The partition with these sets of ranks in each class of hosts; `None` if it has only one set.
fn of(hosts: &mut [Host], mut sets: impl FnMut(&mut Host) -> Vec<Vec<usize>>) -> Option<Partition> {
    let (mut bandwidth, mut count) = (0, 0);
    let mut parts = Vec::new();
    for host in hosts {
        for set in sets(host) {
            let inside = host.narrowest(&set);
            // With `Direction::In` the links are turned around: those that leave enter.
            bandwidth += host.leaving(&inside) * i128::from(host.count);
            count += i128::from(host.count);
            parts.push(Part {
                times: host.count,
                set: host.cut(&inside),
            });
        }
    }
    (count > 1).then_some(Partition {
        ratio: Ratio {
            bandwidth,
            messages: 2 * (count - 1),
        },
        parts,
    })
}

/// The hosts of a class as seen from another host, through a network of one vertex: a set that has
/// the network and none of their ranks leaves them this much.
#[derive(Debug, Clone)]
struct Beyond {
    class: u32,
    /// The least bandwidth from the network to the ranks of a host, 0.1 MB/s.
    bandwidth: i128,
    /// The vertices of a host on the network's side of it.
    inside: Vec<u32>,
}

impl Beyond {
    /// All classes; `None` where several vertices make up the network, so that hosts cannot be
    /// looked at one by one.
    fn all(graph: &CapacityGraph, direction: Direction) -> Option<Vec<Self>> {
        let one = graph.network.len() == 1;
        let classes = (0..).zip(&graph.hosts);
        one.then(|| {
            classes
                .map(|(class, _)| Self::new(graph, class, direction))
                .collect()
        })
    }

    fn new(graph: &CapacityGraph, class: u32, direction: Direction) -> Self {
        let host = CollapsedGraph::only(graph, class, direction);
        let sink = host.vertices();
        let mut ends = host.ends.clone();
        let ranks = host.ranks_of(0);
        ends.extend(ranks.iter().map(|rank| (*rank as u32, sink as u32)));
        let mut flow = FlowGraph::new(sink + 1, &ends);
        for (link, capacity) in host.capacities.iter().enumerate() {
            flow.set(link, *capacity);
        }
        (0..ranks.len()).for_each(|rank| flow.set(host.ends.len() + rank, i128::MAX >> 24));
        // The network is the first vertex.
        let bandwidth = flow.augment(0, sink, i128::MAX);
        let reached = flow.source_side(0);
        let own = reached[1..sink].iter();
        let own = (0..).zip(own).filter(|(_, inside)| **inside);
        Self {
            class,
            bandwidth,
            inside: own.map(|(vertex, _)| vertex).collect(),
        }
    }
}

/// One host of a class. The others are collapsed, or what lies beyond the network.
struct Host {
    count: u32,
    collapsed: CollapsedGraph,
    /// The other hosts, if they are not in the graph.
    beyond: Vec<(u32, Beyond)>,
    /// The bandwidth towards them if the network is inside.
    bandwidth_beyond: i128,
    /// Its vertices with ranks.
    ranks: Vec<usize>,
    flow: FlowGraph,
}

impl Host {
    fn new(
        graph: &CapacityGraph,
        class: u32,
        count: u32,
        direction: Direction,
        beyond: Option<&[Beyond]>,
    ) -> Self {
        let collapsed = match beyond {
            Some(_) => CollapsedGraph::only(graph, class, direction),
            None => CollapsedGraph::new(graph, &[class], direction),
        };
        let others = beyond.unwrap_or_default().iter().map(|other| {
            let own = u32::from(other.class == class);
            (graph.hosts[other.class as usize].count - own, other.clone())
        });
        let beyond: Vec<(u32, Beyond)> = others.filter(|(count, _)| *count > 0).collect();
        let all = beyond
            .iter()
            .map(|(count, it)| i128::from(*count) * it.bandwidth);
        let bandwidth_beyond = all.sum();
        let outside = collapsed.vertices();
        let mut ends = collapsed.ends.clone();
        // From each vertex to the outside and back, for what a set gains and loses by it.
        ends.extend((0..outside).map(|vertex| (vertex as u32, outside as u32)));
        ends.extend((0..outside).map(|vertex| (outside as u32 + 1, vertex as u32)));
        // From the network to the hosts beyond it.
        ends.push((0, outside as u32));
        Self {
            count,
            beyond,
            bandwidth_beyond,
            ranks: collapsed.ranks_of(0),
            flow: FlowGraph::new(outside + 2, &ends),
            collapsed,
        }
    }

    /// Whether the network is inside a set and hosts are beyond it.
    fn has_beyond(&self, inside: &[bool]) -> bool {
        !self.beyond.is_empty() && inside[0]
    }

    /// Bandwidth that leaves a set.
    fn leaving(&self, inside: &[bool]) -> i128 {
        let beyond = match self.has_beyond(inside) {
            true => self.bandwidth_beyond,
            false => 0,
        };
        self.collapsed.leaving(inside) + beyond
    }

    /// A set of vertices as a set of the job's.
    fn cut(&self, inside: &[bool]) -> Cut {
        let mut cut = self.collapsed.cut(inside);
        let has_beyond = self.has_beyond(inside);
        cut.sides
            .extend(self.beyond.iter().map(|(count, other)| Side {
                class: other.class,
                count: *count,
                inside: match has_beyond {
                    true => other.inside.clone(),
                    false => Vec::new(),
                },
            }));
        cut
    }

    /// Sets all capacities: links times `scale`; per vertex what it costs to have it inside
    /// (positive) or outside (negative). `None` forbids it inside.
    fn set(&mut self, scale: i128, price: impl Fn(usize) -> Option<i128>) {
        const FORBIDDEN: i128 = i128::MAX >> 24;
        let (links, vertices) = (self.collapsed.ends.len(), self.collapsed.vertices());
        for (link, capacity) in self.collapsed.capacities.iter().enumerate() {
            self.flow.set(link, capacity * scale);
        }
        self.flow
            .set(links + 2 * vertices, self.bandwidth_beyond * scale);
        for vertex in 0..vertices {
            let price = price(vertex).unwrap_or(FORBIDDEN);
            self.flow.set(links + vertex, price.max(0));
            self.flow.set(links + vertices + vertex, (-price).max(0));
        }
    }

    /// The set of vertices with exactly these ranks that the least bandwidth leaves.
    fn narrowest(&mut self, set: &[usize]) -> Vec<bool> {
        const INSIDE: i128 = -(i128::MAX >> 24);
        let ranks: Vec<bool> = self.collapsed.ranks.iter().map(|it| *it > 0).collect();
        self.set(1, |vertex| match (ranks[vertex], set.contains(&vertex)) {
            (false, _) => Some(0),
            (true, true) => Some(INSIDE),
            (true, false) => None,
        });
        let (sink, source) = (self.collapsed.vertices(), self.collapsed.vertices() + 1);
        self.flow.augment(source, sink, i128::MAX);
        let mut inside = self.flow.source_side(source);
        inside.truncate(sink);
        inside
    }

    /// The partition of the host's ranks with the least Σ (f(P) − 2μ), where 2μ is twice the ratio.
    fn least(&mut self, ratio: Ratio) -> Vec<Vec<usize>> {
        // All values are scaled by the denominator of 2μ = 2·bandwidth/messages.
        let (scale, twice) = (ratio.messages, 2 * ratio.bandwidth);
        let vertices = self.collapsed.vertices();
        let (sink, source) = (vertices, vertices + 1);
        let mut value: Vec<Option<i128>> = vec![None; vertices];
        let mut blocks: Vec<Vec<usize>> = Vec::new();
        for rank in self.ranks.clone() {
            let is_rank: Vec<bool> = self.collapsed.ranks.iter().map(|it| *it > 0).collect();
            let known = value.clone();
            self.set(scale, |vertex| match (known[vertex], is_rank[vertex]) {
                _ if vertex == rank => Some(0),
                (Some(value), _) => Some(-value),
                (None, true) => None,
                (None, false) => Some(0),
            });
            let links = self.collapsed.ends.len();
            self.flow.set(links + vertices + rank, i128::MAX >> 24);
            let least = self.flow.augment(source, sink, i128::MAX);
            let inside = self.flow.source_side(source);
            let rewards: i128 = known.iter().flatten().map(|value| (*value).max(0)).sum();
            value[rank] = Some(least - rewards - twice);
            // The sets of all ranks inside grow together.
            let touched = |block: &Vec<usize>| block.iter().any(|member| inside[*member]);
            let (mut joined, apart): (Vec<_>, Vec<_>) = blocks.into_iter().partition(touched);
            joined.push(vec![rank]);
            blocks = apart;
            blocks.push(joined.concat());
        }
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        blocks.sort_unstable();
        blocks
    }
}
