//! The options and the result of a probe.

use serde::{Deserialize, Serialize};
use topology::xml::{Document, Element};

use crate::gpu::ProbedGpu;
use crate::machine::{Machine, PciFunction};
use crate::net::ProbedNet;
use crate::nvml::Answers;
use findings::Finding;

/// The driver of functions that a guest has.
const VFIO: &str = "vfio-pci";

/// Options of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeOptions {
    /// NVML indexes of the GPUs in use, by rank; `None`: all visible ones.
    pub gpus: Option<Vec<u32>>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// `NCCL_IB_HCA`.
    pub ib_hca: Option<String>,
    /// `NCCL_IB_DISABLE`.
    pub ib_disable: bool,
    /// `NCCL_SOCKET_IFNAME`.
    pub socket_ifname: Option<String>,
    /// Whether to include GPUs and NICs without a driver, as bare PCI functions.
    pub all_devices: bool,
    /// Text of the topology file that NCCL starts from: `NCCL_TOPO_FILE`, or the guest's.
    pub topology_file: Option<String>,
}

/// The result of a probe.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The topology.
    pub document: Document,
    /// The machine as its files describe it.
    pub machine: Machine,
    /// The driver's answers.
    pub answers: Answers,
    /// The GPUs.
    pub gpus: Vec<ProbedGpu>,
    /// The network devices.
    pub nets: Vec<ProbedNet>,
    /// The options, with `gpus` resolved.
    pub options: ProbeOptions,
    /// The elements of the file that NCCL starts from.
    pub(crate) base: Option<Element>,
    /// Missing and suspicious values.
    pub findings: Vec<Finding>,
}

impl Probe {
    /// Whether the config space of a bridge above a GPU or a port could be read; none if there is
    /// no such bridge.
    pub fn are_bridges_read(&self) -> Option<bool> {
        let used = self.used_functions();
        let above = used.iter().flat_map(|it| it.bridges());
        let read = above.filter_map(|it| Some(self.machine.pci.get(it)?.is_config_read));
        read.reduce(|one, other| one || other)
    }

    /// PCI functions of the GPUs in use and of the network devices, by bus id.
    pub(crate) fn used_functions(&self) -> Vec<&PciFunction> {
        let gpus = self.gpu_functions().into_iter().map(|it| &it.bus_id);
        let nets = self.nets.iter().filter_map(|net| net.bus_id.as_ref());
        let mut bus_ids: Vec<&String> = gpus.chain(nets).collect();
        bus_ids.sort();
        bus_ids.dedup();
        bus_ids
            .into_iter()
            .filter_map(|bus_id| self.machine.pci.get(bus_id))
            .collect()
    }

    /// PCI functions of the GPUs in use. Without a driver these are all of NVIDIA's GPUs, except
    /// those that a guest has.
    pub(crate) fn gpu_functions(&self) -> Vec<&PciFunction> {
        if self.has_no_driver() {
            let is_guests = |it: &PciFunction| it.driver.as_deref() == Some(VFIO);
            let all = self.machine.pci.iter();
            return all
                .filter(|it| it.is_nvidia_gpu() && !is_guests(it))
                .collect();
        }
        let used = self.gpus.iter().filter(|gpu| gpu.rank.is_some());
        used.filter_map(|gpu| self.machine.pci.get(&gpu.bus_id))
            .collect()
    }

    /// Whether no driver told which GPUs there are.
    pub(crate) fn has_no_driver(&self) -> bool {
        self.answers.driver.failure().is_some() && self.answers.devices.is_empty()
    }

    /// A function's name for messages: `GPU0 (0000:1b:00.0)`, `mlx5_0 (…)`, or its bus id.
    pub(crate) fn label(&self, bus_id: &str) -> String {
        let gpu = self.gpus.iter().find(|gpu| gpu.bus_id == bus_id);
        let net = self
            .nets
            .iter()
            .find(|net| net.bus_id.as_deref() == Some(bus_id));
        match (gpu, net) {
            (Some(gpu), _) => format!("GPU{} ({bus_id})", gpu.index),
            (_, Some(net)) => format!("{} ({bus_id})", net.name),
            _ if self
                .machine
                .pci
                .get(bus_id)
                .is_some_and(PciFunction::is_nvidia_gpu) =>
            {
                format!("GPU {bus_id}")
            }
            _ => bus_id.to_owned(),
        }
    }
}
