//! The machine as its files describe it: PCI functions, NUMA nodes, processor, network devices.
//!
//! Every value is optional, because any file may be missing.

pub mod bus_id;
pub mod config_space;
pub mod cpu;
pub mod direct;
pub mod infiniband;
pub mod interface;
pub mod pci;

use crate::JsonSchema;
use serde::Serialize;

pub use cpu::{NumaNode, Processor};
pub use direct::DirectAccess;
pub use infiniband::{Adapter, RdmaPort};
pub use interface::NetInterface;
pub use pci::{Detail, PciFunction, PciLink, PciTree};

use crate::Addresses;
use crate::sysfs::Sysfs;

/// A machine as its files describe it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// The processor.
    pub processor: Processor,
    /// NUMA nodes, by number.
    pub numa_nodes: Vec<NumaNode>,
    /// PCI functions, by bus id.
    pub pci: PciTree,
    /// RDMA devices.
    pub adapters: Vec<Adapter>,
    /// Network interfaces, by index.
    pub interfaces: Vec<NetInterface>,
    /// The kernel's support for GPUDirect RDMA.
    pub direct: DirectAccess,
}

impl Machine {
    /// Reads a machine. `addresses` lists the interfaces with an address, if known. PCI functions
    /// in `wanted` are read whatever their class.
    pub fn read(
        sysfs: &Sysfs,
        detail: Detail,
        addresses: Option<&Addresses>,
        wanted: impl IntoIterator<Item = String>,
    ) -> Self {
        let adapters = infiniband::read(sysfs);
        let interfaces = interface::read(sysfs, addresses);
        let behind = adapters
            .iter()
            .filter_map(|adapter| adapter.bus_id.clone())
            .chain(
                interfaces
                    .iter()
                    .filter_map(|interface| interface.bus_id.clone()),
            );
        let pci = PciTree::read(sysfs, detail, behind.chain(wanted).collect());
        Self {
            processor: cpu::processor(sysfs),
            numa_nodes: cpu::numa_nodes(sysfs),
            pci,
            adapters,
            interfaces,
            direct: direct::read(sysfs),
        }
    }
}
