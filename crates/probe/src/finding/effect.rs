//! What a finding does to the topology, so that a planner can say what it costs.

use topology::xml::{Document, Element, Tag};

/// Two states of a topology.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// What differs from the document now. NCCL does not see everything: it takes a NIC's best link, not its link.
    pub now: Vec<Edit>,
    /// What differs from the document once it is mended.
    pub mended: Vec<Edit>,
    /// The document once it is mended, where more than attributes differ.
    pub mended_root: Option<Box<Element>>,
}

/// An attribute that has another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where.
    pub at: At,
    /// Its name.
    pub attribute: &'static str,
    /// Its value.
    pub value: String,
}

/// Names elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The `<pci>` with this bus id.
    Pci(String),
    /// The `<nvlink>` from the GPU with the first bus id to the second.
    Nvlink(String, String),
    /// The `<net>` of this name.
    Net(String),
    /// All `<net>`.
    Nets,
}

impl Effect {
    /// Whether there is nothing to compare.
    pub const fn is_empty(&self) -> bool {
        self.now.is_empty() && self.mended.is_empty() && self.mended_root.is_none()
    }
}

/// The document with these edits.
pub fn apply(document: &Document, edits: &[Edit]) -> Document {
    let mut document = document.clone();
    enter(&mut document.root, None, edits);
    document
}

fn enter(element: &mut Element, pci: Option<&str>, edits: &[Edit]) {
    let own = element.get("busid").map(str::to_owned);
    let pci = own.as_deref().or(pci);
    for edit in edits {
        let meant = match (&edit.at, element.tag) {
            (At::Pci(bus_id), Tag::Pci) => own.as_deref() == Some(bus_id.as_str()),
            (At::Nvlink(bus_id, target), Tag::Nvlink) => {
                pci == Some(bus_id.as_str()) && element.get("target") == Some(target.as_str())
            }
            (At::Net(name), Tag::Net) => element.get("name") == Some(name.as_str()),
            (At::Nets, Tag::Net) => true,
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
    /// The document as the machine is now.
    pub fn now(&self, document: &Document) -> Document {
        apply(document, &self.now)
    }

    /// The document as it would be when this is mended.
    pub fn mended(&self, document: &Document) -> Document {
        match &self.mended_root {
            Some(root) => Document::from_root(document.file.clone(), (**root).clone()),
            None => apply(document, &self.mended),
        }
    }
}
