//! Nodes, links and paths of a machine.
//!
//! A topology file is parsed into an [`xml::Document`]; a [`System`] is the document's graph; a
//! [`PathTable`] has the widest paths between its nodes. Everything is a pure function.
//!
//! ```
//! use topology::{NodeType, PathTable, PathType, System, xml};
//!
//! let gpu = |bus: u8, dev: u8, peer: u8| format!(
//!     "<pci busid=\"0000:0{bus}:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"16\">\
//!      <gpu dev=\"{dev}\" sm=\"80\" rank=\"{dev}\" gdr=\"1\">\
//!      <nvlink target=\"0000:0{peer}:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>");
//! let (first, second) = (gpu(1, 0, 2), gpu(2, 1, 1));
//! let cpu = format!("<cpu numaid=\"0\" arch=\"arm64\">{first}{second}</cpu>");
//! let text = format!("<system version=\"1\">{cpu}</system>");
//! let document = xml::parse("machine.xml", text.as_bytes())?;
//! let system = System::from_document(&document)?;
//! let paths = PathTable::compute(&system, true).map_err(|_| "one-way link")?;
//! let gpus: Vec<_> = system.nodes(NodeType::Gpu).collect();
//! assert_eq!(paths.kind(gpus[0], gpus[1]), PathType::Nvl);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`bus_id`], [`node`], [`link`], [`path`], [`bandwidth`], [`xml`], [`build`],
//! [`system`], [`all_pairs`], [`edit`].

pub mod all_pairs;
pub mod bandwidth;
pub mod build;
pub mod bus_id;
pub mod edit;
pub mod error;
pub mod link;
pub mod node;
pub mod path;
pub mod system;
pub mod xml;

pub use all_pairs::{OneWayLink, Path, PathTable};
pub use build::BuildOptions;
pub use bus_id::BusId;
pub use error::{Error, Place, Position, Warning};
pub use link::{Link, LinkId, LinkType};
pub use node::{
    Cpu, CpuArch, CpuModel, CpuVendor, Dev, Gpu, NcclId, Net, Node, NodeData, NodeId, NodeType,
};
pub use path::PathType;
pub use system::System;
