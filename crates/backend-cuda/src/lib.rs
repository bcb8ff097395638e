//! Runs programs on NVIDIA GPUs.
//!
//! It builds without CUDA: the driver's library is loaded when [`Cuda::open`] is called, and its absence is an ordinary
//! error ([`Error`]) that says what is missing. Kernels are in the binary, compiled ([`prebuilt`]); for a GPU that none of
//! them fits, NVRTC compiles them ([`compiler`]), if it is there, and the result is kept in a folder.
//!
//! [`Cuda`] is the [`DeviceDriver`](kernel_bundle::DeviceDriver); what a rank does with it is in [`kernel_bundle`].
//!
//! In reading order: [`error`], [`presence`], [`prebuilt`], [`compiler`], [`module`], [`device`], [`memory`], `sharing`, `rdma`,
//! [`launch`], `graph`, [`multicast`], [`machine`], `start`.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use backend_cuda::{Cuda, Options};
//! use executor::{Communicator, Reduction, Settings};
//! use kernel_bundle::{ProcessRanks, Kernels};
//!
//! // Two ranks on the first GPU.
//! let cuda = Cuda::open(&Options::default())?;
//! let process_ranks = ProcessRanks::new(cuda, kernel_bundle::Options::nccl(), vec![0, 0]);
//! let ranks = Communicator::local(2, &Settings::default(), |rank| {
//!     Kernels::new(Arc::clone(&process_ranks), rank)
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compiler;
pub mod device;
pub mod error;
mod graph;
pub mod launch;
pub mod machine;
pub mod memory;
pub mod module;
pub mod multicast;
pub mod prebuilt;
pub mod presence;
mod rdma;
mod sharing;
mod start;

pub use device::Device;
pub use error::Error;
pub use machine::{Cuda, Options};
pub use memory::MemoryKind;
