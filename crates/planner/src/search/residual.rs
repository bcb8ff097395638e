//! The bandwidth that channels have left on links and ports.
//!
//! NCCL keeps it in 32-bit floats, rounded to a thousandth after every change, so that the order of reservations can
//! show. This is the same arithmetic.

use super::wiring::{Charge, NONE, Port, Route, Wiring};

/// What is left, GB/s.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Residual {
    links: Vec<f32>,
    /// By group of ports that share their bandwidth.
    ports: Vec<f32>,
}

/// Rounds to a thousandth, half away from zero, in 32 bits.
fn to_thousandth(x: f32) -> f32 {
    (x * 1000.0).round() / 1000.0
}

impl Residual {
    pub fn new(links: Vec<f32>, ports: &[Port]) -> Self {
        Self { links, ports: ports.iter().map(|port| port.bw).collect() }
    }

    pub fn link(&self, link: u32) -> f32 {
        self.links[link as usize]
    }

    pub fn port(&self, port: u32) -> f32 {
        self.ports[port as usize]
    }

    /// Takes whole GB/s from a port and from all that share its bandwidth.
    pub fn take_port(&mut self, port: &Port, bw: i32) {
        for shared in &port.shared {
            self.ports[*shared as usize] -= bw as f32;
        }
    }

    /// Takes `bw` GB/s (negative gives back) on every link of a route; gives everything back and answers no if a link
    /// has too little.
    pub fn take(&mut self, wiring: &Wiring, route: Route, bw: f32) -> bool {
        let charges = wiring.charges(route);
        let done = self.walk(charges, route, bw);
        if done < charges.len() {
            self.walk(&charges[..done], route, -bw);
            return false;
        }
        true
    }

    fn walk(&mut self, charges: &[Charge], route: Route, bw: f32) -> usize {
        let pci_bw = if route.intel_overhead { bw * 6.0 / 5.0 } else { bw };
        for (done, charge) in charges.iter().enumerate() {
            let forward = if charge.is_pci { pci_bw } else { bw };
            let back = match charge.back {
                NONE => 0.0,
                _ if charge.back_eighth => forward / 8.0,
                _ => forward,
            };
            let left = self.links[charge.link as usize];
            if left < forward || back != 0.0 && self.links[charge.back as usize] < back {
                return done;
            }
            self.links[charge.link as usize] = to_thousandth(left - forward);
            if back != 0.0 {
                let left = &mut self.links[charge.back as usize];
                *left = to_thousandth(*left - back);
            }
        }
        charges.len()
    }
}
