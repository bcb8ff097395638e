//! Names of the devices of a document, and their elements.

use crate::bandwidth::class_kind;
use crate::bus_id::BusId;
use crate::node::NodeType;
use crate::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

/// Name of a machine's NVSwitches, which NCCL merges into one.
pub const NVSWITCH: &str = "NVSwitch";

/// Name of all NVLinks of a GPU: `GPU5:NVLinks`.
pub const NVLINKS: &str = "NVLinks";

/// Name of the peer access between GPUs: of all of a host, or of one (`GPU5:P2P`).
pub const PEER_ACCESS: &str = "P2P";

/// The path to an element: the index of the child at each level.
pub type ElementPath = Vec<usize>;

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A `<cpu>`.
    Cpu,
    /// A `<pci>` that is a switch.
    Switch,
    /// A `<gpu>`.
    Gpu,
    /// A `<pci>` that holds a `<nic>`.
    Adapter,
    /// A `<net>`.
    Port,
    /// All NVSwitches; no element of its own.
    NvSwitch,
}

/// A part of a machine that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Kind.
    pub kind: DeviceKind,
    /// Host, by order of first appearance of `host_hash`.
    pub host: u32,
    /// Primary name: `GPU0`, `NIC3`, `CPU1`, `NVSwitch`, or a bus id.
    pub label: String,
    /// Other names: `NET3`, `mlx5_3`.
    pub aliases: Vec<String>,
    /// PCI bus id.
    pub bus_id: Option<BusId>,
    /// Path of its element.
    pub element: ElementPath,
}

impl Device {
    /// Whether a text names this device. The host is not compared.
    pub fn is_called(&self, text: &str) -> bool {
        let plain = ["PCI ", "adapter "]
            .iter()
            .find_map(|word| text.strip_prefix(word))
            .unwrap_or(text);
        std::iter::once(&self.label)
            .chain(&self.aliases)
            .any(|name| name.eq_ignore_ascii_case(text))
            || self.bus_id.is_some() && self.bus_id == bus_id(plain)
    }
}

/// Parses a bus id with or without domain.
fn bus_id(text: &str) -> Option<BusId> {
    let with_domain = format!("0000:{text}");
    [text, &with_domain]
        .into_iter()
        .find(|text| BusId::is_well_formed(text))
        .map(BusId::parse)
}

/// The devices of a document that NCCL would see, in document order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices {
    /// The devices.
    pub all: Vec<Device>,
    /// Hosts in the document.
    pub hosts: u32,
}

impl Devices {
    /// Lists the devices of a document.
    pub fn of(document: &Document) -> Self {
        let mut walk = Walk {
            found: Vec::new(),
            host: 0,
            switched: Vec::new(),
        };
        let mut hashes = Vec::new();
        for (index, cpu) in document.root.children.iter().enumerate() {
            if cpu.tag != Tag::Cpu || !cpu.is_used() {
                continue;
            }
            let hash = cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal);
            let known = hashes.iter().position(|known| *known == hash);
            walk.host = known.unwrap_or_else(|| {
                hashes.push(hash);
                hashes.len() - 1
            }) as u32;
            walk.cpu(cpu, index);
        }
        name_shared_gpus(&mut walk.found);
        for host in std::mem::take(&mut walk.switched) {
            let switch = walk.device(DeviceKind::NvSwitch, NVSWITCH.to_owned(), Vec::new());
            walk.found.push(Device { host, ..switch });
        }
        Self {
            all: walk.found,
            hosts: hashes.len() as u32,
        }
    }

    /// All devices of a host with this name.
    pub fn find(&self, name: &str, host: u32) -> Vec<&Device> {
        self.all
            .iter()
            .filter(|device| device.host == host && device.is_called(name))
            .collect()
    }

    /// All distinct names, for suggestions.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for device in &self.all {
            for name in std::iter::once(&device.label).chain(&device.aliases) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// The first name that is unique on the device's host; `None` if there is none.
    pub fn own_name(&self, device: &Device) -> Option<String> {
        let bus_id = device.bus_id.map(|bus_id| bus_id.to_string());
        std::iter::once(&device.label)
            .chain(&device.aliases)
            .cloned()
            .chain(bus_id)
            .find(|name| self.find(name, device.host).len() == 1)
    }
}

/// Ranks that share a GPU are numbered, and the GPU's name means all of them.
fn name_shared_gpus(devices: &mut [Device]) {
    let names: Vec<(u32, String)> = devices
        .iter()
        .filter(|device| device.kind == DeviceKind::Gpu)
        .map(|device| (device.host, device.label.clone()))
        .collect();
    let mut part = std::collections::BTreeMap::new();
    for device in devices
        .iter_mut()
        .filter(|device| device.kind == DeviceKind::Gpu)
    {
        let name = (device.host, device.label.clone());
        if names.iter().filter(|other| **other == name).count() < 2 {
            continue;
        }
        let number = part.entry(name).or_insert(0);
        device.aliases.push(device.label.clone());
        device.label = format!("{}.{number}", device.label);
        *number += 1;
    }
}

struct Walk {
    found: Vec<Device>,
    host: u32,
    /// Hosts with a GPU that has links to an NVSwitch.
    switched: Vec<u32>,
}

impl Walk {
    fn device(&self, kind: DeviceKind, label: String, element: ElementPath) -> Device {
        Device {
            kind,
            host: self.host,
            label,
            aliases: Vec::new(),
            bus_id: None,
            element,
        }
    }

    fn cpu(&mut self, cpu: &Element, index: usize) {
        let numa = cpu.get("numaid").map_or(-1, c_int);
        let mut at = vec![index];
        let device = self.device(DeviceKind::Cpu, format!("CPU{numa}"), at.clone());
        self.found.push(device);
        for (index, child) in cpu.children.iter().enumerate() {
            at.push(index);
            match child.tag {
                Tag::Pci if child.is_used() => self.pci(child, &mut at),
                Tag::Nic => self.ports(child, &mut at),
                _ => {}
            }
            at.pop();
        }
    }

    fn pci(&mut self, pci: &Element, at: &mut ElementPath) {
        let text = pci.get("busid").unwrap_or_default();
        let bus_id = BusId::parse(text);
        for (index, gpu) in pci.children.iter().enumerate() {
            if gpu.tag != Tag::Gpu {
                continue;
            }
            // NCCL skips the whole element at the first GPU that no rank uses.
            if gpu.get("rank").is_none() {
                return;
            }
            at.push(index);
            let dev = gpu.get("dev").map_or(0, c_int);
            let device = self.device(DeviceKind::Gpu, format!("GPU{dev}"), at.clone());
            self.found.push(Device {
                bus_id: Some(bus_id),
                ..device
            });
            at.pop();
            let switched = gpu
                .children(Tag::Nvlink)
                .any(|link| link_kind(link) == NodeType::Nvs);
            if switched && !self.switched.contains(&self.host) {
                self.switched.push(self.host);
            }
        }
        let nic = pci
            .children
            .iter()
            .position(|child| child.tag == Tag::Nic && child.is_used());
        let class = pci.get("class").unwrap_or_default();
        if let Some(index) = nic {
            let device = self.device(DeviceKind::Adapter, bus_id.to_string(), at.clone());
            self.found.push(Device {
                bus_id: Some(bus_id),
                ..device
            });
            at.push(index);
            self.ports(&pci.children[index], at);
            at.pop();
        } else if class_kind(class) == NodeType::Pci {
            let device = self.device(DeviceKind::Switch, bus_id.to_string(), at.clone());
            self.found.push(Device {
                bus_id: Some(bus_id),
                ..device
            });
            for (index, child) in pci.children.iter().enumerate() {
                if child.tag == Tag::Pci && child.is_used() {
                    at.push(index);
                    self.pci(child, at);
                    at.pop();
                }
            }
        }
    }

    fn ports(&mut self, nic: &Element, at: &mut ElementPath) {
        for (index, net) in nic.children.iter().enumerate() {
            let (Tag::Net, Some(dev)) = (net.tag, net.get("dev").map(c_int)) else {
                continue;
            };
            at.push(index);
            let mut device = self.device(DeviceKind::Port, format!("NIC{dev}"), at.clone());
            device.aliases.push(format!("NET{dev}"));
            device.aliases.extend(net.get("name").map(str::to_owned));
            self.found.push(device);
            at.pop();
        }
    }
}

/// The target of an NVLink: a GPU, a CPU, or the NVSwitch, which NCCL takes for anything else.
pub(crate) fn link_kind(nvlink: &Element) -> NodeType {
    match class_kind(nvlink.get("tclass").unwrap_or_default()) {
        kind @ (NodeType::Gpu | NodeType::Cpu) => kind,
        _ => NodeType::Nvs,
    }
}
