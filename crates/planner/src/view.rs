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
    let mut order: Vec<(u32, i32, NodeId)> = system
        .gpus()
        .map(|(node, gpu)| (system.node(node).id.system(), gpu.dev, node))
        .collect();
    order.sort_unstable();
    system.set_ranks(|node, _| {
        first
            + order
                .iter()
                .position(|(_, _, other)| *other == node)
                .unwrap_or(0) as i32
    });
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
        let routing = Self::untrimmed(system, request)?;
        let domain = domains(&routing);
        let own = routing
            .system()
            .gpu_of_rank(rank)
            .map_or(0, |gpu| domain[routing.system().position(gpu)]);
        Self::of_domain(&routing, &domain, own, rank, ranks, request)
    }

    /// The views of all ranks of a system. Ranks that reach each other without the network share one; the views stand in
    /// the order of their lowest ranks. `ranks` is the number of ranks in the whole job.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn all(system: System, request: &Request, ranks: usize) -> Result<Vec<Self>, Error> {
        if system.count(NodeType::Gpu) == 0 {
            return Err(Error::NoGpu);
        }
        let routing = Self::untrimmed(system, request)?;
        let domain = domains(&routing);
        let mut order: Vec<(i32, usize)> = routing
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
            .map(|(rank, own)| Self::of_domain(&routing, &domain, own, rank, ranks, request))
            .collect()
    }

    fn untrimmed(system: System, request: &Request) -> Result<Routing, Error> {
        Routing::compute(
            Arc::new(system),
            Arc::new(request.settings.clone()),
            request.nvlink_domain,
        )
    }

    /// The view of the ranks of one domain: the others removed, paths computed again where that changes something.
    fn of_domain(
        whole: &Routing,
        domain: &[usize],
        own: usize,
        rank: i32,
        ranks: usize,
        request: &Request,
    ) -> Result<Self, Error> {
        let routing = if domain.iter().all(|other| *other == own) {
            whole.clone()
        } else {
            let system = whole.system();
            Self::untrimmed(
                system.without_gpus(|gpu| domain[system.position(gpu)] != own),
                request,
            )?
        };
        let inter = routing.system().count(NodeType::Gpu) != ranks;
        let (max_bw, total_bw) = bounds(&routing, inter);
        Ok(Self {
            routing,
            rank,
            inter,
            max_bw,
            total_bw,
        })
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
