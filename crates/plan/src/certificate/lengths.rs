//! Bounds by lengths: links that data must pass, however it is routed.
//!
//! Every link gets a length. Data that goes from one rank to all others passes links whose lengths
//! add up to at least those of the shortest tree; the links together offer their bandwidths times
//! their lengths. Any lengths prove a bound. Switches copy nothing here: only ranks send data on to
//! several others.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use super::bounded::bounded_list;
use super::graph::{CapacityGraph, WrittenOut};
use super::value::Fraction;

/// Most vertices and ranks of a job for which lengths are checked.
const MOST_VERTICES: usize = 512;
const MOST_RANKS: usize = 64;

/// Longest length.
const MOST_LENGTH: u64 = 1 << 48;

/// No route.
const NEVER: u128 = u128::MAX;

/// A length for each link of a class of hosts, the same on all its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// The class, as an index into the graph's `hosts`.
    pub class: u32,
    /// The lengths, in the order of the class's links.
    #[serde(deserialize_with = "bounded_list")]
    pub lengths: Vec<u64>,
}

/// The bus bandwidth above which lengths leave no schedule, 0.1 MB/s.
pub(super) fn tightness(
    graph: &CapacityGraph,
    operation: Operation,
    classes: &[Lengths],
) -> Result<Fraction, String> {
    let written = graph
        .written_out(MOST_VERTICES)
        .ok_or_else(|| format!("the job has more than {MOST_VERTICES} vertices"))?;
    let lengths = of_links(graph, classes)?;
    let ranks: Vec<usize> = (0..written.ranks.len())
        .filter(|it| written.ranks[*it])
        .collect();
    if ranks.len() > MOST_RANKS {
        return Err(format!("the job has more than {MOST_RANKS} ranks"));
    }
    let too_large = || "the numbers are too large".to_owned();
    let mut offered = 0u128;
    for ((_, _, capacity), length) in written.links.iter().zip(&lengths) {
        let both = u128::from(*capacity).checked_mul(u128::from(*length));
        let sum = both.and_then(|both| offered.checked_add(both));
        offered = sum.ok_or_else(too_large)?;
    }
    let distances = distances(&written, &lengths, &ranks)?;
    let peers = ranks.len() as u128 - 1;
    let all = || 0..ranks.len();
    let turned = || -> Vec<Vec<u128>> {
        let column = |to: usize| distances.iter().map(|row| row[to]).collect();
        all().map(column).collect()
    };
    let trees = |distances: &[Vec<u128>]| -> Result<u128, String> {
        let mut trees = all().map(|root| shortest_tree(distances.to_vec(), root));
        trees.try_fold(0u128, |sum, tree| {
            sum.checked_add(tree?).ok_or_else(too_large)
        })
    };
    // Bus bandwidth is the factor times what is offered, divided by what is needed.
    let (factor, needed) = match operation {
        Operation::AllGather => (peers, trees(&distances)?),
        Operation::ReduceScatter => (peers, trees(&turned())?),
        Operation::Broadcast => (1, shortest_tree(distances, 0)?),
        Operation::Reduce => (1, shortest_tree(turned(), 0)?),
        Operation::AllToAll => {
            let mut pairs = distances.iter().flatten();
            let sum = pairs.try_fold(0u128, |sum, it| sum.checked_add(*it));
            (peers, sum.ok_or_else(too_large)?)
        }
        Operation::AllReduce | Operation::AllReduceInNetwork => {
            return Err("lengths prove nothing for this operation".to_owned());
        }
    };
    let above = factor.checked_mul(offered).ok_or_else(too_large)?;
    Fraction::new(above, needed).ok_or_else(|| "all lengths are 0".to_owned())
}

/// The length of each link of the graph written out.
fn of_links(graph: &CapacityGraph, classes: &[Lengths]) -> Result<Vec<u64>, String> {
    let numbers: Vec<u32> = classes.iter().map(|class| class.class).collect();
    if !numbers.iter().copied().eq(0..graph.hosts.len() as u32) {
        return Err("expected the lengths of each class of hosts once, in order".to_owned());
    }
    let mut all = Vec::new();
    for (host, class) in graph.hosts.iter().zip(classes) {
        if class.lengths.len() != host.links.len() {
            let (found, expected) = (class.lengths.len(), host.links.len());
            return Err(format!(
                "{found} lengths for {expected} links of {}",
                host.name
            ));
        }
        if class.lengths.iter().any(|length| *length > MOST_LENGTH) {
            return Err(format!("a length is more than {MOST_LENGTH}"));
        }
        for _ in 0..host.count {
            all.extend(&class.lengths);
        }
    }
    Ok(all)
}

/// The shortest distances between ranks (Dijkstra, without a heap).
fn distances(
    written: &WrittenOut,
    lengths: &[u64],
    ranks: &[usize],
) -> Result<Vec<Vec<u128>>, String> {
    let mut out = vec![Vec::new(); written.ranks.len()];
    for ((from, to, capacity), length) in written.links.iter().zip(lengths) {
        if *capacity > 0 {
            out[*from as usize].push((*to as usize, u128::from(*length)));
        }
    }
    let from = |start: &usize| -> Result<Vec<u128>, String> {
        let mut distance = vec![NEVER; out.len()];
        let mut open: Vec<usize> = (0..out.len()).collect();
        distance[*start] = 0;
        while let Some(at) = (0..open.len()).min_by_key(|at| distance[open[*at]]) {
            let vertex = open.swap_remove(at);
            if distance[vertex] == NEVER {
                break;
            }
            for (to, length) in &out[vertex] {
                // At most as many lengths as vertices, each at most `MOST_LENGTH`.
                let there = distance[vertex] + length;
                distance[*to] = there.min(distance[*to]);
            }
        }
        let row: Vec<u128> = ranks.iter().map(|rank| distance[*rank]).collect();
        match row.contains(&NEVER) {
            true => Err("a rank cannot be reached".to_owned()),
            false => Ok(row),
        }
    };
    ranks.iter().map(from).collect()
}

/// The length of the shortest tree from a root to all others: each vertex's shortest edge counts,
/// circles of these edges become one vertex, and what is left is counted again.
fn shortest_tree(mut distances: Vec<Vec<u128>>, mut root: usize) -> Result<u128, String> {
    let mut total = 0u128;
    loop {
        let count = distances.len();
        let mut parents = vec![root; count];
        let mut shortest = vec![0u128; count];
        for to in (0..count).filter(|to| *to != root) {
            let others = (0..count).filter(|from| *from != to);
            let (least, from) = others
                .map(|from| (distances[from][to], from))
                .min()
                .ok_or("there is one rank only")?;
            (shortest[to], parents[to]) = (least, from);
            total = total
                .checked_add(least)
                .ok_or("the numbers are too large")?;
        }
        let groups = circles(&parents, root);
        let merged = groups.iter().max().map_or(0, |last| last + 1);
        if merged == count {
            return Ok(total);
        }
        let mut next = vec![vec![NEVER; merged]; merged];
        for from in 0..count {
            for to in (0..count).filter(|to| groups[*to] != groups[from]) {
                let left = distances[from][to] - shortest[to].min(distances[from][to]);
                let known = &mut next[groups[from]][groups[to]];
                *known = left.min(*known);
            }
        }
        (distances, root) = (next, groups[root]);
    }
}

/// A number for each vertex, equal for the vertices of one circle of parents.
fn circles(parents: &[usize], root: usize) -> Vec<usize> {
    let count = parents.len();
    let mut groups = vec![usize::MAX; count];
    let mut seen = vec![usize::MAX; count];
    let mut next = 0;
    for start in 0..count {
        let mut at = start;
        while at != root && seen[at] == usize::MAX {
            seen[at] = start;
            at = parents[at];
        }
        // A vertex of this walk again: the circle.
        if at != root && seen[at] == start && groups[at] == usize::MAX {
            let mut member = at;
            while groups[member] == usize::MAX {
                groups[member] = next;
                member = parents[member];
            }
            next += 1;
        }
    }
    for group in groups.iter_mut().filter(|group| **group == usize::MAX) {
        *group = next;
        next += 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_trees_by_hand() {
        // Two ranks in a circle that is cheap inside and dear to enter.
        let distances = vec![vec![0, 10, 12], vec![9, 0, 1], vec![9, 1, 0]];
        assert_eq!(shortest_tree(distances.clone(), 0), Ok(11));
        assert_eq!(shortest_tree(distances, 1), Ok(10));
    }
}
