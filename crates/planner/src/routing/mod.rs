//! The paths that transfers take: the widest paths, changed by the rules for direct transfers.
//!
//! NCCL computes these tables before and after it trims the system; [`Routing::compute`] is one
//! such computation.

mod gdr;
mod local;
mod p2p;
mod rails;

pub use local::Nearest;
pub use p2p::P2p;
pub use rails::PortRail;

use std::sync::Arc;

use topology::{NodeId, NodeType, PathTable, PathType, System};

use crate::error::Error;
use crate::settings::Settings;

/// A system with its paths after all rules.
#[derive(Debug, Clone)]
pub struct Routing {
    system: Arc<System>,
    settings: Arc<Settings>,
    table: PathTable,
    /// For each NET the GPU that is the first to choose it.
    local_gpu: Vec<Option<NodeId>>,
    /// For each NET its rail and plane.
    rails: Vec<PortRail>,
    /// Bandwidths of links were measured: they hold what NCCL charges beside the data.
    measured: bool,
}

/// The type of two paths in a row.
pub(crate) fn merge(a: PathType, b: PathType) -> PathType {
    match (a.min(b), a.max(b)) {
        (PathType::C2c, PathType::Phb) => PathType::P2c,
        (_, worse) => worse,
    }
}

impl Routing {
    /// Computes all paths of a system and applies the rules. Several hosts in one system form one
    /// NVLink domain.
    ///
    /// # Errors
    /// A link has no counterpart, or a GPU reaches no CPU or, where one must be chosen, no network
    /// port.
    pub fn compute(system: Arc<System>, settings: Arc<Settings>) -> Result<Self, Error> {
        let table = PathTable::compute_by(
            &system,
            !settings.nvb_disable,
            settings.rules.path_preference(),
        )
        .map_err(|link| Error::one_way(&system, link))?;
        let mut routing = Self {
            rails: rails::of(&system, settings.rules),
            system,
            settings,
            table,
            local_gpu: Vec::new(),
            measured: false,
        };
        routing.divert_without_p2p()?;
        routing.mark_p2c()?;
        routing.route_nics()?;
        Ok(routing)
    }

    /// The same paths over links of measured bandwidths.
    #[must_use]
    pub(crate) fn on_measured(&self, system: System) -> Self {
        Self {
            system: Arc::new(system),
            measured: true,
            ..self.clone()
        }
    }

    /// Whether the bandwidths of links were measured.
    pub const fn is_measured(&self) -> bool {
        self.measured
    }

    /// The system.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The settings.
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The paths.
    pub const fn table(&self) -> &PathTable {
        &self.table
    }

    /// The first GPU to choose a NET (NCCL's `localGpu`).
    pub fn local_gpu(&self, net: NodeId) -> Option<NodeId> {
        self.local_gpu[self.system.position(net)]
    }

    fn divert(&mut self, from: NodeId, via: NodeId, to: NodeId) {
        let kind = if self.system.kind(via) == NodeType::Gpu {
            PathType::Pxn
        } else {
            merge(self.table.kind(from, via), self.table.kind(via, to))
        };
        self.table.divert(from, via, to, kind);
    }

    /// Diverts GPUs without P2P through the CPU next to the receiver, or through the network.
    fn divert_without_p2p(&mut self) -> Result<(), Error> {
        for to in self.system.nodes(NodeType::Gpu) {
            for from in self.system.nodes(NodeType::Gpu) {
                if !self.p2p(from, to)?.ok {
                    let cpu = self.local_cpu(to)?;
                    self.divert(from, cpu, to);
                }
            }
            for from in self.system.nodes(NodeType::Gpu).filter(|from| *from != to) {
                if !self.p2p_usable(from, to)? && !self.shm_usable(from, to) {
                    self.table.set_kind(from, to, PathType::Net);
                }
            }
        }
        Ok(())
    }

    /// Ports that a GPU reaches over C2C and the CPU's PCI; from NCCL 2.29 on only the closest.
    fn mark_p2c(&mut self) -> Result<(), Error> {
        for gpu in self.system.nodes(NodeType::Gpu) {
            let cpu = self.local_cpu(gpu)?;
            let nets = if self.settings.rules.marks_near_p2c {
                self.nearest(gpu, NodeType::Net).nodes
            } else {
                self.system.nodes(NodeType::Net).collect()
            };
            for net in nets {
                if merge(self.table.kind(gpu, cpu), self.table.kind(net, cpu)) == PathType::P2c {
                    self.table
                        .set_kind(gpu, net, self.table.kind(gpu, net).min(PathType::P2c));
                    self.table
                        .set_kind(net, gpu, self.table.kind(net, gpu).min(PathType::P2c));
                }
            }
        }
        Ok(())
    }

    /// Diverts paths to NICs through the GPU beside them where that is better, and through the CPU
    /// without GPUDirect RDMA.
    fn route_nics(&mut self) -> Result<(), Error> {
        let mut choices = local::Choices::new(&self.system);
        for net in self.system.nodes(NodeType::Net) {
            for gpu in self.system.nodes(NodeType::Gpu) {
                let relay = if self.settings.pxn_disable {
                    None
                } else {
                    choices.local_gpu(self, net)?
                };
                if let Some(relay) =
                    relay.filter(|relay| *relay != gpu && self.pxn_pays(gpu, *relay, net))
                {
                    self.divert(gpu, relay, net);
                    choices.forget(gpu, net);
                }
                if self.table.kind(gpu, net) < PathType::Phb
                    && !self.gdr(gpu, net, false).is_direct()
                {
                    let cpu = self.local_cpu(gpu)?;
                    self.divert(net, cpu, gpu);
                    self.divert(gpu, cpu, net);
                    choices.forget(gpu, net);
                }
            }
        }
        self.local_gpu = self
            .system
            .nodes(NodeType::Net)
            .map(|net| choices.local_gpu(self, net))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The worst path over which a relay may reach its NIC.
    pub(crate) fn pxn_limit(&self) -> PathType {
        if self.settings.pxn_c2c {
            PathType::P2c
        } else {
            PathType::Pxb
        }
    }

    fn pxn_pays(&self, gpu: NodeId, relay: NodeId, net: NodeId) -> bool {
        self.table.kind(relay, net) <= self.pxn_limit()
            && (!self.settings.rules.pxn_needs_gdr || self.gdr(relay, net, true).is_direct())
            && self.table.kind(relay, gpu) <= PathType::Nvl
            && self.system.node(relay).id.system() == self.system.node(gpu).id.system()
            && (self.table.bw(relay, net) > self.table.bw(gpu, net)
                || self.table.kind(gpu, net) > PathType::Pxn)
    }
}
