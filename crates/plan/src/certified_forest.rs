//! The forest of a plan, made of the trees of a certificate.

use std::collections::{BTreeMap, BTreeSet};

use program::{Collective, Forest};

use crate::certificate::{self, Bound, CapacityGraph, Direction, Operation};
use crate::forest::{PlannedForest, PlannedTree, PlannedTrees};
use crate::layout::JobLayout;

/// A tree of a certificate, over ranks.
struct WeightedTree {
    weight: u64,
    parents: Vec<Option<u32>>,
}

/// The trees of each root.
type ByRoot = BTreeMap<u32, Vec<WeightedTree>>;

impl PlannedForest {
    /// The forest of a bound whose trees were packed; `None` without trees, or if they have more
    /// different shares than a program has channels.
    pub fn of(bound: &Bound, graph: &CapacityGraph, layout: &JobLayout) -> Option<Self> {
        let collective = match bound.operation {
            Operation::AllGather => Collective::AllGather,
            Operation::ReduceScatter => Collective::ReduceScatter,
            Operation::AllReduce => Collective::AllReduce,
            Operation::Broadcast => Collective::Broadcast,
            Operation::Reduce => Collective::Reduce,
            Operation::AllReduceInNetwork | Operation::AllToAll => return None,
        };
        let ranks = ranks_of_vertices(graph, layout);
        let find = |direction| {
            let mut forests = bound.forests.iter();
            forests.find(|forest| forest.direction == direction)
        };
        let by_root = |direction| match find(direction) {
            Some(forest) => trees_by_root(forest, &ranks, layout.ranks()).map(Some),
            None => Some(None),
        };
        let (up, down) = (by_root(Direction::In)?, by_root(Direction::Out)?);
        let channels = channels(up.as_ref(), down.as_ref())?;
        Some(Self {
            collective,
            bandwidth: bound.reached?,
            bound: bound.bandwidth,
            channels,
        })
        .filter(|forest| forest.program_forest(layout.ranks()).is_ok())
    }
}

/// The rank at each vertex of the graph with every host written out.
fn ranks_of_vertices(graph: &CapacityGraph, layout: &JobLayout) -> BTreeMap<u32, u32> {
    let mut first = Vec::new();
    let mut next = graph.network.len();
    for class in &graph.hosts {
        first.push(next);
        next += class.vertices.len() * class.count as usize;
    }
    let mut domains: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let places = || (0..layout.ranks()).filter_map(|rank| layout.rank(rank));
    for place in places() {
        let known = domains.entry(place.node.machine).or_default();
        known.insert(place.node.domain);
    }
    let mut copies: BTreeMap<u32, usize> = BTreeMap::new();
    for domains in domains.values() {
        copies.extend(
            domains
                .iter()
                .zip(0..)
                .map(|(domain, copy)| (*domain, copy)),
        );
    }
    let vertex = |place: crate::layout::RankPlace| {
        let machine = place.node.machine as usize;
        let vertices = &graph.hosts.get(machine)?.vertices;
        let mut ranks = vertices.iter().zip(0..).filter(|(vertex, _)| vertex.rank);
        let (_, own) = ranks.nth(place.local as usize)?;
        let copy = *copies.get(&place.node.domain)?;
        Some((
            (first[machine] + copy * vertices.len() + own) as u32,
            place.rank,
        ))
    };
    places().filter_map(vertex).collect()
}

fn trees_by_root(
    forest: &certificate::Forest,
    ranks: &BTreeMap<u32, u32>,
    count: u32,
) -> Option<ByRoot> {
    let mut all = ByRoot::new();
    for tree in &forest.trees {
        let mut parents = vec![None; count as usize];
        for edge in &tree.edges {
            let (from, to) = (*ranks.get(&edge.from)?, *ranks.get(&edge.to)?);
            let (parent, child) = match forest.direction {
                Direction::Out => (from, to),
                Direction::In => (to, from),
            };
            parents[child as usize] = Some(parent);
        }
        let weight = tree.weight;
        let root = *ranks.get(&tree.root)?;
        let trees = all.entry(root).or_default();
        trees.push(WeightedTree { weight, parents });
    }
    for trees in all.values_mut() {
        trees.sort_by_key(|tree| std::cmp::Reverse(tree.weight));
    }
    Some(all)
}

/// The trees as channels: all roots side by side if all have the same weight, otherwise one root
/// after the other.
fn channels(up: Option<&ByRoot>, down: Option<&ByRoot>) -> Option<Vec<PlannedTrees>> {
    let either = up.or(down)?;
    let weight = |trees: &[WeightedTree]| trees.iter().map(|tree| tree.weight).sum::<u64>();
    let weights: BTreeSet<u64> = either.values().map(|trees| weight(trees)).collect();
    let roots: Vec<u32> = either.keys().copied().collect();
    let together = weights.len() == 1;
    let groups: Vec<&[u32]> = match together {
        true => vec![&roots[..]],
        false => roots.chunks(1).collect(),
    };
    let mut channels = Vec::new();
    for group in groups {
        let lists = || {
            let of = |root| [up, down].into_iter().flatten().map(move |it| it.get(root));
            group.iter().flat_map(of)
        };
        // Channels begin wherever a tree of any root begins.
        let mut ends: BTreeSet<u64> = BTreeSet::new();
        for trees in lists() {
            let mut end = 0;
            for tree in trees? {
                end += tree.weight;
                ends.insert(end);
            }
        }
        let total = ends.last().copied().unwrap_or(0);
        if lists().any(|trees| trees.map(|trees| weight(trees)) != Some(total)) {
            return None;
        }
        let mut begin = 0;
        for end in ends {
            let at = |all: Option<&ByRoot>, root: u32| {
                let mut before = 0;
                let mut trees = all?.get(&root)?.iter();
                let found = trees.find(|tree| {
                    before += tree.weight;
                    before > begin
                });
                Some(found?.parents.clone())
            };
            let tree = |root: &u32| PlannedTree {
                up: at(up, *root),
                down: at(down, *root),
            };
            channels.push(PlannedTrees {
                share: u32::try_from(end - begin).ok()?,
                trees: group.iter().map(tree).collect(),
            });
            begin = end;
        }
    }
    (channels.len() <= Forest::MOST_CHANNELS).then_some(channels)
}
