//! A job's links for searches: ranks numbered first, and what the searches have in common.

use std::cmp::Ordering;

use plan::certificate::{CapacityGraph, Forest, Fraction, Lengths, WrittenOut};

/// Most ranks of a job for which trees and lengths are sought.
const MOST_RANKS: usize = 32;

/// The share of the bound that is enough: the first forest above it is taken.
const ENOUGH: (u128, u128) = (95, 100);

/// The longest length of a link in a proof.
const LONGEST: f64 = (1u64 << 40) as f64;

/// The forests of an operation, and the bus bandwidth that they reach.
pub(crate) type PackedForests = (Vec<Forest>, Fraction);

/// The lengths of links by class of hosts, those of equal hosts added up, as whole numbers.
pub(crate) fn by_class(graph: &CapacityGraph, lengths: &[f64]) -> Option<Vec<Lengths>> {
    let mut next = lengths.iter();
    let mut sums: Vec<Vec<f64>> = Vec::new();
    for class in &graph.hosts {
        let mut sum = vec![0.0; class.links.len()];
        for _ in 0..class.count {
            for sum in &mut sum {
                *sum += next.next()? / f64::from(class.count);
            }
        }
        sums.push(sum);
    }
    let longest = sums.iter().flatten().copied().fold(0.0, f64::max);
    let whole = |length: &f64| (length / longest * LONGEST).round() as u64;
    let classes = (0..).zip(&sums).map(|(class, sums)| Lengths {
        class,
        lengths: sums.iter().map(whole).collect(),
    });
    (longest > 0.0).then(|| classes.collect())
}

/// Whether a bandwidth is near enough to the bound.
pub(crate) fn is_enough(value: Fraction, bound: Fraction) -> bool {
    let least = bound.numerator.checked_mul(ENOUGH.0);
    let below = bound.denominator.checked_mul(ENOUGH.1);
    let least = least
        .zip(below)
        .and_then(|(above, below)| Fraction::new(above, below));
    least.is_some_and(|least| value.compare(least) != Ordering::Less)
}

/// A job's graph with the ranks numbered first.
pub(crate) struct RankFirst {
    /// The vertex of each number.
    pub vertices: Vec<u32>,
    /// Number of ranks.
    pub ranks: usize,
    /// Links (from, to, capacity).
    pub links: Vec<(usize, usize, u64)>,
}

impl RankFirst {
    /// Numbers the ranks of a graph first; `None` if they are too many.
    pub(crate) fn new(written: &WrittenOut) -> Option<Self> {
        let all = || (0..).zip(&written.ranks);
        let mut vertices: Vec<u32> = all().filter(|(_, rank)| **rank).map(|it| it.0).collect();
        let ranks = vertices.len();
        vertices.extend(all().filter(|(_, rank)| !**rank).map(|it| it.0));
        let mut number = vec![0; vertices.len()];
        for (at, vertex) in vertices.iter().enumerate() {
            number[*vertex as usize] = at;
        }
        let links = written
            .links
            .iter()
            .map(|(from, to, capacity)| (number[*from as usize], number[*to as usize], *capacity));
        (ranks <= MOST_RANKS).then_some(Self {
            ranks,
            links: links.collect(),
            vertices,
        })
    }
}
