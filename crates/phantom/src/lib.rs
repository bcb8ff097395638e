//! A stand-in for NVIDIA's driver library: it presents the GPUs of a topology file through the
//! CUDA driver API, refuses what the API's documentation forbids, and runs kernels by a library
//! that tests name.
//!
//! The file `libphantom.so`, laid out as `libcuda.so.1`, serves any program that loads the
//! driver by name, if the variable `TOPO_PHANTOM_MACHINE` names a machine file. A Rust program that
//! presents a machine to a library in its own process calls [`present`] instead. It shows agreement
//! with the documentation; it shows nothing of a GPU's speed or memory model, and not that NVIDIA's
//! driver behaves as its documentation says.
//!
//! In reading order: `answer`, `arguments`, `table`, `report`, `seccomp`, `start`, `call`,
//! `memory_file`, `multicast`, `space`, `stream`, `event`, `image`, `execution`, `errors`,
//! `driver`, `submission`, `calls`, `nvml`.
//!
//! [`machine`] is what it presents: a pure reading of its file, for every system.

#[cfg(target_os = "linux")]
mod answer;
#[cfg(target_os = "linux")]
pub mod arguments;
#[cfg(target_os = "linux")]
mod call;
#[cfg(target_os = "linux")]
pub mod calls;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod errors;
#[cfg(target_os = "linux")]
mod event;
#[cfg(target_os = "linux")]
mod execution;
#[cfg(target_os = "linux")]
mod image;
pub mod machine;
#[cfg(target_os = "linux")]
mod memory_file;
#[cfg(target_os = "linux")]
mod multicast;
#[cfg(target_os = "linux")]
pub mod nvml;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod space;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod submission;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
pub use driver::used;
#[cfg(target_os = "linux")]
pub use start::present;
