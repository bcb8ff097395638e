//! Jobs that use only some GPUs or NICs of a machine.

use std::collections::BTreeSet;

use topology::xml::{Document, Element, Tag, c_int};

/// Device numbers of all GPUs of a document, ascending; hosts of an NVLink domain have the same
/// numbers.
pub fn gpu_devices(document: &Document) -> Vec<i32> {
    fn walk(element: &Element, found: &mut Vec<i32>) {
        for child in &element.children {
            if child.tag == Tag::Gpu {
                found.extend(child.get("dev").map(c_int));
            }
            walk(child, found);
        }
    }
    let mut found = Vec::new();
    walk(&document.root, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the document as NCCL has it when ranks run only on these GPUs: NCCL adds only GPUs with
/// a rank. All NICs stay.
#[must_use]
pub fn with_gpus(document: &Document, devices: &[i32]) -> Document {
    let mut kept = document.clone();
    prune(&mut kept.root, &|element| {
        let dev = (element.tag == Tag::Gpu).then(|| element.get("dev"));
        dev.flatten()
            .is_none_or(|dev| devices.contains(&c_int(dev)))
    });
    kept
}

/// Returns the document with the ports that a job uses, numbered anew in their order, as the net
/// plug-in numbers them; `None` if it uses all.
pub(crate) fn with_nics(document: &Document, uses: impl Fn(&Element) -> bool) -> Option<Document> {
    fn renumber(element: &mut Element, kept: &BTreeSet<i32>) {
        for child in &mut element.children {
            let dev = (child.tag == Tag::Net).then(|| child.get("dev").map(c_int));
            if let Some(dev) = dev.flatten() {
                child.set("dev", kept.range(..dev).count().to_string());
            }
            renumber(child, kept);
        }
    }
    if nics(document).into_iter().all(&uses) {
        return None;
    }
    let mut kept = document.clone();
    prune(&mut kept.root, &|element| {
        element.tag != Tag::Net || uses(element)
    });
    let numbers = nics(&kept).into_iter().filter_map(|net| net.get("dev"));
    let devices: BTreeSet<i32> = numbers.map(c_int).collect();
    renumber(&mut kept.root, &devices);
    Some(kept)
}

/// The ports of a document, in its order.
pub(crate) fn nics(document: &Document) -> Vec<&Element> {
    fn walk<'a>(element: &'a Element, found: &mut Vec<&'a Element>) {
        for child in &element.children {
            if child.tag == Tag::Net {
                found.push(child);
            }
            walk(child, found);
        }
    }
    let mut found = Vec::new();
    walk(&document.root, &mut found);
    found
}

/// Removes the elements that are not kept, and slots and switches that held only such.
fn prune(element: &mut Element, keeps: &impl Fn(&Element) -> bool) {
    element.children.retain_mut(|child| {
        let held = !child.children.is_empty();
        prune(child, keeps);
        keeps(child) && (!held || !child.children.is_empty())
    });
}
