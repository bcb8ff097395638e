//! Trees found by taking each out and placing it anew where links have the least load.
//!
//! Unlike exact packing it needs no even switches, and any number of ranks. Costs are floating
//! point; what the trees reach is computed from their integer loads.

use crate::arborescence::{Costs, from_root, in_both_directions};
use crate::routes::{Network, Routes};

/// Trees that are to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// From a root to all ranks.
    From(usize),
    /// From all ranks to a root.
    To(usize),
    /// To all ranks and back.
    BothWays,
}

/// A tree with the routes of its edges.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlacedTree {
    /// The rank at the top.
    pub root: usize,
    /// Edges from a rank of the tree to a new one, in the order in which they join.
    pub edges: Vec<PlacedEdge>,
}

/// An edge of a tree.
#[derive(Debug, Clone)]
pub(crate) struct PlacedEdge {
    /// The rank near the root.
    pub from: usize,
    /// The rank that joins.
    pub to: usize,
    /// The links away from the root; none if data only goes towards it.
    pub down: Vec<u32>,
    /// The links towards the root; none if data only goes away from it.
    pub up: Vec<u32>,
}

/// How steeply a link's cost grows with its load.
const STEEPNESS: i32 = 10;

/// Factor of the cost of links with the most load, after each round in which they stay so.
const PENALTY: f64 = 1.25;

/// Links within this share of the most load become dearer.
const NEAR_MOST: f64 = 0.985;

/// Trees that are placed without a better result before the search ends, at least so many rounds.
const PATIENCE: usize = 300;
const ROUNDS: usize = 8;

/// Places trees so that the link that takes longest takes as little time as possible. Ends when
/// that time is at most `enough` (units per 0.1 MB/s), or when `work` is used up, which counts
/// links that routes visit. `None` if some rank cannot be reached.
///
/// `lengths` gets the costs of links that leave the least bandwidth to any trees of these kinds.
pub(crate) fn place(
    network: &Network,
    kinds: &[Kind],
    enough: f64,
    work: &mut u64,
    lengths: &mut LinkLengths,
) -> Option<Vec<PlacedTree>> {
    let mut search = Search {
        network,
        loads: vec![0; network.links.len()],
        weights: vec![1.0; network.links.len()],
        scale: enough,
    };
    let cost = (network.ranks * network.arcs()) as u64;
    let mut trees: Vec<PlacedTree> = Vec::new();
    for kind in kinds {
        let tree = search.tree(*kind)?;
        search.load(&tree, true);
        trees.push(tree);
        *work = work.saturating_sub(cost);
    }
    let mut best = (search.time(), trees.clone());
    let rounds = ROUNDS.max(PATIENCE / kinds.len().max(1));
    let mut patience = rounds;
    while best.0 > enough && patience > 0 && *work > 0 {
        // Ratios near 1 are where costs differ.
        search.scale = best.0.min(search.time());
        for (tree, kind) in trees.iter_mut().zip(kinds) {
            search.load(tree, false);
            *tree = search.tree(*kind)?;
            search.load(tree, true);
            *work = work.saturating_sub(cost);
            if *work == 0 {
                break;
            }
        }
        let time = search.time();
        patience -= 1;
        if time < best.0 * 0.9999 {
            best = (time, trees.clone());
            patience = rounds;
        }
        search.penalize(time);
        search.lengthen(kinds, lengths);
    }
    Some(best.1)
}

/// Lengths of links that prove a bound.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkLengths {
    /// The share of the links' offer that the shortest trees need; the more the better the proof.
    share: f64,
    /// The length of each link; none if nothing was found.
    pub lengths: Vec<f64>,
}

struct Search<'a> {
    network: &'a Network,
    loads: Vec<u64>,
    weights: Vec<f64>,
    /// The time in which loads are measured, units per 0.1 MB/s.
    scale: f64,
}

impl Search<'_> {
    fn costs(&self) -> Vec<f64> {
        let links = self
            .network
            .links
            .iter()
            .zip(&self.loads)
            .zip(&self.weights);
        let cost = |((link, load), weight): ((&(usize, usize, u64), &u64), &f64)| {
            let capacity = link.2 as f64;
            let ratio = (*load as f64 + 1.0) / (capacity * self.scale);
            weight * (ratio.powi(STEEPNESS) + 1e-4) / capacity
        };
        links.map(cost).collect()
    }

    fn tree(&self, kind: Kind) -> Option<PlacedTree> {
        let routes = self.network.routes(&self.costs());
        let parents = match kind {
            Kind::From(root) => from_root(&routes.costs, root),
            Kind::To(root) => from_root(&turned(&routes.costs), root),
            Kind::BothWays => in_both_directions(&routes.costs),
        };
        grow(&parents, &routes, kind)
    }

    /// Takes the costs as lengths if they prove more than those that are known.
    fn lengthen(&self, kinds: &[Kind], lengths: &mut LinkLengths) {
        let costs = self.costs();
        let routes = self.network.routes(&costs);
        let turned = turned(&routes.costs);
        let needed = |kind: &Kind| {
            let (costs, root) = match kind {
                Kind::From(root) => (&routes.costs, *root),
                Kind::To(root) => (&turned, *root),
                Kind::BothWays => return 0.0,
            };
            let parents = from_root(costs, root);
            let edges = (0..parents.len()).filter(|rank| *rank != root);
            edges.map(|rank| costs[parents[rank]][rank]).sum()
        };
        // Each root as often as any other.
        let mut roots = kinds.to_vec();
        roots.sort_unstable();
        roots.dedup();
        let needed: f64 = roots.iter().map(needed).sum();
        let links = self.network.links.iter().zip(&costs);
        let offered: f64 = links.map(|(link, cost)| link.2 as f64 * cost).sum();
        if needed / offered > lengths.share {
            *lengths = LinkLengths {
                share: needed / offered,
                lengths: costs,
            };
        }
    }

    fn load(&mut self, tree: &PlacedTree, on: bool) {
        let links = tree
            .edges
            .iter()
            .flat_map(|edge| edge.down.iter().chain(&edge.up));
        for link in links {
            let load = &mut self.loads[*link as usize];
            *load = match on {
                true => *load + 1,
                false => load.saturating_sub(1),
            };
        }
    }

    fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        let links = self.network.links.iter().zip(&self.loads);
        links.map(|(link, load)| match *load {
            0 => 0.0,
            load => load as f64 / link.2 as f64,
        })
    }

    /// The time of the link that takes longest.
    fn time(&self) -> f64 {
        self.ratios().fold(0.0, f64::max)
    }

    fn penalize(&mut self, time: f64) {
        let near: Vec<bool> = self.ratios().map(|it| it >= time * NEAR_MOST).collect();
        for (weight, near) in self.weights.iter_mut().zip(near) {
            if near {
                *weight *= PENALTY;
            }
        }
    }
}

/// The costs of the opposite directions.
fn turned(costs: &Costs) -> Costs {
    let column = |to: usize| costs.iter().map(|row| row[to]).collect();
    (0..costs.len()).map(column).collect()
}

/// The edges of parents in the order in which ranks join.
fn grow(parents: &[usize], routes: &Routes<'_>, kind: Kind) -> Option<PlacedTree> {
    let root = parents
        .iter()
        .zip(0..)
        .find(|(parent, rank)| *parent == rank)?
        .1;
    let mut tree = PlacedTree {
        root,
        edges: Vec::new(),
    };
    let mut order = vec![root];
    let mut at = 0;
    while at < order.len() {
        let from = order[at];
        at += 1;
        let children = (0..parents.len()).filter(|to| parents[*to] == from && *to != root);
        for to in children {
            tree.edges.push(PlacedEdge {
                from,
                to,
                down: match kind {
                    Kind::To(_) => Vec::new(),
                    _ => routes.links(from, to)?,
                },
                up: match kind {
                    Kind::From(_) => Vec::new(),
                    _ => routes.links(to, from)?,
                },
            });
            order.push(to);
        }
    }
    (order.len() == parents.len()).then_some(tree)
}
