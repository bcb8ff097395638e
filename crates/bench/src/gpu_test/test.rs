//! The parts that all tests share: the machine, the time that is left, and this program's own file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use executor::Settings;

use crate::gpu_test::report::{Check, MachineFacts, Outcome};
use answers::gpu_test::{GpuTestQuestion, Part};

/// A part is not begun with less time than this.
const LEAST: Duration = Duration::from_secs(5);

/// Waits of ranks that a part may take.
const PATIENCE: u32 = 3;

pub(crate) struct Test<'a> {
    pub options: &'a GpuTestQuestion,
    /// Gets what is run now.
    pub running: &'a dyn Fn(Option<&str>),
    pub machine: MachineFacts,
    pub program: PathBuf,
    pub began: Instant,
}

impl Test<'_> {
    /// This program, to be run again.
    pub(crate) fn own(&self) -> Command {
        Command::new(&self.program)
    }

    /// A part of this program.
    pub(crate) fn part(&self, part: Part, ranks: u32) -> Command {
        Self::part_of(&self.program, self.options, part, ranks)
    }

    /// A part of a program.
    pub(crate) fn part_of(
        program: &Path,
        options: &GpuTestQuestion,
        part: Part,
        ranks: u32,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(["gpu-test", "--part", part.name()])
            .args(["--ranks", &ranks.to_string()])
            .args(["--cases", &options.cases.to_string()])
            .args(["--end", &options.end.to_string()])
            .args(["--timeout", &options.timeout.to_string()])
            .args(["--warm", &options.warm.to_string()]);
        command
    }

    /// Whether a part with this name is asked for.
    pub(crate) fn wants(&self, what: &str) -> bool {
        let text = self.options.matching.as_ref();
        text.is_none_or(|text| what.contains(text))
    }

    /// The time that is left for the test.
    fn left(&self) -> Duration {
        self.options.limit().saturating_sub(self.began.elapsed())
    }

    /// The time that a part may take.
    pub(crate) fn deadline(&self, seconds: u64) -> Duration {
        self.left().min(self.patience(seconds))
    }

    /// The time that a part would get at the begin of the test.
    fn patience(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).min(PATIENCE * self.options.longest_wait())
    }

    /// Why `gpus` GPUs cannot run NVLS.
    pub(crate) fn multicast(&self, gpus: u32) -> Result<(), String> {
        match (self.machine.multicast_gpus, &self.machine.multicast_problem) {
            (Some(members), _) if members >= gpus => Ok(()),
            (Some(members), _) => Err(format!("a multicast has at most {members} GPUs here")),
            (None, why) => Err(why.clone().unwrap_or_default()),
        }
    }

    /// Runs a part, for `seconds` at most.
    pub(crate) fn check(
        &self,
        what: &str,
        seconds: u64,
        run: impl FnOnce(Duration) -> Result<Outcome>,
    ) -> Check {
        let deadline = self.deadline(seconds);
        let is_cut = deadline < self.patience(seconds);
        let over = || {
            let minutes = self.options.minutes;
            format!("the {minutes} minutes of the test are over")
        };
        if self.left() < LEAST {
            return self.left_out(what, &over());
        }
        (self.running)(Some(what));
        let began = Instant::now();
        let mut outcome = run(deadline).unwrap_or_else(|why| Outcome::Failed(format!("{why:#}")));
        // The end of the test is no fault of the part.
        if is_cut && matches!(outcome, Outcome::Failed(_)) && began.elapsed() >= deadline {
            outcome = Outcome::NotRun(over());
        }
        (self.running)(None);
        Check {
            what: what.to_owned(),
            outcome,
            seconds: began.elapsed().as_secs_f64(),
        }
    }

    /// A part that is not run.
    pub(crate) fn left_out(&self, what: &str, why: &str) -> Check {
        Check {
            what: what.to_owned(),
            outcome: Outcome::NotRun(why.to_owned()),
            seconds: 0.0,
        }
    }
}

/// Settings of the ranks of a part.
pub(crate) fn settings(options: &GpuTestQuestion) -> Settings {
    Settings {
        longest_wait: options.longest_wait(),
        ..Settings::default()
    }
}
