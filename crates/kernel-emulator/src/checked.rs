//! Runs a kernel that asks, before each load and store, whether it may access the memory.

use device_runtime::layout::Launch;

use crate::native;
pub use crate::native::{Checks, Range};

/// Bytes of the argument of every kernel.
pub const ARGUMENT_BYTES: usize = size_of::<Launch>();

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// All threads have ended.
    Whole,
    /// An access was refused.
    Refused,
    /// The run was told to end.
    Cancelled,
    /// There is no memory for the threads.
    NoMemory,
}

/// Whether there is a kernel of this name.
pub fn has(name: &str) -> bool {
    native::has_checked(name)
}

/// Runs a kernel until all its threads have ended. Writes to `report` which thread was refused,
/// followed by a 0. Returns `None` if there is no such kernel.
pub fn run(
    name: &str,
    launch: &Launch,
    size: (u32, u32),
    seed: u64,
    checks: &Checks,
    report: &mut [u8],
) -> Option<RunEnd> {
    let outcome = native::emulate_checked(name, launch, size, seed, checks, report)?;
    Some(match outcome {
        0 => RunEnd::Whole,
        3 => RunEnd::Cancelled,
        4 => RunEnd::Refused,
        _ => RunEnd::NoMemory,
    })
}
