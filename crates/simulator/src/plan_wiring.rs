//! Wiring of a planned job: the links that the plan knows of each machine, and the connections that
//! it decided.

use plan::expand::Expansion;
use plan::{Connection, GraphKind, NetEnd, Plan, PlannedMachine};
use rustc_hash::FxHashMap;
use topology::PathType;

use crate::fabric::{Fabric, FabricError, Latencies};
use crate::hosts::SLOTS;
use crate::inner_links::{InnerEnd, InnerLinks, InnerRoute};
use crate::machine_links::MachineLinks;
use crate::model::{Link, LinkKind};
use crate::switches::{PortPlace, Switches};
use crate::units::{Rate, Time};
use crate::wiring::{RankStart, Wire, Wiring, WiringError};

/// The common properties of connections over FIFOs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fifos {
    /// The graph whose connections are used; `None` uses those from point to point.
    pub graph: Option<GraphKind>,
    /// Latencies, µs.
    pub latencies: Latencies<f64>,
    /// Bytes on the links per byte of data, as a fraction: the protocol's flags.
    pub expansion: (u32, u32),
}

/// The wiring of a plan.
#[derive(Debug, Clone)]
pub struct PlannedWiring<'a> {
    plan: &'a Plan,
    expansion: &'a Expansion,
    fifos: Fifos,
    machines: Vec<MachineLinks>,
    /// The shared links of each machine, if they are known.
    inner: Vec<InnerLinks>,
    links: Vec<Link>,
    /// The first link of each domain.
    domains: Vec<u32>,
    /// The machine of each domain.
    machine_of: Vec<u32>,
    /// The first host of each domain.
    first_host: Vec<u32>,
    failed: Vec<u32>,
    switches: Switches,
    window: u32,
    header: u32,
    starts: FxHashMap<u32, Time>,
    work: Option<u32>,
}

impl<'a> PlannedWiring<'a> {
    /// The wiring of an expanded plan. `inner` are the shared links of each machine; of machines
    /// without any, transfers share only what GPUs and ports have of their own.
    ///
    /// # Errors
    /// The fabric file names a rank, host or switch that the job does not have.
    pub fn new(
        plan: &'a Plan,
        expansion: &'a Expansion,
        fifos: Fifos,
        fabric: &Fabric,
        mut inner: Vec<InnerLinks>,
    ) -> Result<Self, FabricError> {
        let layout = expansion.layout();
        inner.resize(plan.machines.len(), InnerLinks::default());
        let machines = plan.machines.iter().zip(&inner);
        let machines: Vec<MachineLinks> = machines
            .map(|(machine, inner)| MachineLinks::new(machine, fabric).with_own(&inner.own))
            .collect();
        let rails = machines.iter().map(|machine| machine.nics.len()).max();
        fabric.check(layout.ranks(), layout.hosts(), rails.unwrap_or(0) as u32)?;
        let mut own = Self {
            plan,
            expansion,
            fifos,
            links: Vec::new(),
            domains: Vec::new(),
            machine_of: Vec::new(),
            first_host: Vec::new(),
            failed: Vec::new(),
            switches: Switches::new(&Fabric::default(), 0, &[], &mut Vec::new()),
            window: fabric.network.window_slots.unwrap_or(SLOTS),
            header: fabric.network.header_bytes,
            starts: FxHashMap::default(),
            work: None,
            machines,
            inner,
        };
        let mut hosts = 0;
        for run in &plan.hosts {
            let mut links = own.machines[run.machine as usize].links();
            links.extend(own.inner[run.machine as usize].of_host());
            for _ in 0..run.count {
                own.domains.push(own.links.len() as u32);
                own.machine_of.push(run.machine);
                own.first_host.push(hosts);
                own.links.extend_from_slice(&links);
                hosts += plan.machines[run.machine as usize].hosts.max(1);
            }
        }
        own.apply_ports(fabric);
        if let Some(gbps) = fabric.ranks.work_gbps {
            own.work = Some(own.links.len() as u32);
            let link = Link {
                kind: LinkKind::Rank,
                capacity: Rate::from_gbps(gbps),
            };
            own.links.extend(vec![link; layout.ranks() as usize]);
        }
        let speeds = own.machines.first().map(|machine| &machine.nics);
        let speeds: Vec<f64> = speeds
            .into_iter()
            .flatten()
            .map(|[speed, _]| *speed)
            .collect();
        own.switches = Switches::new(fabric, layout.hosts(), &speeds, &mut own.links);
        let start = |us: f64| Time::from_us(us + fifos.latencies.start);
        own.starts = fabric
            .delays
            .iter()
            .map(|(rank, us)| (*rank, start(*us)))
            .collect();
        Ok(own)
    }

    /// Applies what the fabric file says of single ports.
    fn apply_ports(&mut self, fabric: &Fabric) {
        for port in &fabric.ports {
            let domain = self.first_host.partition_point(|first| *first <= port.host) - 1;
            let machine = self.machine_of[domain] as usize;
            let nics = self.plan.machines[machine].nics.iter().zip(0..);
            let host = port.host - self.first_host[domain];
            let chosen: Vec<u32> = nics
                .filter(|(nic, _)| nic.host == host)
                .filter(|(nic, _)| {
                    port.nic
                        .is_none_or(|dev| i64::from(nic.dev) == i64::from(dev))
                })
                .map(|(_, at)| at)
                .collect();
            for nic in chosen {
                for (receives, gbps) in [(false, port.send_gbps), (true, port.receive_gbps)] {
                    let link = self.domains[domain] + self.machines[machine].nic(nic, receives);
                    if let Some(gbps) = gbps {
                        self.links[link as usize].capacity = Rate::from_gbps(gbps);
                    }
                    if port.failed {
                        self.failed.push(link);
                    }
                }
            }
        }
    }

    fn place(&self, rank: u32) -> Result<Place<'_>, WiringError> {
        let place = self.expansion.place(rank)?;
        let domain = place.node.domain as usize;
        let machine = place.node.machine as usize;
        Ok(Place {
            links: &self.machines[machine],
            inner: &self.inner[machine],
            machine: &self.plan.machines[machine],
            first: self.domains[domain],
            gpu: place.local,
            host: place.host,
        })
    }

    /// Over NVLink from a GPU to another of the same domain.
    fn over_nvlink(from: &Place<'_>, to: &Place<'_>, links: &mut Vec<u32>) {
        let pair = from.links.pair_of.get(&(from.gpu, to.gpu));
        links.push(from.first + MachineLinks::nvlink(from.gpu, false));
        links.extend(pair.map(|pair| from.first + from.links.first_pair() + pair));
        links.push(to.first + MachineLinks::nvlink(to.gpu, true));
    }

    /// From a GPU's memory to the network, or back.
    fn port(&self, rank: u32, end: &NetEnd, receives: bool) -> Result<Port, WiringError> {
        let (own, proxy) = (self.place(rank)?, self.place(end.proxy)?);
        let mut links = Vec::new();
        if end.proxy != rank {
            Self::over_nvlink(&own, &proxy, &mut links);
        }
        let nic = own.links.nic_of.get(&end.net).copied().unwrap_or(0);
        let port = own.first + own.links.nic(nic, receives);
        links.push(own.first + own.links.pci(proxy.gpu, receives));
        let (gpu, net) = (InnerEnd::Gpu(proxy.gpu), InnerEnd::Port(end.net));
        let (from, to) = if receives { (net, gpu) } else { (gpu, net) };
        links.extend(own.inner_route(from, to).1);
        links.push(own.first + own.links.nic_host(nic, receives));
        links.push(port);
        let rail = own.machine.nics.get(nic as usize).map_or(0, |nic| nic.dev);
        Ok(Port {
            links,
            port,
            place: PortPlace {
                host: own.host,
                rail: rail.max(0) as u32,
            },
        })
    }

    fn network(&self, ends: [(u32, NetEnd); 2], channel: u16) -> Result<Wire, WiringError> {
        let [(from, sender), (to, receiver)] = ends;
        let (send, receive) = (
            self.port(from, &sender, false)?,
            self.port(to, &receiver, true)?,
        );
        let failed = |link| WiringError::Failed {
            from,
            to,
            channel,
            link,
        };
        for port in [&send, &receive] {
            if self.failed.contains(&port.port) {
                return Err(failed(self.port_name(port)));
            }
        }
        let crossing = self
            .switches
            .crossing(send.place, receive.place)
            .map_err(failed)?;
        let links = send
            .links
            .into_iter()
            .chain(crossing.links)
            .chain(receive.links);
        let latency = Time::from_us(self.fifos.latencies.network) + crossing.latency;
        Ok(Wire {
            window: Some(self.window),
            header: self.header,
            ..self.wire(links.collect(), LinkKind::Nic, latency)
        })
    }

    fn port_name(&self, port: &Port) -> String {
        format!("NIC{} of host {}", port.place.rail, port.place.host)
    }

    fn wire(&self, links: Vec<u32>, kind: LinkKind, latency: Time) -> Wire {
        Wire {
            links,
            limit: Rate::UNLIMITED,
            limit_kind: kind,
            latency,
            window: None,
            slots: SLOTS,
            header: 0,
            expansion: self.fifos.expansion,
        }
    }

    fn connection(&self, from: u32, to: u32, channel: u16) -> Result<Connection, WiringError> {
        let channel = u32::from(channel);
        let expansion = self.expansion;
        Ok(match self.fifos.graph {
            Some(kind) => expansion.connection(from, to, kind, channel)?,
            None => {
                let p2p = expansion.common().p2p.channels.max(1);
                expansion.p2p_connection(from, to, channel % p2p)?
            }
        })
    }

    fn in_host(&self, from: u32, to: u32, path: PathType, bw: f64) -> Result<Wire, WiringError> {
        let (sender, receiver) = (self.place(from)?, self.place(to)?);
        let latencies = &self.fifos.latencies;
        let limited = |wire: Wire, bw: f64| Wire {
            limit: if bw > 0.0 {
                Rate::from_gbps(bw)
            } else {
                Rate::UNLIMITED
            },
            ..wire
        };
        if matches!(path, PathType::Nvl | PathType::Nvb | PathType::Loc) {
            let mut links = Vec::new();
            if path != PathType::Loc {
                Self::over_nvlink(&sender, &receiver, &mut links);
            }
            let latency = Time::from_us(latencies.nvlink);
            return Ok(limited(self.wire(links, LinkKind::NvLink, latency), bw));
        }
        let ends = [sender.gpu, receiver.gpu].map(InnerEnd::Gpu);
        let (route, inner) = sender.inner_route(ends[0], ends[1]);
        let mut links = vec![sender.first + sender.links.pci(sender.gpu, false)];
        links.extend(inner);
        links.push(receiver.first + receiver.links.pci(receiver.gpu, true));
        let latency = Time::from_us(latencies.pci);
        let wire = self.wire(links, LinkKind::Pci, latency);
        Ok(limited(wire, route.and_then(|it| it.gbps).unwrap_or(bw)))
    }
}

/// A rank's GPU among the links.
struct Place<'a> {
    links: &'a MachineLinks,
    inner: &'a InnerLinks,
    machine: &'a PlannedMachine,
    /// The first link of its domain.
    first: u32,
    gpu: u32,
    host: u32,
}

impl Place<'_> {
    /// The way between two ends of the machine, with its links in the job.
    fn inner_route(&self, from: InnerEnd, to: InnerEnd) -> (Option<&InnerRoute>, Vec<u32>) {
        let route = self.inner.routes.get(&(from, to));
        let first = self.first + self.links.count();
        let links = route.into_iter().flat_map(|it| &it.links);
        (route, links.map(|link| first + link).collect())
    }
}

/// One side of a connection over the network.
struct Port {
    links: Vec<u32>,
    port: u32,
    place: PortPlace,
}

impl Wiring for PlannedWiring<'_> {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn name(&self, link: u32) -> String {
        if let Some(name) = self.switches.name(link) {
            return name;
        }
        if let Some(rank) = self.work.and_then(|first| link.checked_sub(first)) {
            return format!("rank {rank} works");
        }
        let domain = self
            .domains
            .partition_point(|first| *first <= link)
            .saturating_sub(1);
        let machine = self.machine_of.get(domain).copied().unwrap_or(0) as usize;
        let first = self.domains.get(domain).copied().unwrap_or(0);
        let (links, planned) = (&self.machines[machine], &self.plan.machines[machine]);
        let inner = (link - first).checked_sub(links.count());
        let inner = inner.and_then(|at| self.inner[machine].links.get(at as usize));
        let name = match inner {
            Some((name, _)) => name.clone(),
            None => links.name(link - first, planned),
        };
        format!("host {} {name}", self.first_host[domain])
    }

    fn connect(&self, from: u32, to: u32, channel: u16) -> Result<Wire, WiringError> {
        match self.connection(from, to, channel)? {
            Connection::Direct {
                via: Some(via), bw, ..
            } => {
                let (sender, relay, receiver) =
                    (self.place(from)?, self.place(via)?, self.place(to)?);
                let mut links = Vec::new();
                Self::over_nvlink(&sender, &relay, &mut links);
                Self::over_nvlink(&relay, &receiver, &mut links);
                let latency = Time::from_us(self.fifos.latencies.nvlink);
                Ok(Wire {
                    limit: Rate::from_gbps(f64::from(bw)),
                    ..self.wire(links, LinkKind::NvLink, latency)
                })
            }
            Connection::Direct { path, bw, .. } => self.in_host(from, to, path, f64::from(bw)),
            Connection::SharedMemory { path, .. } => {
                let (_, bw) = path.unwrap_or((PathType::Sys, 0.0));
                // Host memory lies behind PCI Express, whatever joins the GPUs.
                self.in_host(from, to, PathType::Sys, f64::from(bw))
            }
            Connection::Network {
                sender, receiver, ..
            } => self.network([(from, sender), (to, receiver)], channel),
        }
    }

    fn multicast(&self, rank: u32, reads: bool) -> Result<Wire, WiringError> {
        let own = self.place(rank)?;
        let one_domain = self.domains.len() == 1;
        if !one_domain || own.links.nvlink <= 0.0 || !own.links.pairs.is_empty() {
            return Err(WiringError::NoMulticast { rank });
        }
        // Every other GPU sends its operand to the switch, or gets the result from it.
        let others = (0..own.links.gpus).filter(|gpu| *gpu != own.gpu);
        let others = others.map(|gpu| MachineLinks::nvlink(gpu, !reads));
        let links = others.chain([MachineLinks::nvlink(own.gpu, reads)]);
        let links = links.map(|link| own.first + link).collect();
        let latency = Time::from_us(self.fifos.latencies.nvlink);
        Ok(self.wire(links, LinkKind::NvLink, latency))
    }

    fn rank(&self, rank: u32) -> RankStart {
        let usual = Time::from_us(self.fifos.latencies.start);
        RankStart {
            start: self.starts.get(&rank).copied().unwrap_or(usual),
            work: self.work.map(|first| first + rank),
        }
    }
}
