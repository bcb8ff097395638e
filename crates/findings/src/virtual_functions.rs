//! Virtual functions of a topology file beside their physical function.
//!
//! A file does not name the parent of a virtual function, but it has device and bus ids.

use topology::BusId;
use topology::xml::{Document, Element, Tag};

use crate::finding::{Finding, Rule};

use crate::document::devices;

/// NVIDIA's vendor id for network adapters.
const MELLANOX: &str = "0x15b3";

/// Device ids of virtual functions: the table of Linux' driver mlx5_core (`MLX5_PCI_DEV_IS_VF`).
const VIRTUAL: [&str; 8] = [
    "0x1012", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e", "0xa2d3",
];

/// The last number that is certainly a virtual function of function 0: a card has one or two
/// ports, and the virtual functions of the first port have the first numbers behind the ports.
const OF_FIRST: u64 = 2;

/// A function of an adapter with a port that NCCL uses.
struct Function<'e> {
    pci: &'e Element,
    bus_id: BusId,
}

impl Function<'_> {
    /// Domain and bus: the functions of a card share them.
    const fn bus(&self) -> u64 {
        self.bus_id.0 >> 12
    }

    /// The number on its bus, in which the device counts as 8 functions (ARI).
    const fn number(&self) -> u64 {
        let (device, function) = (self.bus_id.0 >> 4 & 0xff, self.bus_id.0 & 0xf);
        device * 8 + function
    }

    fn is_virtual(&self) -> bool {
        let device = self.pci.get("device").unwrap_or_default();
        VIRTUAL.contains(&device)
    }

    fn name(&self) -> String {
        devices(self.pci).join(", ")
    }
}

fn collect<'e>(element: &'e Element, found: &mut Vec<Function<'e>>) {
    for child in &element.children {
        let port = child
            .children(Tag::Nic)
            .any(|nic| nic.children(Tag::Net).next().is_some());
        if child.tag == Tag::Pci && child.get("vendor") == Some(MELLANOX) && port {
            found.push(Function {
                pci: child,
                bus_id: BusId::parse(child.get("busid").unwrap_or_default()),
            });
        }
        collect(child, found);
    }
}

/// Finds virtual functions whose physical function is in the file for certain.
pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut functions = Vec::new();
    collect(&document.root, &mut functions);
    let (virtual_ones, physical): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(Function::is_virtual);
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for one in &virtual_ones {
        let port = |number| {
            let on_card = |it: &&Function<'_>| it.bus() == one.bus() && it.number() == number;
            physical.iter().find(on_card)
        };
        let parent = match (port(0), port(1)) {
            (Some(first), _) if one.number() <= OF_FIRST => first.name(),
            (Some(first), Some(second)) => format!("{} or {}", first.name(), second.name()),
            _ => continue,
        };
        match found.iter_mut().find(|(known, _)| *known == parent) {
            Some((_, names)) => names.push(one.name()),
            None => found.push((parent, vec![one.name()])),
        }
    }
    let finding = |(parent, names): &(String, Vec<String>)| {
        let seen = match names.len() {
            1 => format!("a virtual function of {parent}, both in the file"),
            _ => format!("virtual functions of {parent}, all in the file"),
        };
        Finding::of_all(Rule::VirtualFunction, names, seen, "one of them")
    };
    found.iter().map(finding).collect()
}
