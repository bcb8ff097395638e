//! Builds the document: the trees of all ranks, merged as NCCL merges them.

mod attributes;
mod place;

pub use attributes::gigatransfers;

use topology::join::Part;
use topology::xml::{Element, Tag};

use crate::gpu::ProbedGpu;
use crate::machine::pci::BRIDGE;
use crate::machine::{Machine, PciFunction};
use crate::net::ProbedNet;

/// Longest value that NCCL accepts, bytes.
const LONGEST_VALUE: usize = 253;

/// The inputs of the tree.
#[derive(Debug)]
pub struct TreeParts<'a> {
    machine: &'a Machine,
    gpus: &'a [ProbedGpu],
    nets: &'a [ProbedNet],
    /// The elements of the file that NCCL starts from.
    base: Option<&'a Element>,
}

impl<'a> TreeParts<'a> {
    /// Collects the inputs.
    pub const fn new(
        machine: &'a Machine,
        gpus: &'a [ProbedGpu],
        nets: &'a [ProbedNet],
        base: Option<&'a Element>,
    ) -> Self {
        Self {
            machine,
            gpus,
            nets,
            base,
        }
    }

    /// Builds the `<system>` element: every rank's GPU and all network devices, merged by rank.
    pub fn root(&self, all_devices: bool) -> Element {
        let mut ranked: Vec<&ProbedGpu> =
            self.gpus.iter().filter(|gpu| gpu.rank.is_some()).collect();
        ranked.sort_by_key(|gpu| gpu.rank);
        let own = ranked.iter().map(|gpu| {
            let mut own = self.base.cloned().unwrap_or_else(new_system);
            self.add_gpu(&mut own, gpu);
            self.add_nets(&mut own);
            own
        });
        let own: Vec<Element> = own.collect();
        let parts = own.iter().zip(&ranked);
        let parts = parts.map(|(own, gpu)| match self.base {
            Some(_) => Part::trimmed(own, &|element, parent| {
                self.uses(element, parent, &gpu.bus_id)
            }),
            None => Part::whole(own),
        });
        let joined = parts.reduce(|mut joined, part| {
            joined.join(part);
            joined
        });
        let mut root = joined.map_or_else(new_system, |joined| joined.to_element());
        if ranked.is_empty() {
            self.add_nets(&mut root);
            // Without GPUs, nothing is trimmed: show the processors.
            for node in self
                .machine
                .numa_nodes
                .iter()
                .filter(|node| node.has_processors())
            {
                place::cpu(&mut root, &node.number.to_string(), || {
                    attributes::cpu(self.machine, node.number)
                });
            }
            if root.children.is_empty() {
                place::cpu(&mut root, "-1", || attributes::cpu(self.machine, -1));
            }
            root.children
                .sort_by_key(|cpu| cpu.get("numaid").map_or(-1, topology::xml::c_int));
        }
        if all_devices {
            for function in self
                .machine
                .pci
                .iter()
                .filter(|function| is_end_point(function))
            {
                place::pci(&mut root, self, &function.bus_id);
            }
        }
        plain(&mut root);
        root
    }

    /// Whether the rank on the GPU at this bus id uses an element.
    fn uses(&self, element: &Element, parent: &Element, gpu: &str) -> bool {
        match element.tag {
            Tag::Gpu => parent
                .get("busid")
                .is_some_and(|own| own.eq_ignore_ascii_case(gpu)),
            Tag::Net => {
                let mut names = self.nets.iter().map(|net| net.name.as_str());
                names.any(|name| Some(name) == element.get("name"))
            }
            _ => false,
        }
    }

    fn add_gpu(&self, root: &mut Element, gpu: &ProbedGpu) {
        let element = attributes::gpu(gpu, |target| {
            self.machine
                .pci
                .get(target)
                .map(|function| function.class.clone())
        });
        let pci = place::pci(root, self, &gpu.bus_id);
        let Some(known) = pci.children.iter_mut().find(|child| child.tag == Tag::Gpu) else {
            pci.children.push(element);
            return;
        };
        place::fill(known, &element);
        known.set("rank", gpu.rank.unwrap_or(0).to_string());
        for tag in [Tag::Nvlink, Tag::C2c] {
            if known.children(tag).next().is_none() {
                known.children.extend(element.children(tag).cloned());
            }
        }
    }

    fn add_nets(&self, root: &mut Element) {
        for net in self.nets {
            let element = attributes::net(net);
            if let Some(known) = named(root, &net.name).filter(|_| self.base.is_some()) {
                place::fill(known, &element);
                known.set("dev", net.dev.to_string());
                known.set("net", "1");
                continue;
            }
            let parent = match &net.bus_id {
                Some(bus_id) => place::pci(root, self, bus_id),
                None => place::first_cpu(root, || attributes::cpu(self.machine, 0)),
            };
            let nic = match parent
                .children
                .iter()
                .position(|child| child.tag == Tag::Nic)
            {
                Some(at) => &mut parent.children[at],
                None => {
                    parent.children.push(Element::new(Tag::Nic));
                    let last = parent.children.len() - 1;
                    &mut parent.children[last]
                }
            };
            // NCCL finds devices by name, so a second port of one name replaces the first.
            match nic
                .children
                .iter_mut()
                .find(|known| known.get("name") == Some(&net.name))
            {
                Some(known) => *known = element,
                None => nic.children.push(element),
            }
        }
    }

    /// The element of a PCI function, with links to other switches but without children.
    fn pci_element(&self, bus_id: &str) -> Element {
        let gpu = self.gpus.iter().find(|gpu| gpu.bus_id == bus_id);
        let mut element = attributes::pci(self.machine, bus_id, gpu);
        let function = self.machine.pci.get(bus_id);
        for target in function.iter().flat_map(|function| &function.switch_links) {
            let mut link = Element::new(Tag::Pcilink);
            link.set("target", target.clone());
            element.children.push(link);
        }
        element
    }
}

/// Removes characters that NCCL's reader or XML does not accept. The kernel writes none of them.
fn plain(element: &mut Element) {
    for attribute in &mut element.attributes {
        let odd = |c: char| {
            !c.is_ascii() || c.is_ascii_control() || matches!(c, '"' | '\'' | '<' | '>' | '&')
        };
        if attribute.value.contains(odd) {
            attribute.value.retain(|c| !odd(c));
        }
        attribute.value.truncate(LONGEST_VALUE);
    }
    element.children.iter_mut().for_each(plain);
}

/// Finds the `<net>` of this name.
fn named<'r>(element: &'r mut Element, name: &str) -> Option<&'r mut Element> {
    if element.tag == Tag::Net && element.get("name") == Some(name) {
        return Some(element);
    }
    let children = element.children.iter_mut();
    children.filter_map(|child| named(child, name)).next()
}

fn new_system() -> Element {
    let mut system = Element::new(Tag::System);
    system.set("version", "1");
    system
}

/// Whether a function is a device rather than a bridge.
fn is_end_point(function: &PciFunction) -> bool {
    !function.class.starts_with(&BRIDGE[..4]) && !function.class.is_empty()
}
