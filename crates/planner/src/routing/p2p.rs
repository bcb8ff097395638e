//! The way between two GPUs: direct (P2P), through shared memory, or only over the network.

use topology::{CpuArch, CpuVendor, NodeId, NodeType, PathType};

use super::Routing;
use crate::error::{Error, name};

/// The value of `NCCL_IGNORE_DISABLED_P2P` with which NCCL does not ask for peer access.
const ACCESS_UNASKED: i64 = 2;

/// NCCL's verdict on direct transfers between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct P2p {
    /// P2P is allowed.
    pub ok: bool,
    /// The receiver should read instead of the sender writing.
    pub read: bool,
    /// The path is short enough, but the driver grants no peer access.
    pub refused: bool,
    /// The GPU in between, if the path relays.
    pub relay: Option<NodeId>,
    /// The worst path type that was allowed.
    pub limit: PathType,
}

impl Routing {
    /// The worst path on which GPUs of this machine use P2P.
    pub fn p2p_limit(&self) -> PathType {
        if let Some(level) = self.settings.p2p_level {
            return level;
        }
        let amd = self
            .system
            .cpus()
            .next()
            .is_some_and(|(_, cpu)| cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Amd);
        // AMD's host bridges forward between root ports well enough for two GPUs.
        if amd && self.system.count(NodeType::Dev) <= 2 {
            PathType::Sys
        } else {
            PathType::Pxb
        }
    }

    /// Whether GPU `from` may write into the memory of GPU `to`.
    ///
    /// # Errors
    /// The path relays through a device none of whose ranks is left, or NVLink joins GPUs to which
    /// the driver grants no peer access.
    pub fn p2p(&self, from: NodeId, to: NodeId) -> Result<P2p, Error> {
        let limit = self.p2p_limit();
        let path = self.table.path(from, to);
        let is_near = path.kind <= limit;
        let relay = self.relay(from, to)?;
        let mode = self.settings.ignore_disabled_p2p;
        let refused = is_near && mode != ACCESS_UNASKED && self.is_refused(from, relay, to);
        if refused && mode == 0 && path.kind <= PathType::Nvb {
            return Err(Error::NoPeerAccess {
                from: name(&self.system, from),
                to: name(&self.system, to),
            });
        }
        let read = path.kind == PathType::Nvl
            && [from, to]
                .iter()
                .all(|gpu| self.system.gpu(*gpu).is_some_and(|gpu| gpu.sm == 80));
        Ok(P2p {
            ok: is_near && !refused,
            read,
            refused,
            relay,
            limit,
        })
    }

    /// Whether the driver refuses peer access between two GPUs of a host.
    fn is_refused(&self, from: NodeId, relay: Option<NodeId>, to: NodeId) -> bool {
        let stops = [Some(from), relay, Some(to)];
        let stops: Vec<NodeId> = stops.into_iter().flatten().collect();
        self.host_of(from) == self.host_of(to)
            && stops.windows(2).any(|pair| !self.grants(pair[0], pair[1]))
    }

    /// Whether the driver grants one GPU access to the memory of another one of its host.
    pub(crate) fn grants(&self, from: NodeId, to: NodeId) -> bool {
        match (self.system.gpu(from), self.system.gpu(to)) {
            (Some(from), Some(to)) => from.dev == to.dev || !from.no_p2p.contains(&to.dev),
            _ => true,
        }
    }

    /// The rank on the GPU in the middle of a path of four links.
    fn relay(&self, from: NodeId, to: NodeId) -> Result<Option<NodeId>, Error> {
        let hops = self.table.path(from, to).hops;
        if hops.len() != 4 {
            return Ok(None);
        }
        let middle = self.system.target(hops[1]);
        let Some(dev) = self.system.dev(middle).map(|device| device.dev) else {
            return Ok(None);
        };
        let host = self.host_of(middle);
        let relay = self
            .system
            .gpus()
            .find(|(node, gpu)| gpu.dev == dev && self.host_of(*node) == host);
        match relay {
            Some((relay, _)) => Ok(Some(relay)),
            None => Err(Error::LostRelay {
                from: name(&self.system, from),
                to: name(&self.system, to),
                relay: name(&self.system, middle),
            }),
        }
    }

    pub(crate) fn host_of(&self, node: NodeId) -> u32 {
        self.system.node(node).id.system()
    }

    /// Whether the P2P transport connects two GPUs.
    ///
    /// # Errors
    /// As [`Routing::p2p`].
    pub fn p2p_usable(&self, from: NodeId, to: NodeId) -> Result<bool, Error> {
        let p2p = self.p2p(from, to)?;
        Ok(p2p.ok
            && match p2p.relay {
                Some(_) => !self.settings.p2p_use_cuda_memcpy,
                None => {
                    let is_local = self.host_of(from) == self.host_of(to);
                    !self.net_faster(from, to) && (!is_local || self.grants(from, to))
                }
            })
    }

    /// Whether the shared-memory transport connects two GPUs.
    pub fn shm_usable(&self, from: NodeId, to: NodeId) -> bool {
        !self.settings.shm_disable
            && self.host_of(from) == self.host_of(to)
            && !self.net_faster(from, to)
    }

    /// Whether both GPUs reach a close NIC with more bandwidth than each other.
    pub fn net_faster(&self, from: NodeId, to: NodeId) -> bool {
        if self.settings.net_disable_intra {
            return false;
        }
        let direct = self.table.bw(from, to);
        let best_net = |gpu| {
            self.system
                .nodes(NodeType::Net)
                .filter(|net| self.table.kind(gpu, *net) <= PathType::Pxb)
                .fold(0.0f32, |best, net| best.max(self.table.bw(gpu, net)))
        };
        best_net(from) > direct && best_net(to) > direct
    }
}
