//! Nodes, links and paths of a machine.
//!
//! A topology file becomes a [`xml::Document`], a document becomes a [`System`], and [`PathTable`]
//! holds the widest paths between its nodes. Everything here is a pure function of its input.
//!
//! ```
//! use topology::{NodeType, PathTable, System, xml};
//!
//! let gpu = |bus: u8, dev: u8| format!(
//!     "<pci busid=\"0000:0{bus}:00.0\" class=\"0x030200\"\
//!      \x20link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
//!      <gpu dev=\"{dev}\" sm=\"90\" rank=\"{dev}\" gdr=\"1\"/></pci>");
//! let cpu = format!("<cpu numaid=\"0\" arch=\"arm64\">{}{}</cpu>", gpu(1, 0), gpu(2, 1));
//! let text = format!("<system version=\"1\">{cpu}</system>");
//! let system = System::from_document(&xml::parse("machine.xml", text.as_bytes())?)?;
//! let paths = PathTable::compute(&system, true).expect("every link leads back");
//! let gpus: Vec<_> = system.nodes(NodeType::Gpu).collect();
//! let path = paths.path(gpus[0], gpus[1]);
//! assert_eq!(format!("{} at {} GB/s", path.kind, path.bw), "PHB at 48 GB/s");
//! # Ok::<(), topology::Error>(())
//! ```
//!
//! In reading order: [`bus_id`], [`node`], [`link`], [`path`], [`bandwidth`], [`xml`], [`build`],
//! [`system`], [`all_pairs`], [`merge`], [`join`], [`edit`], [`differences`],
//! [`name_list`].

pub mod all_pairs;
pub mod bandwidth;
pub mod build;
pub mod bus_id;
pub mod differences;
pub mod edit;
pub mod error;
pub mod join;
pub mod link;
pub mod merge;
pub mod name_list;
pub mod node;
pub mod path;
pub mod system;
pub mod xml;

pub use all_pairs::{OneWayLink, Path, PathTable, Preference};
pub use build::BuildOptions;
pub use bus_id::BusId;
pub use error::{Error, Place, Position, Warning};
pub use link::{Link, LinkId, LinkType};
pub use name_list::NameList;
pub use node::{
    Cpu, CpuArch, CpuModel, CpuVendor, Dev, Gpu, NO_P2P, NcclId, Net, Node, NodeData, NodeId,
    NodeType,
};
pub use path::PathType;
pub use system::System;
