//! `topo gpu-test`: every check that needs GPUs, without compiler or network. Each part is a
//! process of its own with a deadline, so that a fault or a hang ends that part alone.
//!
//! In reading order: [`report`], [`mod@test`], [`child`], [`parts`], [`correctness`],
//! [`transports`], [`several_gpus`], [`torch`], [`one_gpu`], [`sanitizer`].

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
use crate::arguments::compare::TextOrJson;
use crate::arguments::run::{GpuTestArguments, GpuTestSection};
use crate::environment::Environment;
use crate::output::{self, Output};
use answers::report as kinds;

/// Longest time of asking the driver what the GPUs are.
const MACHINE: Duration = Duration::from_secs(120);

/// Runs all sections, or those of `--only`.
///
/// # Errors
/// There is no GPU, or a file cannot be written.
pub fn run(
    arguments: &GpuTestArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(part) = arguments.part {
        return parts::run(part, arguments, output);
    }
    let mut page = Page::begin(arguments, environment)?;
    let runs = |name| arguments.only.is_empty() || arguments.only.contains(&name);
    if runs(GpuTestSection::Correctness) {
        page.add(correctness::several_gpus)?;
        page.add(correctness::one_gpu)?;
    }
    if runs(GpuTestSection::Transports) {
        page.add(transports::run)?;
    }
    if runs(GpuTestSection::Bandwidth) {
        for gpus in arguments.ranks.iter().filter(|gpus| **gpus > 1) {
            page.add(|test| several_gpus::run(test, *gpus))?;
        }
    }
    if runs(GpuTestSection::OneGpu) {
        page.add(one_gpu::run)?;
    }
    if runs(GpuTestSection::Sanitizer) {
        page.add(sanitizer::run)?;
    }
    page.end(output)
}

/// The page so far.
struct Page<'a> {
    test: Test<'a>,
    report: GpuTestReport,
    form: TextOrJson,
    folder: Option<PathBuf>,
}

impl<'a> Page<'a> {
    fn begin(arguments: &GpuTestArguments, environment: &'a Environment) -> Result<Self> {
        backend_cuda::Cuda::count().context(
            "nothing was run: every check of this command needs an NVIDIA GPU; copy this program \
             to a machine that has one and run `topo gpu-test` there",
        )?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut test = Test {
            environment,
            machine: MachineFacts {
                gpus: Vec::new(),
                memory_bytes: 0,
                multicast_gpus: None,
                multicast_problem: None,
            },
            end: arguments.end,
            cases: arguments.cases,
            ranks: arguments.ranks.clone(),
            program,
            began: Instant::now(),
            limit: Duration::from_secs(60 * arguments.minutes),
        };
        test.machine = child::json(test.part("machine", 1), MACHINE)
            .context("nothing was run: the GPUs of this machine cannot be opened")?;
        let report = GpuTestReport {
            topo: env!("CARGO_PKG_VERSION"),
            machine: test.machine.clone(),
            seconds: 0.0,
            failed: 0,
            not_run: 0,
            sections: Vec::new(),
        };
        let page = Self {
            test,
            report,
            form: arguments.form.format(),
            folder: arguments.output.clone(),
        };
        page.say(&page.report.head());
        Ok(page)
    }

    /// Prints at once, for a run takes long.
    fn say(&self, text: &str) {
        use std::io::Write;
        if self.form == TextOrJson::Text {
            // A closed standard output cannot be reported anywhere.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
    }

    fn add(&mut self, section: impl FnOnce(&Test<'_>) -> Section) -> Result<()> {
        let section = section(&self.test);
        self.say(&section.in_markdown());
        self.report.sections.push(section);
        self.report.seconds = self.test.began.elapsed().as_secs_f64();
        self.report.count();
        self.keep()
    }

    /// Writes the files after each section, so that a machine that goes away leaves what it did.
    fn keep(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        output::write(&folder.join("gpu-test.md"), &self.report.page())?;
        output::write(&folder.join("gpu-test.json"), &kinds::json(&self.report)?)
    }

    fn end(self, output: &mut Output) -> Result<()> {
        self.say(&self.report.foot());
        if self.form == TextOrJson::Json {
            output.text = kinds::json(&self.report)?;
        }
        output.differs = self.report.failed > 0;
        Ok(())
    }
}
