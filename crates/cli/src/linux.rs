//! The commands that need Linux. `not_linux.rs` has the same functions for other systems.

pub use crate::collect::run as collect;
pub use crate::id::id;
pub use crate::nccl_check::{run as nccl_check, serve as nccl_host};
pub use crate::run::calibrate::run as calibrate;
pub use crate::run::gpu_test::run as gpu_test;
pub use crate::run::run;

use crate::nccl_check::json::NcclCheckReport;
use answers::report;
use gpu_test::report::GpuTestReport;
use measurement::json::RunJson;

/// Smallest stack on which commands work, bytes.
const LEAST_STACK: u64 = 1 << 20;

/// Whether the main thread has less stack than commands need.
pub fn has_small_stack() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    limit.is_some_and(|bytes| bytes < LEAST_STACK)
}

pub fn gpu_test_schema() -> String {
    report::schema::<GpuTestReport>()
}

pub fn nccl_check_schema() -> String {
    report::schema::<NcclCheckReport>()
}

pub fn run_schema() -> String {
    report::schema::<RunJson>()
}
