//! Wiring of hosts with one port each and no plan: what `topo run` has on processors.

use program::Protocol;

use crate::fabric::{Fabric, Latencies};
use crate::model::{Link, LinkKind};
use crate::switches::{PortPlace, Switches};
use crate::units::{Rate, Time};
use crate::wiring::{RankStart, Wire, Wiring, WiringError};

/// Slots of a FIFO (`NCCL_STEPS`).
pub(crate) const SLOTS: u32 = 8;

/// Bytes of a FIFO slot of ranks on processors, as `topo run` has them without a measured profile.
pub const fn slot_bytes(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ll => 16 << 10,
        Protocol::Ll128 => 56 << 10,
        Protocol::Simple => 256 << 10,
    }
}

/// Hosts with equally many ranks and one port each, all on one network.
#[derive(Debug, Clone)]
pub struct PlainHosts {
    links: Vec<Link>,
    switches: Switches,
    ranks_per_host: u32,
    hosts: u32,
    failed: Vec<bool>,
    latencies: Latencies<f64>,
    window: u32,
    header: u32,
    expansion: (u32, u32),
    starts: Vec<Time>,
    /// The first of the links of the ranks' work.
    work: Option<u32>,
}

impl PlainHosts {
    /// The hosts of these ranks, with ports of `port_gbps` GB/s in each direction.
    pub fn new(ranks: u32, port_gbps: f64, fabric: &Fabric) -> Self {
        let ranks_per_host = fabric.ranks.per_host.unwrap_or(1);
        let hosts = ranks.div_ceil(ranks_per_host);
        let mut links = Vec::new();
        let mut failed = vec![false; hosts as usize];
        for host in 0..hosts {
            let (mut send, mut receive) = (port_gbps, port_gbps);
            for port in fabric.ports.iter().filter(|port| port.host == host) {
                send = port.send_gbps.unwrap_or(send);
                receive = port.receive_gbps.unwrap_or(receive);
                failed[host as usize] |= port.failed;
            }
            links.extend([send, receive].map(|gbps| Link {
                kind: LinkKind::Nic,
                capacity: Rate::from_gbps(gbps),
            }));
        }
        let work = fabric.ranks.work_gbps.map(|gbps| {
            let first = links.len() as u32;
            let link = Link {
                kind: LinkKind::Rank,
                capacity: Rate::from_gbps(gbps),
            };
            links.extend(vec![link; ranks as usize]);
            first
        });
        let switches = Switches::new(fabric, hosts, &[port_gbps], &mut links);
        let none = Latencies {
            start: 0.0,
            nvlink: 0.0,
            pci: 0.0,
            network: 0.0,
        };
        let latencies = none.or(&fabric.latency);
        let start = |rank: u32| {
            let delay = fabric.delays.get(&rank).copied().unwrap_or(0.0);
            Time::from_us(latencies.start + delay)
        };
        Self {
            starts: (0..ranks).map(start).collect(),
            links,
            switches,
            ranks_per_host,
            hosts,
            failed,
            latencies,
            window: fabric.network.window_slots.unwrap_or(SLOTS),
            header: fabric.network.header_bytes,
            expansion: (1, 1),
            work,
        }
    }

    /// Number of hosts.
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }
}

impl Wiring for PlainHosts {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn name(&self, link: u32) -> String {
        if let Some(name) = self.switches.name(link) {
            return name;
        }
        if link < 2 * self.hosts {
            let direction = if link.is_multiple_of(2) {
                "sends"
            } else {
                "receives"
            };
            return format!("host {} {direction}", link / 2);
        }
        format!("rank {} works", link - 2 * self.hosts)
    }

    fn connect(&self, from: u32, to: u32, channel: u16) -> Result<Wire, WiringError> {
        let (sender, receiver) = (from / self.ranks_per_host, to / self.ranks_per_host);
        let wire = Wire {
            links: Vec::new(),
            limit: Rate::UNLIMITED,
            limit_kind: LinkKind::Pci,
            latency: Time::from_us(self.latencies.pci),
            window: None,
            slots: SLOTS,
            header: 0,
            expansion: (1, 1),
        };
        if sender == receiver {
            return Ok(wire);
        }
        let failed = |link: String| WiringError::Failed {
            from,
            to,
            channel,
            link,
        };
        for host in [sender, receiver] {
            if self.failed[host as usize] {
                return Err(failed(format!("the port of host {host}")));
            }
        }
        let place = |host| PortPlace { host, rail: 0 };
        let crossing = self
            .switches
            .crossing(place(sender), place(receiver))
            .map_err(failed)?;
        let ends = [2 * sender, 2 * receiver + 1];
        Ok(Wire {
            links: ends.into_iter().chain(crossing.links).collect(),
            limit_kind: LinkKind::Nic,
            latency: Time::from_us(self.latencies.network) + crossing.latency,
            window: Some(self.window),
            header: self.header,
            expansion: self.expansion,
            ..wire
        })
    }

    fn rank(&self, rank: u32) -> RankStart {
        RankStart {
            start: self.starts[rank as usize],
            work: self.work.map(|first| first + rank),
        }
    }
}
