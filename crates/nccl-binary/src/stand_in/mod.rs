//! The stand-ins: what NCCL finds instead of NVIDIA's driver, NVML and plug-ins.
//!
//! Only public interfaces are presented. Everything is kept in this process. GPUs, their contexts
//! and their memory are those of a phantom driver in this process; kernels do nothing, and network
//! ports connect at once and send nothing.
//!
//! In reading order: [`devices`] (what is presented), `context`, `memory`, `driver`, `runtime`,
//! `nvml`, `network`, `verbs`, `tuner`, `process` (the calls to the C library that are answered),
//! `sockets` (addresses of hosts), `machine` (what is hidden of this machine).

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::message::Taken;

mod context;
pub(crate) mod devices;
mod driver;
mod machine;
mod memory;
mod network;
mod nvml;
mod ports;
mod process;
mod runtime;
mod sockets;
mod tuner;
mod verbs;

pub(crate) use context::{error_texts_at, set_device};
pub(crate) use process::{
    NET_PLUGIN, TUNER_PLUGIN, functions as process_functions, keep_missing, keep_segments_in,
    missing,
};
pub(crate) use runtime::functions as runtime_functions;
pub(crate) use sockets::{be_host, is_host};
pub(crate) use tuner::report_to as report_tuner_to;

/// A function that is presented: its name and its address.
pub(crate) type Presented = (&'static str, usize);

/// Pairs of a function's name and its address.
macro_rules! presented {
    ($($name:literal => $function:path),* $(,)?) => {
        vec![$(($name, $function as *const () as usize)),*]
    };
}
pub(crate) use presented;

/// The address of a function of a list.
pub(crate) fn find(functions: &[Presented], name: &str) -> Option<usize> {
    let found = functions.iter().find(|(known, _)| *known == name);
    found.map(|(_, address)| *address)
}

/// New memory of the current GPU.
pub(crate) fn new_memory(bytes: usize) -> Result<*mut c_void, String> {
    let mut memory = 0;
    // SAFETY: the address is written to a variable.
    match unsafe { memory::allocate(&mut memory, bytes, false) } {
        context::SUCCESS => Ok(std::ptr::with_exposed_provenance_mut(memory as usize)),
        _ => Err(format!("no room for a buffer of {bytes} bytes")),
    }
}

/// The memory that is allocated now.
pub(crate) fn taken() -> Taken {
    Taken {
        devices: phantom::used(),
        multicast_objects: driver::MULTICAST_OBJECTS.load(Ordering::Relaxed),
    }
}

/// A new stream.
pub(crate) fn new_stream() -> *mut c_void {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the handle is written to a variable.
    unsafe { driver::new_handle(&mut stream) };
    stream
}
