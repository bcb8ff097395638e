//! The sets of GPUs that are exported, each with its plan.

use answers::{Gpus, JobSpec};
use anyhow::{Result, bail};
use plan::Plan;

use crate::arguments::export::ExportArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;
use crate::sources::{self, Sources};
use crate::{complete, job, render};

/// Most GPUs of a machine of which all sets are exported.
const MOST_GPUS: usize = 8;

/// A set of GPUs and its plan.
#[derive(Debug)]
pub struct PlannedSet {
    /// The job's name.
    pub name: String,
    /// The GPUs of each host in rank order, such as `0-3,6`.
    pub gpus: String,
    pub plan: Plan,
}

impl PlannedSet {
    fn new(plan: Plan) -> Self {
        let first = plan.machines.first();
        let devices: Vec<i32> = first
            .iter()
            .flat_map(|it| &it.gpus)
            .map(|it| it.dev)
            .collect();
        Self {
            name: exit::printable(&answers::names::job(&plan)).replace('\n', " "),
            gpus: render::ranges(&devices, ","),
            plan,
        }
    }

    /// The GPUs as a part of a file's name.
    pub fn file_part(&self) -> String {
        self.gpus.replace(',', "_")
    }
}

/// The sets that the arguments ask for, the job's own first.
pub fn planned(
    arguments: &ExportArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Vec<PlannedSet>> {
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, plan) => {
            arguments.refuse_sets_beside_plan(&name)?;
            return Ok(vec![PlannedSet::new(plan)]);
        }
        Sources::Machines(machines) => machines,
    };
    let _progress = Progress::new(environment, "planning");
    let whole = job::spec(machines, &arguments.job, environment)?;
    let mut lists = vec![(arguments.job.gpus.as_deref(), whole.gpus.clone())];
    for list in &arguments.also {
        lists.push((Some(list), job::gpus(list, environment)?));
    }
    if arguments.all_subsets {
        lists = all_subsets(&whole)?
            .into_iter()
            .map(|it| (None, it))
            .collect();
    }
    let settings = read_settings(&arguments.job.variables, environment, output)?;
    let mut sets: Vec<PlannedSet> = Vec::new();
    for (list, gpus) in lists {
        let spec = JobSpec {
            gpus,
            ..whole.clone()
        };
        let mut said = Output::default();
        let job = job::checked(spec, &job::Options::of(list), &mut said)?;
        let planned = job::plan_job(&job, &settings, &mut said)?;
        let set = PlannedSet::new(planned.plan().clone());
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
    Ok(sets)
}

/// Lists of all sets of at least two GPUs, the largest first.
fn all_subsets(job: &JobSpec) -> Result<Vec<Gpus>> {
    let [machine] = &job.machines[..] else {
        bail!("--all-subsets is for one machine; expected one topology file, with --hosts");
    };
    let document = complete::assumed(&machine.document, &job.assume)?;
    let gpus = planner::gpu_devices(&document);
    if gpus.len() > MOST_GPUS {
        bail!(
            "--all-subsets: {} has {} GPUs; expected at most {MOST_GPUS}, or --gpus and --also with the sets that jobs use",
            machine.document.file,
            gpus.len()
        );
    }
    let mut sets: Vec<Vec<i32>> = (0_u32..1 << gpus.len())
        .map(|bits| {
            let has = |at: &usize| bits & (1 << at) != 0;
            (0..gpus.len()).filter(has).map(|at| gpus[at]).collect()
        })
        .filter(|set: &Vec<i32>| set.len() >= 2)
        .collect();
    sets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    Ok(sets.iter().map(|set| Gpus::of(set)).collect())
}
