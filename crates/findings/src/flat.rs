//! Virtual machines that hide the PCI switches of the hardware.

use topology::xml::{Document, Element, Tag};
use topology::{BusId, NodeType, bandwidth};

use crate::finding::{Finding, Rule};

use crate::document::is_gpu;

/// GPUs from which a machine has switches, or several CPUs with ports of their own.
const MANY_GPUS: usize = 4;

/// Most cards with 16 lanes on root ports of one CPU: slots of boards for Threadripper and EPYC.
const MOST_CARDS: usize = 7;

/// Finds GPUs that are all directly below their CPUs, though the hardware cannot be so. Servers
/// with PCIe cards and several CPUs can, as workstations with one CPU, and are no finding.
pub(crate) fn check(document: &Document) -> Option<Finding> {
    let cpus: Vec<&Element> = document.root.children(Tag::Cpu).collect();
    let functions = || cpus.iter().flat_map(|cpu| cpu.children(Tag::Pci));
    let has_switch = functions().any(|pci| pci.children(Tag::Pci).next().is_some());
    let gpus: Vec<&Element> = functions().filter(|pci| is_gpu(pci)).collect();
    if has_switch || gpus.len() < MANY_GPUS {
        return None;
    }
    let holding = cpus
        .iter()
        .filter(|cpu| cpu.children(Tag::Pci).any(is_gpu))
        .map(|cpu| format!("CPU{}", cpu.get("numaid").unwrap_or("?")));
    let count = gpus.len();
    let are_cards = !gpus
        .iter()
        .any(|gpu| is_switched(gpu) || is_on_root_bus(gpu));
    let (seen, expected) = match cpus.as_slice() {
        [_] if are_cards && count <= MOST_CARDS => return None,
        [_] => (
            format!("{count} GPUs and no switch"),
            "the switches and NUMA nodes of the hardware",
        ),
        _ if gpus.iter().all(|gpu| is_switched(gpu)) && cpus.iter().all(|cpu| is_x86(cpu)) => (
            format!("{count} GPUs with NVSwitches, and no PCI switch"),
            "the PCI switches, which x86 servers with NVSwitches have",
        ),
        _ if gpus.iter().all(|gpu| is_on_root_bus(gpu)) => (
            format!("{count} GPUs on root buses, as a hypervisor places them, and no switch"),
            "the switches of the hardware, if it has some",
        ),
        _ => return None,
    };
    let places: Vec<String> = holding.collect();
    Some(Finding::of_all(Rule::Flat, &places, seen, expected))
}

fn is_x86(cpu: &Element) -> bool {
    cpu.get("arch") == Some("x86_64")
}

/// Whether a GPU has NVLinks to NVSwitches.
fn is_switched(pci: &Element) -> bool {
    let gpus = pci.children(Tag::Gpu);
    let mut links = gpus.flat_map(|gpu| gpu.children(Tag::Nvlink));
    links.any(|link| {
        let class = link.get("tclass").unwrap_or_default();
        bandwidth::class_kind(class) == NodeType::Nvs
    })
}

/// Whether a function is on bus 0 of its domain. A card in a slot is behind a root port, and thus
/// on another bus.
fn is_on_root_bus(pci: &Element) -> bool {
    let bus_id = pci.get("busid").map(BusId::parse);
    bus_id.is_some_and(|bus_id| bus_id.0 >> 12 & 0xff == 0)
}
