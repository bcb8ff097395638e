//! Completes files that have only the PCI tree, as cloud vendors ship them. NCCL adds GPUs, NVLinks
//! and network devices on the machine; here they are assumed.

mod nvlinks;

use std::collections::HashSet;

pub use nvlinks::{devices, without_links};
use topology::xml::{Document, Element, Tag, c_int};

/// The first of the assumed guids.
const FIRST_GUID: u64 = 0xa088_c203_00ab_0000;

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

/// NVLinks that join two GPUs directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedLink {
    /// The two GPUs, by their `dev`.
    pub between: [i32; 2],
    /// Number of NVLinks between them.
    pub count: i32,
}

/// Assumptions about missing devices and links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assumptions {
    /// For GPUs without `<gpu>`; its NVLinks also for GPUs of this kind without `<nvlink>`.
    pub gpu: Option<AssumedGpu>,
    /// For NICs without `<net>`.
    pub nic: Option<AssumedNic>,
    /// For GPUs without `<nvlink>`, in place of NVLinks to NVSwitches.
    pub nvlinks: Vec<AssumedLink>,
}

/// A known machine.
#[derive(Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Compute capability × 10.
    sm: i32,
    /// NVLinks of each GPU to NVSwitches.
    nvswitch_links: i32,
    /// Usual speed of the NICs, Mb/s.
    speed: i32,
    /// NVLinks between two GPUs: both devices and the count.
    direct: &'static [(i32, i32, i32)],
}

/// The hybrid cube mesh of machines with 8 V100 (DGX-1, AWS p3.16xlarge, Azure NDv2). Source: the
/// NVLink matrix of the DGX-1 with V100 in NVIDIA's white paper.
const CUBE_MESH: [(i32, i32, i32); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (0, 4, 2),
    (1, 2, 2),
    (1, 3, 1),
    (1, 5, 2),
    (2, 3, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

/// The board with 4 A100, each joined to each by 4 NVLinks (HGX A100 4-GPU).
const FOUR_A100: [(i32, i32, i32); 6] = [
    (0, 1, 4),
    (0, 2, 4),
    (0, 3, 4),
    (1, 2, 4),
    (1, 3, 4),
    (2, 3, 4),
];

/// The board with 4 H100, each joined to each by 6 NVLinks (HGX H100 4-GPU).
const FOUR_H100: [(i32, i32, i32); 6] = [
    (0, 1, 6),
    (0, 2, 6),
    (0, 3, 6),
    (1, 2, 6),
    (1, 3, 6),
    (2, 3, 6),
];

impl Preset {
    const fn new(
        name: &'static str,
        sm: i32,
        nvswitch_links: i32,
        speed: i32,
        direct: &'static [(i32, i32, i32)],
    ) -> Self {
        Self {
            name,
            sm,
            nvswitch_links,
            speed,
            direct,
        }
    }

    fn assumptions(&self) -> Assumptions {
        let link = |&(from, to, count): &(i32, i32, i32)| AssumedLink {
            between: [from, to],
            count,
        };
        Assumptions {
            gpu: Some(AssumedGpu {
                sm: self.sm,
                nvswitch_links: self.nvswitch_links,
                gdr: true,
            }),
            nic: Some(AssumedNic {
                speed: self.speed,
                gdr: true,
            }),
            nvlinks: self.direct.iter().map(link).collect(),
        }
    }
}

/// Known machines.
pub const PRESETS: [Preset; 11] = [
    Preset::new("v100-cube-mesh", 70, 0, 100_000, &CUBE_MESH),
    Preset::new("v100-sxm3", 70, 6, 100_000, &[]),
    Preset::new("a100-sxm", 80, 12, 200_000, &[]),
    Preset::new("a100-sxm-4gpu", 80, 0, 200_000, &FOUR_A100),
    Preset::new("h100-sxm", 90, 18, 400_000, &[]),
    Preset::new("h100-sxm-4gpu", 90, 0, 400_000, &FOUR_H100),
    Preset::new("h200-sxm", 90, 18, 400_000, &[]),
    Preset::new("b200-sxm", 100, 18, 400_000, &[]),
    Preset::new("b300-sxm", 103, 18, 800_000, &[]),
    Preset::new("a10g", 86, 0, 100_000, &[]),
    Preset::new("l40s", 89, 0, 200_000, &[]),
];

impl Assumptions {
    /// The assumptions of a preset.
    pub fn preset(name: &str) -> Option<Self> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        Some(preset.assumptions())
    }

    /// The first preset with NVSwitches for GPUs of this compute capability × 10, and its name.
    pub fn with_nvswitch(sm: i32) -> Option<(&'static str, Self)> {
        let known = PRESETS
            .iter()
            .find(|preset| preset.sm == sm && preset.nvswitch_links > 0)?;
        Some((known.name, known.assumptions()))
    }
}

/// Devices without their elements, by bus id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MissingParts {
    /// GPUs without `<gpu>`.
    pub gpus: Vec<String>,
    /// NICs without `<net>`.
    pub nics: Vec<String>,
    /// GPUs without `<nvlink>`, if no GPU of the file has one and most machines with such GPUs do.
    pub nvlinks: Vec<String>,
}

impl MissingParts {
    /// Finds the devices of a document that lack their elements.
    pub fn of(document: &Document) -> Self {
        let mut missing = Self::default();
        missing.collect(&document.root);
        missing.nvlinks = nvlinks::missing(document);
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
        self.gpus.is_empty() && self.nics.is_empty() && self.nvlinks.is_empty()
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
    nvlinks::add(&mut document.root, assumptions);
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
