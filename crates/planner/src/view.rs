//! The machine as one rank sees it: trimmed to what the rank reaches without the network, with the
//! bandwidths that bound the search.

use std::sync::Arc;

use plan::nccl_graph::GpuAddress;
use topology::{LinkId, LinkType, NodeId, NodeType, PathType, System, bandwidth};

use crate::error::Error;
use crate::routing::Routing;
use crate::settings::Settings;

/// The machine as one rank sees it.
#[derive(Debug, Clone)]
pub struct View {
    routing: Routing,
    /// The rank.
    pub rank: i32,
    /// The job has ranks outside the trimmed system.
    pub inter: bool,
    /// The network reduces (SHARP).
    pub collnet: bool,
    /// Widest path of any device to another device, or to a port when the job leaves the system,
    /// GB/s.
    pub max_bw: f32,
    /// Most bandwidth of any device, GB/s.
    pub total_bw: f32,
}

/// Numbers the ranks of a machine from 0: host after host, by device number.
pub(crate) fn number_ranks(system: &mut System) {
    let mut order: Vec<(u32, i32, NodeId)> = system
        .gpus()
        .map(|(node, gpu)| (system.node(node).id.system(), gpu.dev, node))
        .collect();
    order.sort_unstable();
    system.set_ranks(|node, _| {
        let position = order.iter().position(|(_, _, other)| *other == node);
        position.unwrap_or(0) as i32
    });
}

impl View {
    /// Returns the views of all ranks of a machine, whose ranks are numbered from 0. Ranks that
    /// reach each other without the network share one view; the views are in the order of their
    /// lowest ranks. `collnet`: the network reduces (SHARP). `ranks` is the number of ranks in the
    /// whole job.
    ///
    /// # Errors
    /// The machine has no GPU, or paths cannot be computed.
    pub fn all(
        mut system: System,
        settings: &Arc<Settings>,
        collnet: bool,
        ranks: usize,
    ) -> Result<Vec<Self>, Error> {
        if system.count(NodeType::Gpu) == 0 {
            return Err(Error::NoGpu);
        }
        number_ranks(&mut system);
        let collnet = collnet && settings.collnet_enable != Some(false);
        if collnet {
            system.enable_collnet();
        }
        let whole = Routing::compute(Arc::new(system), Arc::clone(settings))?;
        let domain = domains(&whole);
        let mut order: Vec<(i32, usize)> = whole
            .system()
            .gpus()
            .zip(&domain)
            .map(|((_, gpu), domain)| (gpu.rank, *domain))
            .collect();
        order.sort_unstable();
        let mut seen = vec![false; domain.len()];
        order.retain(|(_, domain)| !std::mem::replace(&mut seen[*domain], true));
        order
            .into_iter()
            .map(|(rank, own)| {
                let routing = trimmed(&whole, &domain, own, ranks)?;
                let inter = routing.system().count(NodeType::Gpu) != ranks;
                let (max_bw, total_bw) = bounds(&routing, inter);
                Ok(Self {
                    routing,
                    rank,
                    inter,
                    collnet,
                    max_bw,
                    total_bw,
                })
            })
            .collect()
    }

    /// The same view over links of measured bandwidths, with the paths that it had.
    pub(crate) fn on_measured(&mut self, bandwidth: impl FnMut(LinkId) -> f32) {
        let system = self.system().with_bandwidths(bandwidth);
        self.routing = self.routing.on_measured(system);
    }

    /// The trimmed system.
    pub fn system(&self) -> &System {
        self.routing.system()
    }

    /// Its paths.
    pub const fn routing(&self) -> &Routing {
        &self.routing
    }

    /// The GPUs of the trimmed system, as NCCL's graph files name them.
    pub fn gpu_addresses(&self) -> Vec<GpuAddress> {
        let system = self.system();
        let gpus = system.gpus().map(|(node, gpu)| GpuAddress {
            rank: gpu.rank,
            host: system.node(node).id.system(),
            dev: gpu.dev,
        });
        gpus.collect()
    }
}

/// The paths of the ranks of one domain: the others removed, computed again where that changes
/// something.
fn trimmed(whole: &Routing, domain: &[usize], own: usize, ranks: usize) -> Result<Routing, Error> {
    let (system, rules) = (whole.system(), whole.settings().rules);
    let kept = domain.iter().filter(|other| **other == own).count();
    let drops_ports = !rules.keeps_unused_ports && kept == ranks && system.count(NodeType::Net) > 0;
    if kept == domain.len() && !drops_ports {
        return Ok(whole.clone());
    }
    let elsewhere = |gpu: NodeId| domain[system.position(gpu)] != own;
    let trimmed = system.without(|node| match system.kind(node) {
        NodeType::Gpu => elsewhere(node),
        NodeType::Dev if !rules.separates_devices => {
            let mut gpus = system.links(node).map(|link| system.target(link));
            gpus.any(|gpu| system.kind(gpu) == NodeType::Gpu && elsewhere(gpu))
        }
        NodeType::Net => drops_ports,
        _ => false,
    });
    Routing::compute(Arc::new(trimmed), Arc::clone(whole.settings()))
}

/// For each GPU the first one that it reaches without the network.
fn domains(routing: &Routing) -> Vec<usize> {
    let gpus: Vec<NodeId> = routing.system().nodes(NodeType::Gpu).collect();
    let mut domain: Vec<usize> = (0..gpus.len()).collect();
    for gpu in 0..gpus.len() {
        for earlier in 0..gpu {
            if routing.table().kind(gpus[gpu], gpus[earlier]) < PathType::Net {
                domain[gpu] = domain[gpu].min(domain[earlier]);
            }
        }
    }
    domain
}

/// The widest path and the most bandwidth of any device, GB/s.
fn bounds(routing: &Routing, inter: bool) -> (f32, f32) {
    let system = routing.system();
    if !inter && system.count(NodeType::Gpu) == 1 {
        return (bandwidth::LOCAL, bandwidth::LOCAL);
    }
    let separates = routing.settings().rules.separates_devices;
    let sources = if separates {
        NodeType::Dev
    } else {
        NodeType::Gpu
    };
    let targets = if inter { NodeType::Net } else { sources };
    let (mut max_bw, mut total_bw) = (0.0f32, 0.0f32);
    for source in system.nodes(sources) {
        for target in system.nodes(targets) {
            let path = routing.table().path(source, target);
            if !path.hops.is_empty() {
                max_bw = max_bw.max(path.bw);
            }
        }
        let device = match sources {
            NodeType::Gpu => system.device_of(source).unwrap_or(source),
            _ => source,
        };
        let (mut nvlink, mut pci) = (0.0f32, 0.0f32);
        for link in system.links(device).map(|link| system.link(link)) {
            match link.kind {
                LinkType::Nvl => nvlink += link.bw,
                LinkType::Pci => pci = link.bw,
                _ => {}
            }
        }
        total_bw = total_bw.max(pci.max(nvlink));
    }
    (max_bw, total_bw)
}
