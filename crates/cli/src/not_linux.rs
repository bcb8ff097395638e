//! The commands that need Linux, on other systems: each says so.

use std::path::Path;

use answers::export::ExportReport;
use answers::tune::{LibraryCheck, Proposal};
use anyhow::Result;
use planner::Job;

use crate::arguments::acceptance::AcceptanceArguments;
use crate::arguments::diagnose::CollectArguments;
use crate::arguments::join::IdArguments;
use crate::arguments::nccl_check::NcclCheckArguments;
use crate::arguments::run::{CalibrateArguments, GpuTestArguments, RunArguments};
use crate::environment::Environment;
use crate::linux_only::{Need, require};
use crate::output::Output;

/// Whether the main thread has less stack than commands need.
pub const fn has_small_stack() -> bool {
    false
}

pub fn run(_: &RunArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo run", Need::SharedMemory)
}

pub fn calibrate(_: &CalibrateArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo run --calibrate", Need::SharedMemory)
}

pub fn gpu_test(_: &GpuTestArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo gpu-test", Need::SharedMemory)
}

pub fn acceptance(_: &AcceptanceArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo expect --run", Need::Sysfs)
}

pub fn collect(_: &CollectArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo diagnose --collect", Need::Sysfs)
}

pub fn driver_answers(_: &mut Output) -> Result<()> {
    require("topo driver-answers", Need::Sysfs)
}

pub fn id(_: &IdArguments, _: &mut Output) -> Result<()> {
    require("topo run --new-id", Need::SharedMemory)
}

pub fn nccl_check(_: &NcclCheckArguments, _: &Environment, _: &mut Output) -> Result<()> {
    require("topo nccl-check", Need::Nccl)
}

pub fn tune_check(
    _: &Path,
    _: &Job,
    _: &Proposal,
    _: &ExportReport,
    _: &Environment,
) -> Result<LibraryCheck> {
    require("topo tune --nccl-library", Need::Nccl)?;
    anyhow::bail!("topo tune --nccl-library needs Linux")
}

pub fn nccl_host() -> Result<()> {
    require("topo nccl-host", Need::Nccl)
}
