//! Forests of trees that are placed one by one, for jobs whose switches are not even or too many.

use std::cmp::Ordering;

use plan::certificate::{
    CapacityGraph, Direction, Edge, Forest, Fraction, Operation, Route, Tree, WrittenOut, reached,
};

use crate::rank_first::{PackedForests, RankFirst, is_enough};
use crate::reroute::{Kind, LinkLengths, PlacedEdge, PlacedTree, place};
use crate::routes::Network;

/// Units per root that are tried, and trees that are used both ways.
const UNITS: [u64; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48];

/// Most units per root where every rank is one.
const MOST_OF_ALL: u64 = 16;

/// The share of the bound at which the search for one number of units ends.
const GOAL: f64 = 0.97;

/// Arcs that the routes for one number of units may visit: about a tenth of a second.
const WORK: u64 = 5_000_000;

/// Places trees for an operation whose bound is known. Returns none where there are none, and
/// lengths of links that may prove a lower bound.
pub(crate) fn placed(
    graph: &CapacityGraph,
    written: &WrittenOut,
    job: &RankFirst,
    (operation, bound): (Operation, Fraction),
    units: Option<u64>,
) -> (Option<PackedForests>, LinkLengths) {
    let network = Network::new(job.ranks, job.vertices.len(), job.links.clone());
    let ranks = job.ranks;
    let all = |kind: fn(usize) -> Kind| (0..ranks).map(kind).collect::<Vec<Kind>>();
    let families: Vec<Vec<Kind>> = match operation {
        Operation::AllGather => vec![all(Kind::From)],
        Operation::ReduceScatter => vec![all(Kind::To)],
        Operation::Broadcast => vec![vec![Kind::From(0)]],
        Operation::Reduce => vec![vec![Kind::To(0)]],
        Operation::AllReduce => {
            let each = (0..ranks).flat_map(|rank| [Kind::To(rank), Kind::From(rank)]);
            vec![vec![Kind::BothWays], each.collect()]
        }
        Operation::AllReduceInNetwork | Operation::AllToAll => Vec::new(),
    };
    let mut lengths = LinkLengths::default();
    let bound_value = bound.numerator as f64 / bound.denominator as f64;
    let mut best: Option<PackedForests> = None;
    for family in families {
        let most = if family.len() == 1 {
            u64::MAX
        } else {
            MOST_OF_ALL
        };
        let counts = units.map_or_else(|| UNITS.to_vec(), |units| vec![units]);
        for count in counts.into_iter().filter(|count| *count <= most) {
            let kinds: Vec<Kind> = (0..count).flat_map(|_| family.clone()).collect();
            let mut work = WORK;
            // Bus bandwidth times time, as the checker counts it.
            let peers = ranks as f64 - 1.0;
            let factor = count as f64
                * match (operation, family.len()) {
                    (Operation::AllGather | Operation::ReduceScatter, _) => peers,
                    (Operation::AllReduce, 1) => 2.0 * peers / ranks as f64,
                    (Operation::AllReduce, _) => 2.0 * peers,
                    _ => 1.0,
                };
            let enough = factor / (bound_value * GOAL);
            let Some(trees) = place(&network, &kinds, enough, &mut work, &mut lengths) else {
                continue;
            };
            let forests = forests(job, &kinds, &trees);
            let Ok(value) = reached(graph, written, operation, &forests) else {
                continue;
            };
            let better = |(_, known): &PackedForests| value.compare(*known) == Ordering::Greater;
            if best.as_ref().is_none_or(better) {
                best = Some((forests, value));
            }
            if is_enough(value, bound) {
                return (best, lengths);
            }
        }
    }
    (best, lengths)
}

/// The trees of each direction.
fn forests(job: &RankFirst, kinds: &[Kind], trees: &[PlacedTree]) -> Vec<Forest> {
    let both = || trees.iter().zip(kinds);
    let of = |direction| {
        let other = |kind: &Kind| match direction {
            Direction::In => matches!(kind, Kind::From(_)),
            Direction::Out => matches!(kind, Kind::To(_)),
        };
        let trees = both().filter(|(_, kind)| !other(kind));
        Forest {
            direction,
            trees: trees
                .map(|(placed, _)| tree(job, placed, direction))
                .collect(),
        }
    };
    let forests = [of(Direction::In), of(Direction::Out)];
    forests
        .into_iter()
        .filter(|it| !it.trees.is_empty())
        .collect()
}

fn tree(job: &RankFirst, placed: &PlacedTree, direction: Direction) -> Tree {
    let edge = |edge: &PlacedEdge| {
        let (near, new) = (job.vertices[edge.from], job.vertices[edge.to]);
        let (from, to, links) = match direction {
            Direction::Out => (near, new, &edge.down),
            Direction::In => (new, near, &edge.up),
        };
        Edge {
            from,
            to,
            routes: vec![Route {
                weight: 1,
                links: links.clone(),
            }],
        }
    };
    Tree {
        root: job.vertices[placed.root],
        weight: 1,
        edges: placed.edges.iter().map(edge).collect(),
    }
}
