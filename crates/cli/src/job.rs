//! A job from the command line, and its plan.

use answers::{Gpus, Incomplete, JobError, JobNote, JobSpec, Machine};
use anyhow::{Context, Result, anyhow, bail};
use findings::complete::Assumptions;
use planner::{Job, Planned, Settings};

use crate::arguments::{HostsArguments, JobArguments, RanksArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;
use crate::{complete, input, numbers, rank_order};

/// The list of GPUs that `CUDA_VISIBLE_DEVICES` has.
const VISIBLE: &str = "visible";

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

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
    let settings = read_settings(&arguments.variables, environment, output)?;
    let job = job(machines, arguments, environment, output)?;
    Ok((job, settings))
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
    let options = Options::of(arguments.ranks.gpus.as_deref());
    checked(spec, &options, output)
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
    ranks: &RanksArguments,
    environment: &Environment,
) -> Result<JobSpec> {
    Ok(JobSpec {
        machines,
        hosts: hosts.hosts,
        gpus: match &ranks.gpus {
            None => Gpus::All,
            Some(list) => gpus(list, environment)?,
        },
        order: rank_order::parse(&ranks.rank_order)?,
        assume: Assumptions::default(),
        edits: Vec::new(),
        nvlink_domain: hosts.nvlink_domain,
        collnet: false,
        as_is: false,
        physical_ports: false,
    })
}

/// Reads `--gpus`.
pub(crate) fn gpus(list: &str, environment: &Environment) -> Result<Gpus> {
    if list != VISIBLE {
        let numbers = numbers::ascending(list, MOST_GPUS);
        let numbers = numbers.with_context(|| format!("--gpus {list}"))?;
        return Ok(Gpus::Listed(numbers.into_iter().map(i64::from).collect()));
    }
    match &environment.visible_devices {
        Some(list) => Ok(Gpus::Visible(list.clone())),
        None => bail!("--gpus {VISIBLE}: CUDA_VISIBLE_DEVICES is not set"),
    }
}

/// The options of a command that errors may name.
#[derive(Debug, Default)]
pub(crate) struct Options<'a> {
    /// The value of `--gpus`.
    gpus: Option<&'a str>,
    /// Whether there is `--assume`.
    assume: bool,
}

impl<'a> Options<'a> {
    /// Those of a command with `--gpus` and `--assume`.
    pub(crate) const fn of(gpus: Option<&'a str>) -> Self {
        Self { gpus, assume: true }
    }

    /// Those of a command with `--gpus` alone.
    pub(crate) const fn of_gpus(gpus: Option<&'a str>) -> Self {
        Self {
            gpus,
            assume: false,
        }
    }

    fn explain(&self, incomplete: &Incomplete) -> String {
        match self.assume {
            true => complete::explain(incomplete),
            false => format!("{incomplete} (`topo complete` adds them to the file)"),
        }
    }

    /// Turns notes into warnings.
    pub(crate) fn warn(&self, notes: &[JobNote], output: &mut Output) {
        let notes = notes.iter().map(|note| match note {
            JobNote::Incomplete(incomplete) => self.explain(incomplete),
            note => note.to_string(),
        });
        output.warnings.extend(notes);
    }

    /// An error with the options that it is about.
    pub(crate) fn in_words(&self, error: JobError) -> anyhow::Error {
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
            JobError::Gpus(error) => match self.gpus {
                Some(list) => anyhow!("--gpus {list}: {error}"),
                None => error.into(),
            },
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
pub(crate) fn checked(spec: JobSpec, options: &Options<'_>, output: &mut Output) -> Result<Job> {
    let made = spec.job().map_err(|error| options.in_words(error))?;
    options.warn(&made.notes, output);
    Ok(made.job)
}
