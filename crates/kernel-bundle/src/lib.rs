//! The kernels' sources (`/kernels`), and the host's side of them: what every machine that runs them has in common.
//!
//! [`Kernels`] is the [`Backend`](executor::Backend). It turns a bound program into the flat steps that the kernels walk
//! ([`flat`]), makes connections in memory that the machine's kernels reach (`connect`), and launches the programs of all ranks of this
//! process that need each other together ([`gang`]): a kernel that waits for another one must never keep it from being
//! started. What runs them is a [`DeviceDriver`]: GPUs, or the emulator on which the kernels are tested.
//!
//! In reading order: [`source`], [`entry`], [`layout`], [`flat`], [`machine`], [`process_ranks`], `connect`, [`gang`],
//! `remote`, [`backend`], [`choose`].

pub mod backend;
pub mod choose;
mod connect;
pub mod entry;
pub mod flat;
pub mod gang;
pub mod layout;
pub mod machine;
pub mod process_ranks;
mod remote;
pub mod source;

pub use backend::Kernels;
pub use entry::Kernel;
pub use machine::{DeviceDriver, Everywhere, LaunchMemory, NicMemory, Running, Team, Times};
pub use process_ranks::{Options, ProcessRanks, Reached, Span};
