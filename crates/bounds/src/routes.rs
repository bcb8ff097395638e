//! Cheapest routes between ranks over links that have costs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arborescence::Costs;

/// A job's links; ranks are the vertices 0, 1, …, switches follow.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Number of ranks.
    pub ranks: usize,
    /// Links (from, to, capacity).
    pub links: Vec<(usize, usize, u64)>,
    arcs: Vec<Arc>,
    /// The arcs that leave each vertex.
    out: Vec<Vec<u32>>,
}

/// Links in a row, between which no others begin or end.
#[derive(Debug, Clone)]
struct Arc {
    from: usize,
    to: usize,
    links: Vec<u32>,
}

/// The cheapest routes from every rank to every other.
pub(crate) struct Routes<'a> {
    network: &'a Network,
    /// Costs from rank to rank.
    pub costs: Costs,
    /// For each rank and vertex the last arc of the cheapest route.
    by: Vec<Vec<u32>>,
}

/// No link.
const NONE: u32 = u32::MAX;

impl Network {
    /// The network of these links; those without capacity are left out of routes.
    pub(crate) fn new(ranks: usize, vertices: usize, links: Vec<(usize, usize, u64)>) -> Self {
        let usable = links
            .iter()
            .zip(0..)
            .filter(|((.., capacity), _)| *capacity > 0);
        let arc = |((from, to, _), link): (&(usize, usize, u64), u32)| Arc {
            from: *from,
            to: *to,
            links: vec![link],
        };
        let mut arcs: Vec<Arc> = usable.map(arc).collect();
        while let Some(vertex) = (ranks..vertices).find(|vertex| is_passed(&arcs, *vertex)) {
            arcs = without(arcs, vertex);
        }
        let mut out = vec![Vec::new(); vertices];
        for (arc, number) in arcs.iter().zip(0..) {
            out[arc.from].push(number);
        }
        Self {
            ranks,
            links,
            arcs,
            out,
        }
    }

    /// Arcs that a search for routes visits.
    pub(crate) fn arcs(&self) -> usize {
        self.arcs.len()
    }

    /// The cheapest routes, if each link has this cost. No route leads through a rank: data that a
    /// rank forwards is data that it has.
    pub(crate) fn routes(&self, costs: &[f64]) -> Routes<'_> {
        let sum = |arc: &Arc| arc.links.iter().map(|link| costs[*link as usize]).sum();
        let costs: Vec<f64> = self.arcs.iter().map(sum).collect();
        let found = (0..self.ranks).map(|rank| self.from(rank, &costs));
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
            if bits != distance[vertex].to_bits() {
                continue;
            }
            for arc in &self.out[vertex] {
                let to = self.arcs[*arc as usize].to;
                let there = distance[vertex] + costs[*arc as usize];
                if there < distance[to] {
                    distance[to] = there;
                    by[to] = *arc;
                    // Routes end at ranks.
                    if to >= self.ranks {
                        heap.push(Reverse((there.to_bits(), to)));
                    }
                }
            }
        }
        distance.truncate(self.ranks);
        (distance, by)
    }
}

impl Routes<'_> {
    /// The links from one rank to another; `None` if no route leads there.
    pub(crate) fn links(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let (mut links, mut at) = (Vec::new(), to);
        while at != from {
            let arc = self.network.arcs.get(self.by[from][at] as usize)?;
            links.extend(arc.links.iter().rev());
            at = arc.from;
        }
        links.reverse();
        Some(links)
    }
}

/// Whether arcs lead into a vertex or out of it, but not several of both.
fn is_passed(arcs: &[Arc], vertex: usize) -> bool {
    let ins = arcs.iter().filter(|arc| arc.to == vertex).count();
    let outs = arcs.iter().filter(|arc| arc.from == vertex).count();
    ins + outs > 0 && (ins < 2 || outs < 2)
}

/// The arcs with those through a vertex joined.
fn without(arcs: Vec<Arc>, vertex: usize) -> Vec<Arc> {
    let touches = |arc: &Arc| arc.from == vertex || arc.to == vertex;
    let (own, mut others): (Vec<Arc>, Vec<Arc>) = arcs.into_iter().partition(touches);
    for first in own.iter().filter(|arc| arc.to == vertex) {
        let second = own.iter().filter(|arc| arc.from == vertex);
        others.extend(second.filter(|arc| arc.to != first.from).map(|second| Arc {
            from: first.from,
            to: second.to,
            links: [&first.links[..], &second.links[..]].concat(),
        }));
    }
    others
}
