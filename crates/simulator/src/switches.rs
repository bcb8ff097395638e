//! The network between ports: one switch without contention, or leaf switches under a spine.

use crate::fabric::{Fabric, Leaf};
use crate::model::{Link, LinkKind};
use crate::units::{Rate, Time};

/// The links between switches.
#[derive(Debug, Clone)]
pub(crate) struct Switches {
    leaf: Option<Leaf>,
    /// Rails with switches of their own.
    rails: u32,
    /// The first link; each leaf has one up and one down.
    first: u32,
    links: u32,
    /// Leaf switches without a working uplink.
    cut: Vec<bool>,
}

/// The links between two ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The links between switches.
    pub links: Vec<u32>,
    /// Latency beside that of the network.
    pub latency: Time,
}

/// One end of a crossing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortPlace {
    /// The host.
    pub host: u32,
    /// The port's number on the host.
    pub rail: u32,
}

impl Switches {
    /// Adds the links of the switches of a job. `port_gbps`: what all ports of a host carry, by
    /// port.
    pub(crate) fn new(
        fabric: &Fabric,
        hosts: u32,
        port_gbps: &[f64],
        links: &mut Vec<Link>,
    ) -> Self {
        let first = links.len() as u32;
        let Some(leaf) = &fabric.leaf else {
            return Self {
                leaf: None,
                rails: 1,
                first,
                links: 0,
                cut: Vec::new(),
            };
        };
        let rails = if leaf.rails {
            port_gbps.len().max(1) as u32
        } else {
            1
        };
        let mut cut = Vec::new();
        for (number, size) in (0..).zip(leaf.sizes(hosts)) {
            for rail in 0..rails {
                let of_rail = match leaf.rails {
                    true => port_gbps.get(rail as usize).copied().unwrap_or(0.0),
                    false => port_gbps.iter().sum(),
                };
                let all = of_rail * f64::from(size) / leaf.oversubscription;
                let failed = fabric.uplinks.iter();
                let failed = failed.filter(|it| (it.leaf, it.rail) == (number, rail));
                let failed: u32 = failed.map(|it| it.failed).fold(0, u32::saturating_add);
                let works = leaf.uplinks.saturating_sub(failed);
                cut.push(works == 0);
                let capacity = all * f64::from(works) / f64::from(leaf.uplinks);
                let link = Link {
                    kind: LinkKind::Fabric,
                    capacity: Rate::from_gbps(capacity),
                };
                links.extend([link, link]);
            }
        }
        Self {
            leaf: Some(leaf.clone()),
            rails,
            first,
            links: links.len() as u32 - first,
            cut,
        }
    }

    /// The links from a port to another.
    ///
    /// # Errors
    /// The name of a leaf switch without a working uplink.
    pub(crate) fn crossing(&self, from: PortPlace, to: PortPlace) -> Result<Crossing, String> {
        let none = Crossing {
            links: Vec::new(),
            latency: Time::ZERO,
        };
        let Some(leaf) = &self.leaf else {
            return Ok(none);
        };
        let of = |port: PortPlace| {
            let rail = if leaf.rails { port.rail } else { 0 };
            leaf.of_host(port.host) * self.rails + rail
        };
        let (up, down) = (of(from), of(to));
        if up == down {
            return Ok(none);
        }
        for leaf in [up, down] {
            if self.cut.get(leaf as usize).copied().unwrap_or(false) {
                return Err(format!("the uplinks of {}", self.leaf_name(leaf)));
            }
        }
        Ok(Crossing {
            links: vec![self.first + 2 * up, self.first + 2 * down + 1],
            latency: Time::from_us(leaf.spine_us),
        })
    }

    fn leaf_name(&self, leaf: u32) -> String {
        let number = leaf / self.rails;
        match self.rails {
            1 => format!("leaf {number}"),
            rails => format!("leaf {number} of rail {}", leaf % rails),
        }
    }

    /// The name of a link, if it is between switches.
    pub(crate) fn name(&self, link: u32) -> Option<String> {
        let at = link.checked_sub(self.first).filter(|at| *at < self.links)?;
        let direction = if at.is_multiple_of(2) { "up" } else { "down" };
        Some(format!("{} {direction}", self.leaf_name(at / 2)))
    }
}
