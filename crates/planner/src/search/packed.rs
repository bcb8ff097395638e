//! What links have left, many links in one word.
//!
//! Each link has as many bits as its units need, and above them a bit that is always set. Taking an amount from all links
//! of a route is then one subtraction for each word: where a link has too little, its upper bit is gone.

use super::fingerprint::{Fingerprint, weight};
use super::layout::{Layout, Which, kind};
use super::residual::Residual;
use super::thousandths::Thousandths;
use super::wiring::{Route, Wiring};

/// Words for all links.
const WORDS: usize = 4;

type Words = [u64; WORDS];

/// Where a link is.
#[derive(Debug, Clone, Copy)]
struct Place {
    word: u8,
    shift: u8,
    mask: u64,
    /// Thousandths of GB/s in a unit, and what is left besides.
    unit: i32,
    rest: i32,
}

/// The links of one attempt.
#[derive(Debug, Default)]
pub(super) struct Packed {
    left: Words,
    /// The upper bits.
    guards: Words,
    /// What each route takes.
    needs: Vec<Words>,
    places: Vec<Place>,
    /// For each link its place.
    place_of: Vec<u32>,
}

impl Packed {
    /// Lays links out in words. Answers no if they do not fit.
    pub fn lay_out(&mut self, layout: &Layout, links: &Thousandths) -> bool {
        (self.left, self.guards) = Default::default();
        self.places.clear();
        let (mut word, mut next) = (0, 0);
        for field in &layout.fields {
            let mut place = Place {
                word: 0,
                shift: 0,
                mask: 0,
                unit: field.unit,
                rest: field.rest,
            };
            if field.unit > 0 {
                let bits = u32::BITS - field.left.leading_zeros();
                if next + bits + 1 > u64::BITS {
                    (word, next) = (word + 1, 0);
                }
                if word == WORDS {
                    return false;
                }
                place.word = word as u8;
                place.shift = next as u8;
                place.mask = (1 << bits) - 1;
                self.left[word] |= u64::from(field.left) << next;
                self.guards[word] |= 1 << (next + bits);
                next += bits + 1;
            }
            self.places.push(place);
        }
        for (left, guards) in self.left.iter_mut().zip(self.guards) {
            *left |= guards;
        }
        if self.place_of.is_empty() {
            self.place_of = links.places().to_vec();
            self.needs = vec![[0; WORDS]; links.route_count()];
        }
        true
    }

    /// Prepares what routes take.
    pub fn prepare<'r>(
        &mut self,
        layout: &Layout,
        links: &Thousandths,
        allowed: impl Iterator<Item = (Which, &'r Route)>,
    ) {
        for (which, route) in allowed {
            let needs = &mut self.needs[route.number as usize];
            *needs = [0; WORDS];
            for (link, charge) in links.charges(route) {
                let place = self.places[link];
                let units = layout.fields[link].needs[kind(which, charge)];
                needs[place.word as usize] += u64::from(units) << place.shift;
            }
        }
    }

    /// What is left after a route, if there is enough.
    #[inline]
    fn after(&self, route: &Route) -> (Words, bool) {
        let needs = &self.needs[route.number as usize];
        let mut left = self.left;
        let mut lacks = 0;
        for word in 0..WORDS {
            left[word] -= needs[word];
            lacks |= !left[word] & self.guards[word];
        }
        (left, lacks == 0)
    }
}

impl Residual for Packed {
    type Amount = ();

    fn amount(_: f32) {}

    #[inline]
    fn take(&mut self, _: &Wiring, route: &Route, (): &()) -> bool {
        let (left, enough) = self.after(route);
        if enough {
            self.left = left;
        }
        enough
    }

    #[inline]
    fn may_have(&self, route: &Route, (): &()) -> bool {
        self.after(route).1
    }

    #[inline]
    fn take_known(&mut self, _: &Wiring, route: &Route, (): &()) -> bool {
        self.left = self.after(route).0;
        true
    }

    #[inline]
    fn give(&mut self, _: &Wiring, route: &Route, (): &()) {
        let needs = &self.needs[route.number as usize];
        for (left, need) in self.left.iter_mut().zip(needs) {
            *left += need;
        }
    }

    fn whole(&self, up: u32, down: u32) -> i32 {
        let left = |link: u32| {
            let place = &self.places[self.place_of[link as usize] as usize];
            let units = self.left[place.word as usize] >> place.shift & place.mask;
            units as i32 * place.unit + place.rest
        };
        left(up).min(left(down)) / 1000
    }

    fn begin(&mut self) {}

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let mut all = Fingerprint::default();
        for (word, left) in self.left.iter().enumerate() {
            all.add(weight(word), *left);
        }
        Some(all)
    }
}
