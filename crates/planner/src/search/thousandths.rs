//! The remaining bandwidth of links, in integers: thousandths of GB/s.
//!
//! While every link and every amount is a whole number of thousandths, these integers give the same
//! results as NCCL's rounded 32-bit floats, and taking and giving back is exact. Other links (an
//! NVLink bundle of 370.80002 GB/s) become whole when NCCL's arithmetic first changes them; until
//! then, attempts that could use them run on [`Floats`](super::residual::Floats).

use plan::Pattern;

use super::fingerprint::{StateFingerprint, weight};
use super::record::Record;
use super::residual::{Floats, Residual};
use super::route_map::{NONE, RouteMap, SearchRoute};

/// Largest bandwidth for which a thousandth shows safely in a 32-bit float, GB/s.
const LARGEST: f32 = 4000.0;

/// How far an amount may be from a whole number of thousandths, in thousandths.
const EXACTNESS: f64 = 0.01;

/// The kinds of charges, as indices into an amount.
const PLAIN: u32 = 0;
const EIGHTH: u32 = 1;
const PCI_WITH_OVERHEAD: u32 = 2;

/// One bandwidth for each kind of charge: the least that a link must have, and what is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount(pub [(i32, i32); 4]);

/// One link of a route.
#[derive(Debug, Clone, Copy)]
struct Charge {
    place: u16,
    kind: u8,
}

/// The links.
#[derive(Debug, Clone)]
pub(super) struct Thousandths {
    /// Links that can bind come first.
    left: Vec<i32>,
    /// For each link its place in `left`.
    place: Vec<u32>,
    /// How many links can bind.
    binding: usize,
    charges: Vec<Charge>,
    /// For each route its charges.
    spans: Vec<(u32, u32)>,
    /// For each route and kind of charge the sum of the links' weights in fingerprints, and whether
    /// all charges are plain.
    weights: Vec<([StateFingerprint; 3], bool)>,
    /// Kept up from when it is first asked for in an attempt.
    fingerprint: Option<StateFingerprint>,
    /// Links that routes use and that are no whole number of thousandths yet.
    uneven: Vec<u32>,
    /// Some link carries an eighth back.
    has_eighths: bool,
    /// Integers cannot represent the floats on this machine.
    impossible: bool,
}

/// Returns the float in thousandths, if it is a whole number of them.
fn thousandths(bw: f32) -> Option<i32> {
    let whole = (f64::from(bw) * 1000.0).round() as i32;
    (whole as f32 / 1000.0 == bw).then_some(whole)
}

/// The least that a link must have, and what is taken, for an amount in GB/s.
fn least_and_taken(bw: f32) -> Option<(i32, i32)> {
    let exact = f64::from(bw) * 1000.0;
    let taken = exact.round();
    if (exact - taken).abs() > EXACTNESS || taken < 1.0 {
        return None;
    }
    let taken = taken as i32;
    let enough = |thousandths: i32| thousandths as f32 / 1000.0 >= bw;
    let least = (taken - 1..=taken + 1).find(|thousandths| enough(*thousandths))?;
    Some((least, taken))
}

impl Thousandths {
    pub(super) fn new(
        route_map: &RouteMap,
        floats: &Floats,
        never_binds: impl Fn(u32) -> bool,
    ) -> Self {
        let links = floats.links();
        let mut this = Self {
            left: vec![0; links.len()],
            place: vec![NONE; links.len()],
            binding: 0,
            charges: Vec::new(),
            spans: Vec::with_capacity(route_map.route_count()),
            weights: Vec::with_capacity(route_map.route_count()),
            fingerprint: None,
            uneven: Vec::new(),
            has_eighths: false,
            impossible: false,
        };
        let mut free: Vec<Option<bool>> = vec![None; links.len()];
        let mut seen = vec![u32::MAX; links.len()];
        for (number, route) in route_map.routes().enumerate() {
            let first = this.charges.len() as u32;
            let mut weights = [StateFingerprint::default(); 3];
            for charge in route_map.charges(route) {
                let kind = if charge.is_pci && route.intel_overhead {
                    PCI_WITH_OVERHEAD
                } else {
                    PLAIN
                };
                let back_kind = if charge.back_eighth { EIGHTH } else { kind };
                for (link, kind) in [(charge.link, kind), (charge.back, back_kind)] {
                    if link == NONE || *free[link as usize].get_or_insert_with(|| never_binds(link))
                    {
                        continue;
                    }
                    // All links of a route are checked before any is charged, so a route must not
                    // hold a link twice.
                    this.impossible |= seen[link as usize] == number as u32
                        || links[link as usize] > LARGEST
                        || this.binding > u16::MAX as usize;
                    seen[link as usize] = number as u32;
                    this.has_eighths |= kind == EIGHTH;
                    let place = &mut this.place[link as usize];
                    if *place == NONE {
                        *place = this.binding as u32;
                        this.binding += 1;
                    }
                    weights[kind as usize].add(weight(*place as usize), 1);
                    this.charges.push(Charge {
                        place: *place as u16,
                        kind: kind as u8,
                    });
                }
            }
            let plain = this.charges[first as usize..]
                .iter()
                .all(|charge| charge.kind == PLAIN as u8);
            this.weights.push((weights, plain));
            this.spans.push((first, this.charges.len() as u32));
        }
        this.uneven = (0..links.len() as u32)
            .filter(|link| this.place[*link as usize] != NONE)
            .collect();
        let others = this.place.iter_mut().filter(|place| **place == NONE);
        for (place, next) in others.zip(this.binding as u32..) {
            *place = next;
        }
        this.follow(floats);
        this
    }

    /// Takes over what links have left.
    pub(super) fn follow(&mut self, floats: &Floats) {
        for (place, bw) in self.place.iter().zip(floats.links()) {
            self.left[*place as usize] = (f64::from(*bw) * 1000.0).round() as i32;
        }
        self.uneven
            .retain(|link| thousandths(floats.links()[*link as usize]).is_none());
    }

    /// How many links there are.
    pub(super) const fn len(&self) -> usize {
        self.left.len()
    }

    /// How many routes there are.
    pub(super) const fn route_count(&self) -> usize {
        self.spans.len()
    }

    /// The remaining bandwidth of the link at a place, thousandths of GB/s.
    pub(super) fn left(&self, place: usize) -> i32 {
        self.left[place]
    }

    /// The place of each link.
    pub(super) fn places(&self) -> &[u32] {
        &self.place
    }

    /// The places of the links of a route that can bind, each with its kind of charge.
    pub(super) fn charges(&self, route: &SearchRoute) -> impl Iterator<Item = (usize, u8)> {
        let (first, end) = self.spans[route.number as usize];
        self.charges[first as usize..end as usize]
            .iter()
            .map(|charge| (usize::from(charge.place), charge.kind))
    }

    /// The change of fingerprints by a route, if they are kept.
    #[inline]
    fn change(&self, route: &SearchRoute, amount: &[(i32, i32); 4]) -> StateFingerprint {
        let (weights, plain) = &self.weights[route.number as usize];
        let mut change = StateFingerprint::default();
        let kinds = if *plain { 1 } else { weights.len() };
        for (weight, (_, taken)) in weights.iter().zip(amount).take(kinds) {
            change.add(*weight, *taken as u64);
        }
        change
    }

    /// Whether an attempt takes the same steps as on floats.
    pub(super) fn agrees(&self, attempt: &Record) -> bool {
        if self.impossible || matches!(attempt.pattern, Pattern::Nvls | Pattern::CollnetDirect) {
            return false;
        }
        let balanced = attempt.pattern == Pattern::BalancedTree;
        let half = balanced.then_some(attempt.bw_inter / 2.0);
        let eighth = self.has_eighths.then_some(attempt.bw_inter / 8.0);
        let with_overhead = [Some(attempt.bw_intra), Some(attempt.bw_inter), half]
            .map(|bw| bw.map(|bw| bw * 6.0 / 5.0));
        let plain = [Some(attempt.bw_intra), Some(attempt.bw_inter), half, eighth];
        let mut least = i32::MAX;
        for bw in plain.into_iter().chain(with_overhead).flatten() {
            match least_and_taken(bw) {
                Some((needed, _)) => least = least.min(needed),
                None => return false,
            }
        }
        // An uneven link does no harm when it has too little bandwidth anyway.
        self.uneven
            .iter()
            .all(|link| self.left[self.place[*link as usize] as usize] + 1 < least)
    }
}

impl Residual for Thousandths {
    type Amount = Amount;

    fn amount(bw: f32) -> Amount {
        let of = |bw| least_and_taken(bw).unwrap_or((i32::MAX, 0));
        // Four, so that a kind needs no check.
        Amount([of(bw), of(bw / 8.0), of(bw * 6.0 / 5.0), (i32::MAX, 0)])
    }

    fn take(&mut self, route_map: &RouteMap, route: &SearchRoute, amount: &Amount) -> bool {
        self.may_have(route.number, amount) && self.take_known(route_map, route, amount)
    }

    fn take_known(&mut self, _: &RouteMap, route: &SearchRoute, Amount(amount): &Amount) -> bool {
        let (first, end) = self.spans[route.number as usize];
        for charge in &self.charges[first as usize..end as usize] {
            self.left[charge.place as usize] -= amount[charge.kind as usize & 3].1;
        }
        if let Some(before) = self.fingerprint {
            self.fingerprint = Some(before.without(self.change(route, amount)));
        }
        true
    }

    #[inline]
    fn may_have(&self, route: u32, Amount(amount): &Amount) -> bool {
        let (first, end) = self.spans[route as usize];
        let charges = &self.charges[first as usize..end as usize];
        charges
            .iter()
            .all(|charge| self.left[charge.place as usize] >= amount[charge.kind as usize & 3].0)
    }

    #[inline]
    fn give(&mut self, _: &RouteMap, route: &SearchRoute, Amount(amount): &Amount) {
        let (first, end) = self.spans[route.number as usize];
        for charge in &self.charges[first as usize..end as usize] {
            self.left[charge.place as usize] += amount[charge.kind as usize & 3].1;
        }
        if let Some(before) = self.fingerprint {
            self.fingerprint = Some(before.with(self.change(route, amount)));
        }
    }

    fn uplink(&self, route_map: &RouteMap, gpu: usize) -> i32 {
        let left = |link: u32| self.left[self.place[link as usize] as usize];
        route_map.uplink[gpu].map_or(-1, |(up, down)| left(up).min(left(down)) / 1000)
    }

    fn begin(&mut self) {
        self.fingerprint = None;
    }

    fn fingerprint(&mut self) -> Option<StateFingerprint> {
        if self.fingerprint.is_none() {
            let mut all = StateFingerprint::default();
            for (place, left) in self.left[..self.binding].iter().enumerate() {
                // Negative values wrap around, as the taken amounts do.
                all.add(weight(place), i64::from(*left) as u64);
            }
            self.fingerprint = Some(all);
        }
        self.fingerprint
    }
}
