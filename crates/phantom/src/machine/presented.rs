//! The machine: GPUs and which of them reach each other.

use std::collections::HashSet;

use topology::xml::{Document, c_int};
use topology::{NodeId, PathTable, PathType, System};

use crate::machine::attachment::{self, Attachment};
use crate::machine::gpu::Gpu;
use crate::machine::setup::{Fabric, PeerRule, Setup};

/// Compute capability × 10 from which GPUs support multicast.
const MULTICAST: u32 = 90;

/// A machine as a driver presents it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its GPUs, in the driver's order.
    pub gpus: Vec<Gpu>,
    /// How it is set up.
    pub setup: Setup,
    /// By GPU and other GPU: whether NVLinks join them.
    nvlinks: Vec<Vec<bool>>,
    /// By GPU and other GPU: whether the topology file refuses peer access.
    refused: Vec<Vec<bool>>,
}

impl Machine {
    /// Joins a topology and a setup.
    ///
    /// # Errors
    /// The topology has an error, such as a link that leads only one way, or the setup names a GPU
    /// that it lacks.
    pub fn new(document: &Document, setup: Setup) -> Result<Self, String> {
        let system = System::from_document(document).map_err(|error| error.to_string())?;
        let paths = PathTable::compute(&system, false)
            .map_err(|_| "the topology has a link that leads only one way".to_owned())?;
        let mut found: Vec<(NodeId, i32)> = Vec::new();
        let mut seen = HashSet::new();
        for (node, gpu) in system.gpus() {
            // Ranks share a GPU, or a part of one (MLOPart). CUDA counts parts as devices.
            if seen.insert((gpu.dev, gpu.mlopart)) {
                found.push((node, gpu.dev));
            }
        }
        // Stable: parts keep the order of the file, as in a job.
        found.sort_by_key(|(_, dev)| *dev);
        if let Some((gpu, _)) = setup
            .gpus
            .iter()
            .find(|(gpu, _)| *gpu as usize >= found.len())
        {
            let count = found.len();
            return Err(format!("`gpu {gpu}`: the topology has {count} GPUs"));
        }
        let numa = |node: NodeId| {
            let near = system
                .cpus()
                .find(|(cpu, _)| matches!(paths.kind(node, *cpu), PathType::Phb | PathType::C2c));
            near.map_or(0, |(_, cpu)| cpu.numa)
        };
        let elements = attachment::gpus(document);
        let gpus = (0..).zip(&found).filter_map(|(number, (node, dev))| {
            let gpu = system.gpu(*node)?;
            let own = setup.gpus.iter().filter(|(of, _)| *of == number);
            let sizes = own.fold(setup.sizes, |sizes, (_, own)| own.or(sizes));
            let mut elements = elements.iter();
            let element = elements.find(|(_, gpu)| gpu.get("dev").map(c_int) == Some(*dev));
            let attachment = element.map(|(pci, gpu)| Attachment::of(pci, gpu));
            let attachment = attachment.unwrap_or_default();
            Some(Gpu::new(gpu, numa(*node), sizes, attachment))
        });
        let joined = |one: NodeId, other: NodeId| {
            one != other && matches!(paths.kind(one, other), PathType::Nvl | PathType::Nvb)
        };
        let row =
            |(one, _): &(NodeId, i32)| found.iter().map(|(it, _)| joined(*one, *it)).collect();
        let refuses = |(one, _): &(NodeId, i32)| {
            let listed = system.gpu(*one).map_or(&[][..], |gpu| &gpu.no_p2p);
            found.iter().map(|(_, dev)| listed.contains(dev)).collect()
        };
        Ok(Self {
            refused: found.iter().map(refuses).collect(),
            gpus: gpus.collect(),
            nvlinks: found.iter().map(row).collect(),
            setup,
        })
    }

    /// The number of the GPU with a bus id, such as `0000:0F:00.0`, or of its first part; the
    /// function does not matter.
    pub fn by_bus_id(&self, text: &str) -> Option<usize> {
        let mut parts = text.split([':', '.']);
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (domain, bus, device) = (part()?, part()?, part()?);
        let wanted = domain << 20 | bus << 12 | device << 4;
        let mut gpus = self.gpus.iter();
        gpus.position(|gpu| gpu.bus_id.0 & !0xf == wanted)
    }

    /// Whether NVLinks join two GPUs.
    pub fn has_nvlink(&self, one: usize, other: usize) -> bool {
        let row = self.nvlinks.get(one);
        row.and_then(|row| row.get(other)).copied().unwrap_or(false)
    }

    /// Whether a GPU can access the memory of another one.
    pub fn reaches(&self, one: usize, other: usize) -> bool {
        let known = one < self.gpus.len() && other < self.gpus.len() && one != other;
        let row = self.refused.get(one);
        let refused = row.and_then(|row| row.get(other)).copied().unwrap_or(false);
        known
            && !refused
            && match self.setup.peers {
                PeerRule::All => true,
                PeerRule::NvLink => self.has_nvlink(one, other),
                PeerRule::None => false,
            }
    }

    /// Whether a GPU reports multicast: it is of compute capability 9.0 or newer, and NVLinks join
    /// it with another GPU.
    pub fn has_multicast(&self, gpu: usize) -> bool {
        let new = self.gpus.get(gpu).is_some_and(|it| it.sm >= MULTICAST);
        let joined = (0..self.gpus.len()).any(|other| self.has_nvlink(gpu, other));
        self.setup.multicast && new && joined
    }

    /// Whether the GPUs report fabric handles.
    pub fn reports_fabric(&self) -> bool {
        self.setup.fabric != Fabric::None
    }
}
