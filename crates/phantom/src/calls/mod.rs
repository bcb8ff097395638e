//! The exported functions, by the sections of the CUDA driver API's documentation.
//!
//! In reading order: `device`, `context`, `entry_point`, `memory`, `host`, `copies`,
//! `pointer`, `ipc`, `virtual_memory`, `sharing`, `multicast`, `module`, `stream`,
//! `event`, `launch`, `graph`.

pub mod context;
pub mod copies;
pub mod device;
pub mod entry_point;
pub mod event;
pub mod graph;
pub mod host;
pub mod ipc;
pub mod launch;
pub mod memory;
pub mod module;
pub mod multicast;
pub mod pointer;
pub mod sharing;
pub mod stream;
pub mod virtual_memory;
