//! The commands that need Linux. `not_linux.rs` has the same functions for other systems.

pub(crate) use crate::collect::run as collect;
pub(crate) use crate::driver::serve as driver_answers;
pub(crate) use crate::expect::acceptance::run as acceptance;
pub(crate) use crate::id::id;
pub(crate) use crate::nccl_check::{run as nccl_check, serve as nccl_host};
pub(crate) use crate::run::calibrate::run as calibrate;
pub(crate) use crate::run::gpu_test::run as gpu_test;
pub(crate) use crate::run::run;
pub(crate) use crate::tune::check::tune_check;

/// Smallest stack on which commands work, bytes.
const LEAST_STACK: u64 = 1 << 20;

/// Whether the main thread has less stack than commands need.
pub(crate) fn has_small_stack() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    limit.is_some_and(|bytes| bytes < LEAST_STACK)
}
