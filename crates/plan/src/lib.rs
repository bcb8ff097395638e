//! The plan of a communicator: which channels its collectives use.

pub mod graph;
pub mod trail;

pub use graph::{Graph, GraphChannel, GraphKind, Pattern};
pub use trail::{Attempt, Duplication, End, Next, Summary, Trail};
