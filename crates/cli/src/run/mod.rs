//! `topo run`: runs a collective on the ranks of this host or of several, checks every element, and times it.
//!
//! In reading order: [`job`] (the ranks), [`spec`] (the command line, checked), [`measure`] (the work of
//! a rank), [`choose`] (algorithm, protocol, transfer), [`bench`](mod@bench) (checks and mean times),
//! [`latency`] (times of single launches), [`load`] (core time that other programs took), [`survey`]
//! (every choice, for [`calibrate`]), [`ranks`] (ranks as threads), [`processes`] (ranks as processes),
//! [`launched`] (ranks started by others), [`cuda`] (ranks on GPUs), [`gpu_test`] (all checks that need
//! a GPU).

mod bench;
mod bind;
pub mod calibrate;
mod choose;
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
mod spec;
mod survey;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, Profile};
use executor::Communicator;

use crate::arguments::compare::TextOrJson;
use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::render::Look;
pub use job::Planned;
pub use latency::Latency;
pub use launched::Joined;
pub use load::CoreTime;
use load::Watch;
pub use measure::{Launches, Row, Timing};
pub use spec::Spec;

/// A finished run.
#[derive(Debug)]
pub struct Report {
    /// What was run.
    pub spec: Spec,
    /// What the plan says, if there is one.
    pub planned: Option<Planned>,
    /// One row per size.
    pub rows: Vec<Row>,
    /// What is said of the devices that it was run on; nothing of processors.
    pub devices: String,
    /// How its ranks came together, if others started them.
    pub joined: Option<Joined>,
}

impl Report {
    /// Time of the ranks' cores, and what other programs took of it.
    pub fn cores(&self) -> CoreTime {
        CoreTime::sum(self.rows.iter().map(|it| it.cores))
    }
}

/// Runs a collective.
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
    let among = job::Among::default();
    let (spec, planned) = job::read(arguments, environment, output, among)?;
    let profile = Arc::new(job::profile(arguments.cost_profile.as_deref())?);
    let mut progress = Progress::new(spec.sizes.len());
    let (devices, rows) = if spec.processes {
        processes::run(&spec, &profile, &mut |size| progress.show(size))?
    } else if spec.backend == BackendName::Cpu {
        let rows = threads(&spec, &profile, &mut |size| progress.show(size))?;
        (String::new(), rows)
    } else {
        cuda::threads(&spec, &mut |size| progress.show(size))?
    };
    progress.clear();
    let report = Report {
        spec,
        planned,
        rows,
        devices,
        joined: None,
    };
    show(&report, arguments, environment, output)
}

fn show(
    report: &Report,
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let wrong: u64 = report.rows.iter().map(Row::wrong).sum();
    output.differs = wrong > 0;
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    output.text = if arguments.json || arguments.format == TextOrJson::Json {
        output.warnings.extend(report.cores().warning());
        page::json(report)?
    } else {
        format!("{}{}", report.devices, page::page(report, look))
    };
    Ok(())
}

/// Runs all ranks as threads of this process. What goes on is told by rank 0.
pub fn threads(
    spec: &Spec,
    profile: &Arc<Profile>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<Row>> {
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

/// A line on the terminal that says how far a sweep is.
struct Progress {
    all: usize,
    done: usize,
    shown: bool,
}

impl Progress {
    fn new(all: usize) -> Self {
        Self {
            all,
            done: 0,
            shown: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, bytes: u64) {
        self.done += 1;
        if self.shown {
            let size = crate::sizes::short(bytes);
            let (done, all) = (self.done, self.all);
            // Nobody is left to tell when standard error is closed.
            let _ = write!(std::io::stderr(), "\r\u{1b}[K{done} of {all}: {size}");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}
