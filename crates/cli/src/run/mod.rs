//! `topo run`: runs a collective on ranks of this host or several, checks and times it.
//!
//! In reading order: [`driver`] (one library of the driver), [`job`] (the checked command line: its
//! ranks and plan), [`launched`] (ranks of a launcher), [`network`], [`live`] (the output while
//! ranks run; its pages are of `bench`); [`pairs`], [`calibrate`], [`gpu_test`].

pub(crate) mod calibrate;
mod driver;
pub(crate) mod gpu_test;
mod job;
mod launched;
mod live;
mod network;
mod pairs;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use bench::{Event, RunReport, RunsOn, choose, cuda, processes, threads};

use bootstrap::rendezvous::{JobOptions, LaunchedRank, launcher};

use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;
use live::Live;

/// The rank of this process, if a launcher started it.
pub(crate) fn launched_rank(environment: &Environment) -> Result<Option<LaunchedRank>> {
    let parent = std::os::unix::process::parent_id();
    launcher::detect(&JobOptions::default(), &environment.launcher, parent)
}

impl From<BackendName> for RunsOn {
    fn from(name: BackendName) -> Self {
        match name {
            BackendName::Cpu => Self::Cpu,
            BackendName::Cuda => Self::Cuda,
            #[cfg(feature = "emulator")]
            BackendName::Emulator => Self::Emulator,
        }
    }
}

pub(crate) fn run(
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if arguments.member {
        return processes::member(network::print_log);
    }
    let for_gpus = [
        ("--trace", arguments.trace.is_some()),
        ("--profile", arguments.profile),
        ("--graph", arguments.graph.is_some()),
        ("--register", arguments.register),
    ];
    if arguments.best && arguments.backend != BackendName::Cpu {
        bail!("--best compares the choices of the CPU backend; expected --backend cpu with it");
    }
    if let Some((name, _)) = for_gpus.into_iter().find(|(_, given)| *given)
        && arguments.backend == BackendName::Cpu
    {
        let instead = match name {
            "--profile" => " (a cost profile for the CPU is --cost-profile FILE)",
            _ => "",
        };
        bail!("{name} is for GPUs; expected --backend cuda with it{instead}");
    }
    if arguments.trace.as_deref() == Some(Path::new("-")) {
        bail!("cannot write `-`: --trace expects a file's name");
    }
    if arguments.backend == BackendName::Cuda {
        driver::only_one(environment, Duration::from_secs(arguments.timeout))?;
    }
    if arguments.pairs {
        return pairs::run(arguments, environment, output);
    }
    if let Some(launched) = launched::detect(arguments, environment)? {
        return launched::run(arguments, environment, &launched, output);
    }
    network::refuse_on_one_host(arguments)?;
    let among = job::JobRanks::default();
    let (spec, planned) = job::read(arguments, environment, output, among)?;
    if spec.backend == RunsOn::Cpu {
        choose::check(&spec)?;
    }
    let profile = job::profile(arguments.cost_profile.as_deref(), environment, output)?;
    let report = RunReport::new(spec.clone(), planned, None);
    let mut live = Live::new(report, arguments, environment, output);
    let mut observer = |event: Event<'_>| live.observe(event);
    let notes = if spec.processes {
        processes::run(&spec, &profile, network::print_log, &mut observer)?.0
    } else if spec.backend == RunsOn::Cpu {
        threads::run(&spec, &profile, &mut observer)?;
        String::new()
    } else {
        cuda::threads(&spec, &mut observer)?.0
    };
    live.finish(&notes)
}
