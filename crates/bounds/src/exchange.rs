//! Lengths of links that bound an all-to-all.
//!
//! Every rank sends a piece to every other over cheapest routes, again and again, while links with
//! much load become dear. The costs that leave the least bandwidth are the lengths. Any lengths
//! prove a bound (Leighton, Rao 1999: concurrent flow and its dual).

use plan::certificate::{CapacityGraph, Lengths};

use crate::rank_first::{RankFirst, by_class};
use crate::routes::Network;

/// Times that all pieces are sent.
const ROUNDS: u32 = 80;

/// How steeply a link's cost grows with its load.
const STEEPNESS: i32 = 10;

/// Most vertices of a job whose links get lengths.
const MOST_VERTICES: usize = 512;

/// Lengths of the links of a job; `None` for large jobs, and where a rank cannot be reached.
pub(crate) fn lengths(graph: &CapacityGraph) -> Option<Vec<Lengths>> {
    let written = graph.written_out(MOST_VERTICES)?;
    let job = RankFirst::new(&written)?;
    let network = Network::new(job.ranks, job.vertices.len(), job.links.clone());
    let capacity = |link: usize| network.links[link].2.max(1) as f64;
    let mut loads = vec![0.0f64; network.links.len()];
    let mut best: (f64, Vec<f64>) = (0.0, Vec::new());
    for _ in 0..ROUNDS {
        let ratios = loads
            .iter()
            .enumerate()
            .map(|(link, load)| load / capacity(link));
        let ratios: Vec<f64> = ratios.collect();
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let cost = |(link, ratio): (usize, &f64)| match most > 0.0 {
            true => ((ratio / most).powi(STEEPNESS) + 1e-4) / capacity(link),
            false => 1.0 / capacity(link),
        };
        let costs: Vec<f64> = ratios.iter().enumerate().map(cost).collect();
        let routes = network.routes(&costs);
        let needed: f64 = routes.costs.iter().flatten().sum();
        let links = network.links.iter().zip(&costs);
        let offered: f64 = links.map(|(link, cost)| link.2 as f64 * cost).sum();
        if !needed.is_finite() {
            return None;
        }
        if needed / offered > best.0 {
            best = (needed / offered, costs.clone());
        }
        for from in 0..job.ranks {
            for to in (0..job.ranks).filter(|to| *to != from) {
                for link in routes.links(from, to)? {
                    loads[link as usize] += 1.0;
                }
            }
        }
    }
    by_class(graph, &best.1)
}
