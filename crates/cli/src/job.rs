//! A job from the command line: its hosts, which GPUs they use, what fails, and the plan.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use planner::{EqualHosts, Job, Planned, Settings, gpu_devices, with_gpus};
use topology::edit::EditError;

use crate::arguments::JobArguments;
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::Output;
use crate::progress::Progress;
use crate::render::ranges;
use crate::settings::read_settings;
use crate::{numbers, rank_order, sources, suggest};

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// Reads the files of a job and plans it.
pub fn plan(
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    let machines = sources::machines(arguments, output)?;
    plan_machines(machines, arguments, environment, output)
}

/// Plans the job that these machines make.
pub fn plan_machines(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    let settings = read_settings(arguments, environment, output)?;
    let _progress = Progress::new(environment, "planning");
    let job = job(machines, arguments, output)?;
    plan_job(&job, &settings, output)
}

/// Plans a job and turns notes into warnings.
pub fn plan_job(job: &Job, settings: &Settings, output: &mut Output) -> Result<Planned> {
    let planned = planner::plan(job, settings)?;
    let notes = planned.notes.iter().map(ToString::to_string);
    output.warnings.extend(notes);
    Ok(planned)
}

/// The job that these machines make in host order, edited as the arguments say.
pub fn job(machines: Vec<Machine>, arguments: &JobArguments, output: &mut Output) -> Result<Job> {
    if machines.len() > 1 && arguments.hosts > 1 {
        bail!(
            "--hosts counts copies of one machine; with several files, name each file as often as it occurs"
        );
    }
    let alone = machines.len() == 1 && arguments.hosts == 1;
    let is_rccl = machines.iter().find(|machine| machine.is_rccl());
    let refused = is_rccl.map(Machine::refuse_rccl);
    let hosts: Result<Vec<EqualHosts>> = machines
        .into_iter()
        .map(|machine| equal_hosts(machine, arguments, alone, output))
        .collect();
    let mut job = Job {
        nvlink_domain: arguments.nvlink_domain,
        collnet: arguments.collnet,
        ..Job::of(hosts?)
    };
    for edit in &arguments.edits.all() {
        job.edit(edit).map_err(with_near_names)?;
    }
    refused.unwrap_or(Ok(()))?;
    job.ranks = rank_order::parse(&arguments.rank_order)?;
    Ok(job)
}

/// One machine of a job, as often as the arguments say.
fn equal_hosts(
    machine: Machine,
    arguments: &JobArguments,
    alone: bool,
    output: &mut Output,
) -> Result<EqualHosts> {
    let mut hosts = EqualHosts {
        name: machine.name,
        document: Arc::new(machine.document),
        edits: Vec::new(),
        count: arguments.hosts,
    };
    if let Some(list) = &arguments.gpus {
        use_gpus(&mut hosts, list)?;
    }
    let recorded = hosts.recorded_hosts();
    if recorded > 1 {
        let file = &hosts.document.file;
        if !alone {
            bail!(
                "{file} already holds an NVLink domain of {recorded} hosts (host_hash values); plan it alone"
            );
        }
        output.warnings.push(format!(
            "{file}: {recorded} different host_hash values: planned as the NVLink domain that they record; NCCL itself \
             would take all of it for the local host"
        ));
    }
    Ok(hosts)
}

/// Leaves only the GPUs of a list.
fn use_gpus(hosts: &mut EqualHosts, list: &str) -> Result<()> {
    let there = gpu_devices(&hosts.document);
    let wanted = numbers::ascending(list, MOST_GPUS).with_context(|| format!("--gpus {list}"))?;
    let mut devices: Vec<i32> = Vec::new();
    for wanted in wanted {
        let found = i32::try_from(wanted).ok().filter(|dev| there.contains(dev));
        let Some(dev) = found else {
            bail!(
                "--gpus {list}: {} has no GPU{wanted}; it has GPU {}",
                hosts.document.file,
                ranges(&there, ", ")
            );
        };
        if devices.contains(&dev) {
            bail!("--gpus {list}: GPU{dev} is named twice");
        }
        devices.push(dev);
    }
    if devices.len() < there.len() {
        hosts.document = Arc::new(with_gpus(&hosts.document, &devices));
        hosts.edits.push(format!("--gpus {list}"));
    }
    Ok(())
}

/// The error with the nearest names.
fn with_near_names(error: planner::Error) -> anyhow::Error {
    let planner::Error::Edit(EditError::UnknownDevice { name, known, .. }) = &error else {
        return error.into();
    };
    let near = suggest::nearest(name, known.iter().map(String::as_str), OFFERED);
    let hint = if near.is_empty() {
        "; `topo show` names those that there are"
    } else {
        ""
    };
    anyhow!("{error}{}{hint}", suggest::question(&near))
}
