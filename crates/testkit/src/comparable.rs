//! Topologies as a probe can find them.

use topology::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

/// A document without what a probe cannot know or what says the same in other words: siblings by
/// name, numbers as numbers.
pub fn comparable(document: &Document) -> String {
    let mut root = document.root.clone();
    simplify(&mut root);
    // NCCL trims CPUs without devices.
    root.children.retain(|cpu| !cpu.children.is_empty());
    topology::xml::write(&Document::from_root("comparable", root))
}

fn simplify(element: &mut Element) {
    // What files do not tell, and what NCCL 2.30 writes, but the models of machines leave out.
    let unknown = [
        "host_hash",
        "latency",
        "maxconn",
        "coll",
        "mlopart",
        "net",
        "gin",
        "rma",
        "rail",
        "plane",
    ];
    element
        .attributes
        .retain(|attribute| !unknown.contains(&&*attribute.name));
    if element.tag == Tag::Cpu && element.get("numaid") == Some("-1") {
        element
            .attributes
            .retain(|attribute| attribute.name != "affinity");
    }
    for attribute in &mut element.attributes {
        attribute.value = match &*attribute.name {
            "vendor" | "device" | "subsystem_vendor" | "subsystem_device"
                if element.tag == Tag::Pci =>
            {
                format!("{:#x}", c_unsigned_hexadecimal(&attribute.value))
            }
            "link_speed" => format!("{} GB/s", topology::bandwidth::pci(&attribute.value, 16)),
            "link_width" => match c_int(&attribute.value) {
                0 => 16,
                width => width,
            }
            .to_string(),
            _ => attribute.value.clone(),
        };
    }
    element.attributes.sort_by(|a, b| a.name.cmp(&b.name));
    element.children.iter_mut().for_each(simplify);
    element.children.sort_by_key(|child| {
        let name = ["numaid", "busid", "target", "name", "dev"]
            .iter()
            .find_map(|name| child.get(name));
        (child.tag, name.unwrap_or_default().to_owned())
    });
}
