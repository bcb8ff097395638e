//! The GPUs that a job would use, from what the driver says.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Options;
use crate::nvml::{Answers, Device};

/// NCCL's text for an NVLink whose other end cannot be named.
const NO_TARGET: &str = "fffffff:ffff:ff";

/// Brands whose GPUs do not let network adapters reach their memory.
const WITHOUT_DIRECT_ACCESS: [&str; 4] = ["GeForce", "GeForceRTX", "Titan", "TitanRTX"];

/// The compute capability × 10 of GB10, whose memory is the processor's: adapters do not reach it as a GPU's.
const GB10: i32 = 121;

/// The performance state from which on a GPU is idle and its link may be slowed down.
const IDLE: u32 = 5;

/// The compute capability × 10 from which on NCCL looks for C2C links.
const C2C: i32 = 90;

/// A GPU that can be planned for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// NVML's index.
    pub index: u32,
    /// Its rank among the GPUs in use; none when it is not in use.
    pub rank: Option<u32>,
    /// What the product is called.
    pub name: String,
    /// Its bus id, lower case.
    pub bus_id: String,
    /// Device id in the high 16 bits, vendor id in the low ones.
    pub device: u32,
    /// The same of the board.
    pub subsystem: u32,
    /// Compute capability × 10.
    pub sm: i32,
    /// Network adapters can reach its memory.
    pub direct_access: bool,
    /// PCI Express generation under load.
    pub generation: Option<u32>,
    /// PCI Express lanes.
    pub width: Option<u32>,
    /// It is partitioned.
    pub mig: bool,
    /// NVLinks that are up: the other end and how many, in order of first appearance.
    pub nvlinks: Vec<(String, u32)>,
    /// C2C links that are up, and MB/s of the last.
    pub c2c: Option<(u32, u32)>,
}

impl Gpu {
    /// NVLinks that are up.
    pub fn nvlink_count(&self) -> u32 {
        self.nvlinks.iter().map(|(_, count)| count).sum()
    }
}

/// Whether a GPU is idle enough for its link to be slowed down.
pub fn is_idle(device: &Device) -> bool {
    device
        .performance_state
        .value()
        .is_some_and(|state| *state >= IDLE)
}

/// All GPUs that the driver names, by index; those in use have ranks.
pub fn list(answers: &Answers, options: &Options) -> Vec<Gpu> {
    let devices = (0u32..).zip(&answers.devices);
    let mut gpus: Vec<Gpu> = devices
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

/// A GPU without a bus id or a compute capability is none that can be planned for.
fn gpu(index: u32, device: &Device) -> Option<Gpu> {
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
    Some(Gpu {
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

/// The indices of the GPUs in use, in the order of their ranks.
pub(crate) fn in_use(answers: &Answers, options: &Options) -> Vec<u32> {
    let all = || (0..answers.devices.len() as u32).collect::<Vec<_>>();
    let visible = options
        .visible_devices
        .as_deref()
        .map_or_else(all, |list| visible(answers, list));
    let mut used: Vec<u32> = match &options.gpus {
        None => visible,
        Some(wanted) => wanted.clone(),
    };
    // Several parts of one GPU are one device to NCCL.
    let mut seen = BTreeMap::new();
    used.retain(|index| seen.insert(*index, ()).is_none());
    used
}

/// What `CUDA_VISIBLE_DEVICES` leaves: indices or UUIDs (or beginnings of them); the first unknown one ends the list.
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
    let named = |device: &Device| {
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
