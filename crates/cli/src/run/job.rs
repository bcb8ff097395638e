//! The ranks of a job, and their channels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::JobSpec;
use answers::names;
use answers::sizes;
use anyhow::{Context, Result, anyhow, bail};
use backend_cpu::{Profile, kept};
use bench::{Devices, LaunchOptions, RunPlan, Spec, plan_parts};
use net::run::channels_of_plan::setting;
use plan::Plan;
use program::{Collective, Schedule};
use topology::edit::Edit;

use super::network;
use crate::arguments::run::{BackendName, Bind, BufferOwner, RunArguments};
use crate::environment::Environment;
use crate::input::Source;
use crate::job::{self, Remedy};
use crate::output::Output;
use crate::settings::read_settings;
use program::size;

const MOST_RANKS: u64 = 1024;

/// Most ranks of all processes that a launcher started.
const MOST_LAUNCHED: u32 = crate::arguments::join::MOST_RANKS;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobRanks<'a> {
    /// Ranks that others started; none if this process starts them.
    pub world: Option<u32>,
    /// Of them those that were lost meanwhile.
    pub lost: &'a [u32],
}

/// Choices that are explained for each size.
const EXPLAINED: usize = 4;

/// The file, if there is one, and the collective.
fn what(arguments: &RunArguments) -> Result<(Option<PathBuf>, Collective)> {
    let (file, collective) = match arguments.what.as_slice() {
        [file] if Path::new(file).exists() && names::collective(file).is_err() => {
            bail!(
                "{file} is given without a collective; expected it behind the file, such as topo run {file} all-reduce"
            )
        }
        [collective] => (None, collective),
        [file, collective] => (Some(PathBuf::from(file)), collective),
        _ => bail!("expected a collective, and before it a file or --ranks N"),
    };
    let collective = names::collective(collective).map_err(|problem| anyhow!(problem))?;
    Ok((file, collective))
}

/// A warning for each variable of NCCL's own choice.
fn unused_settings(arguments: &RunArguments, environment: &Environment) -> Vec<String> {
    let options = [("NCCL_ALGO", "--algorithm"), ("NCCL_PROTO", "--protocol")];
    let given = options.into_iter().filter(|(name, _)| {
        let value = environment.nccl_value(&arguments.variables, name);
        value.is_some()
    });
    let warnings = given.map(|(name, option)| {
        format!("{name} is for NCCL's choice, not for that of topo run; {option} sets it")
    });
    warnings.collect()
}

/// Refuses options that do not fit the number of ranks or the collective.
fn check_against(ranks: u32, collective: Collective, arguments: &RunArguments) -> Result<()> {
    if arguments.hosts > ranks {
        let hosts = arguments.hosts;
        bail!("--hosts {hosts}: expected at most {ranks}, one host for each rank");
    }
    if arguments.root >= ranks {
        let (root, last) = (arguments.root, ranks - 1);
        bail!("--root {root}: no such rank; expected one of 0 to {last}");
    }
    if arguments.reply && collective != Collective::Broadcast {
        bail!("--reply is for broadcast only");
    }
    if arguments.buffers == BufferOwner::Caller && arguments.backend != BackendName::Cpu {
        bail!("--buffers caller: buffers on GPUs are the communicator's; expected --backend cpu");
    }
    Ok(())
}

/// Reads the command line and the plan or topology that it names.
pub(super) fn read(
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
    among: JobRanks<'_>,
) -> Result<(Spec, Option<RunPlan>)> {
    let (file, collective) = what(arguments)?;
    output
        .warnings
        .extend(unused_settings(arguments, environment));
    let wanted = wanted_ranks(arguments, among)?;
    let plan = match (&file, wanted.or(among.world)) {
        (Some(file), _) if wanted.is_some() => bail!(
            "{} says how many ranks there are; expected it without {}",
            file.display(),
            if arguments.ranks.is_some() {
                "--ranks"
            } else {
                "-t and -g"
            }
        ),
        (Some(file), _) => Some(read_plan(file, arguments, environment, output, among.lost)?),
        (None, None) => bail!(
            "expected a plan or a topology file before the collective, or --ranks N for ranks of this machine"
        ),
        (None, Some(_)) => None,
    };
    let all_ranks = ranks_of(plan.as_ref(), wanted, among)?;
    let world = among.world.unwrap_or(0);
    let ranks = match world.saturating_sub(among.lost.len() as u32) {
        0 => all_ranks,
        left => left,
    };
    check_against(ranks, collective, arguments)?;
    let network = match arguments.hosts {
        1 => None,
        _ => Some(network::of_rehearsal(arguments, environment, output)?),
    };
    let mut spec = Spec {
        processes: arguments.processes,
        hosts: arguments.hosts,
        network,
        callers_memory: arguments.buffers == BufferOwner::Caller,
        backend: arguments.backend.into(),
        devices: devices(arguments, environment, plan.as_ref().map(|(_, plan)| plan)),
        algorithm: arguments.algorithm,
        transfer: arguments.transfer,
        protocol: arguments.protocol,
        channels: arguments.channels,
        element: arguments.element,
        op: arguments.op,
        sizes: sizes_of(arguments)?,
        iterations: arguments.iterations,
        warmup: arguments.warmup,
        time_ms: arguments.time,
        check: arguments.check,
        in_place: !arguments.no_in_place && collective != Collective::SendRecv,
        reply: arguments.reply,
        bind: arguments.bind == Bind::Cores,
        compares: arguments.best,
        explained: if arguments.explain { EXPLAINED } else { 0 },
        timeout_s: arguments.timeout,
        ..Spec::new(ranks, collective)
    };
    if collective.has_root() {
        spec.root = arguments.root;
    }
    let Some((name, plan)) = plan else {
        return Ok((spec, None));
    };
    let planned = plan_parts::take(&mut spec, name, &plan)?;
    // A plan file still has the lost ranks; a plan made anew does not.
    if all_ranks != spec.ranks {
        plan_parts::lose(&mut spec, all_ranks, among.lost);
    }
    Ok((spec, Some(planned)))
}

/// Ranks of each process that a launcher started, by nccl-tests' -t and -g.
pub(super) fn ranks_of_process(arguments: &RunArguments, processes: u32) -> Result<u32> {
    let (threads, gpus) = (
        arguments.nthreads.unwrap_or(1),
        arguments.ngpus.unwrap_or(1),
    );
    let ranks = threads * gpus;
    let given = format!("-t {threads} -g {gpus}");
    if processes
        .checked_mul(ranks)
        .is_none_or(|all| all > MOST_LAUNCHED)
    {
        bail!(
            "{given} makes {ranks} ranks of each of the {processes} processes that were started; expected at most \
             {MOST_LAUNCHED} in all"
        );
    }
    if ranks > 1 && arguments.backend != BackendName::Cpu {
        bail!(
            "{given}: a process that a launcher started is one rank on GPUs; expected 1 and 1, and a process per GPU"
        );
    }
    if ranks > 1 && arguments.join.survive {
        bail!(
            "{given}: with --survive each process is one rank; expected 1 and 1, and a process per rank"
        );
    }
    Ok(ranks)
}

/// The number of ranks by --ranks, or by nccl-tests' -t and -g.
fn wanted_ranks(arguments: &RunArguments, among: JobRanks<'_>) -> Result<Option<u32>> {
    let (threads, gpus) = match (arguments.nthreads, arguments.ngpus) {
        (None, None) => return Ok(arguments.ranks),
        (threads, gpus) => (threads.unwrap_or(1), gpus.unwrap_or(1)),
    };
    let ranks = threads * gpus;
    if among.world.is_some() {
        // The world counts them already.
        return Ok(arguments.ranks);
    }
    if threads > 1 && arguments.processes {
        bail!("-t {threads} makes ranks threads of one process; expected it without --processes");
    }
    if u64::from(ranks) > MOST_RANKS {
        bail!("-t {threads} -g {gpus} makes {ranks} ranks; expected at most {MOST_RANKS}");
    }
    if let Some(given) = arguments.ranks.filter(|given| *given != ranks) {
        bail!(
            "-t {threads} -g {gpus} makes {ranks} ranks, but --ranks is {given}; expected one of both"
        );
    }
    Ok(Some(ranks))
}

/// The ranks of the plan, of the command line, or of the launcher.
fn ranks_of(
    plan: Option<&(String, Plan)>,
    wanted: Option<u32>,
    among: JobRanks<'_>,
) -> Result<u32> {
    let ranks = match plan {
        Some((name, plan)) => {
            let ranks = plan.rank_count();
            let fits = u32::try_from(ranks)
                .ok()
                .filter(|_| (1..=MOST_RANKS).contains(&ranks));
            fits.with_context(|| {
                format!("{name} has {ranks} ranks; expected 1 to {MOST_RANKS}, since all of them run on this host")
            })?
        }
        None => wanted.or(among.world).unwrap_or(1),
    };
    if let Some(world) = among.world.filter(|world| *world != ranks) {
        let named = plan.map_or("--ranks", |(name, _)| name);
        let without = plan.is_some_and(|(_, plan)| {
            plan.rank_count() + among.lost.len() as u64 == u64::from(world)
        });
        if !without {
            bail!("{named} is for {ranks} ranks, but {world} were started; expected as many");
        }
    }
    Ok(ranks)
}

/// The sizes from --begin to --end.
fn sizes_of(arguments: &RunArguments) -> Result<Vec<u64>> {
    let next = |size: &u64| match (arguments.factor, arguments.step) {
        (_, Some(step)) => size.checked_add(step),
        (factor, None) => size.checked_mul(factor.unwrap_or(2)),
    };
    match (arguments.factor, arguments.step) {
        (Some(2..), Some(_)) => {
            bail!("-f multiplies a size and -i adds to it; expected one of both")
        }
        (Some(1), None) => bail!("-f 1 repeats a size; expected 2 or more, or -i SIZE"),
        _ => {}
    }
    let grows = std::iter::successors(Some(arguments.begin), next);
    let sizes = grows.take_while(|size| *size <= arguments.end);
    let all: Vec<u64> = sizes.take(sizes::MOST + 1).collect();
    if all.len() > sizes::MOST {
        bail!(
            "more than {} sizes; expected fewer (a larger -i or -f)",
            sizes::MOST
        );
    }
    if all.is_empty() {
        bail!(
            "--begin {} is more than --end {}; expected the smaller size first",
            size::short(arguments.begin),
            size::short(arguments.end)
        );
    }
    Ok(all)
}

/// The options of ranks on GPUs, from the variables, the plan's settings and the command line.
fn devices(arguments: &RunArguments, environment: &Environment, plan: Option<&Plan>) -> Devices {
    let variable = |name: &str| environment.nccl_value(&arguments.variables, name);
    let planned = |name: &str| setting(&plan?.settings, name);
    // The plan's parts say from where NVLS is taken.
    let usual = LaunchOptions::of(&variable, &planned, Vec::new());
    Devices {
        launches: LaunchOptions {
            most_blocks: arguments.blocks.unwrap_or(usual.most_blocks),
            stages_in_window: arguments.register,
            ..usual
        },
        blocking_launches: environment.blocking_launches,
        graph: arguments.graph.unwrap_or(0),
        warm_ms: match arguments.backend {
            BackendName::Cuda => arguments.warm,
            _ => 0,
        },
        timeline: arguments.profile,
        trace: arguments.trace.clone(),
    }
}

fn read_plan(
    file: &Path,
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
    lost: &[u32],
) -> Result<(String, Plan)> {
    let without: Result<Vec<Edit>> = lost
        .iter()
        .map(|rank| Edit::without(&format!("GPU{rank}")).map_err(|error| anyhow!("{error}")))
        .collect();
    let edits = without?;
    match Source::read(file, output)? {
        Source::Plan(name, plan) => Ok((name, plan)),
        Source::Topology(machine) => {
            let settings = read_settings(
                std::slice::from_ref(&machine),
                &arguments.variables,
                environment,
                output,
            )?;
            let spec = JobSpec {
                edits,
                // The network of topo's own ranks merges no ports.
                physical_ports: true,
                ..JobSpec::of(machine)
            };
            let job = job::checked(spec, Remedy::Complete, output)?;
            let planned = job::plan_job(&job, &settings, output)?;
            let plan = match arguments.algorithm {
                Some(Schedule::Forest) => answers::forests::with_forests(&planned, None)?,
                _ => planned.plan().clone(),
            };
            Ok((planned.name(), plan))
        }
    }
}

/// The CPU cost profile that the command line or `TOPO_COST_PROFILE` names, or the one that was
/// kept for this machine, or the built-in one.
pub(super) fn profile(
    named: Option<&Path>,
    environment: &Environment,
    output: &mut Output,
) -> Result<Arc<Profile>> {
    let variable = environment.launcher.get("TOPO_COST_PROFILE");
    let variable = variable.filter(|it| !it.is_empty()).map(Path::new);
    let found = kept::find(named.or(variable), environment.cache.as_deref())?;
    output.warnings.extend(found.ignored);
    Ok(found.profile)
}
