//! What the files of a machine say: PCI functions, NUMA nodes, the processor, network devices.
//!
//! Everything here is optional, because every file may be missing; what looks odd is said by the findings.

pub mod bus_id;
pub mod config_space;
pub mod cpu;
pub mod direct;
pub mod infiniband;
pub mod interface;
pub mod pci;

use serde::Serialize;

pub use cpu::{NumaNode, Processor};
pub use direct::DirectAccess;
pub use infiniband::{Adapter, Port};
pub use interface::Interface;
pub use pci::{Detail, PciFunction, PciLink, PciTree};

use crate::Addresses;
use crate::sysfs::Sysfs;

/// A machine as its files describe it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The processor.
    pub processor: Processor,
    /// NUMA nodes, by number.
    pub numa_nodes: Vec<NumaNode>,
    /// PCI functions, by bus id.
    pub pci: PciTree,
    /// RDMA devices.
    pub adapters: Vec<Adapter>,
    /// Network interfaces, by their number.
    pub interfaces: Vec<Interface>,
    /// What GPUDirect RDMA needs of the kernel.
    pub direct: DirectAccess,
}

impl Machine {
    /// Reads a machine. `addresses` tells which interfaces have an address, where that is known; the PCI functions in
    /// `wanted` are read whatever their class.
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
