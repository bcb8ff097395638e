//! The commands that need Linux. `not_linux.rs` has the same functions for other systems.

pub use crate::join::id;
pub use crate::nccl_check::{run as nccl_check, serve as nccl_host};
pub use crate::run::calibrate::run as calibrate;
pub use crate::run::gpu_test::run as gpu_test;
pub use crate::run::run;

use crate::nccl_check::json::NcclCheckReport;
use crate::report;
use crate::run::RunJson;
use crate::run::gpu_test::report::GpuTestReport;

pub fn gpu_test_schema() -> String {
    report::schema::<GpuTestReport>()
}

pub fn nccl_check_schema() -> String {
    report::schema::<NcclCheckReport>()
}

pub fn run_schema() -> String {
    report::schema::<RunJson>()
}
