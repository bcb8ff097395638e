//! Probes a machine.

use serde::{Deserialize, Serialize};
use topology::xml::{Document, Element};

use crate::finding::{self, Finding};
use crate::gpu::{self, ProbedGpu};
use crate::machine::{Detail, Machine, PciFunction};
use crate::net::{self, ProbedNet};
use crate::nvml::{self, Answers};
use crate::sysfs::Sysfs;
use crate::{Addresses, base, tree};

/// The document's name in messages.
const NAME: &str = "this machine";

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
    /// Probes a machine.
    pub fn of(
        sysfs: &Sysfs,
        answers: Answers,
        addresses: Option<&Addresses>,
        options: &ProbeOptions,
    ) -> Self {
        let mut answers = answers;
        let mut options = options.clone();
        if options.gpus.is_some() || options.visible_devices.is_some() {
            // UUIDs cannot be matched once they are replaced.
            options.gpus = Some(gpu::in_use(&answers, &options));
            options.visible_devices = None;
        }
        let mut hidden = None;
        sysfs.with_privacy(|privacy| {
            nvml::hide(&mut answers, privacy);
            hidden = addresses.map(|addresses| addresses.hidden(privacy));
            let file = &mut options.topology_file;
            *file = file.as_deref().map(|text| base::hidden(text, privacy));
            for list in [&mut options.ib_hca, &mut options.socket_ifname] {
                *list = list.as_deref().map(|text| privacy.list(text));
            }
        });
        let addresses = hidden.as_ref().or(addresses);
        let detail = if options.all_devices {
            Detail::Everything
        } else {
            Detail::Topology
        };
        let gpus = gpu::list(&answers, &options);
        let ends = gpus.iter().flat_map(|gpu| {
            let targets = gpu.nvlinks.iter().map(|(target, _)| target);
            targets.chain([&gpu.bus_id]).cloned()
        });
        let machine = Machine::read(sysfs, detail, addresses, ends);
        let nets = net::list(&machine, &options);
        let base = options.topology_file.as_deref().map(base::read);
        let (base, unread) = match base {
            Some(Ok(root)) => (Some(root), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let parts = tree::TreeParts::new(&machine, &gpus, &nets, base.as_ref());
        let document = Document::from_root(NAME, parts.root(options.all_devices));
        let mut probe = Self {
            document,
            machine,
            answers,
            gpus,
            nets,
            options,
            base: None,
            findings: Vec::new(),
        };
        probe.base = base;
        probe.findings = finding::of_probe(&probe, unread);
        probe
    }

    /// PCI functions of the GPUs in use and of the network devices, by bus id.
    pub(crate) fn used_functions(&self) -> Vec<&PciFunction> {
        let gpus = self
            .gpus
            .iter()
            .filter(|gpu| gpu.rank.is_some())
            .map(|gpu| &gpu.bus_id);
        let nets = self.nets.iter().filter_map(|net| net.bus_id.as_ref());
        let mut bus_ids: Vec<&String> = gpus.chain(nets).collect();
        bus_ids.sort();
        bus_ids.dedup();
        bus_ids
            .into_iter()
            .filter_map(|bus_id| self.machine.pci.get(bus_id))
            .collect()
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
            _ => bus_id.to_owned(),
        }
    }
}
