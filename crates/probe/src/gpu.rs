//! The GPUs that a job would use, from the driver's answers.

use std::collections::BTreeMap;

use crate::JsonSchema;
use serde::Serialize;

use crate::ProbeOptions;
use crate::nvml::{Answers, DeviceAnswers};

/// NCCL's text for an NVLink whose other end is unknown.
const NO_TARGET: &str = "fffffff:ffff:ff";

/// Brands whose GPUs do not support GPUDirect RDMA.
const WITHOUT_DIRECT_ACCESS: [&str; 4] = ["GeForce", "GeForceRTX", "Titan", "TitanRTX"];

/// Compute capability × 10 of GB10: its memory is the processor's, without GPUDirect RDMA.
const GB10: i32 = 121;

/// Performance state from which a GPU is idle and its link may be slowed down.
const IDLE: u32 = 5;

/// Compute capability × 10 from which NCCL looks for C2C links.
const C2C: i32 = 90;

/// A GPU that can be planned for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProbedGpu {
    /// NVML index.
    pub index: u32,
    /// Rank among the GPUs in use; `None` if not in use.
    pub rank: Option<u32>,
    /// Product name.
    pub name: String,
    /// Bus id, lower case.
    pub bus_id: String,
    /// Device id in the high 16 bits, vendor id in the low 16 bits.
    pub device: u32,
    /// The same for the board.
    pub subsystem: u32,
    /// Compute capability × 10.
    pub sm: i32,
    /// Whether network adapters can access its memory.
    pub direct_access: bool,
    /// PCI Express generation under load.
    pub generation: Option<u32>,
    /// PCI Express lanes.
    pub width: Option<u32>,
    /// Whether it is partitioned.
    pub mig: bool,
    /// Active NVLinks: target and count, in order of first appearance.
    pub nvlinks: Vec<(String, u32)>,
    /// NVML indexes of the GPUs to which the driver grants it no peer access.
    pub no_p2p: Vec<u32>,
    /// Active C2C links: count, and bandwidth of the last in MB/s.
    pub c2c: Option<(u32, u32)>,
}

impl ProbedGpu {
    /// The number of active NVLinks.
    pub fn nvlink_count(&self) -> u32 {
        self.nvlinks.iter().map(|(_, count)| count).sum()
    }
}

/// Whether a GPU is idle, so that its link may be slowed down.
pub fn is_idle(device: &DeviceAnswers) -> bool {
    device
        .performance_state
        .value()
        .is_some_and(|state| *state >= IDLE)
}

/// All GPUs that the driver lists, by index.
pub fn list(answers: &Answers, options: &ProbeOptions) -> Vec<ProbedGpu> {
    let devices = (0u32..).zip(&answers.devices);
    let mut gpus: Vec<ProbedGpu> = devices
        .filter_map(|(index, device)| gpu(index, device))
        .collect();
    let used = in_use(answers, options);
    for (rank, index) in (0u32..).zip(
        used.into_iter()
            .filter(|index| gpus.iter().any(|gpu| gpu.index == *index))
            .collect::<Vec<_>>(),
    ) {
        if let Some(gpu) = gpus.iter_mut().find(|gpu| gpu.index == index) {
            gpu.rank = Some(rank);
        }
    }
    gpus
}

/// `None` for a GPU without bus id or compute capability.
fn gpu(index: u32, device: &DeviceAnswers) -> Option<ProbedGpu> {
    let pci = device.pci.value()?;
    let sm = *device.compute_capability.value()?;
    let brand = device.brand.value().map_or("", String::as_str);
    let now = device.link_generation.value().copied();
    let most = device.max_link_generation.value().copied();
    let mut nvlinks: Vec<(String, u32)> = Vec::new();
    for link in device.nvlinks.iter().filter(|link| link.counts()) {
        let target = target(link.remote.value().map_or("", String::as_str));
        match nvlinks.iter_mut().find(|(known, _)| *known == target) {
            Some((_, count)) => *count += 1,
            None => nvlinks.push((target, 1)),
        }
    }
    let up = device
        .c2c
        .iter()
        .filter(|link| link.up.value() == Some(&true));
    let bandwidths: Vec<u32> = up
        .filter_map(|link| link.bandwidth.value().copied())
        .collect();
    let c2c = bandwidths
        .last()
        .filter(|_| sm >= C2C)
        .map(|last| (bandwidths.len() as u32, *last));
    let peers = (0..).zip(&device.peers);
    let no_p2p = peers.filter(|(other, peer)| *other != index && peer.is_refused());
    Some(ProbedGpu {
        no_p2p: no_p2p.map(|it| it.0).collect(),
        index,
        rank: None,
        name: device.name.value().cloned().unwrap_or_default(),
        bus_id: pci.bus_id.to_lowercase(),
        device: pci.device,
        subsystem: pci.subsystem,
        sm,
        direct_access: !WITHOUT_DIRECT_ACCESS.contains(&brand) && sm != GB10,
        generation: match (now, most) {
            (Some(now), Some(most)) if is_idle(device) => Some(now.max(most)),
            (now, _) => now,
        },
        width: device.link_width.value().copied(),
        mig: device.mig.value().is_some_and(|mig| mig.enabled),
        nvlinks,
        c2c,
    })
}

/// The other end of an NVLink, as NCCL writes it.
fn target(remote: &str) -> String {
    if remote.is_empty() || remote.chars().any(|c| !(c.is_ascii_graphic() || c == ' ')) {
        return NO_TARGET.to_owned();
    }
    remote.to_lowercase()
}

/// The indexes of the GPUs in use, by rank.
pub(crate) fn in_use(answers: &Answers, options: &ProbeOptions) -> Vec<u32> {
    let all = || (0..answers.devices.len() as u32).collect::<Vec<_>>();
    let visible = options
        .visible_devices
        .as_deref()
        .map_or_else(all, |list| visible(answers, list));
    let mut used: Vec<u32> = match &options.gpus {
        None => visible,
        Some(wanted) => wanted.clone(),
    };
    // To NCCL, several parts of one GPU are one device.
    let mut seen = BTreeMap::new();
    used.retain(|index| seen.insert(*index, ()).is_none());
    used
}

/// Applies `CUDA_VISIBLE_DEVICES`: indexes, UUIDs or their prefixes; an unknown one ends the list.
fn visible(answers: &Answers, list: &str) -> Vec<u32> {
    list.split(',')
        .map(str::trim)
        .map_while(|text| find(answers, text))
        .collect()
}

fn find(answers: &Answers, text: &str) -> Option<u32> {
    if let Ok(index) = text.parse::<u32>() {
        return ((index as usize) < answers.devices.len()).then_some(index);
    }
    if !(text.starts_with("GPU-") || text.starts_with("MIG-")) {
        return None;
    }
    let named = |device: &DeviceAnswers| {
        let parts = device.mig.value().into_iter().flat_map(|mig| &mig.parts);
        device
            .uuid
            .value()
            .into_iter()
            .chain(parts)
            .any(|uuid| uuid.starts_with(text))
    };
    let found = answers.devices.iter().position(named)?;
    u32::try_from(found).ok()
}
