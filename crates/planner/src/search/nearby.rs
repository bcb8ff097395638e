//! The possible next GPUs after each GPU.

use super::memo::Memo;
use super::record::Record;
use super::route_map::{Neighbour, RouteMap};

/// The GPUs that may follow one GPU within the limits of an attempt.
#[derive(Debug)]
pub(super) struct Nearby {
    /// Best connected first.
    pub list: Vec<Neighbour>,
    /// The same as bits.
    pub mask: Vec<u64>,
    /// For each GPU its place in `list`.
    pub ranks: Vec<u16>,
}

impl Nearby {
    fn new(route_map: &RouteMap, all: &[Neighbour], attempt: &Record) -> Self {
        let both_directions = attempt.uses_both_directions();
        let is_allowed = |neighbour: &&Neighbour| {
            neighbour
                .route
                .is_within(attempt.type_intra, both_directions)
        };
        let list: Vec<Neighbour> = all.iter().filter(is_allowed).copied().collect();
        let mut mask = vec![0; route_map.words];
        let mut ranks = vec![0; route_map.gpus];
        for (rank, neighbour) in list.iter().enumerate() {
            mask[neighbour.gpu as usize / 64] |= 1 << (neighbour.gpu % 64);
            ranks[neighbour.gpu as usize] = rank as u16;
        }
        Self { list, mask, ranks }
    }
}

/// The path types within the limits, and whether both directions count.
type Limits = (u16, bool);

/// The lists for all limits that were tried.
#[derive(Debug, Default)]
pub(super) struct AllNearby(Vec<(Limits, Vec<Nearby>)>);

impl AllNearby {
    pub(super) fn within(
        &mut self,
        route_map: &RouteMap,
        memo: &Memo,
        attempt: &Record,
    ) -> &[Nearby] {
        let limits = (
            memo.intra_class(attempt.type_intra),
            attempt.uses_both_directions(),
        );
        let known = self.0.iter().position(|(known, _)| *known == limits);
        let at = known.unwrap_or_else(|| {
            let of_each = route_map.neighbours.iter();
            let nearby = of_each.map(|all| Nearby::new(route_map, all, attempt));
            self.0.push((limits, nearby.collect()));
            self.0.len() - 1
        });
        &self.0[at].1
    }
}
