//! The topology file as NCCL is given it, and as it gives it back.

use topology::xml::{Document, Element, Tag};

/// Attributes of `<cpu>` that NCCL would take from the processor it runs on, with values that no
/// processor has.
const OF_PROCESSOR: [(&str, &str); 4] = [
    ("arch", "x86_64"),
    ("vendor", "none"),
    ("familyid", "0"),
    ("modelid", "0"),
];

/// Attributes that NCCL adds or leaves out, and that describe no machine.
const OF_DUMP: [&str; 8] = [
    "host_hash",
    "keep",
    "mlopart",
    "net",
    "rail",
    "plane",
    "gin",
    "rma",
];

/// The machine with the attributes that NCCL would otherwise take from the processor it runs on;
/// and the names of those that were added.
pub fn complete(document: &Document) -> (Document, Vec<&'static str>) {
    let mut complete = document.clone();
    let mut added = Vec::new();
    add(&mut complete.root, &mut added);
    (complete, added)
}

fn add(element: &mut Element, added: &mut Vec<&'static str>) {
    if element.tag == Tag::Cpu {
        for (name, value) in OF_PROCESSOR {
            if element.get(name).is_none() {
                element.set(name, value);
                if !added.contains(&name) {
                    added.push(name);
                }
            }
        }
    }
    for child in &mut element.children {
        add(child, added);
    }
}

/// Whether two documents describe the same machine to NCCL: equal elements in the same order.
pub fn is_same(one: &Document, other: &Document) -> bool {
    key(&one.root) == key(&other.root)
}

/// An element, its attributes by name, and its children.
fn key(element: &Element) -> String {
    let attributes = element.attributes.iter();
    let attributes = attributes.filter(|it| !OF_DUMP.contains(&&*it.name));
    let mut attributes: Vec<String> = attributes
        .map(|it| format!(" {}={:?}", it.name, it.value))
        .collect();
    attributes.sort();
    let children: Vec<String> = element.children.iter().map(key).collect();
    format!(
        "<{:?}{}>{}</>",
        element.tag,
        attributes.concat(),
        children.concat()
    )
}
