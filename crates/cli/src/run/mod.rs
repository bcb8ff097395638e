//! `topo run`: runs a collective on ranks of this host or several, checks and times it.
//!
//! In reading order: [`job`] (ranks and plan), [`spec`] (the checked command line), [`measure`]
//! (the work of a rank), [`choose`], [`bench`](mod@bench), [`latency`], [`pace`] (launches until
//! the next look at the clock), [`load`] (core time of other programs), [`survey`] (for
//! [`calibrate`]), [`ranks`] (threads), [`processes`], [`launched`] (ranks of a launcher),
//! [`threads_of_process`], [`cuda`], [`gpu_test`]; and what is printed: [`event`], [`live`],
//! [`page`](mod@page), [`table`], [`explain`], [`json`].

mod bench;
mod bind;
pub mod calibrate;
mod choose;
mod combine;
pub mod cuda;
mod event;
mod explain;
pub mod gpu_test;
mod job;
mod json;
mod latency;
mod launched;
mod live;
mod load;
mod measure;
mod network;
mod pace;
mod page;
mod processes;
mod ranks;
mod row;
mod spec;
mod survey;
mod table;
mod threads_of_process;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, Profile};
use executor::Communicator;

use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;
use event::{Event, Observer};
pub use job::RunPlan;
pub use json::RunJson;
pub use launched::LaunchReport;
use live::Live;
pub use load::CoreTime;
use load::Watch;
use network::Network;
pub use row::{FigureTiming, Latency, Launches, RunRow};
pub use spec::Spec;

#[derive(Debug)]
pub struct RunReport {
    pub spec: Spec,
    pub planned: Option<RunPlan>,
    pub rows: Vec<RunRow>,
    pub launch: Option<LaunchReport>,
}

impl RunReport {
    /// The report of a run that has yet to begin.
    fn new(spec: Spec, planned: Option<RunPlan>, launch: Option<LaunchReport>) -> Self {
        Self {
            spec,
            planned,
            rows: Vec::new(),
            launch,
        }
    }

    /// Time of the ranks' cores, and what other programs took of it.
    pub fn cores(&self) -> CoreTime {
        CoreTime::sum(self.rows.iter().map(|it| it.cores))
    }
}

pub fn run(arguments: &RunArguments, environment: &Environment, output: &mut Output) -> Result<()> {
    if arguments.member {
        return processes::member();
    }
    let for_gpus = [
        ("--trace", arguments.trace.is_some()),
        ("--profile", arguments.profile),
        ("--graph", arguments.graph.is_some()),
    ];
    if let Some((name, _)) = for_gpus.into_iter().find(|(_, given)| *given)
        && arguments.backend == BackendName::Cpu
    {
        let instead = match name {
            "--profile" => " (a cost profile for the CPU is --cost-profile FILE)",
            _ => "",
        };
        bail!("{name} is for GPUs; expected --backend cuda with it{instead}");
    }
    if let Some(launched) = launched::detect(arguments, environment)? {
        return launched::run(arguments, environment, &launched, output);
    }
    Network::refuse_on_one_host(arguments)?;
    let among = job::JobRanks::default();
    let (spec, planned) = job::read(arguments, environment, output, among)?;
    if spec.backend == BackendName::Cpu {
        choose::check(&spec)?;
    }
    let profile = Arc::new(job::profile(arguments.cost_profile.as_deref())?);
    let report = RunReport::new(spec.clone(), planned, None);
    let mut live = Live::new(report, arguments, environment, output);
    let mut observer = |event: Event<'_>| live.observe(event);
    let notes = if spec.processes {
        processes::run(&spec, &profile, &mut observer)?.0
    } else if spec.backend == BackendName::Cpu {
        threads(&spec, &profile, &mut observer)?;
        String::new()
    } else {
        cuda::threads(&spec, &mut observer)?.0
    };
    live.finish(&notes)
}

/// Runs all ranks as threads of this process; the observer learns of rank 0's events.
pub fn threads(
    spec: &Spec,
    profile: &Arc<Profile>,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    let settings = spec.settings()?;
    let backend = |_| Cpu::new(Arc::clone(profile));
    let communicators = Communicator::local(spec.ranks, &settings, backend)?;
    let cores = bind::cores();
    let observer = Mutex::new(observer);
    let rows = ranks::run(communicators, |communicator| {
        if spec.bind {
            bind::to_own_core(&cores, communicator.rank(), spec.ranks);
        }
        let mut watch = match communicator.rank() {
            0 => Watch::cores(&cores, spec.ranks, spec.bind),
            _ => Watch::nothing(),
        };
        let rank = communicator.rank();
        measure::sweep(communicator, spec, profile, &mut watch, &mut |event| {
            if rank == 0 {
                let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
                observer(event);
            }
        })
    })?;
    rows.into_iter().next().context("there is no rank 0")
}
