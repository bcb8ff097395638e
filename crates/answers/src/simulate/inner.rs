//! The links that transfers share inside the machines of a job.

use std::collections::BTreeMap;

use planner::Planned;
use planner::explain::NodeNames;
use simulator::{InnerEnd, InnerLinks, InnerRoute};
use topology::{LinkId, LinkType, NodeId, NodeType, PathType, System};

use crate::measured::MeasuredLinks;

/// The shared links of each machine. NVLink domains of several hosts, and hosts of which NCCL makes
/// several nodes, have none.
pub(super) fn links(planned: &Planned, measured: Option<&MeasuredLinks>) -> Vec<InnerLinks> {
    let machines = planned.machines().iter().zip(&planned.plan().machines);
    let of = machines.map(|(machine, plan)| match &machine.nodes[..] {
        [node] if !machine.is_domain() => {
            let system = node.view.system();
            let mut gpus: Vec<(i32, NodeId)> =
                system.gpus().map(|(node, gpu)| (gpu.rank, node)).collect();
            gpus.sort_unstable();
            let gpus = gpus.into_iter().zip(0..);
            let mut ends: Vec<(InnerEnd, NodeId)> = gpus
                .map(|((_, node), at)| (InnerEnd::Gpu(at), node))
                .collect();
            if ends.len() != plan.gpus.len() {
                return InnerLinks::default();
            }
            let ports = system.nets().map(|(node, _)| node);
            ends.extend(ports.map(|node| (InnerEnd::Port(system.node(node).id.0 as i64), node)));
            let table = node.view.routing().table();
            let mut made = Made::new(system, measured);
            for (from, source) in &ends {
                for (to, target) in &ends {
                    let is_port = |end: &InnerEnd| matches!(end, InnerEnd::Port(_));
                    if from == to || (is_port(from) && is_port(to)) {
                        continue;
                    }
                    let path = table.path(*source, *target);
                    if !matches!(path.kind, PathType::Nvl | PathType::Nvb | PathType::Loc) {
                        made.route((*from, *to), path.hops);
                    }
                }
            }
            made.inner
        }
        _ => InnerLinks::default(),
    });
    of.collect()
}

struct Made<'a> {
    system: &'a System,
    measured: Option<&'a MeasuredLinks>,
    names: NodeNames<'a>,
    known: BTreeMap<LinkId, u32>,
    inner: InnerLinks,
}

impl<'a> Made<'a> {
    fn new(system: &'a System, measured: Option<&'a MeasuredLinks>) -> Self {
        Self {
            system,
            measured,
            names: NodeNames::new(system),
            known: BTreeMap::new(),
            inner: InnerLinks::default(),
        }
    }

    /// The bandwidth of a link, GB/s: as measured, or as NCCL has it.
    fn gbps(&self, link: LinkId) -> f64 {
        f64::from(match self.measured {
            Some(measured) => measured.bandwidth(self.system, link),
            None => self.system.link(link).bw,
        })
    }

    /// Whether GPUs and ports other than those at its ends use a link.
    fn is_shared(&self, link: LinkId) -> bool {
        let (from, to) = self.system.ends(link);
        let inside = |node| matches!(self.system.kind(node), NodeType::Pci | NodeType::Cpu);
        inside(from) && inside(to)
    }

    fn number(&mut self, link: LinkId) -> u32 {
        if let Some(known) = self.known.get(&link) {
            return *known;
        }
        let number = self.inner.links.len() as u32;
        let (from, to) = self.system.ends(link);
        let kind = self.system.link(link).kind.name();
        let [from, to] = [from, to].map(|node| self.names.label(node));
        let link_name = format!("{kind} {from}→{to}");
        self.inner.links.push((link_name, self.gbps(link)));
        self.known.insert(link, number);
        number
    }

    fn route(&mut self, (from, to): (InnerEnd, InnerEnd), hops: &[LinkId]) {
        let carries = |link: &LinkId| {
            let kind = self.system.link(*link).kind;
            !matches!(kind, LinkType::Loc | LinkType::Net)
        };
        let hops: Vec<LinkId> = hops.iter().copied().filter(carries).collect();
        if let (Some(_), InnerEnd::Gpu(sender), InnerEnd::Gpu(receiver)) = (self.measured, from, to)
            && let [first, .., last] = hops[..]
        {
            for (gpu, link, receives) in [(sender, first, 0), (receiver, last, 1)] {
                let gbps = self.gbps(link);
                self.inner.own.entry(gpu).or_insert([0.0; 2])[receives] = gbps;
            }
        }
        let least = hops.iter().map(|link| self.gbps(*link));
        let gbps = least
            .min_by(f64::total_cmp)
            .filter(|_| self.measured.is_some());
        let shared: Vec<LinkId> = hops.into_iter().filter(|it| self.is_shared(*it)).collect();
        let route = InnerRoute {
            links: shared.into_iter().map(|link| self.number(link)).collect(),
            gbps,
        };
        self.inner.routes.insert((from, to), route);
    }
}
