//! Asks an unmodified NCCL library what it decides on a machine, without a GPU.
//!
//! Each host of the job is a process of its own ([`host`]). It loads the library, and presents the
//! GPUs and network ports of a topology file to it (`stand_in`): calls to the CUDA runtime inside
//! the library are redirected in the memory of that process, and the driver, NVML and plug-ins are
//! answered where the library looks for them. No file is changed, and none is written. NCCL then
//! makes its communicator and starts collectives, of which nothing is computed or sent.
//!
//! An [`Answer`](records::nccl_log::compare::Answer) is what NCCL said, in its log, its dumps and
//! to its tuner plug-in.
//!
//! A library is asked on Linux alone.
//!
//! In reading order: [`error`], [`elf`] (the library's file), [`plant`] (calls that fail),
//! `redirect` (its calls), `stand_in`,
//! [`message`], `nccl` (its functions), `crash` (whose code crashed), [`host`] (a child process),
//! [`job`] (its parent), [`machine`] (its file), [`log`] (its answer), [`package`] (fetching a
//! library), [`check`](mod@check) (the answer beside the plan), [`scripted`] (ranks with a planted
//! fault).

#[cfg(target_os = "linux")]
pub mod check;
#[cfg(target_os = "linux")]
mod crash;
#[cfg(target_os = "linux")]
pub mod elf;
#[cfg(target_os = "linux")]
pub mod error;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
pub mod job;
#[cfg(target_os = "linux")]
pub mod log;
#[cfg(target_os = "linux")]
pub mod machine;
pub mod message;
#[cfg(target_os = "linux")]
mod nccl;
#[cfg(target_os = "linux")]
pub mod package;
#[cfg(target_os = "linux")]
pub mod plant;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod redirect;
#[cfg(target_os = "linux")]
pub mod scripted;
#[cfg(target_os = "linux")]
mod stand_in;

#[cfg(target_os = "linux")]
pub use error::Unusable;
#[cfg(target_os = "linux")]
pub use redirect::examine;

#[cfg(all(target_os = "linux", not(feature = "schema")))]
use no_schema::JsonSchema;
#[cfg(all(target_os = "linux", feature = "schema"))]
use schemars::JsonSchema;
