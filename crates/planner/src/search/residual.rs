//! The bandwidth that channels have left on links and ports.
//!
//! NCCL keeps the links in 32-bit floats, rounded to a thousandth after every change, so that the
//! order of reservations can show. [`Floats`] is that arithmetic.
//! [`Thousandths`](super::thousandths::Thousandths) is the same in integers, for attempts on which
//! both agree.

use super::fingerprint::{StateFingerprint, weight};
use super::ports::SearchPort;
use super::record::MAX_CHANNELS;
use super::route_map::{Charge, NONE, RouteMap, SearchRoute};

/// Where bandwidth is taken from, and given back to.
pub(super) trait Residual {
    /// The amount that one reservation takes of a link, by the kind of charge.
    type Amount: Copy;

    /// Prepares a bandwidth, GB/s.
    fn amount(bw: f32) -> Self::Amount;

    /// Takes an amount on every link of a route. Returns `false`, with nothing taken, if a link has
    /// too little.
    fn take(&mut self, route_map: &RouteMap, route: &SearchRoute, amount: &Self::Amount) -> bool;

    /// Whether [`Residual::take`] may succeed on the route with this number; `false` is certain.
    fn may_have(&self, route: u32, amount: &Self::Amount) -> bool;

    /// As [`Residual::take`], after [`Residual::may_have`] returned `true` and nothing was taken
    /// since.
    fn take_known(
        &mut self,
        route_map: &RouteMap,
        route: &SearchRoute,
        amount: &Self::Amount,
    ) -> bool;

    /// Gives back what [`Residual::take`] took.
    fn give(&mut self, route_map: &RouteMap, route: &SearchRoute, amount: &Self::Amount);

    /// The remaining bandwidth of a GPU's PCI link in both directions, whole GB/s; -1 without one.
    fn uplink(&self, route_map: &RouteMap, gpu: usize) -> i32;

    /// A fingerprint of what all links have left, if that comes back exactly when everything is
    /// given back.
    fn fingerprint(&mut self) -> Option<StateFingerprint>;

    /// Another attempt begins.
    fn begin(&mut self);
}

/// The remaining bandwidth of links, GB/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Floats(Vec<f32>);

/// Rounds to a thousandth, half away from zero, in 32 bits.
fn to_thousandth(x: f32) -> f32 {
    (x * 1000.0).round() / 1000.0
}

impl Floats {
    pub(super) const fn new(links: Vec<f32>) -> Self {
        Self(links)
    }

    pub(super) fn links(&self) -> &[f32] {
        &self.0
    }

    fn walk(&mut self, charges: &[Charge], route: &SearchRoute, bw: f32) -> usize {
        let pci_bw = with_intel_overhead(bw, route);
        for (done, charge) in charges.iter().enumerate() {
            let forward = if charge.is_pci { pci_bw } else { bw };
            let back = match charge.back {
                NONE => 0.0,
                _ if charge.back_eighth => forward / 8.0,
                _ => forward,
            };
            let left = self.0[charge.link as usize];
            if left < forward || back != 0.0 && self.0[charge.back as usize] < back {
                return done;
            }
            self.0[charge.link as usize] = to_thousandth(left - forward);
            if back != 0.0 {
                let left = &mut self.0[charge.back as usize];
                *left = to_thousandth(*left - back);
            }
        }
        charges.len()
    }
}

/// The load of a route's PCI link for `bw` GB/s.
pub(super) fn with_intel_overhead(bw: f32, route: &SearchRoute) -> f32 {
    if route.intel_overhead {
        bw * 6.0 / 5.0
    } else {
        bw
    }
}

impl Residual for Floats {
    type Amount = f32;

    fn amount(bw: f32) -> f32 {
        bw
    }

    fn take(&mut self, route_map: &RouteMap, route: &SearchRoute, bw: &f32) -> bool {
        let charges = route_map.charges(route);
        let done = self.walk(charges, route, *bw);
        if done < charges.len() {
            self.walk(&charges[..done], route, -*bw);
            return false;
        }
        true
    }

    fn may_have(&self, _: u32, _: &f32) -> bool {
        true
    }

    fn take_known(&mut self, route_map: &RouteMap, route: &SearchRoute, bw: &f32) -> bool {
        self.take(route_map, route, bw)
    }

    fn give(&mut self, route_map: &RouteMap, route: &SearchRoute, bw: &f32) {
        self.walk(route_map.charges(route), route, -*bw);
    }

    fn uplink(&self, route_map: &RouteMap, gpu: usize) -> i32 {
        let whole = |link: u32| self.0[link as usize] as i32;
        route_map.uplink[gpu].map_or(-1, |(up, down)| whole(up).min(whole(down)))
    }

    fn fingerprint(&mut self) -> Option<StateFingerprint> {
        None
    }

    fn begin(&mut self) {}
}

/// The remaining bandwidth of ports, GB/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PortsLeft {
    left: Vec<f32>,
    weights: Vec<StateFingerprint>,
    fingerprint: StateFingerprint,
    /// Some port got back other than what was taken, by rounding.
    drifted: bool,
}

impl PortsLeft {
    pub(super) fn new(ports: &[SearchPort]) -> Self {
        let left: Vec<f32> = ports.iter().map(|port| port.bw).collect();
        // Ports stand behind all links.
        let weights: Vec<StateFingerprint> = (0..ports.len())
            .map(|port| weight(usize::MAX - port))
            .collect();
        let mut fingerprint = StateFingerprint::default();
        for (weight, left) in weights.iter().zip(&left) {
            fingerprint.add(*weight, u64::from(left.to_bits()));
        }
        Self {
            left,
            weights,
            fingerprint,
            drifted: false,
        }
    }

    /// A fingerprint of what all ports have left.
    pub(super) const fn fingerprint(&self) -> StateFingerprint {
        self.fingerprint
    }

    pub(super) fn get(&self, port: u32) -> f32 {
        self.left[port as usize]
    }

    /// Whether giving back ever left a port other than before.
    pub(super) const fn drifted(&self) -> bool {
        self.drifted
    }

    /// Writes how often each port can give an amount in whole GB/s. Returns `false` if not all of
    /// it comes back exactly.
    pub(super) fn write_key(&self, bw: i32, key: &mut Vec<u64>) -> bool {
        let mut exact = true;
        key.extend(self.left.iter().map(|left| {
            let (mut left, mut times) = (*left, 0);
            while left >= bw as f32 && times < MAX_CHANNELS {
                let after = left - bw as f32;
                exact &= after + bw as f32 == left;
                left = after;
                times += 1;
            }
            times as u64
        }));
        exact
    }

    /// Takes whole GB/s (negative gives back) from a port and from all that share its bandwidth.
    pub(super) fn take(&mut self, port: &SearchPort, bw: i32) {
        for shared in &port.shared {
            let left = &mut self.left[*shared as usize];
            let after = *left - bw as f32;
            self.drifted |= after + bw as f32 != *left;
            let change = i64::from(after.to_bits()) - i64::from(left.to_bits());
            let weight = self.weights[*shared as usize];
            // A change below zero is taken off.
            if change < 0 {
                self.fingerprint = self.fingerprint.without(weight.times(-change as u64));
            } else {
                self.fingerprint.add(weight, change as u64);
            }
            *left = after;
        }
    }
}
