//! Cheapest routes between ranks over links that have costs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arborescence::Costs;

/// A job's links; ranks are the vertices 0, 1, …, switches follow.
#[derive(Debug, Clone)]
pub struct Network {
    /// Number of ranks.
    pub ranks: usize,
    /// Links (from, to, capacity).
    pub links: Vec<(usize, usize, u64)>,
    /// The links that leave each vertex.
    out: Vec<Vec<u32>>,
}

/// The cheapest routes from every rank to every other.
pub struct Routes<'a> {
    network: &'a Network,
    /// Costs from rank to rank.
    pub costs: Costs,
    /// For each rank and vertex the link by which the cheapest route arrives.
    by: Vec<Vec<u32>>,
}

/// No link.
const NONE: u32 = u32::MAX;

impl Network {
    /// The network of these links; those without capacity are left out of routes.
    pub fn new(ranks: usize, vertices: usize, links: Vec<(usize, usize, u64)>) -> Self {
        let mut out = vec![Vec::new(); vertices];
        for ((from, _, capacity), link) in links.iter().zip(0..) {
            if *capacity > 0 {
                out[*from].push(link);
            }
        }
        Self { ranks, links, out }
    }

    /// The cheapest routes, if each link has this cost. No route leads through a rank: data that a
    /// rank forwards is data that it has.
    pub fn routes(&self, costs: &[f64]) -> Routes<'_> {
        let found = (0..self.ranks).map(|rank| self.from(rank, costs));
        let (costs, by) = found.unzip();
        Routes {
            network: self,
            costs,
            by,
        }
    }

    fn from(&self, start: usize, costs: &[f64]) -> (Vec<f64>, Vec<u32>) {
        let mut distance = vec![f64::INFINITY; self.out.len()];
        let mut by = vec![NONE; self.out.len()];
        distance[start] = 0.0;
        // Distances are not negative, so their bits have their order.
        let mut heap = BinaryHeap::from([Reverse((0u64, start))]);
        while let Some(Reverse((bits, vertex))) = heap.pop() {
            if bits != distance[vertex].to_bits() || (vertex < self.ranks && vertex != start) {
                continue;
            }
            for link in &self.out[vertex] {
                let (_, to, _) = self.links[*link as usize];
                let there = distance[vertex] + costs[*link as usize];
                if there < distance[to] {
                    distance[to] = there;
                    by[to] = *link;
                    heap.push(Reverse((there.to_bits(), to)));
                }
            }
        }
        distance.truncate(self.ranks);
        (distance, by)
    }
}

impl Routes<'_> {
    /// The links from one rank to another; `None` if no route leads there.
    pub fn links(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let (mut links, mut at) = (Vec::new(), to);
        while at != from {
            let link = self.by[from][at];
            if link == NONE {
                return None;
            }
            links.push(link);
            at = self.network.links[link as usize].0;
        }
        links.reverse();
        Some(links)
    }
}
