//! The edited document: without the removed elements and what they leave empty or dangling.

use super::apply::Work;
use super::names::{ElementPath, link_kind};
use crate::bus_id::BusId;
use crate::node::NodeType;
use crate::xml::{Document, Element, Tag, c_unsigned_hexadecimal};

impl Work<'_> {
    /// The document without the removed elements, wrappers that became empty, and dangling links.
    pub(super) fn finish(mut self) -> Document {
        self.lift();
        let mut gone = Vec::new();
        for path in &self.removed {
            let hash = host_hash(self.at(&path[..1]));
            bus_ids(self.at(path), hash, &mut gone);
        }
        let mut document = self.document.clone();
        for (path, attribute, value) in self.set {
            let element = path.iter().fold(&mut document.root, |element, index| {
                &mut element.children[*index]
            });
            element.set(attribute, value);
        }
        // Backwards, so that the remaining paths stay valid.
        for path in self.removed.iter().rev() {
            let Some((last, above)) = path.split_last() else {
                continue;
            };
            let parent = above.iter().fold(&mut document.root, |element, index| {
                &mut element.children[*index]
            });
            parent.children.remove(*last);
        }
        for cpu in &mut document.root.children {
            let hash = host_hash(cpu);
            drop_links(cpu, hash, &gone);
        }
        document
    }

    /// Removes a `<nic>` with its last `<net>`, and a device's `<pci>` with its last `<gpu>` or
    /// `<nic>`.
    fn lift(&mut self) {
        loop {
            let emptied: Vec<ElementPath> = self
                .removed
                .iter()
                .filter_map(|path| {
                    let parent = path.get(..path.len() - 1)?;
                    let (above, below) = (self.at(parent).tag, self.at(path).tag);
                    let wraps = above == Tag::Nic
                        || above == Tag::Pci && matches!(below, Tag::Gpu | Tag::Nic);
                    let children = self.children(parent, |_| true);
                    let emptied = wraps
                        && !self.removed.contains(parent)
                        && children.iter().all(|child| self.removed.contains(child));
                    emptied.then(|| parent.to_vec())
                })
                .collect();
            if emptied.is_empty() {
                return;
            }
            self.removed.extend(emptied);
        }
    }
}

fn host_hash(cpu: &Element) -> u64 {
    cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal)
}

/// The PCI functions at and below an element.
fn bus_ids(element: &Element, host: u64, found: &mut Vec<(u64, BusId)>) {
    if element.tag == Tag::Pci {
        found.push((host, BusId::parse(element.get("busid").unwrap_or_default())));
    }
    element
        .children
        .iter()
        .for_each(|child| bus_ids(child, host, found));
}

/// Drops the links to functions that are gone; NCCL would ignore them.
fn drop_links(element: &mut Element, host: u64, gone: &[(u64, BusId)]) {
    element.children.retain(|child| {
        let leads = match child.tag {
            Tag::Nvlink => link_kind(child) == NodeType::Gpu,
            Tag::Pcilink => true,
            _ => false,
        };
        let target = BusId::parse(child.get("target").unwrap_or_default());
        !(leads && gone.contains(&(host, target)))
    });
    for child in &mut element.children {
        drop_links(child, host, gone);
    }
}
