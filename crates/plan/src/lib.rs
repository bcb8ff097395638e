//! The plan of a communicator: which channels its collectives use.

pub mod collective;
pub mod cost;
pub mod graph;
pub mod trail;

pub use collective::{Algorithm, Collective, Protocol};
pub use cost::CostTable;
pub use graph::{Graph, GraphChannel, GraphKind, Pattern};
pub use trail::{Attempt, Duplication, End, Next, Summary, Trail};
