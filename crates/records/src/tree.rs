//! Elements of a topology, with what is assumed where listings say nothing.

use std::collections::BTreeMap;

use topology::NO_P2P;
use topology::node::nccl_family;
use topology::xml::{Element, Tag};

use crate::adapter::Adapter;
use crate::assumed::Assumed;
use crate::gpu::{self, Kind};
use crate::pci_link::Link;
use crate::peers::Peers;
use crate::processor::{listed, mask};
use crate::read::Listings;

/// The target and class that NCCL writes for NVLinks to NVSwitches.
const NVSWITCH: (&str, &str) = ("fffffff:ffff:ff", "0x068000");

/// Class of a GPU.
const GPU_CLASS: &str = "0x030200";

/// The first of the guids that are made up.
const FIRST_GUID: u64 = 0xa088_c203_00ab_0000;

/// Most queue pairs of a ConnectX adapter.
const CONNECTIONS: &str = "131072";

/// Bandwidth that NCCL writes for a link between a GPU and its Grace, MB/s. Source: the machines in
/// `topologies/`.
const CHIP_LINK: &str = "44712";

/// Most NVLinks of a GPU (H100, B200).
const MOST_NVLINKS: u32 = 18;

/// A tree that was made, and what was assumed.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) root: Element,
    pub(crate) assumed: Assumed,
}

/// A `<system>` with its `<cpu>` elements: children by NUMA node.
pub(crate) fn system(
    facts: &Listings,
    nodes: BTreeMap<i32, Vec<Element>>,
    near: &BTreeMap<i32, String>,
    amd: Option<bool>,
    assumed: &mut Assumed,
) -> Element {
    let mut root = Element::new(Tag::System);
    root.set("version", "1");
    let known = &facts.processor;
    let said = facts.prose.processor();
    let vendor = known.vendor.as_deref().or(match amd {
        Some(true) => Some("AuthenticAMD"),
        Some(false) => Some("GenuineIntel"),
        None => said.as_ref().map(|it| it.vendor),
    });
    let said = said.as_ref().filter(|it| Some(it.vendor) == vendor);
    let by_name = said.and_then(|it| it.family);
    let by_name = by_name.map(|(family, model)| (nccl_family(family), model));
    let arch = match (known.arch.as_deref(), facts.has_grace()) {
        (Some(arch), _) => arch,
        (None, true) => "arm64",
        (None, false) => "x86_64",
    };
    // Sapphire Rapids, and Zen 3 or 4: what most machines with these GPUs have.
    let (family, model) = known.family.or(by_name).unwrap_or(match vendor {
        Some("AuthenticAMD") => (175, 17),
        _ => (6, 143),
    });
    let is_said = known.vendor.is_none() && amd.is_none();
    let id_of_said = match vendor {
        Some("AuthenticAMD") => "processor-said-amd",
        _ => "processor-said-intel",
    };
    if let (Some(said), Some(_), "x86_64", None) = (said, by_name, arch, known.family) {
        let text = format!(
            "the processor is taken for {}, as the text says: put the output of `lscpu` beside this",
            said.name
        );
        match is_said {
            true => assumed.push_decisive(id_of_said, &*said.name, text),
            false => assumed.push(text),
        }
    } else if arch == "x86_64" && known.family.is_none() {
        // NCCL's limit is SYS for at most two GPUs on AMD, otherwise PXB.
        let also = match vendor.is_none() && facts.gpu_count() == 2 {
            true => ", and the use of P2P (two GPUs on AMD: on any path; else up to PXB)",
            false => "",
        };
        let (id, is) = match vendor {
            Some("AuthenticAMD") => ("processor-amd", "an EPYC of Zen 3 or 4"),
            Some(_) => ("processor-intel", "a Xeon of Sapphire Rapids"),
            None => ("processor", "a Xeon of Sapphire Rapids"),
        };
        let (id, by_text) = match said.filter(|_| is_said) {
            Some(said) => (id_of_said, format!(", for the text says `{}`", said.name)),
            None => (id, String::new()),
        };
        let text = format!(
            "the processor is taken for {is}{by_text}; bandwidth between sockets depends on it{also}: put the output of \
             `lscpu` beside this"
        );
        assumed.push_decisive(id, is.replace("a Xeon of", "Intel,"), text);
    }
    for (number, children) in nodes {
        let mut cpu = Element::new(Tag::Cpu);
        cpu.set("numaid", number.to_string());
        let own = known.nodes.get(&number).cloned();
        let own = own.or_else(|| near.get(&number).map(|list| listed(list)));
        if let Some(own) = own.filter(|own| !own.is_empty()) {
            cpu.set("affinity", mask(&own));
        }
        cpu.set("arch", arch);
        if arch == "x86_64" {
            cpu.set("vendor", vendor.unwrap_or("GenuineIntel"));
            cpu.set("familyid", family.to_string());
            cpu.set("modelid", model.to_string());
        }
        cpu.children = children;
        root.children.push(cpu);
    }
    root
}

/// A `<pci>`.
pub(crate) fn pci(bus_id: &str, class: &str, link: Link) -> Element {
    let mut pci = Element::new(Tag::Pci);
    pci.set("busid", bus_id);
    pci.set("class", class);
    pci.set("link_speed", link.speed_text());
    pci.set("link_width", link.width.to_string());
    pci
}

/// What listings say of all GPUs.
#[derive(Debug)]
pub(crate) struct GpuFacts {
    /// Links between chips of each GPU to its Grace.
    chip_links: Option<u32>,
    /// For each GPU by its number those with which it has no peer access.
    no_p2p: BTreeMap<usize, Vec<String>>,
    /// Whether adapters may access their memory.
    gdr: bool,
}

impl GpuFacts {
    /// Those of a number of GPUs.
    pub(crate) fn of(facts: &Listings, gpus: usize, assumed: &mut Assumed) -> Self {
        let mut chip_links = None;
        if facts.has_grace() && !facts.names_gpu(&["GB10"]) {
            let count = if facts.names_gpu(&["GB300"]) { 5 } else { 10 };
            assumed.push(format!(
                "each GPU is taken to have {count} links between chips to its Grace, as such modules have"
            ));
            chip_links = Some(count);
        }
        if facts.has_partitions || facts.conditions.iter().any(|it| it.is_partitioned) {
            assumed.push(
                "GPUs are taken as a whole, though some are partitioned (MIG): NCCL joins no two partitions of one GPU",
            );
        }
        let doubtful = facts
            .refuses_access()
            .filter(|_| gpus > 1 && facts.peers.is_none());
        if let Some(name) = doubtful {
            let text = format!(
                "peer access is taken to be granted, though NVIDIA's driver refuses it for {name} (then NCCL goes \
                 through host memory): put the output of `nvidia-smi topo -p2p r` beside this"
            );
            assumed.push_decisive("peer-access", "peer access", text);
        }
        let mut no_p2p: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (one, other) in facts.peers.iter().flat_map(Peers::refusals) {
            no_p2p
                .entry(one as usize)
                .or_default()
                .push(other.to_string());
        }
        Self {
            chip_links,
            no_p2p,
            gdr: !facts
                .names()
                .iter()
                .any(|it| gpu::is_consumer(it) || it.contains("GB10")),
        }
    }

    /// A `<gpu>` with its NVLinks.
    pub(crate) fn element(&self, dev: usize, kind: Kind, nvlinks: Vec<Element>) -> Element {
        let mut gpu = Element::new(Tag::Gpu);
        gpu.set("dev", dev.to_string());
        gpu.set("sm", kind.sm.to_string());
        gpu.set("rank", dev.to_string());
        gpu.set("gdr", if self.gdr { "1" } else { "0" });
        if let Some(others) = self.no_p2p.get(&dev) {
            gpu.set(NO_P2P, others.join(","));
        }
        gpu.children = nvlinks;
        gpu.children.extend(self.chip_links.map(|count| {
            let mut links = Element::new(Tag::C2c);
            links.set("bw", CHIP_LINK);
            links.set("count", count.to_string());
            links
        }));
        gpu
    }
}

/// A `<nic>` with one port.
pub(crate) fn nic(dev: usize, name: &str, speed: i32) -> Element {
    let mut net = Element::new(Tag::Net);
    net.set("name", name);
    net.set("dev", dev.to_string());
    net.set("latency", "0");
    net.set("speed", speed.to_string());
    net.set("port", "1");
    net.set("guid", format!("{:#x}", FIRST_GUID + dev as u64));
    net.set("maxconn", CONNECTIONS);
    net.set("gdr", "1");
    let mut nic = Element::new(Tag::Nic);
    nic.children.push(net);
    nic
}

/// The NVLinks of each GPU: to other GPUs by their bus ids, or to NVSwitches if a GPU cannot have
/// as many links as it has to all others together. `counts` is GPUs × GPUs.
pub(crate) fn nvlinks(counts: &[Vec<u32>], bus_ids: &[String]) -> Vec<Vec<Element>> {
    let switched = counts
        .iter()
        .any(|row| row.iter().sum::<u32>() > MOST_NVLINKS);
    let of_gpu = |row: &Vec<u32>| -> Vec<Element> {
        if switched {
            let most = row.iter().max().filter(|count| **count > 0);
            return most
                .map(|count| link(NVSWITCH.0, NVSWITCH.1, *count))
                .into_iter()
                .collect();
        }
        let peers = row.iter().zip(bus_ids).filter(|(count, _)| **count > 0);
        peers
            .map(|(count, bus_id)| link(bus_id, GPU_CLASS, *count))
            .collect()
    };
    counts.iter().map(of_gpu).collect()
}

/// The `<nvlink>` of a GPU to NVSwitches.
pub(crate) fn to_nvswitch(count: u32) -> Element {
    link(NVSWITCH.0, NVSWITCH.1, count)
}

fn link(target: &str, class: &str, count: u32) -> Element {
    let mut link = Element::new(Tag::Nvlink);
    link.set("target", target);
    link.set("count", count.to_string());
    link.set("tclass", class);
    link
}

/// Speed of an adapter, Mb/s; `None` if its port is down. A name that was made up is in no listing.
pub(crate) fn speed(
    name: &str,
    facts: &Listings,
    usual: i32,
    unknown: &mut Vec<String>,
) -> Option<i32> {
    let known: Option<&Adapter> = facts.adapters.iter().find(|it| it.name == name);
    if known.is_some_and(|it| it.is_active == Some(false)) {
        return None;
    }
    Some(known.and_then(|it| it.speed).unwrap_or_else(|| {
        unknown.push(name.to_owned());
        usual
    }))
}

/// What is assumed of a number of adapters, the speed of some of which is unknown.
pub(crate) fn assume_adapters(
    adapters: usize,
    unknown: &[String],
    usual: i32,
    gpus: &GpuFacts,
    assumed: &mut Assumed,
) {
    if adapters > 0 && gpus.gdr {
        assumed.push_decisive(
            "gpudirect",
            "GPUDirect RDMA",
            "GPUDirect RDMA is taken to work between all GPUs and adapters: NCCL's log says \
             whether it does (NCCL_DEBUG=INFO)",
        );
    }
    if !unknown.is_empty() {
        let text = format!(
            "{} {} taken for {} Gb/s: put the output of `ibstat` beside this",
            unknown.join(", "),
            if unknown.len() == 1 { "is" } else { "are" },
            usual / 1000
        );
        let assumed_speed = format!("ports of {} Gb/s", usual / 1000);
        match unknown.len() == adapters {
            true => assumed.push_decisive("nic-speed", assumed_speed, text),
            false => assumed.push(text),
        }
    }
}
