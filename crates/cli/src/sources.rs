//! The files of a job: topology files, or one plan.

use std::path::{Path, PathBuf};

use answers::Machine;
use anyhow::{Result, bail};
use plan::Plan;
use planner::Planned;

use crate::arguments::{HostsArguments, JobArguments};
use crate::input::Source;
use crate::output::Output;

/// What a plan lacks for who looks at links.
pub(crate) const NO_LINKS: &str =
    ", which does not hold every link of its machines; expected topology files";

/// Refuses standard input for more than one of the files.
pub(crate) fn refuse_input_twice(arguments: &HostsArguments) -> Result<()> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input (-) can be read once only; use --hosts for equal hosts, or files");
    }
    Ok(())
}

/// Reads machines, of which none may be a plan.
pub(crate) fn machines(arguments: &HostsArguments, output: &mut Output) -> Result<Vec<Machine>> {
    refuse_input_twice(arguments)?;
    let read = Source::read_all(&arguments.files, output)?.into_iter();
    let machines = read.map(|it| match it {
        Source::Topology(machine) => Ok(machine),
        Source::Plan(name, _) => bail!("{name} is a plan; expected topology files"),
    });
    machines.collect()
}

/// The kinds of a job's files.
#[derive(Debug)]
pub(crate) enum Sources {
    /// One plan, with what it is called.
    Plan(String, Plan),
    /// Topology files.
    Machines(Vec<Machine>),
}

/// Reads the files of a job. Options that cannot change a plan are refused beside one.
pub(crate) fn read(arguments: &JobArguments, output: &mut Output) -> Result<Sources> {
    refuse_input_twice(&arguments.hosts)?;
    let mut machines = Vec::new();
    for read in Source::read_all(&arguments.hosts.files, output)? {
        match read {
            Source::Plan(name, plan) => {
                arguments.refuse_beside_plan(&name)?;
                return Ok(Sources::Plan(name, plan));
            }
            Source::Topology(machine) => machines.push(machine),
        }
    }
    Ok(Sources::Machines(machines))
}

impl Sources {
    /// The machines of topology files; `instead` says of a plan what it lacks and what is expected.
    pub(crate) fn machines(self, instead: &str) -> Result<Vec<Machine>> {
        match self {
            Self::Plan(name, _) => bail!("{name} is a plan{instead}"),
            Self::Machines(machines) => Ok(machines),
        }
    }

    /// The plan of the job: that of the file, or one that `plan` makes of the machines.
    pub(crate) fn planned(
        self,
        plan: impl FnOnce(Vec<Machine>) -> Result<Planned>,
    ) -> Result<Plan> {
        Ok(match self {
            Self::Plan(_, plan) => plan,
            Self::Machines(machines) => plan(machines)?.plan().clone(),
        })
    }
}
