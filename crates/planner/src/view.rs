//! The machine as one rank sees it: trimmed to what it can reach, with the bandwidths that bound the search.

use std::sync::Arc;

use topology::{LinkType, NodeId, NodeType, PathType, System, bandwidth};

use crate::error::Error;
use crate::request::Request;
use crate::routing::Routing;

/// What one rank plans on.
#[derive(Debug, Clone)]
pub struct View {
    routing: Routing,
    /// The rank.
    pub rank: i32,
    /// The job has ranks outside the trimmed system.
    pub inter: bool,
    /// Widest path of any device to another device, or to a port when the job leaves the system, GB/s.
    pub max_bw: f32,
    /// Most bandwidth of any device, GB/s.
    pub total_bw: f32,
}

/// Numbers the ranks of one host of a job: by device number, starting at `first`.
pub fn number_ranks(system: &mut System, first: i32) {
    let mut order: Vec<(u32, i32, NodeId)> =
        system.gpus().map(|(node, gpu)| (system.node(node).id.system(), gpu.dev, node)).collect();
    order.sort_unstable();
    system.set_ranks(|node, _| first + order.iter().position(|(_, _, other)| *other == node).unwrap_or(0) as i32);
}

impl View {
    /// Computes paths, trims what `rank` cannot reach without the network, and computes paths again where that changed
    /// something. `ranks` is the number of ranks in the whole job.
    ///
    /// # Errors
    /// The machine has no GPU, or paths cannot be computed.
    pub fn new(system: System, request: &Request, rank: i32, ranks: usize) -> Result<Self, Error> {
        if system.count(NodeType::Gpu) == 0 {
            return Err(Error::NoGpu);
        }
        let system = Arc::new(system);
        let settings = Arc::new(request.settings.clone());
        let mut routing = Routing::compute(Arc::clone(&system), Arc::clone(&settings), request.nvlink_domain)?;
        let domain = domains(&routing);
        let own = system.gpu_of_rank(rank).map_or(0, |gpu| domain[system.position(gpu)]);
        if domain.iter().any(|other| *other != own) {
            let trimmed = system.without_gpus(|gpu| domain[system.position(gpu)] != own);
            routing = Routing::compute(Arc::new(trimmed), settings, request.nvlink_domain)?;
        }
        let inter = routing.system().count(NodeType::Gpu) != ranks;
        let (max_bw, total_bw) = bounds(&routing, inter);
        Ok(Self { routing, rank, inter, max_bw, total_bw })
    }

    /// The trimmed system.
    pub fn system(&self) -> &System {
        self.routing.system()
    }

    /// Its paths.
    pub const fn routing(&self) -> &Routing {
        &self.routing
    }
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
    let targets = if inter { NodeType::Net } else { NodeType::Dev };
    let (mut max_bw, mut total_bw) = (0.0f32, 0.0f32);
    for device in system.nodes(NodeType::Dev) {
        for target in system.nodes(targets) {
            let path = routing.table().path(device, target);
            if !path.hops.is_empty() {
                max_bw = max_bw.max(path.bw);
            }
        }
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
