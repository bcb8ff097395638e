//! Trees packed into a graph of units without switches.
//!
//! Trees grow edge by edge. An edge may take as many units as leave all other trees enough to be
//! completed, which one maximum flow tells; a tree that gets fewer units than it has is divided
//! (Edmonds; Bérczi and Frank 2010).

use crate::flow::FlowGraph;
use crate::units::{Demands, UnitGraph};

/// Most trees, so that the work is bounded.
const MOST_TREES: usize = 4096;

/// More units than any graph has.
const PLENTY: i128 = i128::MAX >> 24;

/// A tree that spans all ranks.
#[derive(Debug, Clone)]
pub(crate) struct Grown {
    /// The rank of the root.
    pub root: usize,
    /// Units that it carries.
    pub units: i128,
    /// Edges from a rank of the tree to a new one, in the order in which they joined.
    pub edges: Vec<GrownEdge>,
}

/// An edge of a tree with the routes of its units.
#[derive(Debug, Clone)]
pub(crate) struct GrownEdge {
    /// The rank where it begins.
    pub from: usize,
    /// The rank that it joins.
    pub to: usize,
    /// Units and the links that they take.
    pub routes: Vec<(i128, Vec<u32>)>,
}

impl Grown {
    /// The ranks of the tree, those near the root first.
    fn members(&self) -> Vec<usize> {
        let joined = self.edges.iter().map(|edge| edge.to);
        std::iter::once(self.root).chain(joined).collect()
    }

    /// Takes units off to a tree of their own.
    fn divide(&mut self, units: i128) -> Self {
        let mut other = self.clone();
        self.units -= units;
        other.units = units;
        for (edge, part) in self.edges.iter_mut().zip(&mut other.edges) {
            part.routes.clear();
            let mut wanted = units;
            while wanted > 0
                && let Some((left, links)) = edge.routes.last_mut()
            {
                let amount = wanted.min(*left);
                part.routes.push((amount, links.clone()));
                wanted -= amount;
                *left -= amount;
                if *left == 0 {
                    edge.routes.pop();
                }
            }
        }
        other
    }
}

/// Packs trees that carry the units of each root to all ranks. `None` if they do not fit.
pub(crate) fn pack(mut graph: UnitGraph, demands: &Demands) -> Option<Vec<Grown>> {
    let roots = demands
        .units
        .iter()
        .enumerate()
        .filter(|(_, units)| **units > 0);
    let mut open: Vec<Grown> = roots
        .map(|(root, units)| Grown {
            root,
            units: *units,
            edges: Vec::new(),
        })
        .collect();
    let mut done = Vec::new();
    while let Some(mut tree) = open.pop() {
        if tree.edges.len() + 1 == graph.ranks {
            done.push(tree);
            continue;
        }
        let (arc, units) = next_edge(&graph, &tree, &open, demands)?;
        if units < tree.units {
            let rest = tree.units - units;
            open.push(tree.divide(rest));
        }
        let routes = graph.arcs[arc].take(units);
        let (from, to) = (graph.arcs[arc].from, graph.arcs[arc].to);
        tree.edges.push(GrownEdge { from, to, routes });
        open.push(tree);
        if open.len() + done.len() > MOST_TREES {
            return None;
        }
    }
    Some(done)
}

/// An arc that a tree may grow along, and how many units it may take.
fn next_edge(
    graph: &UnitGraph,
    tree: &Grown,
    others: &[Grown],
    demands: &Demands,
) -> Option<(usize, i128)> {
    let members = tree.members();
    let mut inside = vec![false; graph.ranks];
    members.iter().for_each(|member| inside[*member] = true);
    for from in &members {
        for (at, arc) in graph.arcs.iter().enumerate() {
            let units = arc.units();
            if arc.from != *from || inside[arc.to] || units == 0 {
                continue;
            }
            if !demands.afford(graph.arcs.len() + others.len() * graph.ranks) {
                return None;
            }
            let most = units.min(tree.units);
            let spare = spare(graph, others, *from, arc.to).min(most);
            if spare > 0 {
                return Some((at, spare));
            }
        }
    }
    None
}

/// Units that can go between two ranks beyond what the other trees need.
fn spare(graph: &UnitGraph, others: &[Grown], from: usize, to: usize) -> i128 {
    let mut ends: Vec<(u32, u32)> = Vec::new();
    let mut capacities: Vec<i128> = Vec::new();
    for arc in &graph.arcs {
        ends.push((arc.from as u32, arc.to as u32));
        capacities.push(arc.units());
    }
    let mut needed = 0;
    let unfinished = others.iter().filter(|it| it.edges.len() + 1 < graph.ranks);
    let mut vertices = graph.ranks;
    for tree in unfinished {
        let hub = vertices;
        vertices += 1;
        ends.push((from as u32, hub as u32));
        capacities.push(tree.units);
        needed += tree.units;
        for member in tree.members() {
            ends.push((hub as u32, member as u32));
            capacities.push(PLENTY);
        }
    }
    let mut flow = FlowGraph::new(vertices, &ends);
    for (at, capacity) in capacities.into_iter().enumerate() {
        flow.set(at, capacity);
    }
    flow.augment(from, to, PLENTY) - needed
}
