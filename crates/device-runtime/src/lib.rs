//! The device runtime: the sources of the kernels (`/kernels`) and the host code that runs them.
//!
//! [`Kernels`] is the [`Backend`](executor::Backend) for devices. It flattens a bound program into
//! the steps that kernels walk ([`flat`]), allocates connections in memory that the kernels can
//! access (`connect`), and launches the ranks of this process that depend on each other together
//! ([`gang`]), so that a waiting kernel never prevents another one from starting.
//!
//! A [`DeviceDriver`] runs the kernels: `backend-cuda` on GPUs, `kernel-emulator` on the processor
//! for tests.
//!
//! In reading order: [`source`], [`entry`], [`layout`], [`flat`], `allocation`, [`driver`],
//! `options`, [`process_ranks`], `connect`, [`gang`], `remote`, `launch`, [`backend`],
//! `capabilities`, `deposit`, `regions`, `callers_windows`, `in_order`, [`addresses`],
//! [`default_choice`].
//!
//! ```
//! use device_runtime::{Kernel, source};
//!
//! // One text with all kernels, as a run-time compiler such as NVRTC takes it.
//! let text = source::text();
//! assert!(text.contains("topo_run_"));
//! assert_eq!(Kernel::Move.entry(), "topo_run_move");
//! ```

pub mod addresses;
mod allocation;
pub mod backend;
mod callers_windows;
mod capabilities;
mod connect;
pub mod default_choice;
mod deposit;
pub mod driver;
pub mod entry;
pub mod flat;
pub mod fuse;
pub mod gang;
mod in_order;
mod launch;
pub mod layout;
mod options;
pub mod process_ranks;
mod regions;
mod remote;
pub mod source;

pub use addresses::{DeviceBuffer, RunOnDevice};
pub use allocation::{Allocation, Bindable, Piece};
pub use backend::Kernels;
pub use driver::{
    DeviceCopy, DeviceDriver, LaunchMemory, MulticastAddresses, NicMemory, Repeats, Running, Team,
};
pub use entry::{Kernel, LITMUS_PAIR_BYTES, LitmusKernel};
pub use in_order::MOST_IN_FLIGHT;
pub use options::LaunchOptions;
pub use process_ranks::{PeerTransport, ProcessRanks, Span};
