//! The remaining bandwidth of links, many links in one word.
//!
//! Each link has as many bits as its units need, and above them a bit that is always set. Taking an
//! amount from all links of a route is then one subtraction for each word: where a link has too
//! little, its upper bit is gone.

use super::fingerprint::{StateFingerprint, weight};
use super::layout::{AttemptLayout, Field, GpuPciLink, Uses};
use super::residual::Residual;
use super::route_map::{RouteMap, SearchRoute};
use super::thousandths::Thousandths;

/// Where a link is.
#[derive(Debug, Clone, Copy)]
struct Place {
    word: usize,
    shift: u32,
    mask: u64,
    /// Thousandths of GB/s in a unit, and what is left besides.
    unit: i32,
    rest: i32,
}

/// The bits that a link needs, with the upper one.
const fn bits(field: &Field) -> u32 {
    u32::BITS - field.left.leading_zeros() + 1
}

/// How many words the links of an attempt need.
pub(super) fn words(layout: &AttemptLayout) -> usize {
    let (mut words, mut next) = (1, 0);
    for field in &layout.fields {
        let bits = bits(field);
        if next + bits > u64::BITS {
            (words, next) = (words + 1, 0);
        }
        next += bits;
    }
    words
}

/// The links of one attempt.
#[derive(Debug)]
pub(super) struct PackedLinks<const WORDS: usize> {
    left: [u64; WORDS],
    /// The upper bits.
    guards: [u64; WORDS],
    /// The need of each route.
    needs: Vec<[u64; WORDS]>,
    places: Vec<Place>,
    /// For each GPU its PCI link up and the one back down to it, if it has any.
    uplinks: Vec<Option<[Place; 2]>>,
}

impl<const WORDS: usize> PackedLinks<WORDS> {
    pub(super) const fn new() -> Self {
        Self {
            left: [0; WORDS],
            guards: [0; WORDS],
            needs: Vec::new(),
            places: Vec::new(),
            uplinks: Vec::new(),
        }
    }

    /// Lays out the links of an attempt that need no more [`words`] than there are.
    pub(super) fn lay_out(&mut self, layout: &AttemptLayout, uses: &Uses, links: &Thousandths) {
        (self.left, self.guards) = ([0; WORDS], [0; WORDS]);
        self.places.clear();
        let (mut word, mut shift) = (0, 0);
        for field in &layout.fields {
            let bits = bits(field);
            if shift + bits > u64::BITS {
                (word, shift) = (word + 1, 0);
            }
            let guard = 1 << (bits - 1);
            self.left[word] |= (u64::from(field.left) | guard) << shift;
            self.guards[word] |= guard << shift;
            self.places.push(Place {
                word,
                shift,
                mask: guard - 1,
                unit: field.unit,
                rest: field.rest,
            });
            shift += bits;
        }
        self.needs.clear();
        self.needs.resize(links.route_count(), [0; WORDS]);
        for ask in &uses.asks {
            let field = usize::from(ask.field);
            let place = &self.places[field];
            let units = layout.fields[field].needs[usize::from(ask.kind)];
            self.needs[ask.route as usize][place.word] += u64::from(units) << place.shift;
        }
        let places = &self.places;
        let place = |end: GpuPciLink| match end.field {
            Some(field) => places[usize::from(field)],
            // Nothing is ever taken of it.
            None => Place {
                word: 0,
                shift: 0,
                mask: 0,
                unit: 0,
                rest: links.left(end.place as usize),
            },
        };
        self.uplinks.clear();
        self.uplinks.extend(
            uses.uplinks
                .iter()
                .map(|ends| ends.map(|ends| ends.map(place))),
        );
    }

    /// The remaining bandwidth after taking a route, and whether it suffices.
    #[inline]
    fn after(&self, route: u32) -> ([u64; WORDS], bool) {
        let needs = &self.needs[route as usize];
        let mut left = self.left;
        let mut lacks = 0;
        for word in 0..WORDS {
            left[word] -= needs[word];
            lacks |= !left[word] & self.guards[word];
        }
        (left, lacks == 0)
    }

    #[inline]
    fn thousandths(&self, place: Place) -> i32 {
        let units = self.left[place.word] >> place.shift & place.mask;
        units as i32 * place.unit + place.rest
    }
}

impl<const WORDS: usize> Residual for PackedLinks<WORDS> {
    type Amount = ();

    fn amount(_: f32) {}

    #[inline]
    fn take(&mut self, _: &RouteMap, route: &SearchRoute, (): &()) -> bool {
        let (left, enough) = self.after(route.number);
        if enough {
            self.left = left;
        }
        enough
    }

    #[inline]
    fn may_have(&self, route: u32, (): &()) -> bool {
        self.after(route).1
    }

    #[inline]
    fn take_known(&mut self, _: &RouteMap, route: &SearchRoute, (): &()) -> bool {
        self.left = self.after(route.number).0;
        true
    }

    #[inline]
    fn give(&mut self, _: &RouteMap, route: &SearchRoute, (): &()) {
        let needs = &self.needs[route.number as usize];
        for (left, need) in self.left.iter_mut().zip(needs) {
            *left += need;
        }
    }

    #[inline]
    fn uplink(&self, _: &RouteMap, gpu: usize) -> i32 {
        match self.uplinks[gpu] {
            Some([up, down]) => self.thousandths(up).min(self.thousandths(down)) / 1000,
            None => -1,
        }
    }

    fn begin(&mut self) {}

    fn fingerprint(&mut self) -> Option<StateFingerprint> {
        let mut all = StateFingerprint::default();
        for (word, left) in self.left.iter().enumerate() {
            all.add(weight(word), *left);
        }
        Some(all)
    }
}
