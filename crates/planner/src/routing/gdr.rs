//! GPUDirect RDMA of a NIC with a GPU, and the GPU that drives the NIC.

use plan::{Gdr, NoGdr};
use topology::{NodeId, NodeType, PathType};

use super::Routing;

/// First compute capability (× 10) that reads well over GPUDirect RDMA.
const GDR_READ_SM: i32 = 80;

/// The oldest driver, as CUDA's number, with which NICs reach the memory of partitions over C2C:
/// that of CUDA 13.4. Source: NCCL 2.32.3.
const PARTITION_DRIVER: u32 = 13_040;

impl Routing {
    /// The worst path on which a NIC reaches memory of a GPU, or of a partition of one, directly.
    pub fn gdr_limit(&self, partition: bool) -> PathType {
        let rules = self.settings.rules;
        let old = |driver| driver < PARTITION_DRIVER;
        let forbidden =
            partition && rules.limits_partitions && self.settings.tuning.driver.is_some_and(old);
        let over_c2c = self.settings.gdr_c2c && rules.limits_p2c && !forbidden;
        self.settings.gdr_level.unwrap_or(if over_c2c {
            PathType::P2c
        } else {
            PathType::Pxb
        })
    }

    /// GPUDirect RDMA from (`read`, sending) or to (receiving) GPU memory.
    pub fn gdr(&self, gpu: NodeId, net: NodeId, read: bool) -> Gdr {
        if !self.system.net(net).is_some_and(|net| net.gdr) {
            return Gdr::Host(NoGdr::Nic);
        }
        let Some(gpu_data) = self.system.gpu(gpu).filter(|gpu| gpu.gdr) else {
            return Gdr::Host(NoGdr::Gpu);
        };
        let partition = gpu_data.mlopart.is_some();
        if partition && !self.settings.rules.limits_partitions && !self.settings.gdr_partitions {
            return Gdr::Host(NoGdr::Partition);
        }
        if read {
            let allowed = self.settings.gdr_read.unwrap_or_else(|| {
                gpu_data.sm >= GDR_READ_SM
                    || self.system.count(NodeType::Gpu) == 1
                    || self.has_nvlink_peer(gpu)
            });
            if !allowed {
                return Gdr::Host(NoGdr::Read);
            }
        }
        let mut driver = gpu;
        let mut distance = self.table.kind(gpu, net);
        if distance == PathType::Pxn {
            match self.intermediate_gpu(gpu, net) {
                Some(relay) => driver = relay,
                None => return Gdr::Host(NoGdr::NoProxy),
            }
            distance = self.table.kind(driver, net);
        }
        let limit = self.gdr_limit(partition);
        let compared = match distance {
            PathType::P2c if self.settings.gdr_c2c && !self.settings.rules.limits_p2c => {
                PathType::C2c
            }
            distance => distance,
        };
        if compared > limit {
            return Gdr::Host(NoGdr::Path {
                path: distance,
                limit,
            });
        }
        let over_c2c = self
            .local_cpu(driver)
            .is_ok_and(|cpu| self.table.kind(driver, cpu) == PathType::C2c);
        if over_c2c && distance != PathType::P2c {
            Gdr::Pci
        } else {
            Gdr::Direct
        }
    }

    fn has_nvlink_peer(&self, gpu: NodeId) -> bool {
        self.system
            .nodes(NodeType::Gpu)
            .any(|peer| peer != gpu && self.table.kind(gpu, peer) == PathType::Nvl)
    }

    /// The GPU whose proxy drives a port for this GPU: itself, or on a PXN path the one beside the
    /// port.
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
