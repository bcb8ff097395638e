//! Random machines: shapes that NCCL could meet, and some that nobody builds.

use proptest::prelude::*;
use proptest::sample::select;
use topology::xml::{Document, Element, Tag};

/// Most GPUs of a machine. More would only make searches longer.
const MOST_GPUS: usize = 10;

/// Most network ports of a machine.
const MOST_PORTS: usize = 12;

/// Vendor, family and model, which only x86 has.
type Model = (&'static str, &'static str, &'static str);

/// Processors: architecture and model.
const PROCESSORS: [(&str, Option<Model>); 9] = [
    ("x86_64", Some(("GenuineIntel", "6", "79"))),
    ("x86_64", Some(("GenuineIntel", "6", "85"))),
    ("x86_64", Some(("GenuineIntel", "6", "143"))),
    ("x86_64", Some(("GenuineIntel", "6", "207"))),
    ("x86_64", Some(("AuthenticAMD", "143", "49"))),
    ("x86_64", Some(("CentaurHauls", "7", "91"))),
    ("x86_64", Some(("SomebodyElse", "1", "1"))),
    ("arm64", None),
    ("ppc64", None),
];

const LINK_SPEEDS: [&str; 7] = [
    "2.5 GT/s PCIe",
    "8.0 GT/s PCIe",
    "16.0 GT/s PCIe",
    "32.0 GT/s PCIe",
    "64.0 GT/s PCIe",
    "16 GT/s",
    "",
];

/// The parent of a unit's devices: none (root ports), a switch, a switch below a switch, or
/// Broadcom's two levels, which NCCL takes for one switch.
#[derive(Debug, Clone, Copy)]
enum Holder {
    RootPorts,
    Switch,
    Cascade,
    Broadcom,
}

/// Devices with one parent on one NUMA node.
#[derive(Debug, Clone)]
struct Unit {
    node: prop::sample::Index,
    holder: Holder,
    gpus: usize,
    nics: usize,
    two_ports: bool,
    link: (&'static str, &'static str),
}

/// How GPUs are connected besides PCIe.
#[derive(Debug, Clone)]
enum Fabric {
    Pcie,
    Switch {
        links: u8,
    },
    /// Between neighbors in a ring of GPUs, or between all pairs, with this number of links each.
    Bridges {
        all: bool,
        links: u8,
    },
}

#[derive(Debug, Clone)]
struct Shape {
    nodes: usize,
    processor: usize,
    sm: u32,
    units: Vec<Unit>,
    fabric: Fabric,
    c2c: bool,
    speed: u32,
    gdr: (bool, bool),
    latency: &'static str,
}

/// A machine with at least one GPU, as a complete topology file: every GPU has a rank, every port a
/// device number.
pub fn machine() -> impl Strategy<Value = Document> {
    let all = vec![60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120];
    machine_of(all, 18)
}

/// The same with GPUs of these compute capabilities × 10 and at most so many NVLinks to switches.
pub fn machine_of(sms: Vec<u32>, most_links: u8) -> impl Strategy<Value = Document> {
    shape(sms, most_links).prop_map(|shape| shape.document())
}

/// The same with the processor of Grace.
pub fn machine_on_arm(sms: Vec<u32>, most_links: u8) -> impl Strategy<Value = Document> {
    machine_of(sms, most_links).prop_map(|mut machine| {
        for cpu in &mut machine.root.children {
            let model = ["vendor", "familyid", "modelid"];
            cpu.attributes.retain(|it| !model.contains(&&*it.name));
            cpu.set("arch", "arm64");
        }
        machine
    })
}

/// The same, with some or most of the GPUs split into two parts (MLOPart) that are ranks' devices.
pub fn machine_of_parts(sms: Vec<u32>, most_links: u8) -> impl Strategy<Value = Document> {
    (machine_of(sms, most_links), any::<u16>(), any::<bool>()).prop_map(
        |(mut machine, chosen, all)| {
            let is_split = |gpu: usize| all || chosen >> gpu & 1 == 1;
            split(&mut machine.root, &is_split, &mut 0);
            machine
        },
    )
}

/// Splits the chosen GPUs, in the order of the document, which is that of their numbers.
fn split(parent: &mut Element, is_split: &impl Fn(usize) -> bool, ranks: &mut usize) {
    for mut child in std::mem::take(&mut parent.children) {
        if child.tag != Tag::Gpu {
            split(&mut child, is_split, ranks);
            parent.children.push(child);
            continue;
        }
        let number = child.get("dev").and_then(|dev| dev.parse().ok());
        let parts: &[&str] = match number.is_some_and(is_split) {
            true => &["0", "1"],
            false => &["-1"],
        };
        for part in parts {
            child.set("mlopart", *part);
            child.set("rank", ranks.to_string());
            *ranks += 1;
            parent.children.push(child.clone());
        }
    }
}

fn shape(sms: Vec<u32>, most_links: u8) -> impl Strategy<Value = Shape> {
    let holder = select(vec![
        Holder::RootPorts,
        Holder::Switch,
        Holder::Cascade,
        Holder::Broadcom,
    ]);
    let link = (
        select(LINK_SPEEDS.to_vec()),
        select(vec!["16", "8", "1", ""]),
    );
    let unit = (
        any::<prop::sample::Index>(),
        holder,
        0usize..5,
        0usize..4,
        any::<bool>(),
        link,
    )
        .prop_map(|(node, holder, gpus, nics, two_ports, link)| Unit {
            node,
            holder,
            gpus,
            nics,
            two_ports,
            link,
        });
    let fabric = prop_oneof![
        Just(Fabric::Pcie),
        (1u8..=most_links).prop_map(|links| Fabric::Switch { links }),
        (any::<bool>(), 1u8..=6).prop_map(|(all, links)| Fabric::Bridges { all, links }),
    ];
    let sm = select(sms);
    let speed = select(vec![0, 10_000, 25_000, 100_000, 200_000, 400_000, 800_000]);
    (
        (1usize..=4, 0..PROCESSORS.len(), sm),
        prop::collection::vec(unit, 1..5),
        (fabric, any::<bool>(), speed),
        (any::<bool>(), any::<bool>()),
        select(vec!["0", "1.5", "75"]),
    )
        .prop_map(
            |((nodes, processor, sm), units, (fabric, c2c, speed), gdr, latency)| Shape {
                nodes,
                processor,
                sm,
                units,
                fabric,
                c2c,
                speed,
                gdr,
                latency,
            },
        )
}

/// The document under construction.
struct Builder<'a> {
    shape: &'a Shape,
    next_bus: u32,
    /// Bus ids of the GPUs so far.
    gpus: Vec<String>,
    ports: usize,
}

impl Shape {
    fn document(&self) -> Document {
        let mut root = Element::new(Tag::System);
        root.set("version", "1");
        let (arch, vendor) = PROCESSORS[self.processor];
        for node in 0..self.nodes {
            let affinity = format!("{:08x}", 0xffu32 << (8 * node));
            let (numaid, mut model) = (node.to_string(), Vec::new());
            if let Some((vendor, family, id)) = vendor {
                model = vec![("vendor", vendor), ("familyid", family), ("modelid", id)];
            }
            let all = [
                ("numaid", &*numaid),
                ("affinity", &affinity),
                ("arch", arch),
            ];
            root.children
                .push(element(Tag::Cpu, &[&all[..], &model].concat()));
        }
        let mut builder = Builder {
            shape: self,
            next_bus: 1,
            gpus: Vec::new(),
            ports: 0,
        };
        for unit in &self.units {
            let node = unit.node.index(self.nodes);
            let devices = builder.unit(unit);
            root.children[node].children.extend(devices);
        }
        if builder.gpus.is_empty() {
            let gpu = builder.gpu(("32.0 GT/s PCIe", "16"));
            root.children[0].children.push(gpu);
        }
        let gpus = builder.gpus;
        self.join(&mut root, &gpus);
        Document::from_root("random.xml", root)
    }

    /// Adds NVLink and C2C to every GPU of the tree.
    fn join(&self, parent: &mut Element, gpus: &[String]) {
        for child in &mut parent.children {
            self.join(child, gpus);
        }
        if parent.tag != Tag::Gpu {
            return;
        }
        let own: usize = parent
            .get("dev")
            .and_then(|dev| dev.parse().ok())
            .unwrap_or(0);
        match self.fabric {
            Fabric::Pcie => {}
            Fabric::Switch { links } => {
                parent
                    .children
                    .push(nvlink("fffffff:ffff:ff", links, "0x068000"))
            }
            Fabric::Bridges { all, links } => {
                for (dev, bus) in gpus.iter().enumerate() {
                    let apart = own.abs_diff(dev);
                    let neighbors = apart == 1 || apart == gpus.len() - 1;
                    if dev != own && (all || neighbors) {
                        parent.children.push(nvlink(bus, links, "0x030200"));
                    }
                }
            }
        }
        if self.c2c {
            let c2c = [("bw", "44712"), ("count", "10")];
            parent.children.push(element(Tag::C2c, &c2c));
        }
    }
}

impl Builder<'_> {
    fn unit(&mut self, unit: &Unit) -> Vec<Element> {
        let mut devices = Vec::new();
        for _ in 0..unit.gpus.min(MOST_GPUS - self.gpus.len()) {
            devices.push(self.gpu(unit.link));
        }
        for _ in 0..unit.nics {
            let ports = if unit.two_ports { 2 } else { 1 };
            if self.ports + ports <= MOST_PORTS {
                devices.push(self.nic(ports, unit.link));
            }
        }
        if devices.is_empty() {
            return devices;
        }
        match unit.holder {
            Holder::RootPorts => devices,
            Holder::Switch => vec![self.switch(devices, ("0x10b5", "0x9797", "0x0000", "0x0000"))],
            Holder::Cascade => {
                let lower = self.switch(devices, ("0x10b5", "0x9797", "0x0000", "0x0000"));
                vec![self.switch(vec![lower], ("0x10b5", "0x9797", "0x0000", "0x0000"))]
            }
            Holder::Broadcom => {
                let second = devices.split_off(devices.len() / 2);
                let halves = [devices, second]
                    .into_iter()
                    .filter(|half| !half.is_empty());
                let lower = halves
                    .map(|half| self.switch(half, ("0x1000", "0xc030", "0x1000", "0x1001")))
                    .collect();
                vec![self.switch(lower, ("0x1000", "0xc030", "0x1000", "0x0001"))]
            }
        }
    }

    fn bus(&mut self) -> String {
        let bus = self.next_bus;
        self.next_bus += 1;
        format!("0000:{bus:02x}:00.0")
    }

    fn pci(&mut self, class: &str, ids: (&str, &str, &str, &str), link: (&str, &str)) -> Element {
        let attributes = [
            ("busid", &*self.bus()),
            ("class", class),
            ("vendor", ids.0),
            ("device", ids.1),
            ("subsystem_vendor", ids.2),
            ("subsystem_device", ids.3),
            ("link_speed", link.0),
            ("link_width", link.1),
        ];
        element(Tag::Pci, &attributes)
    }

    fn switch(&mut self, below: Vec<Element>, ids: (&str, &str, &str, &str)) -> Element {
        let mut switch = self.pci("0x060400", ids, ("16.0 GT/s PCIe", "16"));
        switch.children = below;
        switch
    }

    fn gpu(&mut self, link: (&str, &str)) -> Element {
        let mut pci = self.pci("0x030200", ("0x10de", "0x0000", "0x10de", "0x0000"), link);
        let (dev, sm) = (self.gpus.len().to_string(), self.shape.sm.to_string());
        let gdr = flag(self.shape.gdr.0);
        let gpu = [("dev", &*dev), ("sm", &sm), ("rank", &dev), ("gdr", gdr)];
        let gpu = element(Tag::Gpu, &gpu);
        self.gpus
            .push(pci.get("busid").unwrap_or_default().to_owned());
        pci.children.push(gpu);
        pci
    }

    fn nic(&mut self, ports: usize, link: (&str, &str)) -> Element {
        // ConnectX-8 or -7.
        let card = if self.shape.speed == 800_000 {
            "0x1023"
        } else {
            "0x1021"
        };
        let mut pci = self.pci("0x020700", ("0x15b3", card, "0x15b3", "0x0000"), link);
        let mut nic = Element::new(Tag::Nic);
        let guid = format!("{:#x}", 0x00a0_88c2_0300_ab00 + self.ports as u64);
        for port in 0..ports {
            let mut net = Element::new(Tag::Net);
            net.set("name", format!("mlx5_{}", self.ports));
            net.set("dev", self.ports.to_string());
            net.set("latency", self.shape.latency);
            net.set("speed", self.shape.speed.to_string());
            net.set("port", (port + 1).to_string());
            net.set("guid", guid.clone());
            net.set("maxconn", "131072");
            net.set("gdr", flag(self.shape.gdr.1));
            nic.children.push(net);
            self.ports += 1;
        }
        pci.children.push(nic);
        pci
    }
}

fn nvlink(target: &str, links: u8, class: &str) -> Element {
    let count = links.to_string();
    let attributes = [("target", target), ("count", &count), ("tclass", class)];
    element(Tag::Nvlink, &attributes)
}

fn element(tag: Tag, attributes: &[(&'static str, &str)]) -> Element {
    let mut element = Element::new(tag);
    for (name, value) in attributes {
        element.set(*name, *value);
    }
    element
}

const fn flag(value: bool) -> &'static str {
    if value { "1" } else { "0" }
}
