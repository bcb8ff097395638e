//! Nodes, links and paths of a machine.
//!
//! A topology file becomes a [`xml::Document`], a document becomes a System.

pub mod bus_id;
pub mod error;
pub mod path;
pub mod xml;

pub use bus_id::BusId;
pub use error::{Error, Place, Position, Warning};
pub use path::PathType;
