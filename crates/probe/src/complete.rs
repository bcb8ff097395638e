//! Completes files that have only the PCI tree, as cloud vendors ship them. NCCL adds GPUs and
//! network devices on the machine; here they are assumed.

use std::collections::HashSet;

use topology::xml::{Document, Element, Tag, c_int};

/// The first of the assumed guids.
const FIRST_GUID: u64 = 0xa088_c203_00ab_0000;

/// The target and class that NCCL writes for NVLinks to NVSwitches that it cannot see.
const NVSWITCH: (&str, &str) = ("fffffff:ffff:ff", "0x068000");

/// Most queue pairs of a ConnectX adapter.
const CONNECTIONS: &str = "131072";

/// Assumed properties of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedGpu {
    /// Compute capability × 10.
    pub sm: i32,
    /// Number of NVLinks to NVSwitches.
    pub nvswitch_links: i32,
    /// Whether network adapters can access its memory.
    pub gdr: bool,
}

/// Assumed properties of a network adapter with one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedNic {
    /// Speed, Mb/s.
    pub speed: i32,
    /// Whether it can access GPU memory.
    pub gdr: bool,
}

/// Assumptions about missing devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Assumptions {
    /// For GPUs without `<gpu>`.
    pub gpu: Option<AssumedGpu>,
    /// For NICs without `<net>`.
    pub nic: Option<AssumedNic>,
}

/// Known machines: name, compute capability × 10, NVLinks to NVSwitches, usual speed of the NICs in
/// Mb/s.
pub const PRESETS: [(&str, i32, i32, i32); 8] = [
    ("v100-sxm3", 70, 6, 100_000),
    ("a100-sxm", 80, 12, 200_000),
    ("h100-sxm", 90, 18, 400_000),
    ("h200-sxm", 90, 18, 400_000),
    ("b200-sxm", 100, 18, 400_000),
    ("b300-sxm", 103, 18, 800_000),
    ("a10g", 86, 0, 100_000),
    ("l40s", 89, 0, 200_000),
];

impl Assumptions {
    /// The assumptions of a preset.
    pub fn preset(name: &str) -> Option<Self> {
        let (_, sm, nvswitch_links, speed) = *PRESETS.iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            gpu: Some(AssumedGpu {
                sm,
                nvswitch_links,
                gdr: true,
            }),
            nic: Some(AssumedNic { speed, gdr: true }),
        })
    }
}

/// Devices without their elements, by bus id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// GPUs without `<gpu>`.
    pub gpus: Vec<String>,
    /// NICs without `<net>`.
    pub nics: Vec<String>,
}

impl Missing {
    /// Finds the devices of a document that lack their elements.
    pub fn of(document: &Document) -> Self {
        let mut missing = Self::default();
        missing.collect(&document.root);
        missing
    }

    fn collect(&mut self, element: &Element) {
        if element.tag == Tag::Pci {
            let bus_id = element.get("busid").unwrap_or_default();
            if lacks_gpu(element) {
                self.gpus.push(bus_id.to_owned());
            }
            if lacks_net(element) {
                self.nics.push(bus_id.to_owned());
            }
        }
        element
            .children
            .iter()
            .for_each(|child| self.collect(child));
    }

    /// Whether nothing is missing.
    pub const fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.nics.is_empty()
    }
}

fn lacks_gpu(pci: &Element) -> bool {
    let class = pci.get("class").unwrap_or_default();
    class.starts_with("0x03") && pci.children(Tag::Gpu).next().is_none()
}

fn lacks_net(pci: &Element) -> bool {
    let class = pci.get("class").unwrap_or_default();
    let has_net = pci
        .children(Tag::Nic)
        .any(|nic| nic.children(Tag::Net).next().is_some());
    class.starts_with("0x02") && !has_net
}

/// Adds the assumed elements. New devices are numbered in the file's order after existing ones.
pub fn complete(document: &Document, assumptions: &Assumptions) -> Document {
    let mut completer = Completer {
        assumptions,
        gpus: Numbers::default(),
        nets: Numbers::default(),
    };
    completer.count(&document.root);
    let mut document = document.clone();
    completer.element(&mut document.root);
    document
}

struct Completer<'a> {
    assumptions: &'a Assumptions,
    gpus: Numbers,
    nets: Numbers,
}

/// The device numbers in use.
#[derive(Default)]
struct Numbers {
    taken: HashSet<i32>,
    next: i32,
}

impl Numbers {
    fn note(&mut self, number: i32) {
        self.taken.insert(number);
        self.next = self.next.max(number.saturating_add(1));
    }

    /// The number after the largest one, or the first free one after an overflow.
    fn take(&mut self) -> i32 {
        while !self.taken.insert(self.next) {
            self.next = self.next.checked_add(1).unwrap_or(0);
        }
        self.next
    }
}

impl Completer<'_> {
    fn count(&mut self, element: &Element) {
        let numbers = match element.tag {
            Tag::Gpu => Some(&mut self.gpus),
            Tag::Net => Some(&mut self.nets),
            _ => None,
        };
        if let (Some(numbers), Some(dev)) = (numbers, element.get("dev")) {
            numbers.note(c_int(dev));
        }
        element.children.iter().for_each(|child| self.count(child));
    }

    fn element(&mut self, element: &mut Element) {
        if element.tag == Tag::Pci {
            if let Some(gpu) = self.assumptions.gpu.filter(|_| lacks_gpu(element)) {
                element.children.push(self.gpu(gpu));
            }
            if let Some(nic) = self.assumptions.nic.filter(|_| lacks_net(element)) {
                let net = self.net(nic);
                match element
                    .children
                    .iter_mut()
                    .find(|child| child.tag == Tag::Nic)
                {
                    Some(nic) => nic.children.push(net),
                    None => {
                        let mut nic = Element::new(Tag::Nic);
                        nic.children.push(net);
                        element.children.push(nic);
                    }
                }
            }
        }
        element
            .children
            .iter_mut()
            .for_each(|child| self.element(child));
    }

    fn gpu(&mut self, assumed: AssumedGpu) -> Element {
        let mut gpu = Element::new(Tag::Gpu);
        let number = self.gpus.take().to_string();
        gpu.set("dev", number.clone());
        gpu.set("sm", assumed.sm.to_string());
        gpu.set("rank", number);
        gpu.set("gdr", i32::from(assumed.gdr).to_string());
        if assumed.nvswitch_links > 0 {
            let mut link = Element::new(Tag::Nvlink);
            link.set("target", NVSWITCH.0);
            link.set("count", assumed.nvswitch_links.to_string());
            link.set("tclass", NVSWITCH.1);
            gpu.children.push(link);
        }
        gpu
    }

    fn net(&mut self, assumed: AssumedNic) -> Element {
        let mut net = Element::new(Tag::Net);
        let number = self.nets.take();
        net.set("name", format!("mlx5_{number}"));
        net.set("dev", number.to_string());
        net.set("latency", "0");
        net.set("speed", assumed.speed.to_string());
        net.set("port", "1");
        net.set(
            "guid",
            format!("{:#x}", FIRST_GUID + number.unsigned_abs() as u64),
        );
        net.set("maxconn", CONNECTIONS);
        net.set("gdr", i32::from(assumed.gdr).to_string());
        net
    }
}
