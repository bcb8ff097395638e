//! Wiring of GPUs and NICs as in `nvidia-smi topo -m`: from the file's tree, without NCCL's rules.

use std::collections::BTreeMap;

use topology::bandwidth::class_kind;
use topology::xml::{Document, Element, Tag, c_int};
use topology::{BusId, NodeType};

/// A GPU or a NIC of the matrix.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// `GPU0`, `NIC3`.
    pub label: String,
    /// The number in the label.
    pub number: i32,
    /// Otherwise it is a NIC.
    pub is_gpu: bool,
    /// The name of a NIC.
    pub name: Option<String>,
    /// Its NUMA node; below 0 if it is unknown.
    pub numa: i32,
    /// The NUMA node's processors, as the file's mask.
    pub affinity: String,
    host: String,
    cpu: usize,
    /// PCI functions from the CPU down to the device's own, by their order in the file.
    chain: Vec<usize>,
    /// The PCI domain of the first of them.
    domain: u64,
    /// The host bridge above the first of them, where it is known.
    host_bridge: Option<String>,
    bus_id: BusId,
    /// NVLinks to other GPUs.
    nvlinks: Vec<(BusId, i32)>,
    /// NVLinks to NVSwitches.
    switch_links: i32,
}

/// All devices, GPUs first, each kind by number.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// The devices.
    pub devices: Vec<Device>,
}

impl Wiring {
    /// Reads the tree of a machine.
    pub fn new(document: &Document) -> Self {
        Self::with_host_bridges(document, &BTreeMap::new())
    }

    /// Reads the tree of a machine whose host bridges are known, by bus id of what is below them.
    pub fn with_host_bridges(document: &Document, bridges: &BTreeMap<BusId, String>) -> Self {
        let mut walk = Walk {
            bridges,
            devices: Vec::new(),
            functions: 0,
        };
        for (index, cpu) in document.root.children(Tag::Cpu).enumerate() {
            let place = Device {
                numa: cpu.get("numaid").map_or(-1, c_int),
                affinity: cpu.get("affinity").unwrap_or_default().to_owned(),
                host: cpu.get("host_hash").unwrap_or_default().to_owned(),
                cpu: index,
                ..Device::default()
            };
            walk.enter(cpu, &place);
        }
        // Stable: partitions and ports with equal numbers keep the file's order.
        walk.devices
            .sort_by_key(|device| (!device.is_gpu, device.number));
        Self {
            devices: walk.devices,
        }
    }

    /// The devices of each host, hosts in the file's order.
    pub fn hosts(&self) -> Vec<Vec<usize>> {
        let mut hosts: Vec<(usize, &str, Vec<usize>)> = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            match hosts.iter_mut().find(|(_, host, _)| *host == device.host) {
                Some((first_cpu, _, devices)) => {
                    *first_cpu = device.cpu.min(*first_cpu);
                    devices.push(index);
                }
                None => hosts.push((device.cpu, &device.host, vec![index])),
            }
        }
        hosts.sort_by_key(|(first_cpu, ..)| *first_cpu);
        hosts.into_iter().map(|(_, _, devices)| devices).collect()
    }

    /// Some of the devices.
    pub fn only(&self, devices: &[usize]) -> Self {
        let devices = devices.iter().map(|index| self.devices[*index].clone());
        Self {
            devices: devices.collect(),
        }
    }

    /// NVLinks between two GPUs, or from both to NVSwitches.
    pub fn nvlinks(&self, a: usize, b: usize) -> i32 {
        self.devices[a].nvlinks_to(&self.devices[b])
    }

    /// The cell of two devices in the matrix.
    pub fn letters(&self, a: usize, b: usize) -> String {
        let (first, second) = (&self.devices[a], &self.devices[b]);
        if a == b {
            return " X".to_owned();
        }
        let bonded = first.nvlinks_to(second);
        if bonded > 0 {
            return format!("NV{bonded}");
        }
        let text = if first.host != second.host {
            "-"
        } else if first.cpu != second.cpu {
            "SYS"
        } else {
            first.below_one_cpu(second)
        };
        text.to_owned()
    }
}

impl Device {
    fn nvlinks_to(&self, other: &Self) -> i32 {
        if !self.is_gpu || !other.is_gpu {
            return 0;
        }
        let direct = self
            .nvlinks
            .iter()
            .filter(|(target, _)| self.host == other.host && *target == other.bus_id);
        let direct = direct.fold(0i32, |sum, (_, count)| sum.saturating_add(*count));
        if direct > 0 {
            direct
        } else {
            self.switch_links.min(other.switch_links)
        }
    }

    fn below_one_cpu(&self, other: &Self) -> &'static str {
        let shared = self
            .chain
            .iter()
            .zip(&other.chain)
            .take_while(|(a, b)| a == b)
            .count();
        if shared == 0 {
            // Different domains mean different host bridges; within a domain the file does not say.
            let same = match (&self.host_bridge, &other.host_bridge) {
                (Some(own), Some(others)) => own == others,
                _ => self.domain == other.domain,
            };
            return if same { "PHB" } else { "NODE" };
        }
        let bridges_above = |chain: &[usize]| chain.len().saturating_sub(1).saturating_sub(shared);
        // The last one that both share is a bridge, too, unless it is the function of both.
        if bridges_above(&self.chain) + bridges_above(&other.chain) == 0 {
            "PIX"
        } else {
            "PXB"
        }
    }

    /// Whether both have the same distance to all other devices.
    pub fn sits_with(&self, other: &Self) -> bool {
        let above = |device: &Self| device.chain[..device.chain.len().saturating_sub(1)].to_vec();
        self.is_gpu == other.is_gpu
            && self.cpu == other.cpu
            && (self.chain == other.chain || !above(self).is_empty() && above(self) == above(other))
    }
}

struct Walk<'b> {
    bridges: &'b BTreeMap<BusId, String>,
    devices: Vec<Device>,
    functions: usize,
}

impl Walk<'_> {
    fn enter(&mut self, element: &Element, place: &Device) {
        for child in &element.children {
            match child.tag {
                Tag::Pci => {
                    let mut deeper = place.clone();
                    deeper.bus_id = BusId::parse(child.get("busid").unwrap_or_default());
                    if deeper.chain.is_empty() {
                        deeper.domain = deeper.bus_id.0 >> 20;
                        deeper.host_bridge = self.bridges.get(&deeper.bus_id).cloned();
                    }
                    deeper.chain.push(self.functions);
                    self.functions += 1;
                    self.enter(child, &deeper);
                }
                Tag::Nic => self.enter(child, place),
                Tag::Gpu if child.get("rank").is_some() => self.add_gpu(child, place),
                Tag::Net if child.get("net").is_none_or(|net| c_int(net) != 0) => {
                    self.add_net(child, place)
                }
                _ => {}
            }
        }
    }

    fn add_gpu(&mut self, element: &Element, place: &Device) {
        let mut device = place.clone();
        device.is_gpu = true;
        device.number = element.get("dev").map_or(-1, c_int);
        device.label = format!("GPU{}", device.number);
        for link in element.children(Tag::Nvlink) {
            let count = link.get("count").map_or(0, c_int).max(0);
            match class_kind(link.get("tclass").unwrap_or_default()) {
                NodeType::Gpu => device
                    .nvlinks
                    .push((BusId::parse(link.get("target").unwrap_or_default()), count)),
                NodeType::Cpu => {}
                _ => device.switch_links = device.switch_links.saturating_add(count),
            }
        }
        self.devices.push(device);
    }

    fn add_net(&mut self, element: &Element, place: &Device) {
        let Some(number) = element.get("dev").map(c_int) else {
            return;
        };
        let mut device = place.clone();
        device.number = number;
        device.label = format!("NIC{number}");
        device.name = element.get("name").map(str::to_owned);
        self.devices.push(device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wiring(inside: &str) -> Wiring {
        let text = format!("<system version=\"1\">{inside}</system>");
        Wiring::new(&topology::xml::parse("test", text.as_bytes()).unwrap())
    }

    fn gpu(bus_id: &str, dev: u32, links: &str) -> String {
        format!(
            "<pci busid=\"{bus_id}\" class=\"0x030200\"><gpu dev=\"{dev}\" sm=\"80\" rank=\"{dev}\" gdr=\"1\">{links}</gpu></pci>"
        )
    }

    fn switch(bus_id: &str, inside: &str) -> String {
        format!("<pci busid=\"{bus_id}\" class=\"0x060400\">{inside}</pci>")
    }

    #[test]
    fn letters_follow_the_tree() {
        let nvlink =
            |target: &str| format!("<nvlink target=\"{target}\" count=\"2\" tclass=\"0x030200\"/>");
        let below = gpu("0000:03:00.0", 0, "") + &gpu("0000:04:00.0", 1, &nvlink("0000:06:00.0"));
        let two_levels = switch(
            "0000:05:00.0",
            &gpu("0000:06:00.0", 2, &nvlink("0000:04:00.0")),
        );
        let cpu0 = switch("0000:02:00.0", &(below + &two_levels))
            + &gpu("0000:41:00.0", 3, "")
            + &gpu("0001:41:00.0", 4, "");
        let cpu1 = gpu("0000:81:00.0", 5, "");
        let wiring = wiring(&format!(
            "<cpu numaid=\"0\" arch=\"arm64\">{cpu0}</cpu><cpu numaid=\"1\" arch=\"arm64\">{cpu1}</cpu>"
        ));
        let from_gpu0: Vec<String> = (0..6).map(|other| wiring.letters(0, other)).collect();
        assert_eq!(from_gpu0, [" X", "PIX", "PXB", "PHB", "NODE", "SYS"]);
        assert_eq!(wiring.letters(1, 2), "NV2");
        assert!(wiring.devices[0].sits_with(&wiring.devices[1]));
        assert!(!wiring.devices[0].sits_with(&wiring.devices[2]));
    }
}
