//! The cost table of a communicator: what each algorithm and protocol is expected to do, and the choice for a size.
//!
//! The planner computes the table once; whoever runs a collective asks it. It holds everything a choice needs, so a
//! plan that was read from a file chooses as the planner that wrote it.
//!
//! In reading order: [`table`] (what is stored), [`model`] (what every cost model can be asked), [`choose`] (time and
//! selection), [`threads`] (channels and warps for a size), [`chunk`] (chunk sizes and steps).

pub mod choose;
pub mod chunk;
pub mod model;
pub mod table;
pub mod threads;

pub use choose::{NoChoice, OperationChoice, TunedOperation};
pub use chunk::{BufferTooSmall, Chunking};
pub use model::{Best, CostModel, Estimate, Range, doubling};
pub use table::{
    Collnet, CostEntry, CostJob, CostTable, LatencyFactors, NvlsCosts, Off, Threads, TreeCorrection,
};
