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
use crate::rank_order::UsedGpus;
use crate::render::ranges;
use crate::settings::read_settings;
use crate::{numbers, rank_order, suggest};

/// The list of GPUs that `CUDA_VISIBLE_DEVICES` has.
const VISIBLE: &str = "visible";

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// Plans the job that these machines make.
pub fn plan_machines(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    let settings = read_settings(arguments, environment, output)?;
    let _progress = Progress::new(environment, "planning");
    let job = job(machines, arguments, environment, output)?;
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
pub fn job(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Job> {
    if machines.len() > 1 && arguments.hosts > 1 {
        bail!(
            "--hosts counts copies of one machine; with several files, name each file as often as it occurs"
        );
    }
    let alone = machines.len() == 1 && arguments.hosts == 1;
    let is_rccl = machines.iter().find(|machine| machine.is_rccl());
    let refused = is_rccl.map(Machine::refuse_rccl);
    let hosts: Result<Vec<(EqualHosts, UsedGpus)>> = machines
        .into_iter()
        .map(|machine| equal_hosts(machine, arguments, alone, environment, output))
        .collect();
    let (hosts, used): (Vec<_>, Vec<_>) = hosts?.into_iter().unzip();
    let mut job = Job {
        nvlink_domain: arguments.nvlink_domain,
        collnet: arguments.collnet,
        as_is: arguments.preparation.as_is,
        physical_ports: arguments.preparation.physical_ports(),
        ..Job::of(hosts)
    };
    for edit in &arguments.edits.all() {
        job.edit(edit).map_err(with_near_names)?;
    }
    refused.unwrap_or(Ok(()))?;
    job.ranks = rank_order::parse(&arguments.rank_order, &used)?;
    Ok(job)
}

/// One machine of a job, as often as the arguments say.
fn equal_hosts(
    machine: Machine,
    arguments: &JobArguments,
    alone: bool,
    environment: &Environment,
    output: &mut Output,
) -> Result<(EqualHosts, UsedGpus)> {
    let mut hosts = EqualHosts {
        name: machine.name,
        document: Arc::new(machine.document),
        edits: Vec::new(),
        count: arguments.hosts,
    };
    let recorded = hosts.recorded_hosts();
    let mut used = UsedGpus::all(&hosts, recorded);
    if let Some(list) = &arguments.gpus {
        use_gpus(&mut hosts, &mut used, list, environment)?;
    }
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
    Ok((hosts, used))
}

/// Leaves only the GPUs of a list, in whose order ranks run on them.
fn use_gpus(
    hosts: &mut EqualHosts,
    used: &mut UsedGpus,
    list: &str,
    environment: &Environment,
) -> Result<()> {
    let there = gpu_devices(&hosts.document);
    let devices = match list {
        VISIBLE => visible_gpus(environment, &there)?,
        list => listed_gpus(list, &there, &hosts.document.file)?,
    };
    if devices.len() < there.len() {
        hosts.document = Arc::new(with_gpus(&hosts.document, &devices));
    }
    if devices != there {
        hosts.edits.push(match list {
            VISIBLE => format!("--gpus {}", ranges(&devices, ",")),
            list => format!("--gpus {list}"),
        });
        used.order = devices;
    }
    Ok(())
}

fn listed_gpus(list: &str, there: &[i32], file: &str) -> Result<Vec<i32>> {
    let wanted = numbers::ascending(list, MOST_GPUS).with_context(|| format!("--gpus {list}"))?;
    let mut devices: Vec<i32> = Vec::new();
    for wanted in wanted {
        let found = i32::try_from(wanted).ok().filter(|dev| there.contains(dev));
        let Some(dev) = found else {
            bail!(
                "--gpus {list}: {file} has no GPU{wanted}; it has GPU {}",
                ranges(there, ", ")
            );
        };
        if devices.contains(&dev) {
            bail!("--gpus {list}: GPU{dev} is named twice");
        }
        devices.push(dev);
    }
    Ok(devices)
}

/// The GPUs of `CUDA_VISIBLE_DEVICES`: as for CUDA, what is no GPU ends the list.
fn visible_gpus(environment: &Environment, there: &[i32]) -> Result<Vec<i32>> {
    let Some(list) = &environment.visible_devices else {
        bail!("--gpus {VISIBLE}: CUDA_VISIBLE_DEVICES is not set");
    };
    if let Some(name) = list
        .split(',')
        .find(|it| it.trim_start().starts_with(char::is_alphabetic))
    {
        bail!(
            "--gpus {VISIBLE}: CUDA_VISIBLE_DEVICES={list} names `{name}`, but a topology file has no such names; \
             expected device numbers, such as 0,1"
        );
    }
    let mut devices: Vec<i32> = Vec::new();
    for text in list.split(',') {
        match text.trim().parse().ok().filter(|dev| there.contains(dev)) {
            Some(dev) if devices.contains(&dev) => bail!(
                "--gpus {VISIBLE}: CUDA_VISIBLE_DEVICES={list} names GPU{dev} twice: CUDA would show no GPU"
            ),
            Some(dev) => devices.push(dev),
            None => break,
        }
    }
    if devices.is_empty() {
        bail!(
            "--gpus {VISIBLE}: CUDA_VISIBLE_DEVICES={list} shows no GPU; the machine has GPU {}",
            ranges(there, ", ")
        );
    }
    Ok(devices)
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
