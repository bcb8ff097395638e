//! `topo run`: runs a collective on ranks of this host or several, checks and times it.
//!
//! In reading order: [`job`] (ranks and plan), [`spec`] (the checked command line), [`measure`]
//! (the work of a rank), [`choose`], [`bench`](mod@bench), [`latency`], [`load`] (core time of
//! other programs), [`survey`] (for [`calibrate`]), [`ranks`] (threads), [`processes`],
//! [`launched`] (ranks of a launcher), [`cuda`], [`gpu_test`], [`page`](mod@page).

mod bench;
mod bind;
pub mod calibrate;
mod choose;
mod combine;
pub mod cuda;
pub mod gpu_test;
mod job;
mod latency;
mod launched;
mod load;
mod measure;
mod page;
mod ports;
mod processes;
mod ranks;
mod row;
mod spec;
mod survey;

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, Profile};
use executor::Communicator;

use crate::arguments::compare::TextOrJson;
use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Steps;
use crate::sizes::short;
pub use job::RunPlan;
pub use launched::LaunchReport;
pub use load::CoreTime;
use load::Watch;
pub use row::{FigureTiming, Latency, Launches, RunRow};
pub use spec::Spec;

#[derive(Debug)]
pub struct RunReport {
    pub spec: Spec,
    pub planned: Option<RunPlan>,
    pub rows: Vec<RunRow>,
    /// A report on the GPUs; empty for processors.
    pub devices: String,
    pub launch: Option<LaunchReport>,
}

impl RunReport {
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
        let (report, wrong) = launched::run(arguments, environment, &launched, output)?;
        output.differs = wrong;
        // The others have nothing to say that rank 0 does not.
        return report.map_or(Ok(()), |report| {
            show(&report, arguments, environment, output)
        });
    }
    let among = job::JobRanks::default();
    let (spec, planned) = job::read(arguments, environment, output, among)?;
    let profile = Arc::new(job::profile(arguments.cost_profile.as_deref())?);
    let mut progress = Steps::new(spec.sizes.len());
    let (devices, rows) = if spec.processes {
        processes::run(&spec, &profile, &mut |size| progress.show(&short(size)))?
    } else if spec.backend == BackendName::Cpu {
        let rows = threads(&spec, &profile, &mut |size| progress.show(&short(size)))?;
        (String::new(), rows)
    } else {
        cuda::threads(&spec, &mut |size| progress.show(&short(size)))?
    };
    drop(progress);
    let report = RunReport {
        spec,
        planned,
        rows,
        devices,
        launch: None,
    };
    show(&report, arguments, environment, output)
}

fn show(
    report: &RunReport,
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let wrong: u64 = report.rows.iter().map(RunRow::wrong).sum();
    output.differs = wrong > 0;
    output.text = if arguments.json || arguments.format == TextOrJson::Json {
        output.warnings.extend(report.cores().warning());
        page::json(report)?
    } else {
        format!(
            "{}{}",
            report.devices,
            page::page(report, environment.look())
        )
    };
    Ok(())
}

/// Runs all ranks as threads of this process; rank 0 reports progress.
pub fn threads(
    spec: &Spec,
    profile: &Arc<Profile>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<RunRow>> {
    let settings = spec.settings()?;
    let backend = |_| Cpu::new(Arc::clone(profile));
    let communicators = Communicator::local(spec.ranks, &settings, backend)?;
    let cores = bind::cores();
    let rows = ranks::run(communicators, progress, |communicator, progress| {
        if spec.bind {
            bind::to_own_core(&cores, communicator.rank(), spec.ranks);
        }
        let mut watch = match communicator.rank() {
            0 => Watch::cores(&cores, spec.ranks, spec.bind),
            _ => Watch::nothing(),
        };
        measure::sweep(communicator, spec, profile, &mut watch, progress)
    })?;
    rows.into_iter().next().context("there is no rank 0")
}
