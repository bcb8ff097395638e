//! Ranks that a launcher started, on one host or several: this process is one of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use backend_cpu::{Cpu, Profile};
use bootstrap::Timing;
use bootstrap::interface::Wanted;
use bootstrap::member::Meeting;
use bootstrap::rendezvous::{FoundJob, LaunchedRank};
use executor::bootstrap::Bootstrap;
use executor::{Communicator, Failure, Settings};
use net::{Host, Hosts, Options, Ports, Survivor};
use sha2::{Digest, Sha256};

use crate::event::Observer;
use crate::load::Watch;
use crate::network::NetworkOptions;
use crate::row::RunRow;
use crate::spec::{Devices, RunsOn, Spec};
use crate::{bind, cuda, measure};

/// How the ranks of a process join those of the others.
pub struct JoinOptions<'a> {
    /// The launcher's facts.
    pub launched: &'a LaunchedRank,
    /// Interfaces that may be used.
    pub interfaces: Wanted,
    /// Longest time until all have met.
    pub longest: Duration,
    /// How hosts are joined.
    pub network: &'a NetworkOptions,
    /// The name of this host, where it is not the kernel's.
    pub host: Option<&'a str>,
    /// Whether ranks of a host share memory.
    pub share_memory: bool,
    /// Whether ranks send by NICs of their peers (PXN).
    pub pxn: bool,
    /// Names and values of options that all ranks must share, besides the job's fingerprint.
    pub alike: Vec<(String, String)>,
    /// NICs and proxies of a plan.
    pub ports: Option<Arc<dyn Ports>>,
    /// Prints a line of a plug-in's log.
    pub print: fn(&str),
}

/// Meets the other ranks of the job.
///
/// # Errors
/// They do not come in time, or do something else.
pub fn join(
    options: JoinOptions<'_>,
    found: FoundJob,
    spec: &Spec,
    profile: &Profile,
) -> Result<Vec<Hosts>> {
    let JoinOptions {
        launched, network, ..
    } = options;
    let width = spec.ranks / launched.world.max(1);
    let hosts = Hosts::join_all(Options {
        rank: launched.rank * width,
        ranks: spec.ranks,
        width,
        key: found.id.key.clone(),
        meeting: Meeting::Roots(found.id.roots.clone()),
        roots: found.roots,
        interfaces: options.interfaces,
        host: Host::this(options.host),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: fingerprint(spec, profile)?,
        alike: options.alike,
        device: String::new(),
        timing: Timing {
            join: options.longest,
            ..Timing::default()
        },
        share_memory: options.share_memory,
        sockets: network.sockets,
        checks: network.checksums,
        ports: options.ports,
        pxn: options.pxn,
        net_plugin: network.plugin(options.print)?,
    });
    if let Some(file) = &found.file {
        // All have read it, or never will.
        file.remove();
    }
    Ok(hosts?)
}

/// Binds this rank to its share of the cores, and returns all cores of the machine.
pub fn bind_to_share(spec: &Spec, hosts: &Hosts) -> Vec<usize> {
    // Counted before binding, because all ranks of this machine share these cores.
    let cores = bind::cores();
    if spec.bind {
        // The proxy threads start later and share these cores.
        let (place, sharing) = hosts.place_among_sharing();
        bind::to_share(&cores, place, sharing);
    }
    cores
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

/// Runs all sizes on this rank. `bound`: each rank has one core. Returns notes on the run on GPUs,
/// and rows.
///
/// # Errors
/// A rank failed, or there is not enough memory.
pub fn sweep(
    hosts: Hosts,
    spec: &Spec,
    profile: &Arc<Profile>,
    cores: &[usize],
    bound: bool,
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    if spec.backend != RunsOn::Cpu {
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
    let rows = measure::sweep(&mut communicator, spec, &mut watch, observer);
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
pub fn culprit(error: &anyhow::Error, rank: u32) -> Option<Failure> {
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

/// Gathers with the other survivors of a failure. Returns the new bootstrap, and by its ranks the
/// first ranks.
///
/// # Errors
/// This rank was suspended, or the others continue without it.
pub fn continue_without(survivor: Survivor, failure: &Failure) -> Result<(Hosts, Vec<u32>)> {
    if let Some(failure) = survivor.own_stop() {
        bail!("{failure}");
    }
    let went = survivor.regroup(failure.rank);
    went.map_err(|error| anyhow!(error).context(format!("after {failure}")))
}
