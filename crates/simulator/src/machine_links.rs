//! The links that a plan knows of a machine.
//!
//! A plan has no switches and no NUMA nodes, but the bandwidth of every path. Each GPU gets an
//! NVLink port and a PCI Express port in each direction, each NIC a port to the host and one to the
//! network, and two GPUs with NVLinks of their own get links for these. What GPUs and NICs share in
//! PCI switches and between CPUs is not in a plan ([`InnerLinks`](crate::InnerLinks)).

use std::collections::BTreeMap;

use plan::{GpuTransport, PlannedMachine};
use rustc_hash::FxHashMap;
use topology::PathType;

use crate::fabric::Fabric;
use crate::model::{Link, LinkKind};
use crate::units::Rate;

/// The links of one kind of machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineLinks {
    pub gpus: u32,
    /// Bandwidth of a GPU's NVLinks in one direction, GB/s; 0 without NVLink.
    pub nvlink: f64,
    /// Bandwidth of each GPU's PCI Express: what it sends and receives, GB/s.
    pci: Vec<[f64; 2]>,
    /// Ports, by their position in the machine: the network side and the host side, GB/s.
    pub nics: Vec<[f64; 2]>,
    /// Positions of ports by id.
    pub nic_of: FxHashMap<i64, u32>,
    /// GPUs with NVLinks of their own, and what these carry, GB/s.
    pub pairs: Vec<(u32, u32, f64)>,
    pub pair_of: FxHashMap<(u32, u32), u32>,
}

impl MachineLinks {
    /// The links of a machine.
    pub(crate) fn new(machine: &PlannedMachine, fabric: &Fabric) -> Self {
        let gpus = machine.gpus.len() as u32;
        let mut own = Self {
            gpus,
            pci: vec![[0.0; 2]; machine.gpus.len()],
            ..Self::default()
        };
        for (nic, at) in machine.nics.iter().zip(0..) {
            let speed = fabric.network.port_gbps.unwrap_or(f64::from(nic.speed));
            own.nics.push([speed, 0.0]);
            own.nic_of.insert(nic.id, at);
        }
        for group in &machine.groups {
            let Some(transports) = &group.transports else {
                continue;
            };
            let members = group.members();
            let pairs = members.iter().zip(&transports.between);
            for (from, row) in pairs {
                for (to, transport) in members.iter().zip(row) {
                    let transport = transports.distinct.get(usize::from(*transport));
                    let Some(transport) = transport.filter(|_| from != to) else {
                        continue;
                    };
                    own.pair(*from, *to, transport, f64::from(group.total_bw));
                }
            }
            for port in &transports.ports {
                let bw = f64::from(port.bw);
                if let Some(nic) = own.nic_of.get(&port.net) {
                    let host_side = &mut own.nics[*nic as usize][1];
                    *host_side = host_side.max(bw);
                }
                if port.proxy.is_none()
                    && let Some(pci) = own.pci.get_mut(port.gpu as usize)
                {
                    *pci = pci.map(|it| it.max(bw));
                }
            }
        }
        let pairs = own.pairs.iter().zip(0..);
        own.pair_of = pairs
            .map(|((from, to, _), at)| ((*from, *to), at))
            .collect();
        own
    }

    fn pair(&mut self, from: u32, to: u32, transport: &GpuTransport, total: f64) {
        match transport {
            GpuTransport::Direct {
                path: PathType::Nvl,
                bw,
                ..
            } => {
                self.nvlink = self.nvlink.max(total);
                let bw = f64::from(*bw);
                // Behind a switch, every pair has all of a GPU's NVLinks.
                if bw < total {
                    self.pairs.push((from, to, bw));
                }
            }
            GpuTransport::Direct {
                path: PathType::Nvb,
                ..
            }
            | GpuTransport::Network { .. } => {}
            GpuTransport::Direct { bw, .. } | GpuTransport::SharedMemory { bw, .. } => {
                for gpu in [from, to] {
                    if let Some(pci) = self.pci.get_mut(gpu as usize) {
                        *pci = pci.map(|it| it.max(f64::from(*bw)));
                    }
                }
            }
        }
    }

    /// With measured capacities of GPUs' own links, GB/s sent and received.
    #[must_use]
    pub(crate) fn with_own(mut self, measured: &BTreeMap<u32, [f64; 2]>) -> Self {
        for (gpu, gbps) in measured {
            if let Some(pci) = self.pci.get_mut(*gpu as usize) {
                *pci = *gbps;
            }
        }
        self
    }

    /// The number of links.
    pub(crate) fn count(&self) -> u32 {
        self.first_pair() + self.pairs.len() as u32
    }

    /// All links, in the order of the functions below.
    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        let mut add = |kind, gbps: [f64; 2]| {
            links.extend(gbps.map(|gbps| Link {
                kind,
                capacity: match gbps > 0.0 {
                    true => Rate::from_gbps(gbps),
                    false => Rate::UNLIMITED,
                },
            }));
        };
        self.pci
            .iter()
            .for_each(|_| add(LinkKind::NvLink, [self.nvlink; 2]));
        self.pci.iter().for_each(|gbps| add(LinkKind::Pci, *gbps));
        for [network, host] in &self.nics {
            add(LinkKind::Nic, [*network; 2]);
            add(LinkKind::Pci, [*host; 2]);
        }
        for (_, _, gbps) in &self.pairs {
            let capacity = Rate::from_gbps(*gbps);
            links.push(Link {
                kind: LinkKind::NvLink,
                capacity,
            });
        }
        links
    }

    /// A GPU's NVLink port.
    pub(crate) const fn nvlink(gpu: u32, receives: bool) -> u32 {
        2 * gpu + receives as u32
    }

    /// A GPU's PCI Express.
    pub(crate) const fn pci(&self, gpu: u32, receives: bool) -> u32 {
        2 * self.gpus + 2 * gpu + receives as u32
    }

    /// A NIC's port to the network.
    pub(crate) const fn nic(&self, nic: u32, receives: bool) -> u32 {
        4 * self.gpus + 4 * nic + receives as u32
    }

    /// A NIC's port to the host.
    pub(crate) const fn nic_host(&self, nic: u32, receives: bool) -> u32 {
        self.nic(nic, receives) + 2
    }

    /// The first of the links between two GPUs.
    pub(crate) fn first_pair(&self) -> u32 {
        4 * self.gpus + 4 * self.nics.len() as u32
    }

    /// The name of a link within a host.
    pub(crate) fn name(&self, link: u32, machine: &PlannedMachine) -> String {
        let direction = |link: u32| {
            if link.is_multiple_of(2) {
                "sends"
            } else {
                "receives"
            }
        };
        let dev = |gpu: u32| machine.gpus.get(gpu as usize).map_or(-1, |gpu| gpu.dev);
        let (gpus, first_pair) = (self.gpus, self.first_pair());
        if link >= first_pair {
            let pair = self.pairs.get((link - first_pair) as usize);
            let (from, to) = pair.map_or((0, 0), |(from, to, _)| (*from, *to));
            return format!("NVLink GPU{}→GPU{}", dev(from), dev(to));
        }
        if link < 2 * gpus {
            return format!("GPU{} NVLink {}", dev(link / 2), direction(link));
        }
        if link < 4 * gpus {
            return format!("GPU{} PCIe {}", dev(link / 2 - gpus), direction(link));
        }
        let at = link - 4 * gpus;
        let side = if at % 4 < 2 { "" } else { " PCIe" };
        let number = machine
            .nics
            .get((at / 4) as usize)
            .map_or(-1, |nic| nic.dev);
        format!("NIC{number}{side} {}", direction(at))
    }
}
