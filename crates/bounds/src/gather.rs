//! The bound of all-gather and reduce-scatter: the cut that the most shards must cross per
//! bandwidth.
//!
//! What leaves a set S of vertices carries the shards of its ranks, so a schedule takes at least
//! |S ∩ C| / B(S) for each S that does not hold all ranks C. The largest ratio is found by Newton's
//! method: a flow shows whether a sink can receive at a ratio, and otherwise its minimum cut has a
//! larger one. Reduce-scatter is the mirror image.

use plan::certificate::{CapacityGraph, Cut, Direction};

use crate::collapse::CollapsedGraph;
use crate::flow::FlowGraph;

/// Shards that must cross a cut, and its bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// Shards, which is ranks on the side where they begin.
    pub shards: i128,
    /// Bandwidth, 0.1 MB/s.
    pub bandwidth: i128,
}

impl Ratio {
    fn exceeds(self, other: Self) -> bool {
        self.shards * other.bandwidth > other.shards * self.bandwidth
    }
}

/// The tight cut, and every cut that was tried before. `Direction::Out` is all-gather,
/// `Direction::In` is reduce-scatter; the cut's ranks are those on the side of the shards.
#[derive(Debug, Clone)]
pub struct Tight {
    /// Its ratio.
    pub ratio: Ratio,
    /// The cuts, the tight one last.
    pub cuts: Vec<Cut>,
}

/// The tight cut of a job of at least two ranks.
pub fn gather(graph: &CapacityGraph, direction: Direction) -> Tight {
    let mut tight = Tight {
        ratio: Ratio {
            shards: 0,
            bandwidth: 1,
        },
        cuts: Vec::new(),
    };
    let classes = || (0..).zip(&graph.hosts).filter(|(_, it)| it.ranks() > 0);
    for (class, _) in classes() {
        let collapsed = CollapsedGraph::new(graph, &[class], direction);
        for rank in collapsed.ranks_of(0) {
            let mut others = vec![true; collapsed.vertices()];
            others[rank] = false;
            tight.offer(&collapsed, &others);
        }
    }
    for (class, _) in classes() {
        let collapsed = CollapsedGraph::new(graph, &[class], direction);
        let mut sinks = Sinks::new(&collapsed);
        for rank in collapsed.ranks_of(0) {
            while tight.ratio.bandwidth > 0
                && let Some(inside) = sinks.violated(rank, tight.ratio)
            {
                if !tight.offer(&collapsed, &inside) {
                    break;
                }
            }
        }
    }
    tight
}

impl Tight {
    /// Takes a set whose ratio is larger. Returns whether it was taken.
    fn offer(&mut self, collapsed: &CollapsedGraph, inside: &[bool]) -> bool {
        let ratio = Ratio {
            shards: collapsed.ranks_in(inside),
            bandwidth: collapsed.leaving(inside),
        };
        let taken = ratio.exceeds(self.ratio);
        if taken {
            self.ratio = ratio;
            self.cuts.push(collapsed.cut(inside));
        }
        taken
    }
}

/// Flows from a source that feeds every rank, towards one rank after the other.
struct Sinks<'a> {
    collapsed: &'a CollapsedGraph,
    flow: FlowGraph,
    source: usize,
}

impl<'a> Sinks<'a> {
    fn new(collapsed: &'a CollapsedGraph) -> Self {
        let source = collapsed.vertices();
        let mut ends = collapsed.ends.clone();
        ends.extend((0..source).map(|vertex| (source as u32, vertex as u32)));
        Self {
            flow: FlowGraph::new(source + 1, &ends),
            collapsed,
            source,
        }
    }

    /// A set that the sink cannot receive the shards of in the time of this ratio.
    fn violated(&mut self, sink: usize, ratio: Ratio) -> Option<Vec<bool>> {
        for (link, capacity) in self.collapsed.capacities.iter().enumerate() {
            self.flow.set(link, capacity * ratio.shards);
        }
        let feeds = self.collapsed.ends.len();
        let mut wanted = 0;
        for (vertex, ranks) in self.collapsed.ranks.iter().enumerate() {
            let shards = match vertex == sink {
                true => 0,
                false => i128::from(*ranks) * ratio.bandwidth,
            };
            self.flow.set(feeds + vertex, shards);
            wanted += shards;
        }
        if self.flow.augment(self.source, sink, wanted) == wanted {
            return None;
        }
        let mut inside = self.flow.source_side(self.source);
        inside.pop();
        Some(inside)
    }
}
