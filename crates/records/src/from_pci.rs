//! A topology from PCI functions.

use std::collections::{BTreeMap, BTreeSet};

use topology::xml::Element;

use crate::assumed::Assumed;
use crate::gpu::{self, Kind};
use crate::matrix::Nearness;
use crate::pci::{Bus, Function};
use crate::pci_link::Link;
use crate::read::Listings;
use crate::tree::{self, GpuFacts, Made};

/// Most functions from a device up to its CPU.
const DEEPEST: usize = 32;

/// Lanes of a link of which nothing is said.
const LANES: u32 = 16;

/// The functions below each switch.
type Below = BTreeMap<Option<usize>, BTreeSet<usize>>;

/// The functions of a machine, with the bridge above each bus.
pub(crate) struct Functions<'f> {
    pub(crate) all: &'f [Function],
    above: BTreeMap<Bus, usize>,
}

impl<'f> Functions<'f> {
    pub(crate) fn new(all: &'f [Function]) -> Self {
        let bridges = all.iter().enumerate();
        // Buses are numbered downwards; the firmware left other bridges without a bus.
        let above = bridges.filter_map(|(at, function)| {
            let secondary = function.secondary?;
            (secondary > function.bus).then_some((secondary, at))
        });
        Self {
            all,
            above: above.collect(),
        }
    }

    /// The port that a function is behind.
    fn port(&self, at: usize) -> Option<usize> {
        self.above.get(&self.all[at].bus).copied()
    }

    /// The switch that NCCL puts a function below: it takes the two functions of a switch, its
    /// port and its upper end, for one.
    fn parent(&self, at: usize) -> Option<usize> {
        self.port(self.port(at)?)
    }

    /// The bridges above a function, from the host bridge on.
    pub(crate) fn bridges(&self, at: usize) -> Vec<usize> {
        let mut bridges = Vec::new();
        let mut above = self.port(at);
        while let Some(bridge) = above.filter(|_| bridges.len() < DEEPEST) {
            bridges.push(bridge);
            above = self.port(bridge);
        }
        bridges.reverse();
        bridges
    }

    /// The functions below each switch, those below none first, and the NUMA nodes of functions
    /// that have one or that are above a device that has one.
    fn hierarchy<'e>(
        &self,
        ends: impl Iterator<Item = &'e usize>,
        of_ends: &BTreeMap<usize, i32>,
    ) -> (Below, BTreeMap<usize, i32>) {
        let mut numa: BTreeMap<usize, i32> = BTreeMap::new();
        let mut below = Below::new();
        for end in ends {
            let mut at = *end;
            for _ in 0..DEEPEST {
                let own = self.all[at].numa.or_else(|| of_ends.get(end).copied());
                if let Some(own) = own {
                    numa.entry(at).or_insert(own);
                }
                let parent = self.parent(at);
                below.entry(parent).or_default().insert(at);
                let Some(parent) = parent else { break };
                at = parent;
            }
        }
        (below, numa)
    }

    /// What the link of a function can do, together with the port above it.
    pub(crate) fn link(&self, at: usize) -> Option<Link> {
        let own = self.all[at].capability;
        let port = self.port(at).and_then(|port| self.all[port].capability);
        match (own, port) {
            (Some(own), Some(port)) => Some(own.narrower(port)),
            (own, port) => own.or(port),
        }
    }
}

/// The `<system>` of PCI functions, with the NVLinks and names of a matrix if there is one.
pub(crate) fn root(facts: &Listings) -> Made {
    let functions = Functions::new(&facts.pci);
    let mut assumed = Assumed::default();
    let in_order = |wanted: fn(&Function) -> bool| {
        let found = facts.pci.iter().enumerate().filter(|(_, it)| wanted(it));
        let mut found: Vec<usize> = found.map(|(at, _)| at).collect();
        found.sort_by_key(|at| facts.pci[*at].bus_id());
        found
    };
    let gpus = in_order(Function::is_gpu);
    let adapters = in_order(Function::is_adapter);
    let kinds = kinds(facts, &gpus, &mut assumed);
    let usual = kinds.iter().map(|kind| kind.nic_speed).max();
    let usual = usual.unwrap_or_else(|| Kind::of(0).nic_speed);

    let mut ends: BTreeMap<usize, Element> = BTreeMap::new();
    let mut unlinked = false;
    let mut function = |at: usize, speed: f32| {
        let link = functions.link(at);
        unlinked |= link.is_none();
        let link = link.unwrap_or(Link {
            speed,
            width: LANES,
        });
        tree::pci(&facts.pci[at].bus_id(), facts.pci[at].class(), link)
    };
    let nvlinks = nvlinks(facts, &gpus, &kinds, &mut assumed);
    let of_gpus = GpuFacts::of(facts, gpus.len(), &mut assumed);
    for (dev, ((at, kind), links)) in gpus.iter().zip(&kinds).zip(nvlinks).enumerate() {
        let mut element = function(*at, kind.pci_speed);
        element.children.push(of_gpus.element(dev, *kind, links));
        ends.insert(*at, element);
    }
    let listed = names(facts, adapters.len());
    // Names that are made up are in no other listing.
    let unnamed = Listings::default();
    let known = if listed.is_some() { facts } else { &unnamed };
    let made_up = || (0..adapters.len()).map(|at| format!("mlx5_{at}")).collect();
    let names = listed.unwrap_or_else(made_up);
    let (mut unknown, mut dev) = (Vec::new(), 0);
    for (at, name) in adapters.iter().zip(names) {
        let Some(speed) = tree::speed(&name, known, usual, &mut unknown) else {
            assumed.push(format!("{name} is left out: its port is down"));
            continue;
        };
        let mut element = function(*at, 32.0);
        element.children.push(tree::nic(dev, &name, speed));
        ends.insert(*at, element);
        dev += 1;
    }
    tree::assume_adapters(dev, &unknown, usual, &of_gpus, &mut assumed);

    let of_matrix = numa_of_matrix(facts, &gpus, &adapters);
    let (below, numa) = functions.hierarchy(ends.keys(), &of_matrix);
    let (mut nodes, mut homeless): (BTreeMap<i32, Vec<Element>>, bool) = Default::default();
    for at in below.get(&None).into_iter().flatten() {
        let node = numa.get(at).copied();
        homeless |= node.is_none();
        let made = element(*at, &below, &mut ends, &mut function, 0);
        nodes.entry(node.unwrap_or(0)).or_default().extend(made);
    }
    if homeless {
        assumed.push(
            "functions without a NUMA node are taken to be at node 0: run `lspci -vv` as root"
                .to_owned(),
        );
    }
    if unlinked {
        assumed.push(format!(
            "PCI links without speed and width are taken for {LANES} lanes of the GPUs' \
             generation: run `lspci -vv` as root"
        ));
    }
    if facts.is_tree {
        assumed.push(
            "ports are taken to send traffic between devices below them directly (ACS), which \
             `lspci -tv` does not list: run `lspci -vv` as root"
                .to_owned(),
        );
    }
    let near = near(facts, &gpus);
    let root = tree::system(facts, nodes, &near, is_amd(&facts.pci), &mut assumed);
    Made { root, assumed }
}

/// A function with everything below it. A bridge that seems to be below itself ends there.
fn element(
    at: usize,
    below: &Below,
    ends: &mut BTreeMap<usize, Element>,
    function: &mut impl FnMut(usize, f32) -> Element,
    depth: usize,
) -> Option<Element> {
    if depth > DEEPEST {
        return None;
    }
    let mut made = ends.remove(&at).unwrap_or_else(|| function(at, 32.0));
    for child in below.get(&Some(at)).into_iter().flatten() {
        made.children
            .extend(element(*child, below, ends, function, depth + 1));
    }
    Some(made)
}

/// The kind of each GPU.
fn kinds(facts: &Listings, gpus: &[usize], assumed: &mut Assumed) -> Vec<Kind> {
    let kind = |at: usize| {
        let function = &facts.pci[at];
        let bus_id = function.bus_id();
        let named = facts
            .gpus
            .iter()
            .find(|it| it.bus_id.as_ref() == Some(&bus_id));
        function
            .gpu_kind()
            .or_else(|| gpu::kind_of_name(&named?.name))
    };
    let found: Vec<Option<Kind>> = gpus.iter().map(|at| kind(*at)).collect();
    let known = found.iter().flatten().next().copied();
    let guess = known.unwrap_or_else(|| Kind::of(80));
    if let Some(at) = found.iter().position(Option::is_none) {
        assumed.push(format!(
            "{} is taken for sm {}: its device id is not known here",
            facts.pci[gpus[at]].bus_id(),
            guess.sm
        ));
    }
    found
        .into_iter()
        .map(|kind| kind.unwrap_or(guess))
        .collect()
}

/// The NVLinks of each GPU: those of a matrix of as many GPUs, or to NVSwitches that lspci lists.
fn nvlinks(
    facts: &Listings,
    gpus: &[usize],
    kinds: &[Kind],
    assumed: &mut Assumed,
) -> Vec<Vec<Element>> {
    let bus_ids: Vec<String> = gpus.iter().map(|at| facts.pci[*at].bus_id()).collect();
    let in_matrix = facts.matrix.as_ref().map(|matrix| {
        let devices = (0..matrix.devices.len()).filter(|it| matrix.devices[*it].gpu.is_some());
        (matrix, devices.collect::<Vec<usize>>())
    });
    if let Some((matrix, devices)) = in_matrix.filter(|(_, devices)| devices.len() == gpus.len()) {
        let counts = devices.iter().map(|one| {
            let count = |other: &usize| match matrix.nearness[*one][*other] {
                Nearness::Nvlinks(count) => count,
                _ => 0,
            };
            devices.iter().map(count).collect()
        });
        return tree::nvlinks(&counts.collect::<Vec<Vec<u32>>>(), &bus_ids);
    }
    let switched = facts.pci.iter().any(Function::is_nvswitch);
    let links = |kind: &Kind| match kind.sm {
        90.. => 18,
        80.. => 12,
        _ => 6,
    };
    if !switched {
        assumed.push(
            "the GPUs are taken to have no NVLinks, which lspci does not list: put the output of \
             `nvidia-smi topo -m` beside this"
                .to_owned(),
        );
    }
    let of_kind = |kind: &Kind| switched.then(|| tree::to_nvswitch(links(kind)));
    kinds
        .iter()
        .map(|kind| of_kind(kind).into_iter().collect())
        .collect()
}

/// The names of `count` adapters, in the order of their bus ids, if a listing has as many.
fn names(facts: &Listings, count: usize) -> Option<Vec<String>> {
    let of_matrix = facts.matrix.as_ref().map(|matrix| {
        let nics = matrix.devices.iter().filter(|it| it.gpu.is_none());
        nics.map(|it| it.name.clone()).collect::<Vec<String>>()
    });
    let listed = facts.adapters.iter().map(|it| it.name.clone()).collect();
    let mut known = of_matrix.into_iter().chain([listed]);
    known.find(|names| names.len() == count)
}

/// The NUMA nodes of GPUs and adapters in a matrix of as many.
fn numa_of_matrix(facts: &Listings, gpus: &[usize], adapters: &[usize]) -> BTreeMap<usize, i32> {
    let devices = facts.matrix.iter().flat_map(|matrix| &matrix.devices);
    let (in_gpus, in_adapters): (Vec<_>, Vec<_>) = devices.partition(|it| it.gpu.is_some());
    let pairs = [(in_gpus, gpus), (in_adapters, adapters)];
    let pairs = pairs
        .iter()
        .filter(|(devices, all)| devices.len() == all.len());
    let pairs = pairs.flat_map(|(devices, all)| devices.iter().zip(*all));
    pairs
        .filter_map(|(device, at)| Some((*at, device.numa?)))
        .collect()
}

/// Processors near each NUMA node, as the matrix has them.
fn near(facts: &Listings, gpus: &[usize]) -> BTreeMap<i32, String> {
    let devices = facts.matrix.iter().flat_map(|matrix| &matrix.devices);
    let devices = devices.filter(|it| it.gpu.is_some()).zip(gpus);
    let near =
        devices.filter_map(|(device, at)| Some((facts.pci[*at].numa?, device.processors.clone()?)));
    near.collect()
}

/// Whether the processor's bridges are AMD's; `None` if they tell nothing.
fn is_amd(functions: &[Function]) -> Option<bool> {
    let mut bridges = functions.iter().filter(|it| it.kind.ends_with("bridge"));
    bridges.find_map(|bridge| {
        let amd = bridge.name.contains("Advanced Micro Devices");
        (amd || bridge.name.contains("Intel")).then_some(amd)
    })
}
