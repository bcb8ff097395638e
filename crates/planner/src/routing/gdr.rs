//! Whether a NIC reads and writes GPU memory directly, and which GPU drives it.

use topology::{NodeId, NodeType, PathType};

use super::Routing;

/// GPUDirect RDMA between a GPU and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gdr {
    /// Data goes through host memory.
    Disabled,
    /// The NIC reaches GPU memory.
    Default,
    /// The NIC reaches GPU memory over PCI although the GPU has a C2C link to its CPU.
    Pci,
}

/// First compute capability (× 10) that reads well over GPUDirect RDMA.
const GDR_READ_SM: i32 = 80;

impl Routing {
    /// The worst path on which a NIC reaches GPU memory directly.
    pub fn gdr_limit(&self) -> PathType {
        self.settings.gdr_level.unwrap_or(if self.settings.gdr_c2c {
            PathType::P2c
        } else {
            PathType::Pxb
        })
    }

    /// GPUDirect RDMA from (`read`, sending) or to (receiving) GPU memory.
    pub fn gdr(&self, gpu: NodeId, net: NodeId, read: bool) -> Gdr {
        let (Some(gpu_data), Some(net_data)) = (self.system.gpu(gpu), self.system.net(net)) else {
            return Gdr::Disabled;
        };
        if !net_data.gdr
            || !gpu_data.gdr
            || gpu_data.mlopart.is_some() && !self.settings.gdr_partitions
        {
            return Gdr::Disabled;
        }
        if read {
            let allowed = self.settings.gdr_read.unwrap_or_else(|| {
                gpu_data.sm >= GDR_READ_SM
                    || self.system.count(NodeType::Gpu) == 1
                    || self.has_nvlink_peer(gpu)
            });
            if !allowed {
                return Gdr::Disabled;
            }
        }
        let mut driver = gpu;
        let mut distance = self.table.kind(gpu, net);
        if distance == PathType::Pxn {
            match self.intermediate_gpu(gpu, net) {
                Some(relay) => driver = relay,
                None => return Gdr::Disabled,
            }
            distance = self.table.kind(driver, net);
        }
        if distance > self.gdr_limit() {
            return Gdr::Disabled;
        }
        let over_c2c = self
            .local_cpu(driver)
            .is_ok_and(|cpu| self.table.kind(driver, cpu) == PathType::C2c);
        if over_c2c && distance != PathType::P2c {
            Gdr::Pci
        } else {
            Gdr::Default
        }
    }

    fn has_nvlink_peer(&self, gpu: NodeId) -> bool {
        self.system
            .nodes(NodeType::Gpu)
            .any(|peer| peer != gpu && self.table.kind(gpu, peer) == PathType::Nvl)
    }

    /// The GPU whose proxy drives a port for this GPU: itself, or on a PXN path the one beside the port.
    pub fn intermediate_gpu(&self, gpu: NodeId, net: NodeId) -> Option<NodeId> {
        let path = self.table.path(gpu, net);
        if path.kind != PathType::Pxn {
            return Some(gpu);
        }
        let mut entered = path.hops.iter().skip(1).map(|hop| self.system.target(*hop));
        let mut relay = entered.find(|node| self.system.kind(*node) != NodeType::Nvs)?;
        if self.system.kind(relay) == NodeType::Dev {
            relay = self
                .system
                .links(relay)
                .map(|link| self.system.target(link))
                .find(|node| self.system.kind(*node) == NodeType::Gpu)?;
        }
        let dev = self.system.gpu(relay)?.dev;
        self.system
            .gpus()
            .find(|(node, data)| data.dev == dev && self.host_of(*node) == self.host_of(relay))
            .map(|(node, _)| node)
    }
}
