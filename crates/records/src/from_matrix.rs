//! A topology from how near devices are to each other.

use std::collections::{BTreeMap, BTreeSet};

use topology::xml::Element;

use crate::assumed::Assumed;
use crate::gpu::{self, Kind, LANES};
use crate::matrix::{Matrix, Nearness};
use crate::pci_link::Link;
use crate::read::Listings;
use crate::said_link::SaidLink;
use crate::tree::{self, GpuFacts, Made};

/// Class of a PCI switch.
const SWITCH: &str = "0x060400";

/// Class of a GPU.
const GPU: &str = "0x030200";

/// Class of a NIC.
const NIC: &str = "0x020700";

/// The `<system>` of a matrix. Devices one bridge apart share a switch; those several bridges apart
/// have switches below one switch; host bridges are all at the NUMA node, as NCCL sees them.
pub(crate) fn root(facts: &Listings, matrix: &Matrix) -> Made {
    let mut assumed = Assumed::default();
    let kinds = kinds(facts, matrix, &mut assumed);
    let usual = kinds.iter().flatten().map(|kind| kind.nic_speed).max();
    let usual = usual.unwrap_or_else(|| Kind::of(0).nic_speed);
    let lanes = kinds.iter().flatten().map(|kind| kind.nic_lanes).min();
    let lanes = lanes.unwrap_or(LANES);
    let places = Places::of(matrix, &mut assumed);
    let mut links = Links::new(facts);
    let bus_ids = bus_ids(facts, matrix, &places);

    let gpus: Vec<usize> = (0..matrix.devices.len())
        .filter(|it| kinds[*it].is_some())
        .collect();
    let counts = gpus.iter().map(|one| {
        let count = |other: &usize| match matrix.nearness[*one][*other] {
            Nearness::Nvlinks(count) => count,
            _ => 0,
        };
        gpus.iter().map(count).collect()
    });
    let counts: Vec<Vec<u32>> = counts.collect();
    let own_ids: Vec<String> = gpus.iter().map(|it| bus_ids[*it].clone()).collect();
    let mut nvlinks = tree::nvlinks(&counts, &own_ids).into_iter();
    let of_gpus = GpuFacts::of(facts, gpus.len(), &mut assumed);

    let (mut nets, mut unknown, mut down) = (0, Vec::new(), Vec::new());
    let mut elements = Vec::new();
    for (at, device) in matrix.devices.iter().enumerate() {
        let link = match kinds[at] {
            Some(kind) => links.of(device.gpu, kind),
            None => Link {
                speed: 32.0,
                width: lanes,
            },
        };
        if let Some(kind) = kinds[at] {
            let dev = device.gpu.map_or(at, |number| number as usize);
            let mut function = tree::pci(&bus_ids[at], GPU, link);
            function
                .children
                .push(of_gpus.element(dev, kind, nvlinks.next().unwrap_or_default()));
            elements.push(Some(function));
            continue;
        }
        let speed = tree::speed(&device.name, facts, usual, &mut unknown);
        elements.push(speed.map(|speed| {
            let mut function = tree::pci(&bus_ids[at], NIC, link);
            function.children.push(tree::nic(nets, &device.name, speed));
            nets += 1;
            function
        }));
        if speed.is_none() {
            down.push(device.name.clone());
        }
    }
    tree::assume_adapters(nets, &unknown, usual, &of_gpus, &mut assumed);
    links.assume(nets, lanes, &mut assumed);
    if matrix.has_no_nvlinks {
        assumed.push(
            "the GPUs are taken to have no NVLinks, which lstopo does not list: put the output of `nvidia-smi \
             topo -m` beside this",
        );
    }
    if !down.is_empty() {
        assumed.push(format!("{} is left out: its port is down", down.join(", ")));
    }

    let mut near = BTreeMap::new();
    for (device, node) in matrix.devices.iter().zip(&places.node) {
        if let Some(list) = &device.processors {
            near.entry(*node).or_insert_with(|| list.clone());
        }
    }
    let nodes = places.nodes(elements);
    let root = tree::system(facts, nodes, &near, None, &mut assumed);
    Made { root, assumed }
}

/// The PCI links of GPUs, and what is known of them.
struct Links<'f> {
    facts: &'f Listings,
    /// The link of all GPUs in prose.
    said: Option<SaidLink>,
    /// Numbers of lanes that prose or names give, and that nobody gives.
    by_text: BTreeSet<u32>,
    is_assumed: bool,
}

impl<'f> Links<'f> {
    fn new(facts: &'f Listings) -> Self {
        Self {
            facts,
            said: facts.prose.link(),
            by_text: BTreeSet::new(),
            is_assumed: false,
        }
    }

    /// That of a GPU: as wide as a listing, or else prose says, and as fast as the GPU and the text
    /// allow.
    fn of(&mut self, gpu: Option<u32>, kind: Kind) -> Link {
        let gpus = &self.facts.gpus;
        let named = gpus.iter().find(|it| Some(it.index) == gpu);
        let own = named.map(|it| it.link).filter(|it| it.lanes.is_some());
        let said = own.or(self.said).unwrap_or_default();
        let is_listed = self
            .facts
            .conditions
            .iter()
            .any(|it| named.is_some_and(|own| own.bus_id.as_ref() == Some(&it.bus_id)));
        match said.lanes {
            None => self.is_assumed = true,
            Some(lanes) if !is_listed => _ = self.by_text.insert(lanes),
            Some(_) => {}
        }
        let speed = said.speed.unwrap_or(kind.pci_speed);
        Link {
            speed: speed.min(kind.pci_speed),
            width: said.lanes.unwrap_or(LANES),
        }
    }

    /// What is assumed of them, and of the lanes of a number of adapters.
    fn assume(&self, adapters: usize, of_adapters: u32, assumed: &mut Assumed) {
        let mut parts = Vec::new();
        if self.is_assumed {
            parts.push(format!(
                "PCI links are taken for {LANES} lanes of the GPUs' generation"
            ));
        }
        if !self.by_text.is_empty() {
            let lanes: Vec<String> = self.by_text.iter().map(u32::to_string).collect();
            parts.push(format!(
                "PCI links of GPUs are taken for {} lanes, as the text says",
                lanes.join(" and ")
            ));
        }
        if adapters > 0 && (of_adapters != LANES || !self.is_assumed) {
            parts.push(format!("those of adapters for {of_adapters}"));
        }
        let text = match parts.first() {
            None => return,
            Some(first) if first.starts_with("those") => {
                format!("PCI links of adapters are taken for {of_adapters} lanes")
            }
            Some(_) => parts.join(", "),
        };
        let text = format!("{text}: put the output of `lspci -vv` (as root) beside this");
        match self.is_assumed {
            true => assumed.push_decisive("lanes", format!("{LANES} lanes of each GPU"), text),
            false => assumed.push(text),
        }
    }
}

/// The kind of each GPU; `None` for NICs.
fn kinds(facts: &Listings, matrix: &Matrix, assumed: &mut Assumed) -> Vec<Option<Kind>> {
    let named = |number: u32| {
        let named = facts.gpus.iter().find(|it| it.index == number)?;
        gpu::kind_of_name(&named.name)
    };
    let numbers: Vec<u32> = matrix.devices.iter().filter_map(|it| it.gpu).collect();
    let unnamed = numbers.iter().filter(|it| named(**it).is_none()).count();
    let counted = facts.said_name();
    let counted = counted.filter(|_| unnamed == numbers.len());
    // A report may name one of equal GPUs.
    let mut names = facts.gpus.iter().map(|it| it.name.as_str());
    let first = names.next().filter(|first| names.all(|it| it == *first));
    let like = counted.or(first);
    let alike = like.and_then(gpu::kind_of_name);
    let guess = alike.unwrap_or_else(|| Kind::of(guess(matrix)));
    let kinds = matrix.devices.iter().map(|device| {
        let number = device.gpu?;
        Some(named(number).unwrap_or(guess))
    });
    let kinds = kinds.collect();
    let id = match matrix.has_nvlinks() {
        true => "gpus-of-nvlinks",
        false => "gpus-without-nvlinks",
    };
    if let (1.., Some(like), Some(_)) = (unnamed, like, alike) {
        let is_all = unnamed == numbers.len();
        let which = match is_all {
            true => "the GPUs are",
            false => "GPUs without a name are",
        };
        let text = format!(
            "{which} taken for {like}, as the text says: put the output of `nvidia-smi -L` beside this"
        );
        match is_all {
            true => assumed.push_decisive(id, like, text),
            false => assumed.push(text),
        }
    } else if unnamed > 0 {
        let why = match matrix.has_nvlinks() {
            true => ", by their NVLinks",
            false => "",
        };
        let text = format!(
            "the GPUs are taken for sm {}{why}: put the output of `nvidia-smi -L` beside this",
            guess.sm
        );
        assumed.push_decisive(id, format!("GPUs of sm {}", guess.sm), text);
    }
    kinds
}

/// Compute capability × 10 of GPUs with so many NVLinks: H100 has 18, A100 12, V100 at most 6.
fn guess(matrix: &Matrix) -> i32 {
    let count = |near: &Nearness| match near {
        Nearness::Nvlinks(count) => *count,
        _ => 0,
    };
    let most = matrix
        .nearness
        .iter()
        .flatten()
        .map(count)
        .max()
        .unwrap_or(0);
    let total = matrix
        .nearness
        .iter()
        .map(|row| row.iter().map(count).sum::<u32>());
    match (most, total.max().unwrap_or(0)) {
        (0, _) => 80,
        (13.., _) => 90,
        (7.., _) | (_, 7..) => 80,
        // The bridge of two RTX 3090 or A6000.
        (4, 4) => 86,
        _ => 70,
    }
}

/// The switch, the group of switches, the host bridge and the NUMA node of each device.
struct Places {
    switch: Vec<usize>,
    group: Vec<usize>,
    bridge: Vec<usize>,
    node: Vec<i32>,
}

impl Places {
    fn of(matrix: &Matrix, assumed: &mut Assumed) -> Self {
        let mut parted = None;
        let mut within = |most: Nearness| {
            classes(matrix, &mut parted, |it| {
                !matches!(it, Nearness::Nvlinks(_)) && it <= most
            })
        };
        let near = within(Nearness::Node);
        let numbers = numbers(matrix, &near);
        let places = Self {
            node: near.iter().map(|class| numbers[class]).collect(),
            switch: within(Nearness::Pix),
            group: within(Nearness::Pxb),
            bridge: within(Nearness::Phb),
        };
        if let Some((one, other)) = parted {
            assumed.push(format!(
                "devices are taken to be at the NUMA nodes that the matrix tells, though a chain of near devices \
                 leads from one to another by {one} and {other}"
            ));
        }
        places
    }

    /// The elements below each NUMA node.
    fn nodes(&self, elements: Vec<Option<Element>>) -> BTreeMap<i32, Vec<Element>> {
        let mut groups: BTreeMap<(i32, usize), BTreeMap<usize, Vec<Element>>> = BTreeMap::new();
        for (at, element) in elements.into_iter().enumerate() {
            let group = groups.entry((self.node[at], self.group[at])).or_default();
            group.entry(self.switch[at]).or_default().extend(element);
        }
        let mut nodes: BTreeMap<i32, Vec<Element>> = BTreeMap::new();
        for ((node, group), switches) in groups {
            let alone = switches.len() == 1;
            let mut below = Vec::new();
            for (switch, devices) in switches {
                match devices.len() {
                    0 => {}
                    1 if alone => below.extend(devices),
                    _ => below.push(bridge(self.switch_id(switch, 1), devices)),
                }
            }
            let children = nodes.entry(node).or_default();
            match alone {
                true => children.extend(below),
                false => children.push(bridge(self.switch_id(group, 0), below)),
            }
        }
        nodes
    }

    /// The bus id of a device that no listing names: each host bridge has a PCI domain.
    fn bus_id(&self, device: usize) -> String {
        format!(
            "{:04x}:{:02x}:{:02x}.0",
            self.bridge[device],
            0x40 + device / 32,
            device % 32
        )
    }

    /// The bus id of a switch, by the first device below it.
    fn switch_id(&self, first: usize, level: usize) -> String {
        format!(
            "{:04x}:{:02x}:{:02x}.{level}",
            self.bridge[first],
            first / 32,
            first % 32
        )
    }
}

/// The NUMA node of each class of near devices: the one that its devices tell, else that of a class
/// with the same processors, else that of a class from which nothing parts it, else a new one.
fn numbers(matrix: &Matrix, near: &[usize]) -> BTreeMap<usize, i32> {
    let mut told: BTreeMap<usize, i32> = BTreeMap::new();
    let mut processors: BTreeMap<usize, &str> = BTreeMap::new();
    let mut apart = BTreeSet::new();
    for (at, device) in matrix.devices.iter().enumerate() {
        if let Some(node) = device.numa {
            told.entry(near[at]).or_insert(node);
        }
        if let Some(list) = &device.processors {
            processors.entry(near[at]).or_insert(list);
        }
        let others = matrix.nearness[at].iter().zip(near);
        let distant = others.filter(|(it, _)| **it == Nearness::Sys);
        apart.extend(distant.map(|(_, other)| (near[at], *other)));
    }
    let mut numbers = told;
    let classes: BTreeSet<usize> = near.iter().copied().collect();
    for class in classes {
        if numbers.contains_key(&class) {
            continue;
        }
        let own = processors.get(&class);
        let joined = numbers.iter().find(|(other, _)| {
            let same = processors.get(other) == own;
            same && (own.is_some() || !apart.contains(&(class, **other)))
        });
        let unused = || (0..).find(|node| numbers.values().all(|it| it != node));
        let node = joined.map(|(_, node)| *node).or_else(unused);
        numbers.insert(class, node.unwrap_or_default());
    }
    numbers
}

/// A PCI switch over devices, as fast and as wide as the best of them.
fn bridge(bus_id: String, devices: Vec<Element>) -> Element {
    let speed = |element: &Element| {
        let text = element.get("link_speed")?.split(' ').next()?;
        text.parse::<f32>().ok()
    };
    let speed = devices.iter().filter_map(speed).fold(0.0, f32::max);
    let lanes = |element: &Element| element.get("link_width")?.parse::<u32>().ok();
    let width = devices.iter().filter_map(lanes).max().unwrap_or(LANES);
    let mut switch = tree::pci(&bus_id, SWITCH, Link { speed, width });
    switch.children = devices;
    switch
}

/// Bus ids of devices: those that a listing has, or else some in the order of the matrix.
fn bus_ids(facts: &Listings, matrix: &Matrix, places: &Places) -> Vec<String> {
    let devices = matrix.devices.iter().enumerate();
    let ids = devices.map(|(at, device)| {
        let named = facts.gpus.iter().find(|it| Some(it.index) == device.gpu);
        let known = named.and_then(|it| it.bus_id.clone());
        known.unwrap_or_else(|| places.bus_id(at))
    });
    ids.collect()
}

/// The first device of the class of each device: those that a chain of near ones joins, unless it
/// leads to another NUMA node than the matrix tells. `parted` is two near devices of such a chain.
fn classes(
    matrix: &Matrix,
    parted: &mut Option<(String, String)>,
    near: impl Fn(Nearness) -> bool,
) -> Vec<usize> {
    let devices = &matrix.devices;
    let mut class: Vec<usize> = (0..devices.len()).collect();
    let mut node: Vec<Option<i32>> = devices.iter().map(|it| it.numa).collect();
    for one in 0..class.len() {
        for other in one + 1..class.len() {
            let (low, high) = (class[one].min(class[other]), class[one].max(class[other]));
            if low == high || !near(matrix.nearness[one][other]) {
                continue;
            }
            if node[low].zip(node[high]).is_some_and(|it| it.0 != it.1) {
                let names = (devices[one].name.clone(), devices[other].name.clone());
                parted.get_or_insert(names);
                continue;
            }
            node[low] = node[low].or(node[high]);
            for it in &mut class {
                if *it == high {
                    *it = low;
                }
            }
        }
    }
    class
}
