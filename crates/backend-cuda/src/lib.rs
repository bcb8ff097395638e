//! Runs collectives on NVIDIA GPUs.
//!
//! The crate builds without CUDA: [`Cuda::open`] loads the driver's library and returns an
//! [`Error`] that says what is missing. The binary contains compiled kernels ([`prebuilt`]). For a
//! GPU that none of them fits, NVRTC compiles the kernels ([`compiler`]) and the result is kept in
//! a folder.
//!
//! [`Cuda`] is the [`DeviceDriver`](device_runtime::DeviceDriver) of [`device_runtime`], which has
//! the code for one rank.
//!
//! In reading order: [`error`], [`presence`], [`prebuilt`], [`compiler`], [`module`], [`device`],
//! `handles`, `descriptors`, [`memory`], `callers_memory`, `sharing`, `rdma`, `graph`,
//! `callers_context`, `feeder`, `in_order`, [`launch`], [`multicast`], [`driver`], [`pairs`],
//! `start`, [`litmus`], [`nccl`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use backend_cuda::{Cuda, Options};
//! use executor::{Communicator, Reduction, Settings};
//! use device_runtime::{ProcessRanks, Kernels};
//!
//! // Two ranks on the first GPU.
//! let cuda = Cuda::open(&Options::default())?;
//! let process_ranks = ProcessRanks::new(cuda, device_runtime::LaunchOptions::nccl(), vec![0, 0]);
//! let ranks = Communicator::local(2, &Settings::default(), |rank| {
//!     Kernels::new(Arc::clone(&process_ranks), rank)
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bindable;
mod callers_context;
mod callers_memory;
pub mod compiler;
mod descriptors;
pub mod device;
pub mod driver;
pub mod error;
mod feeder;
mod graph;
mod handles;
mod in_order;
pub mod launch;
pub mod litmus;
pub mod memory;
pub mod module;
pub mod multicast;
pub mod nccl;
pub mod pairs;
pub mod prebuilt;
pub mod presence;
mod rdma;
mod sharing;
mod start;

/// Functions of the driver that only some uses need, and that older drivers lack.
pub const OPTIONAL_SYMBOLS: [&str; 7] = [
    "cuMulticastGetGranularity",
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastBindAddr",
    "cuMulticastUnbind",
    rdma::EXPORT,
];

pub use callers_context::CallersContext;
pub use device::Device;
pub use driver::{Cuda, Options};
pub use error::Error;
pub use memory::MemoryKind;
