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
//! `driver`, `submission`, `calls`.

mod answer;
pub mod arguments;
mod call;
pub mod calls;
mod driver;
mod errors;
mod event;
mod execution;
mod image;
pub mod machine;
mod memory_file;
mod multicast;
pub mod nvml;
mod report;
mod seccomp;
mod space;
mod start;
mod stream;
mod submission;
mod table;

pub use driver::used;
pub use start::present;
