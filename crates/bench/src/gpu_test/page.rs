//! The page as it grows: each part is printed and written to the files when it ends.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::gpu_test::TestOutput;
use crate::gpu_test::report::{Check, Fact, Figure, GpuTestReport, Outcome, Section};
use crate::gpu_test::test::Test;
use answers::gpu_test::{GpuTestQuestion, Part};

/// Longest time of asking the driver what the GPUs are.
const MACHINE: Duration = Duration::from_secs(120);

/// The page so far.
pub(crate) struct Page<'a> {
    pub test: Test<'a>,
    report: GpuTestReport,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Page<'a> {
    /// Asks the driver what the GPUs are, and prints that.
    ///
    /// # Errors
    /// There is no GPU.
    pub(crate) fn begin(options: &'a GpuTestQuestion, output: TestOutput<'a>) -> Result<Self> {
        // Nothing else asks the driver here: it may hang.
        backend_cuda::presence::check(backend_cuda::presence::LONGEST_START).context(
            "nothing was run: every check of this command needs an NVIDIA GPU; copy this program \
             to a machine that has one and run `topo gpu-test` there",
        )?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let machine = Test::part_of(&program, options, Part::Machine, 1);
        let machine = crate::child_process::json(machine, MACHINE)
            .context("nothing was run: the GPUs of this machine cannot be opened")?;
        let report = GpuTestReport::new(machine);
        // At once, for a run takes long.
        (output.page)(&report.head());
        Ok(Self {
            test: Test {
                options,
                running: output.running,
                machine: report.machine.clone(),
                program,
                began: Instant::now(),
            },
            report,
            say: output.page,
        })
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, title: &str, note: &str) {
        self.end_section();
        self.report.sections.push(Section {
            title: title.to_owned(),
            note: note.to_owned(),
            ..Section::default()
        });
    }

    fn end_section(&mut self) {
        match self.report.sections.last() {
            Some(section) if !section.checks.is_empty() => (self.say)(&section.tables()),
            // No part was asked for.
            _ => drop(self.report.sections.pop()),
        }
    }

    /// Runs a part, for `seconds` at most. `run` adds the figures.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn check(
        &mut self,
        what: &str,
        seconds: u64,
        run: impl FnOnce(&Test<'_>, Duration, &mut Vec<Figure>) -> Result<Outcome>,
    ) -> Result<()> {
        if !self.test.wants(what) {
            return Ok(());
        }
        let (test, mut figures) = (&self.test, Vec::new());
        let check = test.check(what, seconds, |deadline| run(test, deadline, &mut figures));
        self.add(check, figures, Vec::new())
    }

    /// Runs a part that answers questions, for `seconds` at most.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn facts(
        &mut self,
        what: &str,
        seconds: u64,
        run: impl FnOnce(&Test<'_>, Duration) -> Result<Vec<Fact>>,
    ) -> Result<()> {
        if !self.test.wants(what) {
            return Ok(());
        }
        let (test, mut facts) = (&self.test, Vec::new());
        let check = test.check(what, seconds, |deadline| {
            facts = run(test, deadline)?;
            Ok(Fact::outcome(&facts))
        });
        self.add(check, Vec::new(), facts)
    }

    /// Says that a part is not run, and why.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn leave_out(&mut self, what: &str, why: &str) -> Result<()> {
        match self.test.wants(what) {
            true => self.add(self.test.left_out(what, why), Vec::new(), Vec::new()),
            false => Ok(()),
        }
    }

    fn add(&mut self, check: Check, figures: Vec<Figure>, facts: Vec<Fact>) -> Result<()> {
        if let Some(section) = self.report.sections.last_mut() {
            if section.checks.is_empty() {
                (self.say)(&section.head());
            }
            (self.say)(&check.in_markdown());
            section.checks.push(check);
            section.figures.extend(figures);
            section.facts.extend(facts);
        }
        self.report.seconds = self.test.began.elapsed().as_secs_f64();
        self.report.count();
        self.keep()
    }

    /// Writes the files after each part, so that a machine that goes away leaves what it did.
    fn keep(&self) -> Result<()> {
        let Some(folder) = &self.test.options.output else {
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

    /// Prints the end.
    pub(crate) fn end(mut self) -> GpuTestReport {
        self.end_section();
        (self.say)(&self.report.foot());
        self.report
    }
}
