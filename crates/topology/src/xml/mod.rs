//! NCCL's topology XML: a document with positions, read and written.
//!
//! A [`Document`] has the elements and attributes in file order, as text, with their positions.
//!
//! ```
//! use topology::xml::{Tag, parse, write};
//!
//! let text = "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"arm64\"/>\n</system>\n";
//! let document = parse("machine.xml", text.as_bytes())?;
//! assert_eq!(document.root.children(Tag::Cpu).count(), 1);
//! assert_eq!(write(&document), text);
//! # Ok::<(), topology::Error>(())
//! ```

mod limits;
mod lint;
mod locate;
mod names;
mod notes;
mod number;
mod parse;
mod tag;
mod tree;
mod write;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use limits::{Limits, NCCL_ELEMENTS, NCCL_FILE_ELEMENTS};
pub use lint::lint;
pub use number::{c_float, c_int, c_unsigned_hexadecimal};
pub use parse::{parse, parse_with};
pub use write::write;

use crate::error::{Error, Place, Position, Warning};

/// The elements of a topology file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// `<system>`, the root.
    System,
    /// `<cpu>`, a NUMA node.
    Cpu,
    /// `<pci>`, a switch or an end point.
    Pci,
    /// `<gpu>`.
    Gpu,
    /// `<nvlink>` of a GPU.
    Nvlink,
    /// `<c2c>` of a GPU.
    C2c,
    /// `<nic>`, a group of network devices.
    Nic,
    /// `<net>`, a port of a NIC.
    Net,
    /// `<pcilink>`, a peer-to-peer link between Broadcom switches.
    Pcilink,
    /// `<xgmi>` of an AMD GPU (files with `version="2"`).
    Xgmi,
}

/// An attribute of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Name; borrowed if NCCL knows it.
    pub name: Cow<'static, str>,
    /// Value, as text.
    pub value: String,
    /// Where the name starts.
    pub position: Position,
}

/// An element with its attributes and children, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The element's name.
    pub tag: Tag,
    /// Attributes in file order.
    pub attributes: Vec<Attribute>,
    /// Children in file order.
    pub children: Vec<Element>,
    /// Position of its `<`.
    pub position: Position,
}

/// A topology file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The file's name, for messages.
    pub file: Arc<str>,
    /// 1 for NCCL's files, 2 for those of AMD's RCCL, which NCCL refuses.
    pub version: i32,
    /// The `<system>` element.
    pub root: Element,
    /// Warnings from parsing.
    pub warnings: Vec<Warning>,
}

impl Document {
    /// Wraps a generated `<system>` element of NCCL's version. `file` is its name in messages.
    pub fn from_root(file: impl Into<Arc<str>>, root: Element) -> Self {
        Self {
            file: file.into(),
            version: 1,
            root,
            warnings: Vec::new(),
        }
    }

    /// Whether AMD's RCCL wrote the file (version 2). NCCL refuses it.
    pub const fn is_rccl(&self) -> bool {
        self.version == names::RCCL_VERSION
    }

    /// Number of hosts that the file tells apart by `host_hash`, at least 1. Only parts with a GPU
    /// or a port that a job uses count.
    pub fn recorded_hosts(&self) -> usize {
        let cpus = self.root.children.iter();
        let cpus = cpus.filter(|it| it.tag == Tag::Cpu && it.is_used());
        let hashes = cpus.map(|it| it.get("host_hash").map_or(0, c_unsigned_hexadecimal));
        hashes.collect::<BTreeSet<u64>>().len().max(1)
    }
}

impl Tag {
    /// The name as written in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Cpu => "cpu",
            Self::Pci => "pci",
            Self::Gpu => "gpu",
            Self::Nvlink => "nvlink",
            Self::C2c => "c2c",
            Self::Nic => "nic",
            Self::Net => "net",
            Self::Pcilink => "pcilink",
            Self::Xgmi => "xgmi",
        }
    }
}

impl Element {
    /// The number of elements, with this one and all below it.
    pub fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }

    /// Whether a GPU with a rank or a port with a device number is at or below this element.
    pub(crate) fn is_used(&self) -> bool {
        match self.tag {
            Tag::Gpu => self.get("rank").is_some(),
            Tag::Net => self.get("dev").is_some(),
            _ => self.children.iter().any(Self::is_used),
        }
    }

    /// An element without attributes or children.
    pub fn new(tag: Tag) -> Self {
        Self {
            tag,
            attributes: Vec::new(),
            children: Vec::new(),
            position: Position::default(),
        }
    }

    /// Whether two elements have equal tags, attributes and children. Positions are ignored.
    pub fn same_as(&self, other: &Self) -> bool {
        let key = |attribute: &Attribute| (attribute.name.clone(), attribute.value.clone());
        self.tag == other.tag
            && self
                .attributes
                .iter()
                .map(key)
                .eq(other.attributes.iter().map(key))
            && self.children.len() == other.children.len()
            && self
                .children
                .iter()
                .zip(&other.children)
                .all(|(one, other)| one.same_as(other))
    }

    /// The attribute of this name (the first, as NCCL looks it up).
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attribute(name)
            .map(|attribute| attribute.value.as_str())
    }

    /// Sets an attribute, in place or at the end.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self
            .attributes
            .iter_mut()
            .find(|attribute| attribute.name == name)
        {
            Some(attribute) => attribute.value = value,
            None => self.attributes.push(Attribute {
                name,
                value,
                position: Position::default(),
            }),
        }
    }

    /// The children with this tag.
    pub fn children(&self, tag: Tag) -> impl Iterator<Item = &Element> {
        self.children.iter().filter(move |child| child.tag == tag)
    }

    /// The place of this element, or of one of its attributes, in `file`.
    pub fn place(&self, file: &Arc<str>, attribute: Option<&str>) -> Place {
        let position = attribute
            .and_then(|name| self.attribute(name))
            .map_or(self.position, |attribute| attribute.position);
        Place {
            file: Arc::clone(file),
            position,
            element: Some(self.tag.name().to_owned()),
            attribute: attribute.map(str::to_owned),
        }
    }

    /// The value of an attribute that NCCL requires.
    ///
    /// # Errors
    /// The attribute is missing.
    pub fn require(&self, file: &Arc<str>, name: &str) -> Result<&str, Error> {
        self.get(name).ok_or_else(|| {
            Error::new(
                self.place(file, Some(name)),
                "a required attribute is missing",
                "nothing",
                format!("`{name}=\"…\"` (NCCL refuses the file without it)"),
            )
        })
    }
}
