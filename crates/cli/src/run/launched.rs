//! Ranks that a launcher started, on one host or several: this process is one of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use backend_cpu::Profile;
use bench::launched::{self as member, JoinOptions};
use bench::{Event, LaunchReport, RunReport, Spec, threads_of_process};
use bootstrap::interface::Wanted;
use bootstrap::rendezvous::{
    JobOptions, JobUnknown, LaunchedRank, Launcher, Launchers, launcher, meeting,
};
use executor::bootstrap::Bootstrap;
use net::{Hosts, Ports};

use super::live::Live;
use super::{job, network};
use crate::arguments::join::{JoinArguments, LauncherName};
use crate::arguments::run::RunArguments;
use crate::environment::Environment;
use crate::output::Output;

/// The rank of this process, if a launcher started it.
pub(super) fn detect(
    arguments: &RunArguments,
    environment: &Environment,
) -> Result<Option<LaunchedRank>> {
    let parent = std::os::unix::process::parent_id();
    let options = job_options(&arguments.join);
    launcher::detect(&options, &environment.launcher, parent).map_err(with_options)
}

fn job_options(arguments: &JoinArguments) -> JobOptions {
    JobOptions {
        launchers: match arguments.launcher {
            LauncherName::Auto => Launchers::Any,
            LauncherName::None => Launchers::None,
            LauncherName::Torchrun => Launchers::Only(Launcher::Torchrun),
            LauncherName::Openmpi => Launchers::Only(Launcher::OpenMpi),
            LauncherName::Mpich => Launchers::Only(Launcher::Mpich),
            LauncherName::Slurm => Launchers::Only(Launcher::Slurm),
            LauncherName::Kubernetes => Launchers::Only(Launcher::Kubernetes),
        },
        rank: arguments.rank,
        world: arguments.world,
        id: arguments.id.clone(),
        place: arguments.rendezvous.clone(),
    }
}

/// Adds the options that say what is unknown.
fn with_options(error: anyhow::Error) -> anyhow::Error {
    let Some(unknown) = error.downcast_ref::<JobUnknown>() else {
        return error;
    };
    let options = match unknown {
        JobUnknown::Rank { .. } => "give --rank, or start the ranks by a launcher",
        JobUnknown::World { .. } | JobUnknown::Completions => "give --world N",
        JobUnknown::WorldOfLauncher { .. } => "give --rank and --world",
        JobUnknown::Variables { .. } => "--launcher names another one",
        JobUnknown::MeetingPlace => {
            "or give --rendezvous file:PATH (on a file system that all hosts share), --rendezvous tcp:HOST:PORT (of rank \
             0's host), or --id @FILE (from topo run --new-id -o FILE)"
        }
    };
    anyhow!("{unknown}; {options}")
}

/// Runs the ranks of this process. The lowest surviving
/// rank prints the page, all learn if elements were wrong.
pub(super) fn run(
    arguments: &RunArguments,
    environment: &Environment,
    launched: &LaunchedRank,
    output: &mut Output,
) -> Result<()> {
    let threads = job::ranks_of_process(arguments, launched.world)?;
    let (rank, world) = (launched.rank * threads, launched.world * threads);
    let read = |lost: &[u32], output: &mut Output| {
        let world = Some(world);
        let ranks = job::JobRanks { world, lost };
        let (mut spec, planned) = job::read(arguments, environment, output, ranks)?;
        spec.processes = true;
        anyhow::Ok((spec, planned))
    };
    let (mut spec, planned) = read(&[], output)?;
    let profile = job::profile(arguments.cost_profile.as_deref(), environment, output)?;
    let ports = planned.as_ref().map(|it| Arc::clone(&it.ports) as _);
    let began = Instant::now();
    let mut joined = join(
        arguments,
        environment,
        launched,
        &spec,
        ports,
        &profile,
        output,
    )?;
    let took = began.elapsed();
    let first = joined.first().context("this process has no rank")?;
    net::run::channels_of_plan::check_hosts(&spec.nodes, first)?;
    let launch = |hosts: &Hosts, lost: &[(Vec<u32>, String)]| LaunchReport {
        by: launched.by,
        reached: hosts.reached().clone(),
        threads,
        joined: took,
        lost: lost.to_vec(),
    };
    let mut report = RunReport::new(spec.clone(), planned, Some(launch(first, &[])));
    if threads > 1 {
        let live = (rank == 0).then(|| Live::new(report, arguments, environment, &mut *output));
        output.differs = run_threads(joined, &spec, &profile, live)?;
        return Ok(());
    }
    let mut hosts = joined.remove(0);
    let cores = member::bind_to_share(&spec, &hosts);
    // Original rank of each present rank.
    let mut members: Vec<u32> = (0..world).collect();
    let mut lost: Vec<(Vec<u32>, String)> = Vec::new();
    loop {
        let survive = arguments.join.survive;
        let survivor = survive.then(|| hosts.survivor()).transpose()?;
        let own = hosts.rank();
        let prints = members.first() == Some(&rank);
        let mut live = prints.then(|| Live::new(report, arguments, environment, &mut *output));
        let mut observer = |event: Event<'_>| {
            if let Some(live) = &mut live {
                live.observe(event);
            }
        };
        let failure = match member::sweep(hosts, &spec, &profile, &cores, false, &mut observer) {
            Ok((notes, rows)) => {
                // The others have nothing to say that this rank does not.
                live.map_or(Ok(()), |live| live.finish(&notes))?;
                output.differs = rows.iter().any(|row| row.wrong() > 0);
                return Ok(());
            }
            Err(error) => error,
        };
        drop(live);
        let culprit = member::culprit(&failure, own);
        // At least one rank is lost each time, so this ends.
        let (Some(survivor), Some(failure), true) =
            (survivor, culprit, lost.len() < world as usize)
        else {
            return Err(failure);
        };
        let (regrouped, left) = member::continue_without(survivor, &failure)?;
        hosts = regrouped;
        let gone = members.iter().filter(|it| !left.contains(it));
        lost.push((gone.copied().collect(), failure.what));
        members = left;
        let all: Vec<u32> = (0..world).filter(|it| !members.contains(it)).collect();
        let planned;
        (spec, planned) = read(&all, &mut Output::default())?;
        report = RunReport::new(spec.clone(), planned, Some(launch(&hosts, &lost)));
    }
}

/// Options that are not in the fingerprint and that all ranks must share.
fn alike(given: &JoinArguments, spec: &Spec) -> Vec<(String, String)> {
    let on = |it: bool| if it { "on" } else { "off" }.to_owned();
    let launches = &spec.devices.launches;
    [
        ("--checksums", on(given.checksums)),
        ("--survive", on(given.survive)),
        ("--graph", spec.devices.graph.to_string()),
        ("--register", on(launches.stages_in_window)),
        ("--blocks", launches.most_blocks.to_string()),
        ("--warm", spec.devices.warm_ms.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Runs the ranks of this process; `live` prints what rank 0 measures. Returns whether elements
/// were wrong.
fn run_threads(
    hosts: Vec<Hosts>,
    spec: &Spec,
    profile: &Arc<Profile>,
    mut live: Option<Live<'_>>,
) -> Result<bool> {
    let rows = threads_of_process::run(hosts, spec, profile, &mut |event| {
        if let Some(live) = &mut live {
            live.observe(event);
        }
    })?;
    live.map_or(Ok(()), |live| live.finish(""))?;
    Ok(rows.iter().any(|row| row.wrong() > 0))
}

fn join(
    arguments: &RunArguments,
    environment: &Environment,
    launched: &LaunchedRank,
    spec: &Spec,
    ports: Option<Arc<dyn Ports>>,
    profile: &Profile,
    output: &mut Output,
) -> Result<Vec<Hosts>> {
    let given = &arguments.join;
    let nccl = |name: &str| environment.nccl_value(&arguments.variables, name);
    let interfaces = Wanted {
        names: nccl("NCCL_SOCKET_IFNAME"),
        family: nccl("NCCL_SOCKET_FAMILY"),
    };
    let network = network::of(arguments, environment, output)?;
    let longest = Duration::from_secs(given.join_timeout);
    let variables = &environment.launcher;
    let found = meeting::find(
        &job_options(given),
        variables,
        launched,
        &interfaces,
        longest,
    );
    let found = found.map_err(with_options)?;
    if found.weak && launched.rank == 0 {
        output.warnings.push(
            "the ranks know each other by the job's name only; set TOPO_SECRET for all of them, or use --id @FILE, on a network \
             that strangers use too"
                .to_owned(),
        );
    }
    if given.id.as_ref().is_some_and(|it| !it.starts_with('@')) && launched.rank == 0 {
        output.warnings.push(
            "--id shows the job's token to every user of this host (ps); give --id @FILE, with a file from topo run --new-id -o FILE, \
             or TOPO_ID"
                .to_owned(),
        );
    }
    let host = environment.launcher.get("NCCL_HOSTID");
    let options = JoinOptions {
        launched,
        interfaces,
        longest,
        network: &network,
        host: host.map(String::as_str),
        share_memory: spec.devices.launches.shm,
        pxn: nccl("NCCL_PXN_DISABLE").is_none_or(|it| it.trim() != "1"),
        alike: alike(given, spec),
        ports,
        print: network::print_log,
    };
    // Ranks whose kept profiles differ choose by the built-in one.
    let built_in = Profile::built_in();
    let common = match arguments.cost_profile {
        Some(_) => profile,
        None => &built_in,
    };
    member::join(options, found, spec, common)
}
