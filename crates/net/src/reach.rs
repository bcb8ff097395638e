//! How ranks reach each other. Whether ranks of one host can share memory is tried.

use std::net::SocketAddr;
use std::time::Duration;

use bootstrap::PeerInfo;
use bootstrap::interface::Interface;
use bootstrap::socket::service::Service;
use executor::{Error, Transport};
use shared_memory::{Handle, Mapping};

use crate::errors::of_service;
use crate::plugin::Agreed;
use crate::plugin::agree::Loaded;

/// Size of the memory that ranks of a host try to share, bytes.
const TRIAL_BYTES: usize = 4096;

/// How ranks are reached, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
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
    pub plugin: Option<Loaded>,
    /// Why a net plug-in that was found is not used.
    pub plugin_fallen_back: Option<String>,
    /// Names of all hosts, each once.
    pub hosts: Vec<String>,
}

/// Ranks that cannot share memory with this one, and why not.
type Problems = Vec<(u32, String)>;

/// What ranks found out together.
pub(crate) struct Trial {
    /// How each rank is reached.
    pub transports: Vec<Transport>,
    /// Ranks of this host that cannot share memory with this one, and why not.
    pub fallen_back: Problems,
    /// By rank: its host, by the first of the ranks that all share memory with each other.
    pub hosts: Vec<u32>,
    /// Whether any rank reaches another by the network; equal on all ranks.
    pub any_remote: bool,
}

/// Finds out how each rank is reached. Two ranks share memory if each can open the other's. All
/// ranks exchange their results, so both ends of a pair decide alike.
pub(crate) fn agree(
    service: &Service,
    infos: &[PeerInfo],
    rank: u32,
    share: bool,
    longest: Duration,
) -> Result<Trial, Error> {
    let of = |error| of_service(rank, error);
    let own = infos[rank as usize].host;
    let here = |peer: u32| infos[peer as usize].host == own && peer != rank;
    // The memory is kept until all have tried to open it.
    let trial = if share {
        shared_memory::process_memory::allow_peers();
        let made = Mapping::shared("trial", TRIAL_BYTES);
        made.and_then(|it| it.populate().map(|()| it))
            .map_err(|error| error.to_string())
    } else {
        Err("NCCL_SHM_DISABLE is set".to_owned())
    };
    let handle = match &trial {
        Ok(mapping) => match mapping.handle() {
            Ok(Some(handle)) => format!("+{handle}"),
            Ok(None) => "-its memory has no handle".to_owned(),
            Err(error) => format!("-{error}"),
        },
        Err(why) => format!("-{why}"),
    };
    let handles = service.exchange(handle.into_bytes(), longest).map_err(of)?;
    let mut problems: Vec<(u32, String)> = Vec::new();
    for peer in (0..infos.len() as u32).filter(|peer| here(*peer)) {
        let text = String::from_utf8_lossy(&handles[peer as usize]).into_owned();
        if let Err(why) = &trial {
            problems.push((peer, format!("rank {rank} cannot share memory: {why}")));
            continue;
        }
        let opened = match text.strip_prefix('+') {
            Some(handle) => handle
                .parse::<Handle>()
                .and_then(|handle| Mapping::open(&handle))
                .map_err(|error| error.to_string()),
            None => Err(format!(
                "rank {peer} cannot share memory: {}",
                text.trim_start_matches('-')
            )),
        };
        problems.extend(opened.err().map(|why| (peer, why)));
    }
    let report = postcard::to_allocvec(&problems).unwrap_or_default();
    let all = service.exchange(report, longest).map_err(of)?;
    drop(trial);
    let all: Vec<Problems> = all
        .iter()
        .map(|it| postcard::from_bytes(it).unwrap_or_default())
        .collect();
    let several_hosts = infos.iter().any(|it| it.host != infos[0].host);
    let any_remote = several_hosts || all.iter().any(|it| !it.is_empty());
    let mut transports = vec![Transport::Net; infos.len()];
    let mut fallen_back = Vec::new();
    for peer in 0..infos.len() as u32 {
        if peer == rank {
            transports[peer as usize] = Transport::P2p;
        } else if here(peer) {
            let theirs = &all[peer as usize];
            let mine = problems.iter().find(|(other, _)| *other == peer);
            let theirs = theirs.iter().find(|(other, _)| *other == rank);
            match mine.or(theirs) {
                Some((_, why)) => fallen_back.push((peer, why.clone())),
                None => transports[peer as usize] = Transport::Shm,
            }
        }
    }
    // If any ranks of a host cannot share memory, each of its ranks counts as a host.
    let apart = |host| {
        let there = infos.iter().zip(&all).filter(|(info, _)| info.host == host);
        there.into_iter().any(|(_, problems)| !problems.is_empty())
    };
    let host_of = |rank: u32| {
        let host = infos[rank as usize].host;
        let first = infos.iter().zip(0..).find(|(info, _)| info.host == host);
        match first {
            Some((_, first)) if !apart(host) => first,
            _ => rank,
        }
    };
    let hosts = (0..infos.len() as u32).map(host_of).collect();
    Ok(Trial {
        hosts,
        transports,
        fallen_back,
        any_remote,
    })
}

/// A summary for reports.
pub(crate) fn reached(
    infos: &[PeerInfo],
    trial: &Trial,
    rank: u32,
    agreed: &Agreed,
    chosen: &[Interface],
) -> Reached {
    let (transports, fallen_back) = (&trial.transports, trial.fallen_back.clone());
    let count = |wanted: Transport| transports.iter().filter(|it| **it == wanted).count() as u32;
    let mut hosts: Vec<(u64, String)> = Vec::new();
    for info in infos {
        if !hosts.iter().any(|(host, _)| *host == info.host) {
            hosts.push((info.host, info.host_name.clone()));
        }
    }
    let nics = &infos[rank as usize].nics;
    Reached {
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
