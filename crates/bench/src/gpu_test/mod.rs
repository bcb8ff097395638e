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
mod torch;
mod transports;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use self::page::Page;
use self::report::GpuTestReport;

pub use parts::Part;

/// The subject of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Facts about the GPU and its driver on which collectives rely.
    Silicon,
    /// Collectives by every algorithm, type and operation.
    Correctness,
    /// P2P, SHM and NET, with every protocol and kind of memory, and graphs.
    Transports,
    /// Several GPUs by each algorithm and protocol, beside PyTorch's NCCL.
    Bandwidth,
    /// Ranks that share a GPU, beside what its memory allows, and beside NCCL.
    OneGpu,
    /// compute-sanitizer's tools.
    Sanitizer,
}

/// The tests to run.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// Numbers of ranks.
    pub ranks: Vec<u32>,
    /// Only these subjects; empty: all.
    pub only: Vec<Subject>,
    /// Only parts with this text in their names.
    pub matching: Option<String>,
    /// Cases of collectives, types and algorithms for each number of ranks.
    pub cases: usize,
    /// Largest message that is timed, bytes.
    pub end: u64,
    /// When no part begins any more.
    pub limit: Duration,
    /// How long ranks wait for each other. A part may take three times as long.
    pub timeout: Duration,
    /// How long launches warm the GPUs' clocks up before a part's first figure.
    pub warm: Duration,
    /// NCCL's library, whose ranks share a GPU beside these.
    pub nccl: Option<PathBuf>,
    /// Folder of the page and the results.
    pub folder: Option<PathBuf>,
}

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
pub fn run<'a>(options: &'a TestOptions, output: TestOutput<'a>) -> Result<GpuTestReport> {
    let mut page = Page::begin(options, output)?;
    let runs = |subject| options.only.is_empty() || options.only.contains(&subject);
    // First, because all else relies on it.
    if runs(Subject::Silicon) {
        silicon::run(&mut page)?;
    }
    if runs(Subject::Correctness) {
        correctness::several_gpus(&mut page)?;
        correctness::one_gpu(&mut page)?;
    }
    if runs(Subject::Transports) {
        transports::run(&mut page)?;
    }
    if runs(Subject::Bandwidth) {
        for gpus in options.ranks.iter().filter(|gpus| **gpus > 1) {
            several_gpus::run(&mut page, *gpus)?;
        }
    }
    if runs(Subject::OneGpu) {
        one_gpu::run(&mut page)?;
    }
    if runs(Subject::Sanitizer) {
        sanitizer::run(&mut page)?;
    }
    Ok(page.end())
}
