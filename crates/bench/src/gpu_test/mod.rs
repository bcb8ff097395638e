//! Every check that needs GPUs, without compiler or network. Each part is a process of its own with
//! a deadline, so that a fault or a hang ends that part alone.
//!
//! In reading order: [`report`], `test`, `page`, [`parts`], `correctness`, `transports`,
//! `several_gpus`, `torch`, `one_gpu`, `nccl`, `silicon`, `captures`, `sanitizer`.

mod captures;
mod correctness;
mod nccl;
mod one_gpu;
mod page;
pub mod parts;
pub mod report;
mod sanitizer;
mod several_gpus;
mod silicon;
mod test;
pub(crate) mod torch;
mod transports;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use answers::gpu_test::{GpuTestQuestion, Section};
use anyhow::Result;

use self::page::Page;
use self::report::GpuTestReport;

/// Receives the page and the progress.
pub struct TestOutput<'a> {
    /// Gets each part of the page when it is known.
    pub page: &'a mut dyn FnMut(&str),
    /// Gets what is run now; `None` when it has ended.
    pub running: &'a dyn Fn(Option<&str>),
}

/// Runs all sections, or those that are asked for, in processes of this program, which is `topo`:
/// as `gpu-test --part` ([`parts::run`]) and as `run`.
///
/// # Errors
/// There is no GPU, or a file cannot be written.
pub fn run<'a>(options: &'a GpuTestQuestion, output: TestOutput<'a>) -> Result<GpuTestReport> {
    let mut page = Page::begin(options, output)?;
    let runs = |subject| options.only.is_empty() || options.only.contains(&subject);
    // First, because all else relies on it.
    if runs(Section::Silicon) {
        silicon::run(&mut page)?;
    }
    if runs(Section::Correctness) {
        correctness::several_gpus(&mut page)?;
        correctness::one_gpu(&mut page)?;
    }
    if runs(Section::Transports) {
        transports::run(&mut page)?;
    }
    if runs(Section::Bandwidth) {
        for gpus in options.ranks.iter().filter(|gpus| **gpus > 1) {
            several_gpus::run(&mut page, *gpus)?;
        }
    }
    if runs(Section::OneGpu) {
        one_gpu::run(&mut page)?;
    }
    if runs(Section::Sanitizer) {
        sanitizer::run(&mut page)?;
    }
    Ok(page.end())
}
