//! Ranks that a launcher started, on one host or several: this process is one of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use backend_cpu::{Cpu, Profile};
use bootstrap::Timing;
use bootstrap::interface::Wanted;
use bootstrap::member::Meeting;
use executor::bootstrap::Bootstrap;
use executor::{Communicator, Failure, Settings};
use net::{Host, Hosts, Options, Ports, Reached, Survivor};
use rendezvous::{GivenJob, Launched, Launcher, Launchers, NoMeetingPlace, launcher, meeting};
use sha2::{Digest, Sha256};

use super::event::{Event, Observer};
use super::live::Live;
use super::load::Watch;
use super::network::Network;
use super::spec::Devices;
use super::{RunReport, RunRow, Spec, bind, cuda, job, measure, threads_of_process};
use crate::arguments::join::{JoinArguments, Launcher as Named};
use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;

/// How the ranks of a report came together.
#[derive(Debug)]
pub struct LaunchReport {
    pub by: &'static str,
    pub reached: Reached,
    /// Ranks of each process, which are its threads.
    pub threads: u32,
    /// How long it took until all ranks had met.
    pub joined: Duration,
    /// Ranks that were lost, with what happened to them.
    pub lost: Vec<(Vec<u32>, String)>,
}

/// The rank of this process, if a launcher started it.
pub fn detect(arguments: &RunArguments, environment: &Environment) -> Result<Option<Launched>> {
    let parent = std::os::unix::process::parent_id();
    launcher::detect(&given(&arguments.join), &environment.launcher, parent)
}

fn given(arguments: &JoinArguments) -> GivenJob {
    GivenJob {
        launchers: match arguments.launcher {
            Named::Auto => Launchers::Any,
            Named::None => Launchers::None,
            Named::Torchrun => Launchers::Only(Launcher::Torchrun),
            Named::Openmpi => Launchers::Only(Launcher::OpenMpi),
            Named::Mpich => Launchers::Only(Launcher::Mpich),
            Named::Slurm => Launchers::Only(Launcher::Slurm),
            Named::Kubernetes => Launchers::Only(Launcher::Kubernetes),
        },
        rank: arguments.rank,
        world: arguments.world,
        id: arguments.id.clone(),
        place: arguments.rendezvous.clone(),
    }
}

/// Says which options name a place where ranks can meet, if none is known.
fn with_options(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<NoMeetingPlace>() {
        Some(none) => anyhow!(
            "{none}; give --rendezvous file:PATH (on a file system that all hosts share), --rendezvous tcp:HOST:PORT (of \
             rank 0's host), or --id @FILE (from topo id -o FILE)"
        ),
        None => error,
    }
}

/// Runs the ranks of this process. The lowest surviving
/// rank prints the page, all learn if elements were wrong.
pub fn run(
    arguments: &RunArguments,
    environment: &Environment,
    launched: &Launched,
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
    let profile = Arc::new(job::profile(arguments.cost_profile.as_deref())?);
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
    runner::planned::check_hosts(&spec.nodes, first)?;
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
        output.differs = threads_of_process::run(joined, &spec, &profile, live)?;
        return Ok(());
    }
    let mut hosts = joined.remove(0);
    let cores = bind_to_share(&spec, &hosts);
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
        let failure = match sweep(hosts, &spec, &profile, &cores, false, &mut observer) {
            Ok((notes, rows)) => {
                // The others have nothing to say that this rank does not.
                live.map_or(Ok(()), |live| live.finish(&notes))?;
                output.differs = rows.iter().any(|row| row.wrong() > 0);
                return Ok(());
            }
            Err(error) => error,
        };
        drop(live);
        let culprit = culprit(&failure, own);
        // At least one rank is lost each time, so this ends.
        let (Some(survivor), Some(failure), true) =
            (survivor, culprit, lost.len() < world as usize)
        else {
            return Err(failure);
        };
        let (regrouped, left) = continue_without(survivor, &failure)?;
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

/// Binds this rank to its share of the cores, and returns all cores of the machine.
fn bind_to_share(spec: &Spec, hosts: &Hosts) -> Vec<usize> {
    // Counted before binding, because all ranks of this machine share these cores.
    let cores = bind::cores();
    if spec.bind {
        // The proxy threads start later and share these cores.
        let (place, sharing) = hosts.place_among_sharing();
        bind::to_share(&cores, place, sharing);
    }
    cores
}

fn join(
    arguments: &RunArguments,
    environment: &Environment,
    launched: &Launched,
    spec: &Spec,
    ports: Option<Arc<dyn Ports>>,
    profile: &Profile,
    output: &mut Output,
) -> Result<Vec<Hosts>> {
    let width = spec.ranks / launched.world.max(1);
    let given = &arguments.join;
    let nccl = |name: &str| environment.nccl_value(&arguments.variables, name);
    let interfaces = Wanted {
        names: nccl("NCCL_SOCKET_IFNAME"),
        family: nccl("NCCL_SOCKET_FAMILY"),
    };
    let network = Network::of(arguments, environment, output)?;
    let longest = Duration::from_secs(given.join_timeout);
    let variables = &environment.launcher;
    let found = meeting::find(
        &self::given(given),
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
            "--id shows the job's token to every user of this host (ps); give --id @FILE, with a file from topo id -o FILE, \
             or TOPO_ID"
                .to_owned(),
        );
    }
    let hosts = Hosts::join_all(Options {
        rank: launched.rank * width,
        ranks: spec.ranks,
        width,
        key: found.id.key.clone(),
        meeting: Meeting::Roots(found.id.roots.clone()),
        roots: found.roots,
        interfaces,
        host: Host::this(environment.launcher.get("NCCL_HOSTID").map(String::as_str)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: fingerprint(spec, profile)?,
        alike: alike(given, spec),
        device: String::new(),
        timing: Timing {
            join: longest,
            ..Timing::default()
        },
        share_memory: nccl("NCCL_SHM_DISABLE").is_none_or(|it| it == "0"),
        sockets: network.sockets,
        checks: network.checksums,
        ports,
        pxn: nccl("NCCL_PXN_DISABLE").is_none_or(|it| it.trim() != "1"),
        net_plugin: network.plugin()?,
    });
    if let Some(file) = &found.file {
        // All have read it, or never will.
        file.remove();
    }
    Ok(hosts?)
}

/// Options that are not in the fingerprint and that all ranks must share.
fn alike(given: &JoinArguments, spec: &Spec) -> Vec<(String, String)> {
    let on = |it: bool| if it { "on" } else { "off" }.to_owned();
    [
        ("--checksums", on(given.checksums)),
        ("--survive", on(given.survive)),
        ("--graph", spec.devices.graph.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Hash of everything that all ranks must share.
fn fingerprint(spec: &Spec, profile: &Profile) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    // The options of a rank's own devices may differ.
    let common = Spec {
        devices: Devices::default(),
        ..spec.clone()
    };
    hash.update(serde_json::to_vec(&common)?);
    hash.update(profile.to_toml()?);
    Ok(hash.finalize().into())
}

/// Runs all sizes on this rank. `bound`: each rank has one core.
pub(super) fn sweep(
    hosts: Hosts,
    spec: &Spec,
    profile: &Arc<Profile>,
    cores: &[usize],
    bound: bool,
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    if spec.backend != BackendName::Cpu {
        let rank = hosts.rank();
        let place = place_on_machine(&hosts);
        let done = cuda::process(spec, Box::new(hosts), place, observer);
        return done.with_context(|| format!("rank {rank} of {}", spec.ranks));
    }
    let settings = Settings {
        cores: Some(cores.len().max(1)),
        ..spec.settings()?
    };
    let rank = hosts.rank();
    let mut watch = match hosts.place_among_sharing() {
        (0, sharing) => Watch::cores(cores, sharing, bound),
        _ => Watch::process(),
    };
    let backend = Cpu::new(Arc::clone(profile));
    let mut communicator = Communicator::join(backend, Box::new(hosts), &settings)?;
    let rows = measure::sweep(&mut communicator, spec, profile, &mut watch, observer);
    let rows = rows.with_context(|| format!("rank {rank} of {}", spec.ranks))?;
    Ok((String::new(), rows))
}

/// Lower ranks on the same machine, whatever hosts they claim: they share its GPUs.
fn place_on_machine(hosts: &Hosts) -> u32 {
    let infos = hosts.infos();
    let own = &infos[hosts.rank() as usize];
    let before = infos.iter().take(hosts.rank() as usize);
    before.filter(|it| it.machine == own.machine).count() as u32
}

/// The failure behind an error, if it is one of ranks.
fn culprit(error: &anyhow::Error, rank: u32) -> Option<Failure> {
    let error = error
        .chain()
        .find_map(|it| it.downcast_ref::<executor::Error>())?;
    match error {
        executor::Error::Aborted { failure, .. }
        | executor::Error::Broken { failure, .. }
        | executor::Error::Disconnected { failure, .. } => Some(failure.clone()),
        executor::Error::Timeout { waiting, .. } => Some(Failure {
            rank: waiting.peer().unwrap_or(rank),
            what: error.to_string(),
        }),
        executor::Error::Memory { .. }
        | executor::Error::Bootstrap { .. }
        | executor::Error::Unreachable { .. }
        | executor::Error::Damaged { .. }
        | executor::Error::Differs { .. } => Some(Failure {
            rank,
            what: error.to_string(),
        }),
        _ => None,
    }
}

fn continue_without(survivor: Survivor, failure: &Failure) -> Result<(Hosts, Vec<u32>)> {
    if let Some(failure) = survivor.own_stop() {
        bail!("{failure}");
    }
    let went = survivor.regroup(failure.rank);
    went.map_err(|error| anyhow!(error).context(format!("after {failure}")))
}
