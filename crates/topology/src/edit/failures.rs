//! Every single failure that a machine can have.

use std::fmt;

use super::names::{Device, DeviceKind, Devices, NVLINKS, NVSWITCH, link_kind};
use super::{Change, Edit, Remainder};
use crate::bus_id::BusId;
use crate::node::NodeType;
use crate::xml::{Document, Element, Tag, c_int};

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A GPU, with all ranks on it.
    Gpu,
    /// A network port.
    Nic,
    /// A PCI switch with all that hangs below it.
    Switch,
    /// All NVSwitches.
    NvSwitch,
    /// One NVLink.
    NvLink,
    /// All NVLinks of one GPU.
    GpuNvLinks,
}

impl FailureKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Nic => "NIC",
            Self::Switch => "PCI switch",
            Self::NvSwitch => "NVSwitch",
            Self::NvLink => "NVLink",
            Self::GpuNvLinks => "all NVLinks of a GPU",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A single failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// Its name: `GPU5`, `mlx5_3`, `0000:15:01.0`, `GPU0:GPU3`.
    pub name: String,
    /// For an NVLink, the number of links between the pair.
    pub of: Option<i32>,
    /// The edit that applies it.
    pub edit: Edit,
}

/// All single failures of a machine: each GPU, port and PCI switch, the NVSwitches together, one
/// NVLink of each connected pair, and all NVLinks of each GPU that has several. Devices without a
/// unique name are left out.
pub fn failures(document: &Document) -> Vec<Failure> {
    let devices = Devices::of(document);
    let mut found = Vec::new();
    let mut gpus: Vec<(u32, BusId)> = Vec::new();
    for device in &devices.all {
        let kind = match device.kind {
            DeviceKind::Gpu => FailureKind::Gpu,
            DeviceKind::Port => FailureKind::Nic,
            DeviceKind::Switch => FailureKind::Switch,
            DeviceKind::NvSwitch => FailureKind::NvSwitch,
            DeviceKind::Cpu | DeviceKind::Adapter => continue,
        };
        let name = match (kind, device.bus_id) {
            // The GPU fails, and with it every rank on it.
            (FailureKind::Gpu, Some(bus_id)) => {
                if gpus.contains(&(device.host, bus_id)) {
                    continue;
                }
                gpus.push((device.host, bus_id));
                Some(whole_gpu(&devices, device, bus_id))
            }
            _ => devices.own_name(device),
        };
        let Some(name) = name else { continue };
        found.push(failure(
            &devices,
            device.host,
            kind,
            name,
            None,
            Change::Remove,
        ));
    }
    found.extend(nvlinks(document, &devices));
    found
}

/// The name that means all ranks of a GPU and nothing else.
fn whole_gpu(devices: &Devices, device: &Device, bus_id: BusId) -> String {
    let of_gpu = devices.find(&bus_id.to_string(), device.host);
    std::iter::once(&device.label)
        .chain(&device.aliases)
        .find(|name| devices.find(name, device.host) == of_gpu)
        .cloned()
        .unwrap_or_else(|| bus_id.to_string())
}

fn failure(
    devices: &Devices,
    host: u32,
    kind: FailureKind,
    name: String,
    of: Option<i32>,
    change: Change,
) -> Failure {
    let host = (devices.hosts > 1).then_some(host);
    let edit = Edit {
        host,
        target: name.clone(),
        change,
    };
    Failure {
        kind,
        name: host.map_or_else(|| name.clone(), |host| format!("host{host}/{name}")),
        of,
        edit,
    }
}

/// One link of each pair that NVLinks connect.
fn nvlinks(document: &Document, devices: &Devices) -> Vec<Failure> {
    let mut found = Vec::new();
    let mut seen: Vec<(u32, BusId, BusId)> = Vec::new();
    let mut whole: Vec<(u32, BusId)> = Vec::new();
    for gpu in devices
        .all
        .iter()
        .filter(|device| device.kind == DeviceKind::Gpu)
    {
        let element = at(document, &gpu.element);
        let Some(bus_id) = gpu.bus_id else { continue };
        let own = whole_gpu(devices, gpu, bus_id);
        let links = element.children(Tag::Nvlink);
        let count = links.map(|link| i64::from(link.get("count").map_or(0, c_int)).max(0));
        if count.sum::<i64>() > 1 && !whole.contains(&(gpu.host, bus_id)) {
            whole.push((gpu.host, bus_id));
            found.push(all_nvlinks(devices, gpu.host, &own));
        }
        let mut ends: Vec<(String, i32)> = Vec::new();
        for link in element.children(Tag::Nvlink) {
            let other = match link_kind(link) {
                NodeType::Gpu => {
                    let target = BusId::parse(link.get("target").unwrap_or_default());
                    let there = devices.find(&target.to_string(), gpu.host);
                    let Some(peer) = there.iter().find(|peer| peer.kind == DeviceKind::Gpu) else {
                        continue;
                    };
                    if seen.contains(&(gpu.host, target, bus_id)) {
                        continue;
                    }
                    seen.push((gpu.host, bus_id, target));
                    whole_gpu(devices, peer, target)
                }
                NodeType::Cpu => match cpu_above(devices, gpu) {
                    Some(name) => name,
                    None => continue,
                },
                _ => NVSWITCH.to_owned(),
            };
            let count = link.get("count").map_or(0, c_int);
            match ends.iter_mut().find(|(name, _)| *name == other) {
                Some((_, total)) => *total = total.saturating_add(count),
                None => ends.push((other, count)),
            }
        }
        for (other, count) in ends.into_iter().filter(|(_, count)| *count > 0) {
            let change = match count {
                1 => Change::Remove,
                _ => Change::Degrade(Remainder::Count(count - 1)),
            };
            let name = format!("{own}:{other}");
            found.push(failure(
                devices,
                gpu.host,
                FailureKind::NvLink,
                name,
                Some(count),
                change,
            ));
        }
    }
    found
}

/// All NVLinks of one GPU.
fn all_nvlinks(devices: &Devices, host: u32, gpu: &str) -> Failure {
    let name = format!("{gpu}:{NVLINKS}");
    let failed = failure(
        devices,
        host,
        FailureKind::GpuNvLinks,
        name,
        None,
        Change::Remove,
    );
    let shown = failed.name.trim_end_matches(NVLINKS).trim_end_matches(':');
    Failure {
        name: shown.to_owned(),
        ..failed
    }
}

fn cpu_above(devices: &Devices, gpu: &Device) -> Option<String> {
    let above = |device: &&Device| {
        device.kind == DeviceKind::Cpu && gpu.element.starts_with(&device.element)
    };
    devices
        .all
        .iter()
        .find(above)
        .and_then(|cpu| devices.own_name(cpu))
}

fn at<'a>(document: &'a Document, path: &[usize]) -> &'a Element {
    path.iter()
        .fold(&document.root, |element, index| &element.children[*index])
}
