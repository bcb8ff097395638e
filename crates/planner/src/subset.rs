//! Jobs that use only some GPUs of a machine.

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
    fn prune(element: &mut Element, devices: &[i32]) {
        element.children.retain_mut(|child| {
            if child.tag == Tag::Gpu {
                return child
                    .get("dev")
                    .is_none_or(|dev| devices.contains(&c_int(dev)));
            }
            let before = child.children.len();
            prune(child, devices);
            // A slot or switch that held only such GPUs is removed too.
            before == 0 || !child.children.is_empty()
        });
    }
    let mut kept = document.clone();
    prune(&mut kept.root, devices);
    kept
}
