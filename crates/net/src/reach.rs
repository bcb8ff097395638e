//! The ways between ranks. Whether ranks of one host can share memory is tried.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bootstrap::PeerInfo;
use bootstrap::interface::Interface;
use bootstrap::message::read_whole;
use bootstrap::socket::service::Service;
use executor::{Error, Transport};
use shared_memory::{Handle, Mapping};

use crate::errors::of_service;
use crate::plugin::Agreement;
use crate::plugin::agree::LoadedPlugin;

/// Size of the memory that ranks of a host try to share, bytes.
const TRIAL_BYTES: usize = 4096;

/// How ranks are reached, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachability {
    /// Ranks of this host that share memory with this one.
    pub shared: u32,
    /// Ranks of other hosts.
    pub remote: u32,
    /// Ranks of this host that cannot share memory with this one, and why not.
    pub fallen_back: Vec<(u32, String)>,
    /// Ranks of this host whose proxies forward for this one, and to how many ranks each.
    pub forwarded: Vec<(u32, u32)>,
    /// Interfaces, and where they listen.
    pub interfaces: Vec<(String, SocketAddr)>,
    /// The net plug-in, if one is used.
    pub plugin: Option<LoadedPlugin>,
    /// Why a net plug-in that was found is not used.
    pub plugin_fallen_back: Option<String>,
    /// Names of all hosts, each once.
    pub hosts: Vec<String>,
}

/// Ranks that cannot share memory with this one, and why not.
type Problems = Vec<(u32, String)>;

/// The common finding of processes.
pub(crate) struct Trial {
    /// How the ranks of this process reach each rank.
    transports: Vec<Transport>,
    /// Ranks of this host that cannot share memory with this process, and why not.
    pub fallen_back: Problems,
    /// By rank: its host, by the first of the ranks that all share memory with each other.
    pub hosts: Vec<u32>,
    /// Whether any rank reaches another by the network; equal on all ranks.
    pub any_remote: bool,
}

impl Trial {
    /// How a rank of this process reaches each rank.
    pub(crate) fn transports(&self) -> &[Transport] {
        &self.transports
    }
}

/// Finds out how each rank is reached. Two processes share memory if each can open the other's. All
/// exchange their results, so both ends of a pair decide alike. `own` are the ranks of this
/// process.
pub(crate) fn agree(
    service: &Service,
    infos: &[PeerInfo],
    own: Range<u32>,
    share: bool,
    longest: Duration,
) -> Result<Trial, Error> {
    let rank = own.start;
    let of = |error| of_service(rank, error);
    let host = infos[rank as usize].host;
    let here = |peer: u32| infos[peer as usize].host == host && !own.contains(&peer);
    // The memory is kept until all have tried to open it.
    let trial = made(share);
    let handle = postcard::to_allocvec(&offered(&trial)).unwrap_or_default();
    let handles = service.exchange_alike(handle, longest);
    let handles = handles.map_err(of)?;
    let mut problems: Problems = Vec::new();
    // One rank of each process stands in for all of it.
    let width = own.end - own.start;
    let firsts = (0..infos.len() as u32).step_by(width as usize);
    for peer in firsts.clone().filter(|peer| here(*peer)) {
        if let Err(why) = &trial {
            problems.push((peer, format!("rank {rank} cannot share memory: {why}")));
            continue;
        }
        let opened = match read_whole::<Result<Handle, String>>(&handles[peer as usize]) {
            Ok(Ok(handle)) => Mapping::open(&handle).map_err(|error| error.to_string()),
            Ok(Err(why)) => Err(format!("rank {peer} cannot share memory: {why}")),
            Err(_) => Err(format!("rank {peer} offers no valid handle of its memory")),
        };
        problems.extend(opened.err().map(|why| (peer, why)));
    }
    let report = postcard::to_allocvec(&problems).unwrap_or_default();
    let all = service.exchange_alike(report, longest).map_err(of)?;
    drop(trial);
    let all: Vec<Problems> = all
        .iter()
        .step_by(width as usize)
        .map(|it| {
            // All ranks read the same bytes, so they take the same for unreachable.
            let unknown = |_| {
                let peers = 0..infos.len() as u32;
                let why = || "its report cannot be read".to_owned();
                peers.map(|peer| (peer, why())).collect()
            };
            read_whole(it).unwrap_or_else(unknown)
        })
        .collect();
    let several_hosts = infos.iter().any(|it| it.host != infos[0].host);
    let any_remote = several_hosts || all.iter().any(|it| !it.is_empty());
    let mut transports = vec![Transport::Net; infos.len()];
    let mut fallen_back = Vec::new();
    for (first, theirs) in firsts.zip(&all) {
        let ranks = first..first + width;
        let of_process = &mut transports[first as usize..ranks.end as usize];
        if first == rank {
            of_process.fill(Transport::P2p);
        } else if here(first) {
            let mine = problems.iter().find(|(other, _)| *other == first);
            let theirs = theirs.iter().find(|(other, _)| *other == rank);
            match mine.or(theirs) {
                Some((_, why)) => fallen_back.extend(ranks.map(|it| (it, why.clone()))),
                None => of_process.fill(Transport::Shm),
            }
        }
    }
    Ok(Trial {
        hosts: hosts(infos, &all, width),
        transports,
        fallen_back,
        any_remote,
    })
}

/// Memory to try whether others can open it, or why there is none.
fn made(share: bool) -> Result<Mapping, String> {
    if !share {
        return Err("NCCL_SHM_DISABLE is set".to_owned());
    }
    shared_memory::process_memory::allow_peers();
    let made = Mapping::shared("trial", TRIAL_BYTES);
    let made = made.and_then(|it| it.populate().map(|()| it));
    made.map_err(|error| error.to_string())
}

/// How others open it, or why they cannot.
fn offered(trial: &Result<Mapping, String>) -> Result<Handle, String> {
    let handle = trial.as_ref().map_err(String::clone)?.handle();
    let handle = handle.map_err(|error| error.to_string())?;
    handle.ok_or_else(|| "its memory has no handle".to_owned())
}

/// By rank: its host, by its first rank. `all` are the problems of each process, of `width` ranks.
/// If any processes of a host cannot share memory, each of them counts as a host.
fn hosts(infos: &[PeerInfo], all: &[Problems], width: u32) -> Vec<u32> {
    // By host: its first rank, and whether its processes are apart.
    let mut known: HashMap<u64, (u32, bool)> = HashMap::new();
    let firsts = (0..).step_by(width as usize);
    let processes = infos.iter().step_by(width as usize).zip(firsts);
    for ((info, first), problems) in processes.clone().zip(all) {
        known.entry(info.host).or_insert((first, false)).1 |= !problems.is_empty();
    }
    let of_process = processes.flat_map(|(info, first)| {
        let host = match known.get(&info.host) {
            Some((host, false)) => *host,
            _ => first,
        };
        std::iter::repeat_n(host, width as usize)
    });
    of_process.collect()
}

/// A summary for reports.
pub(crate) fn reached(
    infos: &[PeerInfo],
    trial: &Trial,
    rank: u32,
    agreed: &Agreement,
    chosen: &[Interface],
) -> Reachability {
    let (transports, fallen_back) = (&trial.transports, trial.fallen_back.clone());
    let count = |wanted: Transport| transports.iter().filter(|it| **it == wanted).count() as u32;
    let mut hosts: Vec<(u64, String)> = Vec::new();
    for info in infos {
        if !hosts.iter().any(|(host, _)| *host == info.host) {
            hosts.push((info.host, info.host_name.clone()));
        }
    }
    let nics = &infos[rank as usize].nics;
    Reachability {
        shared: count(Transport::Shm),
        remote: count(Transport::Net) - fallen_back.len() as u32,
        fallen_back,
        forwarded: Vec::new(),
        interfaces: chosen
            .iter()
            .zip(nics)
            .map(|(it, nic)| (it.name.clone(), *nic))
            .collect(),
        plugin: agreed.loaded.clone(),
        plugin_fallen_back: agreed.fallen_back.clone(),
        hosts: hosts.into_iter().map(|(_, name)| name).collect(),
    }
}
