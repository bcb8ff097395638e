//! The cost table of a communicator: bandwidth and latency of each algorithm and protocol, and the
//! choice for a size.
//!
//! The planner computes the table once. It holds everything that a choice needs, so that a plan
//! read from a file chooses as the planner did.
//!
//! In reading order: [`table`] (stored values), [`kernel`] (kernels for registered windows),
//! [`model`] (the interface of cost models), [`operation`] (what is chosen for), [`choose`] (time
//! and choice), [`threads`] (channels and warps for a size), [`chunk`] (chunk sizes and steps),
//! [`spread`] (channels that calls use), [`window`] (kernels and their thread blocks).

pub mod choose;
pub mod chunk;
pub mod kernel;
pub mod model;
pub mod operation;
pub mod pipeline;
pub mod spread;
pub mod table;
pub mod threads;
pub mod window;

pub use choose::{Candidate, FP8_CC, NoChoice, OperationChoice};
pub use chunk::{BufferTooSmall, Chunking};
pub use kernel::WindowKernel;
pub use model::{Range, doubling};
pub use operation::{Calls, DataType, Registration, TunedOperation};
pub use table::{
    CallLimits, Collnet, CostEntry, CostJob, CostTable, LatencyFactors, NvlsCosts, Off, PatCosts,
    PipelineCosts, PipelineEntry, RegisteredBuffers, RegisteredNvls, RingGrowth, Threads,
    TreeCorrection,
};
pub use window::{
    CallTime, EngineCopy, EngineCosts, KernelCosts, KernelTime, Sums, WindowChoice, WindowCosts,
};
