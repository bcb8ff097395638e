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

use plan::certificate::{CapacityGraph, Direction, Part};

use crate::collapse::Collapsed;
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
    let mut hosts: Vec<Host> = classes
        .map(|(class, it)| Host::new(graph, class, it.count, direction))
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
            bandwidth += host.collapsed.leaving(&inside) * i128::from(host.count);
            count += i128::from(host.count);
            parts.push(Part {
                times: host.count,
                set: host.collapsed.cut(&inside),
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

/// One host of a class, the others collapsed.
struct Host {
    count: u32,
    collapsed: Collapsed,
    /// Its vertices with ranks.
    ranks: Vec<usize>,
    flow: FlowGraph,
}

impl Host {
    fn new(graph: &CapacityGraph, class: u32, count: u32, direction: Direction) -> Self {
        let collapsed = Collapsed::new(graph, &[class], direction);
        let outside = collapsed.vertices();
        let mut ends = collapsed.ends.clone();
        // From each vertex to the outside and back, for what a set gains and loses by it.
        ends.extend((0..outside).map(|vertex| (vertex as u32, outside as u32)));
        ends.extend((0..outside).map(|vertex| (outside as u32 + 1, vertex as u32)));
        Self {
            count,
            ranks: collapsed.ranks_of(0),
            flow: FlowGraph::new(outside + 2, &ends),
            collapsed,
        }
    }

    /// Sets all capacities: links times `scale`; per vertex what it costs to have it inside
    /// (positive) or outside (negative). `None` forbids it inside.
    fn set(&mut self, scale: i128, price: impl Fn(usize) -> Option<i128>) {
        const FORBIDDEN: i128 = i128::MAX >> 24;
        let (links, vertices) = (self.collapsed.ends.len(), self.collapsed.vertices());
        for (link, capacity) in self.collapsed.capacities.iter().enumerate() {
            self.flow.set(link, capacity * scale);
        }
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
