//! The sets of GPUs that are exported, each with its plan.

use anyhow::{Result, bail};
use plan::Plan;

use crate::arguments::JobArguments;
use crate::arguments::export::ExportArguments;
use crate::environment::Environment;
use crate::exit;
use crate::input::Machine;
use crate::job;
use crate::output::Output;
use crate::progress::Progress;
use crate::render;
use crate::settings::read_settings;
use crate::sources::{self, Sources};

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
            name: exit::printable(&render::names::job(&plan)).replace('\n', " "),
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
            return Ok(vec![PlannedSet::new(*plan)]);
        }
        Sources::Machines(machines) => machines,
    };
    let _progress = Progress::new(environment, "planning");
    let mut lists = vec![arguments.job.gpus.clone()];
    lists.extend(arguments.also.iter().cloned().map(Some));
    if arguments.all_subsets {
        lists = all_subsets(&machines)?.into_iter().map(Some).collect();
    }
    let settings = read_settings(&arguments.job, environment, output)?;
    let mut sets: Vec<PlannedSet> = Vec::new();
    for gpus in lists {
        let of_set = JobArguments {
            gpus,
            ..arguments.job.clone()
        };
        let mut said = Output::default();
        let job = job::job(machines.clone(), &of_set, environment, &mut said)?;
        let planned = job::plan_job(&job, &settings, &mut said)?;
        let set = PlannedSet::new(planned.plan());
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
fn all_subsets(machines: &[Machine]) -> Result<Vec<String>> {
    let [machine] = machines else {
        bail!("--all-subsets is for one machine; expected one topology file, with --hosts");
    };
    let gpus = planner::gpu_devices(&machine.document);
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
    let text = |set: &Vec<i32>| {
        let devices: Vec<String> = set.iter().map(i32::to_string).collect();
        devices.join(",")
    };
    Ok(sets.iter().map(text).collect())
}
