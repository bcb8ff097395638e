//! The GPUs that each GPU may go on to.

use super::memo::Memo;
use super::record::Record;
use super::wiring::{Neighbour, Wiring};

/// The GPUs within the limits of an attempt.
#[derive(Debug)]
pub(super) struct Nearby {
    /// For each GPU, best connected first.
    lists: Vec<Vec<Neighbour>>,
    /// For each GPU the same, as bits.
    masks: Vec<u64>,
    words: usize,
}

impl Nearby {
    fn new(wiring: &Wiring, attempt: &Record) -> Self {
        let both_ways = attempt.uses_both_ways();
        let is_allowed =
            |neighbour: &&Neighbour| neighbour.route.is_within(attempt.type_intra, both_ways);
        let allowed = |list: &Vec<Neighbour>| list.iter().filter(is_allowed).copied().collect();
        let lists: Vec<Vec<Neighbour>> = wiring.neighbours.iter().map(allowed).collect();
        let words = wiring.words;
        let mut masks = vec![0; lists.len() * words];
        for (list, mask) in lists.iter().zip(masks.chunks_mut(words)) {
            for neighbour in list {
                mask[neighbour.gpu as usize / 64] |= 1 << (neighbour.gpu % 64);
            }
        }
        Self {
            lists,
            masks,
            words,
        }
    }

    /// Those of one GPU, best connected first.
    pub fn of(&self, gpu: u32) -> &[Neighbour] {
        &self.lists[gpu as usize]
    }

    /// Those of one GPU, as bits.
    pub fn mask(&self, gpu: u32) -> &[u64] {
        &self.masks[gpu as usize * self.words..][..self.words]
    }

    /// Those of all GPUs.
    pub fn all(&self) -> impl Iterator<Item = &Neighbour> {
        self.lists.iter().flatten()
    }
}

/// Types that are let through, and whether both ways count.
type Limits = (u16, bool);

/// The lists for all limits that were tried.
#[derive(Debug, Default)]
pub(super) struct AllNearby(Vec<(Limits, Nearby)>);

impl AllNearby {
    pub fn within(&mut self, wiring: &Wiring, memo: &Memo, attempt: &Record) -> &Nearby {
        let limits = (
            memo.intra_class(attempt.type_intra),
            attempt.uses_both_ways(),
        );
        let known = self.0.iter().position(|(known, _)| *known == limits);
        let at = known.unwrap_or_else(|| {
            self.0.push((limits, Nearby::new(wiring, attempt)));
            self.0.len() - 1
        });
        &self.0[at].1
    }
}
