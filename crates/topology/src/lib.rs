//! Nodes, links and paths of a machine.
//!
//! A topology file becomes a [`xml::Document`], a document becomes a [`System`], and [`PathTable`] holds the widest
//! paths between its nodes. Everything here is a pure function of its input.
//!
//! In reading order: [`bus_id`], [`node`], [`link`], [`path`], [`bandwidth`], [`xml`], [`build`], [`system`],
//! [`all_pairs`], [`edit`].

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
