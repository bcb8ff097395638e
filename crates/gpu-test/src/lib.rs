//! Every check that needs GPUs, without compiler or network. Each part is a process of its own with
//! a deadline, so that a fault or a hang ends that part alone.
//!
//! In reading order: [`report`], `test`, `child`, [`parts`], `correctness`, `transports`,
//! `several_gpus`, `torch`, `one_gpu`, `sanitizer`.

mod child;
mod correctness;
mod one_gpu;
pub mod parts;
pub mod report;
mod sanitizer;
mod several_gpus;
mod test;
mod torch;
mod transports;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::report::{GpuTestReport, MachineFacts, Section};
use self::test::Test;

pub use parts::Part;

/// Longest time of asking the driver what the GPUs are.
const MACHINE: Duration = Duration::from_secs(120);

/// The subject of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Collectives by every algorithm, type and operation.
    Correctness,
    /// P2P, SHM and NET, with every protocol and kind of memory, and graphs.
    Transports,
    /// Several GPUs by each algorithm and protocol, beside PyTorch's NCCL.
    Bandwidth,
    /// Ranks that share a GPU, beside what its memory allows.
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
    /// Cases of collectives, types and algorithms for each number of ranks.
    pub cases: usize,
    /// Largest message that is timed, bytes.
    pub end: u64,
    /// When no part begins any more.
    pub limit: Duration,
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
    if runs(Subject::Correctness) {
        page.add(correctness::several_gpus)?;
        page.add(correctness::one_gpu)?;
    }
    if runs(Subject::Transports) {
        page.add(transports::run)?;
    }
    if runs(Subject::Bandwidth) {
        for gpus in options.ranks.iter().filter(|gpus| **gpus > 1) {
            page.add(|test| several_gpus::run(test, *gpus))?;
        }
    }
    if runs(Subject::OneGpu) {
        page.add(one_gpu::run)?;
    }
    if runs(Subject::Sanitizer) {
        page.add(sanitizer::run)?;
    }
    (page.say)(&page.report.foot());
    Ok(page.report)
}

/// The page so far.
struct Page<'a> {
    test: Test<'a>,
    report: GpuTestReport,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Page<'a> {
    fn begin(options: &'a TestOptions, output: TestOutput<'a>) -> Result<Self> {
        backend_cuda::Cuda::count().context(
            "nothing was run: every check of this command needs an NVIDIA GPU; copy this program \
             to a machine that has one and run `topo gpu-test` there",
        )?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut test = Test {
            options,
            running: output.running,
            machine: MachineFacts {
                gpus: Vec::new(),
                memory_bytes: 0,
                multicast_gpus: None,
                multicast_problem: None,
            },
            program,
            began: Instant::now(),
        };
        test.machine = child::json(test.part(Part::Machine, 1), MACHINE)
            .context("nothing was run: the GPUs of this machine cannot be opened")?;
        let report = GpuTestReport {
            topo: env!("CARGO_PKG_VERSION"),
            machine: test.machine.clone(),
            seconds: 0.0,
            failed: 0,
            not_run: 0,
            sections: Vec::new(),
        };
        // At once, for a run takes long.
        (output.page)(&report.head());
        Ok(Self {
            test,
            report,
            say: output.page,
        })
    }

    fn add(&mut self, section: impl FnOnce(&Test<'_>) -> Section) -> Result<()> {
        let section = section(&self.test);
        (self.say)(&section.in_markdown());
        self.report.sections.push(section);
        self.report.seconds = self.test.began.elapsed().as_secs_f64();
        self.report.count();
        self.keep()
    }

    /// Writes the files after each section, so that a machine that goes away leaves what it did.
    fn keep(&self) -> Result<()> {
        let Some(folder) = &self.test.options.folder else {
            return Ok(());
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let json = answers::report::json(&self.report)?;
        for (name, text) in [("gpu-test.md", self.report.page()), ("gpu-test.json", json)] {
            let file = folder.join(name);
            files::write(&file, text.as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }
}
