//! Forests of a job: trees that come near the bound, as data that the checker accepts.

use std::cmp::Ordering;

use plan::certificate::{
    CapacityGraph, Direction, Edge, Forest, Fraction, Lengths, Operation, Route, Tree, reached,
};

use crate::pack::{Grown, GrownEdge, pack};
use crate::placed::placed;
use crate::rank_first::{PackedForests, RankFirst, by_class, is_enough};
use crate::units::{Demands, UnitGraph};

/// Units per root that are tried. Odd capacities would need hundreds for the exact optimum.
const UNITS_PER_ROOT: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Most vertices of a job for which trees are sought.
const MOST_VERTICES: usize = 512;

/// Most ranks and vertices of a job for which trees are packed exactly.
const MOST_EXACT_RANKS: usize = 16;
const MOST_EXACT_VERTICES: usize = 96;

/// Most arcs that the flows for the forests of one operation may visit: about half a second.
const WORK: u64 = 4_000_000;

/// The result of a search for forests.
#[derive(Debug, Default)]
pub struct ForestSearch {
    /// The best forests.
    pub packed: Option<PackedForests>,
    /// Lengths of links that may prove a lower bound, if the forests stay below the known one.
    pub lengths: Option<Vec<Lengths>>,
}

/// Packs forests for an operation whose bound is known. `None` for all-to-all, for jobs of more
/// than 16 ranks, and where a switch receives more or less than it can send.
///
/// `units` is the number of units per root, if it is not to be searched.
pub fn forests(
    graph: &CapacityGraph,
    operation: Operation,
    bound: Fraction,
    units: Option<u64>,
) -> Option<ForestSearch> {
    let directions: &[Direction] = match operation {
        Operation::AllGather | Operation::Broadcast => &[Direction::Out],
        Operation::ReduceScatter | Operation::Reduce => &[Direction::In],
        Operation::AllReduce => &[Direction::In, Direction::Out],
        Operation::AllReduceInNetwork | Operation::AllToAll => return None,
    };
    let written = graph.written_out(MOST_VERTICES)?;
    let job = RankFirst::new(&written)?;
    let exact = job.ranks <= MOST_EXACT_RANKS && job.vertices.len() <= MOST_EXACT_VERTICES;
    let mut found = ForestSearch::default();
    let mut work = WORK;
    let tried = units.map_or_else(|| UNITS_PER_ROOT.to_vec(), |units| vec![units]);
    for units in tried.into_iter().filter(|_| exact) {
        let packed: Option<Vec<Forest>> = directions
            .iter()
            .map(|direction| job.forest(*direction, operation.has_root(), units, &mut work))
            .collect();
        let Some(packed) = packed else {
            continue;
        };
        let Ok(value) = reached(graph, &written, operation, &packed) else {
            continue;
        };
        let better = |(_, known): &PackedForests| value.compare(*known) == Ordering::Greater;
        if found.packed.as_ref().is_none_or(better) {
            found.packed = Some((packed, value));
        }
        if is_enough(value, bound) {
            return Some(found);
        }
    }
    let (placed, lengths) = placed(graph, &written, &job, (operation, bound), units);
    let known = found.packed.as_ref().map(|(_, value)| *value);
    if let Some((_, value)) = &placed
        && known.is_none_or(|known| value.compare(known) == Ordering::Greater)
    {
        found.packed = placed;
    }
    found.lengths = by_class(graph, &lengths.lengths);
    Some(found)
}

impl RankFirst {
    /// Trees with so many units for each root: rank 0 alone, or every rank.
    fn forest(
        &self,
        direction: Direction,
        one_root: bool,
        units: u64,
        work: &mut u64,
    ) -> Option<Forest> {
        let turned = |link: &(usize, usize, u64)| match direction {
            Direction::Out => *link,
            Direction::In => (link.1, link.0, link.2),
        };
        let links: Vec<(usize, usize, u64)> = self.links.iter().map(turned).collect();
        let roots = if one_root { 1 } else { self.ranks };
        let mut demands = vec![0; self.ranks];
        demands[..roots].fill(i128::from(units));
        // No rank receives faster than its links allow.
        let into = |rank: usize| -> i128 {
            let links = links.iter().filter(|(_, to, _)| *to == rank);
            links.map(|(.., capacity)| i128::from(*capacity)).sum()
        };
        let narrow = (0..self.ranks).map(into).min().filter(|into| *into > 0)?;
        let fastest = (i128::from(units), narrow);
        let demands = Demands::new(demands, *work);
        let trees = UnitGraph::least((self.ranks, self.vertices.len()), &links, &demands, fastest)
            .filter(UnitGraph::is_even)
            .and_then(|graph| graph.without_switches(&demands))
            .and_then(|graph| pack(graph, &demands));
        *work = demands.left();
        let trees = trees?;
        Some(Forest {
            direction,
            trees: trees
                .iter()
                .map(|tree| self.tree(tree, direction))
                .collect(),
        })
    }

    fn tree(&self, grown: &Grown, direction: Direction) -> Tree {
        let edge = |edge: &GrownEdge| {
            let routes = edge.routes.iter().map(|(units, links)| {
                let mut links = links.clone();
                if direction == Direction::In {
                    links.reverse();
                }
                Route {
                    weight: *units as u64,
                    links,
                }
            });
            let (near, new) = (self.vertices[edge.from], self.vertices[edge.to]);
            let (from, to) = match direction {
                Direction::Out => (near, new),
                Direction::In => (new, near),
            };
            Edge {
                from,
                to,
                routes: routes.collect(),
            }
        };
        Tree {
            root: self.vertices[grown.root],
            weight: grown.units as u64,
            edges: grown.edges.iter().map(edge).collect(),
        }
    }
}
