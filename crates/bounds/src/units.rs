//! Links in whole trees: how many units of a message each link carries in a given time.
//!
//! A root's data is cut into units, and every tree carries some. In time t a link of capacity c
//! carries ⌊c·t⌋ units. The least t is searched in which every rank can still receive the units of
//! all roots.

use std::cell::Cell;

use crate::flow::FlowGraph;

/// Parts into which the unit of time is cut in the search.
const PARTS: i128 = 1 << 56;

/// Units of each root, and how much more work may be spent on their trees.
#[derive(Debug)]
pub(crate) struct Demands {
    /// Units of each rank.
    pub units: Vec<i128>,
    /// Arcs that flows may still visit.
    work: Cell<u64>,
}

impl Demands {
    /// Units of each rank, with this much work.
    pub(crate) const fn new(units: Vec<i128>, work: u64) -> Self {
        Self {
            units,
            work: Cell::new(work),
        }
    }

    /// Spends the work of a flow over this many arcs. Returns whether any was left.
    pub(crate) fn afford(&self, arcs: usize) -> bool {
        let left = self.work.get().saturating_sub(arcs as u64);
        self.work.set(left);
        left > 0
    }

    /// The work that is left.
    pub(crate) const fn left(&self) -> u64 {
        self.work.get()
    }
}

/// A graph whose capacities are whole units, with where each capacity comes from.
#[derive(Debug, Clone)]
pub(crate) struct UnitGraph {
    /// Ranks are the vertices 0, 1, …, switches follow.
    pub ranks: usize,
    /// All vertices.
    pub vertices: usize,
    /// Arcs between vertices, each pair once.
    pub arcs: Vec<UnitArc>,
}

/// An arc with its units and the routes that they take.
#[derive(Debug, Clone)]
pub(crate) struct UnitArc {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// Units, with the links that they take.
    pub routes: Vec<(i128, Vec<u32>)>,
}

impl UnitArc {
    /// Units of all routes.
    pub(crate) fn units(&self) -> i128 {
        self.routes.iter().map(|(units, _)| units).sum()
    }

    /// Takes units from the routes.
    pub(crate) fn take(&mut self, mut wanted: i128) -> Vec<(i128, Vec<u32>)> {
        let mut taken = Vec::new();
        while wanted > 0
            && let Some((units, links)) = self.routes.last_mut()
        {
            let amount = wanted.min(*units);
            taken.push((amount, links.clone()));
            wanted -= amount;
            *units -= amount;
            if *units == 0 {
                self.routes.pop();
            }
        }
        taken
    }
}

/// Flows from all roots to one rank after the other.
#[derive(Debug)]
pub(crate) struct Deliveries {
    flow: FlowGraph,
    arcs: usize,
    ranks: usize,
    source: usize,
}

impl Deliveries {
    /// Whether every rank can receive the units of all other roots, if arcs carry these units.
    pub(crate) fn serve(&mut self, units: &[i128], demands: &Demands) -> bool {
        let total: i128 = demands.units.iter().sum();
        (0..self.ranks).all(|sink| {
            if !demands.afford(self.arcs + self.ranks) {
                return false;
            }
            let feed = |rank: usize| self.arcs + rank;
            if let Some(before) = sink.checked_sub(1) {
                // All units are at the rank before. What it has of its own comes to that; the
                // sink's own are no longer fed.
                self.flow.fill(feed(before), demands.units[before]);
                self.flow.set(feed(sink), 0);
                return self.flow.augment(before, sink, total) == total;
            }
            for (arc, units) in units.iter().enumerate() {
                self.flow.set(arc, *units);
            }
            for (rank, units) in demands.units.iter().enumerate() {
                let units = if rank == sink { 0 } else { *units };
                self.flow.set(feed(rank), units);
            }
            let wanted = total - demands.units[sink];
            self.flow.augment(self.source, sink, wanted) == wanted
        })
    }
}

impl UnitGraph {
    /// The links (from, to, capacity) with the units of a time.
    fn at(ranks: usize, vertices: usize, links: &[(usize, usize, u64)], time: i128) -> Self {
        let units = |capacity: u64| i128::from(capacity) * time / PARTS;
        let arcs = links
            .iter()
            .zip(0..)
            .map(|((from, to, capacity), link)| UnitArc {
                from: *from,
                to: *to,
                routes: vec![(units(*capacity), vec![link])],
            });
        Self {
            ranks,
            vertices,
            arcs: arcs.filter(|arc| arc.units() > 0).collect(),
        }
    }

    /// The graph of the least time in which every rank can receive the units of all roots.
    /// `fastest` is a lower bound of it, as a fraction; `None` if no time suffices.
    pub(crate) fn least(
        (ranks, vertices): (usize, usize),
        links: &[(usize, usize, u64)],
        demands: &Demands,
        fastest: (i128, i128),
    ) -> Option<Self> {
        let at = |time| Self::at(ranks, vertices, links, time);
        let (mut below, mut above) = (-1, fastest.0 * PARTS / fastest.1 + 1);
        // Rounding down costs a link less than one unit.
        let most = above.checked_mul(1 << 20)?;
        while !at(above).serves(demands) {
            below = above;
            above *= 2;
            if above > most {
                return None;
            }
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            match at(middle).serves(demands) {
                true => above = middle,
                false => below = middle,
            }
        }
        Some(at(above))
    }

    /// Whether every rank can receive the units of all other roots.
    pub(crate) fn serves(&self, demands: &Demands) -> bool {
        let units: Vec<i128> = self.arcs.iter().map(UnitArc::units).collect();
        self.deliveries(None).serve(&units, demands)
    }

    /// Flows to each rank over these arcs, and over one more.
    pub(crate) fn deliveries(&self, more: Option<(usize, usize)>) -> Deliveries {
        let source = self.vertices;
        let ends = self.arcs.iter().map(|arc| (arc.from, arc.to)).chain(more);
        let ends = ends.map(|(from, to)| (from as u32, to as u32));
        let feeds = (0..self.ranks).map(|rank| (source as u32, rank as u32));
        let ends: Vec<(u32, u32)> = ends.chain(feeds).collect();
        Deliveries {
            flow: FlowGraph::new(self.vertices + 1, &ends),
            arcs: ends.len() - self.ranks,
            ranks: self.ranks,
            source,
        }
    }

    /// Whether as much enters each switch as leaves it.
    pub(crate) fn is_even(&self) -> bool {
        let mut balance = vec![0; self.vertices];
        for arc in &self.arcs {
            balance[arc.from] += arc.units();
            balance[arc.to] -= arc.units();
        }
        balance[self.ranks..].iter().all(|balance| *balance == 0)
    }
}
