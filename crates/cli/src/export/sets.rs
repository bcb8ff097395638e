//! The sets of GPUs that are exported, each with its plan.

use answers::export::{MOST_GPUS, PlannedSet, TooManySets, subsets};
use answers::measured::MeasuredLinks;
use answers::{Gpus, JobSpec, names};
use anyhow::{Error, Result, anyhow, bail};
use plan::Plan;

use crate::arguments::export::ExportArguments;
use crate::environment::Environment;
use crate::job::Remedy;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::{read_settings, warn_of_doubtful};
use crate::sources::{self, Sources};
use crate::{complete, job, measured};

/// Sets of GPUs with their plans.
pub(super) struct PlannedSets {
    /// The sets, the job's own first.
    pub all: Vec<PlannedSet>,
    /// The measured links of the first set.
    pub measured: Option<MeasuredLinks>,
}

/// The sets that the arguments ask for.
pub(super) fn planned(
    arguments: &ExportArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<PlannedSets> {
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, plan) => {
            arguments.refuse_sets_beside_plan(&name)?;
            arguments.measured.refuse_beside_plan(&name)?;
            return Ok(PlannedSets {
                all: vec![named(plan)],
                measured: None,
            });
        }
        Sources::Machines(machines) => machines,
    };
    let _progress = Progress::new(environment, "planning");
    let whole = job::spec(machines, &arguments.job, environment)?;
    let mut lists = vec![whole.gpus.clone()];
    for list in &arguments.also {
        let visible = environment.visible_devices.as_deref();
        lists.push(list.gpus(visible).map_err(Error::msg)?);
    }
    if arguments.all_subsets {
        lists = all_subsets(&whole)?;
    }
    let settings = read_settings(
        &whole.machines,
        &arguments.job.variables,
        environment,
        output,
    )?;
    let mut sets: Vec<PlannedSet> = Vec::new();
    let mut links = None;
    for gpus in lists {
        let spec = JobSpec {
            gpus,
            ..whole.clone()
        };
        let mut said = Output::default();
        let job = job::checked(spec, Remedy::Option, &mut said)?;
        if sets.is_empty() {
            warn_of_doubtful(&job, &settings, output);
        }
        let planned = job::plan_job(&job, &settings, &mut said)?;
        let on_links = measured::on_links(
            &arguments.measured,
            &planned,
            job.profile.as_ref(),
            &mut said,
        )?;
        let set = named(match &on_links {
            Some(measured) => measured.plan_with_costs()?,
            None => planned.plan().clone(),
        });
        if sets.is_empty() {
            links = on_links.map(|it| it.links);
        }
        // What is said about each of many sets is said once.
        for warning in said.warnings {
            if !output.warnings.contains(&warning) {
                output.warnings.push(warning);
            }
        }
        if sets.iter().all(|known| known.gpus != set.gpus) {
            sets.push(set);
        }
    }
    Ok(PlannedSets {
        all: sets,
        measured: links,
    })
}

/// Lists of all sets of at least two GPUs, the largest first.
fn all_subsets(job: &JobSpec) -> Result<Vec<Gpus>> {
    let [machine] = &job.machines[..] else {
        bail!("--all-subsets is for one machine; expected one topology file, with --hosts");
    };
    let document = complete::assumed(&machine.document, &job.assume)?;
    subsets(&document).map_err(|TooManySets { gpus }| {
        anyhow!(
            "--all-subsets: {} has {gpus} GPUs; expected at most {MOST_GPUS}, or --gpus and --also with the sets that jobs use",
            machine.document.file
        )
    })
}

/// A set with the name of its job in one line.
fn named(plan: Plan) -> PlannedSet {
    let name = files::printable(&names::job(&plan)).replace('\n', " ");
    PlannedSet::new(name, plan)
}
