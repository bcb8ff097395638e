//! The topology file as NCCL is given it, and as it gives it back.

use topology::xml::{self, Document, Element, Tag};

/// Attributes of `<cpu>` that NCCL would take from the processor it runs on, with values that no
/// processor has.
const OF_PROCESSOR: [(&str, &str); 4] = [
    ("arch", "x86_64"),
    ("vendor", "none"),
    ("familyid", "0"),
    ("modelid", "0"),
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

/// The machine as a rank of NCCL finds it: one `<gpu>` for each PCI function, which the rank makes
/// its own. NCCL joins the parts of a GPU (MLOPart) from what their ranks found; in a file with
/// both, each rank would take the first.
///
/// Text that is no topology stays as it is.
pub(crate) fn as_found(text: &str) -> String {
    fn keep_first(element: &mut Element) {
        let mut has_gpu = false;
        element.children.retain(|child| {
            let again = child.tag == Tag::Gpu && has_gpu;
            has_gpu |= child.tag == Tag::Gpu;
            !again
        });
        element.children.iter_mut().for_each(keep_first);
    }
    let Ok(mut found) = xml::parse("topology.xml", text.as_bytes()) else {
        return text.to_owned();
    };
    keep_first(&mut found.root);
    xml::write(&found)
}

/// Whether NCCL finds a network port in the file.
pub fn has_ports(document: &Document) -> bool {
    fn has(element: &Element) -> bool {
        let own = element.tag == Tag::Net && element.get("dev").is_some();
        own || element.children.iter().any(has)
    }
    has(&document.root)
}
