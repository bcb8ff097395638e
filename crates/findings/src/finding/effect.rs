//! The effect of a finding on the topology, so that a planner can compute its cost.

use std::sync::Arc;

use topology::xml::{Document, Element, Tag};

/// The topology now and after a repair, as changes of the document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Changes to the current state. NCCL does not see all of it: it uses a NIC's best link speed.
    pub now: Vec<AttributeChange>,
    /// Changes of the repair.
    pub mended: Vec<AttributeChange>,
    /// The repaired document, if more than attributes change.
    pub mended_root: Option<Box<Element>>,
}

/// A change of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeChange {
    /// The elements.
    pub at: Selector,
    /// The attribute.
    pub attribute: &'static str,
    /// The new value.
    pub value: String,
}

/// Selects elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The `<pci>` with this bus id.
    Pci(String),
    /// The `<nvlink>` between two bus ids.
    Nvlink(String, String),
    /// The `<net>` of this name.
    Net(String),
    /// All `<net>`.
    Nets,
}

impl Effect {
    /// The machine as it is and as it would be; `None` if there is nothing to compare.
    pub fn states(&self, document: &Arc<Document>) -> Option<(Arc<Document>, Arc<Document>)> {
        let now = match self.now.is_empty() {
            _ if self.is_empty() => return None,
            true => Arc::clone(document),
            false => Arc::new(self.now(document)),
        };
        Some((now, Arc::new(self.mended(document))))
    }

    /// Whether there is nothing to compare.
    pub const fn is_empty(&self) -> bool {
        self.now.is_empty() && self.mended.is_empty() && self.mended_root.is_none()
    }

    /// Whether the repair changes nothing but attributes.
    pub(super) const fn is_only_attributes(&self) -> bool {
        self.mended_root.is_none()
    }
}

/// Applies changes to a document.
pub(super) fn apply(document: &Document, edits: &[AttributeChange]) -> Document {
    let mut document = document.clone();
    enter(&mut document.root, None, edits);
    document
}

fn enter(element: &mut Element, pci: Option<&str>, edits: &[AttributeChange]) {
    let own = element.get("busid").map(str::to_owned);
    let pci = own.as_deref().or(pci);
    for edit in edits {
        let meant = match (&edit.at, element.tag) {
            (Selector::Pci(bus_id), Tag::Pci) => own.as_deref() == Some(bus_id.as_str()),
            (Selector::Nvlink(bus_id, target), Tag::Nvlink) => {
                pci == Some(bus_id.as_str()) && element.get("target") == Some(target.as_str())
            }
            (Selector::Net(name), Tag::Net) => element.get("name") == Some(name.as_str()),
            (Selector::Nets, Tag::Net) => true,
            _ => false,
        };
        if meant {
            element.set(edit.attribute, edit.value.clone());
        }
    }
    for child in &mut element.children {
        enter(child, pci, edits);
    }
}

impl Effect {
    /// The topology of the machine as it is.
    pub fn now(&self, document: &Document) -> Document {
        apply(document, &self.now)
    }

    /// The topology after the repair.
    pub fn mended(&self, document: &Document) -> Document {
        match &self.mended_root {
            Some(root) => Document::from_root(document.file.clone(), (**root).clone()),
            None => apply(document, &self.mended),
        }
    }
}
