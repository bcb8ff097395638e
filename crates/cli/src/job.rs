//! A job from the command line, and its plan.

use std::path::Path;

use answers::job_options::RankOptions;
use answers::order::AskedOrder;
use answers::{Incomplete, JobError, JobNote, JobSpec, Machine};
use anyhow::{Result, anyhow};
use plan::DecidingAssumption;
use planner::{Job, Planned, Settings};

use crate::arguments::{HostsArguments, JobArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;
use crate::{complete, input, rank_order};

/// Plans the job that these machines make.
pub(crate) fn plan_machines(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    let (job, settings) = given(machines, arguments, environment, output)?;
    let _progress = Progress::new(environment, "planning");
    plan_job(&job, &settings, output)
}

/// The job that these machines make, and NCCL's settings.
pub(crate) fn given(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(Job, Settings)> {
    let settings = read_settings(&machines, &arguments.variables, environment, output)?;
    let job = job(machines, arguments, environment, output)?;
    Ok((job, settings))
}

/// The assumptions of listings that decide a planned job.
pub(crate) fn deciding(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    settings: &Settings,
    planned: &Planned,
) -> Result<Vec<DecidingAssumption>> {
    if machines.iter().all(|it| it.alternatives.is_empty()) {
        return Ok(Vec::new());
    }
    let spec = spec(machines, arguments, environment)?;
    Ok(answers::assumptions::deciding(&spec, settings, planned))
}

/// Plans a job and turns notes into warnings.
pub(crate) fn plan_job(job: &Job, settings: &Settings, output: &mut Output) -> Result<Planned> {
    let planned = planner::plan(job, settings)?;
    let notes = planned.notes.iter().map(ToString::to_string);
    output.warnings.extend(notes);
    Ok(planned)
}

/// The job that these machines make in host order, edited as the arguments say.
pub(crate) fn job(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Job> {
    let spec = spec(machines, arguments, environment)?;
    checked(spec, Remedy::Option, output)
}

/// The job that the arguments ask for.
pub(crate) fn spec(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
) -> Result<JobSpec> {
    Ok(JobSpec {
        assume: arguments.assume.all(),
        edits: arguments.edits.all(),
        collnet: arguments.collnet,
        as_is: arguments.preparation.as_is,
        physical_ports: arguments.preparation.physical_ports(),
        ..spec_of(machines, &arguments.hosts, &arguments.ranks, environment)?
    })
}

/// The job of these machines without assumptions and edits.
pub(crate) fn spec_of(
    machines: Vec<Machine>,
    hosts: &HostsArguments,
    ranks: &RankOptions,
    environment: &Environment,
) -> Result<JobSpec> {
    let mut ranks = ranks.clone();
    if let Some(file) = ranks.rank_order.file() {
        ranks.rank_order = AskedOrder::Listed(rank_order::read(Path::new(file))?);
    }
    let visible = environment.visible_devices.as_deref();
    let spec = ranks.spec(&hosts.options, machines, visible);
    spec.map_err(|why| anyhow!("--{why}"))
}

/// How a command adds the devices that a file lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Remedy {
    /// By `--assume`.
    Option,
    /// By another command.
    Complete,
}

impl Remedy {
    fn explain(self, incomplete: &Incomplete) -> String {
        match self {
            Self::Option => complete::explain(incomplete),
            Self::Complete => format!("{incomplete} (`topo complete` adds them to the file)"),
        }
    }

    /// Turns notes into warnings.
    pub(crate) fn warn(self, notes: &[JobNote], output: &mut Output) {
        let notes = notes.iter().map(|note| match note {
            JobNote::Incomplete(incomplete) => self.explain(incomplete),
            note => note.to_string(),
        });
        output.warnings.extend(notes);
    }

    /// An error with the options that it is about.
    pub(crate) fn in_words(self, error: JobError) -> anyhow::Error {
        match error {
            JobError::CopiesOfSeveral { .. } => anyhow!(
                "--hosts counts copies of one machine; with several files, name each file as often as it occurs"
            ),
            JobError::NoGpu { .. } => {
                anyhow!(
                    "{error}; `topo run --ranks N` runs collectives on the processors of a machine"
                )
            }
            JobError::Incomplete(incomplete) => anyhow!(self.explain(&incomplete)),
            JobError::Assume(error) => complete::in_words(&error),
            JobError::Gpus(error) => anyhow!("--gpus: {error}"),
            JobError::Edit { error, near } if near.is_empty() => match error {
                topology::edit::EditError::UnknownDevice { .. } => {
                    anyhow!("{error}; `topo show` names those that there are")
                }
                _ => planner::Error::Edit(error).into(),
            },
            JobError::Planner(planner::Error::Rccl { file }) => anyhow!(input::rccl(file)),
            JobError::Planner(error) => error.into(),
            error => error.into(),
        }
    }
}

/// Checks a job; notes become warnings.
pub(crate) fn checked(spec: JobSpec, remedy: Remedy, output: &mut Output) -> Result<Job> {
    let made = spec.job().map_err(|error| remedy.in_words(error))?;
    remedy.warn(&made.notes, output);
    Ok(made.job)
}
