//! Forests: trees over all ranks, each with a weight, whose edges are routes over links.

use std::collections::BTreeMap;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cut::Direction;
use super::graph::WrittenOut;

/// Trees that move a message at a steady rate.
///
/// Vertices and links have the numbers of the graph with every host written out
/// ([`CapacityGraph::written_out`](super::CapacityGraph::written_out)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forest {
    /// `Out`: data spreads from the roots. `In`: data is reduced towards them.
    pub direction: Direction,
    /// The trees.
    pub trees: Vec<Tree>,
}

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// The vertex of the root.
    pub root: u32,
    /// Units of the message that the tree carries.
    pub weight: u64,
    /// One edge for each rank but the root; each joins a new rank to those of the edges before.
    pub edges: Vec<Edge>,
}

/// An edge of a tree, in the direction in which data moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The vertex of the sender.
    pub from: u32,
    /// The vertex of the receiver.
    pub to: u32,
    /// The routes, whose weights add up to that of the tree.
    pub routes: Vec<Route>,
}

/// Links in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Units that take this route.
    pub weight: u64,
    /// The links from sender to receiver.
    pub links: Vec<u32>,
}

/// The load of forests: units over each link, and units of each root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Units over each link.
    pub links: Vec<u128>,
    /// Units of each root that has trees.
    pub roots: BTreeMap<u32, u128>,
}

impl Forest {
    /// Checks every tree, and adds up what it loads.
    ///
    /// # Errors
    /// A tree does not reach every rank once, or a route does not join the ends of its edge; the
    /// text says which.
    pub fn load(&self, graph: &WrittenOut) -> Result<Load, String> {
        let mut load = Load {
            links: vec![0; graph.links.len()],
            roots: BTreeMap::new(),
        };
        let ranks = graph.ranks.iter().filter(|rank| **rank).count();
        for (number, tree) in self.trees.iter().enumerate() {
            self.add(tree, graph, ranks, &mut load)
                .map_err(|problem| format!("tree {number}: {problem}"))?;
        }
        Ok(load)
    }

    fn add(
        &self,
        tree: &Tree,
        graph: &WrittenOut,
        ranks: usize,
        load: &mut Load,
    ) -> Result<(), String> {
        let is_rank = |vertex: u32| graph.ranks.get(vertex as usize) == Some(&true);
        if !is_rank(tree.root) || tree.weight == 0 {
            return Err(format!("no rank at its root {}, or no weight", tree.root));
        }
        if tree.edges.len() + 1 != ranks {
            let edges = tree.edges.len();
            return Err(format!(
                "{edges} edges; expected one less than {ranks} ranks"
            ));
        }
        let mut joined = vec![false; graph.ranks.len()];
        joined[tree.root as usize] = true;
        for edge in &tree.edges {
            let (near, new) = match self.direction {
                Direction::Out => (edge.from, edge.to),
                Direction::In => (edge.to, edge.from),
            };
            if !is_rank(near) || !is_rank(new) || !joined[near as usize] {
                return Err(format!(
                    "edge {} to {} does not grow it",
                    edge.from, edge.to
                ));
            }
            if std::mem::replace(&mut joined[new as usize], true) {
                return Err(format!("vertex {new} is joined twice"));
            }
            let mut carried = 0u128;
            for route in &edge.routes {
                follow(route, edge, graph)?;
                carried += u128::from(route.weight);
                for link in &route.links {
                    load.links[*link as usize] += u128::from(route.weight);
                }
            }
            if carried != u128::from(tree.weight) {
                return Err(format!(
                    "the routes from {} to {} carry {carried}; expected {}",
                    edge.from, edge.to, tree.weight
                ));
            }
        }
        *load.roots.entry(tree.root).or_default() += u128::from(tree.weight);
        Ok(())
    }
}

/// Checks that a route leads from the beginning of its edge to the end.
fn follow(route: &Route, edge: &Edge, graph: &WrittenOut) -> Result<(), String> {
    let mut at = edge.from;
    for link in &route.links {
        match graph.links.get(*link as usize) {
            Some((from, to, _)) if *from == at => at = *to,
            _ => return Err(format!("link {link} does not begin at vertex {at}")),
        }
    }
    if at != edge.to {
        return Err(format!("a route ends at vertex {at}; expected {}", edge.to));
    }
    Ok(())
}
