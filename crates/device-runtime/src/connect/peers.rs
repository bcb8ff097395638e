//! Chooses the transport to each peer as NCCL does: P2P if a device can access the other's memory,
//! else SHM if both ranks are on one host, else NET.
//!
//! Ranks try whether they can open each other's memory, and whether kernels load and store what
//! they should (`trial`). P2P needs success at both ends. All ranks learn all results, so they
//! agree on what depends on every pair: direct transfers, LL128.

use std::time::{Duration, Instant};

use executor::Transport;
use executor::bootstrap::{Bootstrap, exchange};
use executor::error::Error;

use super::device_info::{DeviceInfo, ResidentBlocks, resident_blocks};
use super::multicast::{Candidate, MulticastSupport, common};
use super::trial::{Trial, trial_bytes, try_all};
use crate::driver::DeviceDriver;
use crate::process_ranks::ProcessRanks;

/// Prefix of a problem between ranks on different hosts, where lack of P2P is normal.
const OTHER_HOST: &str = "other host: ";

/// How much longer than its tries a rank may take until it knows that a kernel does not end.
const ENDING: Duration = Duration::from_secs(10);

/// A rank's peers whose memory it cannot open, and why.
type Problems = Vec<(u32, String)>;

/// The transports from a rank to its peers.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    /// By rank.
    transports: Vec<Transport>,
    /// Ranks of this process.
    local: Vec<bool>,
    /// Ranks of this host without P2P, and why.
    pub fallen_back: Vec<(u32, String)>,
    /// Whether every rank reaches every other rank by P2P.
    pub all_p2p: bool,
    /// Whether any two ranks of one host lack P2P.
    pub any_shm: bool,
    /// The first two ranks with P2P between which LL128 lines may be split; equal on all ranks.
    pub splits_lines: Option<(u32, u32)>,
    /// By rank: whether NICs can access the memory of its device.
    rdma: Vec<bool>,
    /// Why NICs cannot access the own device, if the network supports it.
    pub no_rdma: Option<String>,
    /// Ranks of other processes on the own device.
    beside: Vec<u32>,
    /// Resident blocks per rank, the minimum of all ranks.
    pub blocks: ResidentBlocks,
    /// The first two ranks without P2P, and why; equal on all ranks.
    pub apart: Option<(u32, u32, String)>,
    /// How all ranks can join a multicast, or why they cannot; equal on all ranks.
    pub multicast: MulticastSupport,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            transports: Vec::new(),
            local: Vec::new(),
            fallen_back: Vec::new(),
            all_p2p: false,
            any_shm: false,
            splits_lines: None,
            rdma: Vec::new(),
            no_rdma: None,
            beside: Vec::new(),
            blocks: ResidentBlocks::default(),
            apart: None,
            multicast: Ok(None),
        }
    }
}

impl Peers {
    /// The transport to a rank.
    pub fn transport(&self, peer: u32) -> Transport {
        let known = self.transports.get(peer as usize);
        known.copied().unwrap_or(Transport::P2p)
    }

    /// Why a rank of this host is not reached by P2P.
    pub fn why_not_p2p(&self, peer: u32) -> Option<String> {
        let fallen_back = self.fallen_back.iter();
        let mut fallen_back = fallen_back.filter(|(it, _)| *it == peer);
        fallen_back.next().map(|(_, why)| why.clone())
    }

    /// Whether NICs can access the memory of a rank's device.
    pub fn rdma(&self, rank: u32) -> bool {
        self.rdma.get(rank as usize).copied().unwrap_or(false)
    }

    /// Whether a rank is in another process and on the own device.
    pub fn shares_device(&self, peer: u32) -> bool {
        self.beside.contains(&peer)
    }

    /// Whether a rank is in this process.
    pub fn is_local(&self, peer: u32) -> bool {
        self.local.get(peer as usize).copied().unwrap_or(true)
    }

    /// Whether all ranks are in this process.
    pub fn is_alone(&self) -> bool {
        self.local.iter().all(|local| *local)
    }

    /// Chooses the transports. `problems`: those of each rank.
    fn set_transports(&mut self, bootstrap: &dyn Bootstrap, problems: &[Problems]) {
        let rank = bootstrap.rank();
        let pairs = (0_u32..).zip(problems);
        let mut pairs = pairs.flat_map(|(one, of_one)| of_one.iter().map(move |it| (one, it)));
        self.any_shm = pairs
            .clone()
            .any(|(_, (_, why))| !why.starts_with(OTHER_HOST));
        self.apart = pairs.next().map(|(one, (other, why))| {
            let why = why.strip_prefix(OTHER_HOST).unwrap_or(why);
            (one, *other, why.to_owned())
        });
        self.all_p2p = self.apart.is_none();
        let why = |of: u32, with: u32| {
            let mut all = problems[of as usize].iter();
            all.find(|(peer, _)| *peer == with)
                .map(|(_, why)| why.clone())
        };
        for peer in 0..bootstrap.ranks() {
            let why = why(rank, peer).or_else(|| why(peer, rank));
            let transport = match (&why, bootstrap.transport(peer)) {
                (None, _) => Transport::P2p,
                (_, Transport::Net) => Transport::Net,
                _ => Transport::Shm,
            };
            self.transports.push(transport);
            let why = why.filter(|why| !why.starts_with(OTHER_HOST));
            self.fallen_back.extend(why.map(|why| (peer, why)));
        }
    }

    /// All ranks with their transports.
    pub fn all(&self) -> impl Iterator<Item = (u32, Transport)> {
        (0..).zip(self.transports.iter().copied())
    }
}

/// Determines the transports to all peers. All ranks call it together.
pub(crate) fn meet<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    bootstrap: &mut dyn Bootstrap,
    longest: Duration,
) -> Result<Peers, Error> {
    let all = 0..bootstrap.ranks();
    let local: Vec<bool> = all.map(|it| bootstrap.shares_memory(it)).collect();
    let (rank, device) = (bootstrap.rank(), shared.device(bootstrap.rank()));
    let failed = |why: String| Error::Device { rank, why };
    let threads = shared.options.threads;
    let resident = ResidentBlocks::on(&shared.driver, device, threads).map_err(failed)?;
    if local.iter().all(|local| *local) {
        let mut peers = in_one_process(shared, rank, bootstrap.ranks(), longest).map_err(failed)?;
        peers.blocks = resident_in_one_process(shared, bootstrap.ranks()).map_err(failed)?;
        check_shm(shared, rank, &peers)?;
        return Ok(peers);
    }
    let trial = match shared.options.p2p {
        true => Trial::new(shared, device, (rank, bootstrap.ranks()), false),
        false => Err(disabled()),
    };
    let nics = bootstrap.network().is_some_and(|it| it.reaches_devices());
    let rdma = match shared.options.rdma {
        true => shared.driver.rdma(device),
        false => Err("the settings forbid it (NCCL_NET_GDR_LEVEL)".to_owned()),
    };
    let info = DeviceInfo {
        device: shared.driver.identity(device).map_err(failed)?,
        resident,
        rdma: nics && rdma.is_ok(),
        memory: match &trial {
            Ok(trial) => shared.driver.export(device, trial.address),
            Err(why) => Err(why.clone()),
        },
        multicast: shared.driver.multicast_kinds(device),
    };
    let infos = exchange(bootstrap, "device/is", &info, longest)?;
    let own = trial.as_ref().map_err(String::clone);
    let tries = Tries {
        shared,
        trial: own.and_then(|it| info.memory.clone().map(|_| it)),
        longest,
    };
    let problems = tries.try_peers(bootstrap, &infos)?;
    // A rank whose kernel does not end says so later than `longest`.
    let patience = longest.saturating_mul(2) + ENDING;
    let problems = exchange(bootstrap, "device/tried", &problems, patience)?;
    let problems = tries.find_lost(bootstrap, problems)?;
    let one_host = (0..bootstrap.ranks()).all(|peer| bootstrap.same_host(peer));
    let serves = |kind: &str| one_host || shared.driver.spans_hosts(kind);
    let candidates = infos.iter().map(|it| Candidate {
        device: it.device.clone(),
        kinds: it.multicast.clone(),
    });
    let within = shared.driver.multicasts_within_devices();
    let others = (0..bootstrap.ranks()).filter(|peer| !local[*peer as usize]);
    let beside = others
        .filter(|peer| bootstrap.same_host(*peer) && infos[*peer as usize].device == info.device);
    let mut peers = Peers {
        beside: beside.collect(),
        local,
        multicast: common(candidates, within, Some(&serves)),
        blocks: resident_blocks(&infos),
        rdma: infos.iter().map(|info| info.rdma).collect(),
        no_rdma: rdma.err().filter(|_| nics),
        ..Peers::default()
    };
    peers.set_transports(bootstrap, &problems);
    peers.splits_lines = exchange_split_lines(shared, bootstrap, &peers, &infos, longest)?;
    check_shm(shared, rank, &peers)?;
    Ok(peers)
}

/// How a rank tries the memory of its peers.
struct Tries<'a, M: DeviceDriver> {
    shared: &'a ProcessRanks<M>,
    /// The own test memory; or why there is none.
    trial: Result<&'a Trial, String>,
    longest: Duration,
}

impl<M: DeviceDriver> Tries<'_, M> {
    /// Opens the test memory of all peers, and lets a kernel load from it and store to it.
    fn try_peers(
        &self,
        bootstrap: &dyn Bootstrap,
        infos: &[DeviceInfo],
    ) -> Result<Problems, Error> {
        let (rank, mut problems) = (bootstrap.rank(), Problems::new());
        let bytes = trial_bytes(bootstrap.ranks());
        let (driver, until) = (&self.shared.driver, Instant::now() + self.longest);
        for (peer, info) in (0..).zip(infos).filter(|(peer, _)| *peer != rank) {
            let remote = !bootstrap.same_host(peer);
            let tried = match (&self.trial, &info.memory) {
                (Err(why), _) => Err(format!("rank {rank} cannot: {why}")),
                (_, Err(why)) => Err(format!("rank {peer} cannot: {why}")),
                (_, Ok(word)) if remote && !driver.spans_hosts(word) => {
                    Err("its memory cannot be opened from other hosts".to_owned())
                }
                (Ok(trial), Ok(word)) => {
                    let address = driver.import(self.shared.device(rank), word, bytes);
                    let tried = address.and_then(|at| trial.reach(self.shared, (peer, at), until));
                    if let Err(why) = &tried {
                        let usable = trial.expect_usable(driver, why);
                        usable.map_err(|why| Error::Device { rank, why })?;
                    }
                    tried
                }
            };
            problems.extend(tried.err().map(|why| (peer, signed(remote, &why))));
        }
        Ok(problems)
    }

    /// Adds the ranks whose kernels' stores have not arrived, behind the others' tries.
    fn find_lost(
        &self,
        bootstrap: &mut dyn Bootstrap,
        mut problems: Vec<Problems>,
    ) -> Result<Vec<Problems>, Error> {
        let (rank, mut lost) = (bootstrap.rank(), Problems::new());
        let names = |of: u32, with: u32| problems[of as usize].iter().any(|(it, _)| *it == with);
        let others = (0..bootstrap.ranks()).filter(|peer| *peer != rank);
        for peer in others.filter(|peer| !names(rank, *peer) && !names(*peer, rank)) {
            let Ok(trial) = &self.trial else { break };
            let remote = !bootstrap.same_host(peer);
            let holds = trial.holds(&self.shared.driver, peer);
            lost.extend(holds.err().map(|why| (peer, signed(remote, &why))));
        }
        let all = exchange(bootstrap, "device/stored", &lost, self.longest)?;
        for (rank, lost) in (0_u32..).zip(all) {
            for (peer, why) in lost {
                if let Some(own) = problems.get_mut(peer as usize) {
                    own.push((rank, why));
                }
            }
        }
        Ok(problems)
    }
}

/// A problem with a rank of this host, or of another one.
fn signed(remote: bool, why: &str) -> String {
    let sign = if remote { OTHER_HOST } else { "" };
    format!("{sign}{why}")
}

/// Tells all ranks whether LL128 lines to any device of this host may be split. Returns the first
/// two ranks between which they may.
fn exchange_split_lines<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    bootstrap: &mut dyn Bootstrap,
    peers: &Peers,
    infos: &[DeviceInfo],
    longest: Duration,
) -> Result<Option<(u32, u32)>, Error> {
    let (rank, device) = (bootstrap.rank(), shared.device(bootstrap.rank()));
    let mut own = None;
    for (peer, info) in (0_u32..).zip(infos) {
        let by_p2p = peers.transport(peer) == Transport::P2p;
        let near = peer != rank && bootstrap.same_host(peer) && by_p2p;
        let keeps = || shared.driver.keeps_lines_to(device, &info.device);
        if near && !keeps().map_err(|why| Error::Device { rank, why })? {
            own = Some(peer);
            break;
        }
    }
    let all = exchange(bootstrap, "device/lines", &own, longest)?;
    let mut split = (0_u32..).zip(all);
    Ok(split.find_map(|(rank, peer)| Some((rank, peer?))))
}

fn disabled() -> String {
    "NCCL_P2P_DISABLE is set".to_owned()
}

/// Fails if a rank needs SHM and SHM is disabled.
fn check_shm<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    rank: u32,
    peers: &Peers,
) -> Result<(), Error> {
    let shm = peers.all().find(|(_, it)| *it == Transport::Shm);
    match shm {
        Some((peer, _)) if !shared.options.shm => {
            let fallen_back = peers.fallen_back.iter().find(|(it, _)| *it == peer);
            let why = fallen_back.map_or("", |(_, why)| why);
            Err(Error::Device {
                rank,
                why: format!(
                    "no transport leads to rank {peer}: not P2P ({why}), not SHM (NCCL_SHM_DISABLE is set), and no network joins \
                     ranks of one process, or those that this program starts; leave one of them on, or start the ranks by a launcher"
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Resident blocks per rank if all ranks are in this process. All must choose alike, so the device
/// with the fewest per rank decides.
fn resident_in_one_process<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    ranks: u32,
) -> Result<ResidentBlocks, String> {
    let threads = shared.options.threads;
    let share = |rank: u32| {
        let resident = ResidentBlocks::on(&shared.driver, shared.device(rank), threads)?;
        Ok(resident.shared_by(shared.ranks_beside(rank)))
    };
    let shares: Result<Vec<ResidentBlocks>, String> = (0..ranks).map(share).collect();
    Ok(ResidentBlocks::fewest(shares?.into_iter()))
}

/// The peers if all ranks are in this process, found without communication.
fn in_one_process<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    rank: u32,
    ranks: u32,
    longest: Duration,
) -> Result<Peers, String> {
    let disproved = match shared.options.p2p {
        true => shared.disproved(|devices| try_all(shared, (devices, ranks), longest))?,
        false => &[],
    };
    let problem = |one: u32, other: u32| {
        let (device, of_other) = (shared.device(one), shared.device(other));
        let disproof = || {
            let mut all = disproved.iter();
            let found = all.find(|(from, to, _)| (*from, *to) == (device, of_other));
            found.map(|(_, _, why)| why.clone())
        };
        match shared.options.p2p {
            _ if one == other => None,
            false => Some(disabled()),
            true => {
                let granted = shared.driver.reaches(device, of_other);
                granted.err().or_else(disproof)
            }
        }
    };
    let mut peers = Peers {
        local: vec![true; ranks as usize],
        ..Peers::default()
    };
    for peer in 0..ranks {
        // A connection needs access in both directions.
        let why = problem(rank, peer).or_else(|| problem(peer, rank));
        peers.transports.push(match why {
            Some(_) => Transport::Shm,
            None => Transport::P2p,
        });
        peers.fallen_back.extend(why.map(|why| (peer, why)));
    }
    let mut pairs = (0..ranks).flat_map(|one| (0..ranks).map(move |other| (one, other)));
    peers.apart = pairs.find_map(|(one, other)| Some((one, other, problem(one, other)?)));
    peers.any_shm = peers.apart.is_some();
    peers.all_p2p = !peers.any_shm;
    let driver = &shared.driver;
    for (one, other) in (0..ranks).flat_map(|one| (0..ranks).map(move |other| (one, other))) {
        let (from, to) = (shared.device(one), shared.device(other));
        let by_p2p = from != to && problem(one, other).is_none();
        if by_p2p && !driver.keeps_lines_to(from, &driver.identity(to)?)? {
            peers.splits_lines = Some((one, other));
            break;
        }
    }
    let candidates = (0..ranks).map(|rank| {
        let identity = driver.identity(shared.device(rank));
        Candidate {
            kinds: match &identity {
                Ok(_) => driver.multicast_kinds(shared.device(rank)),
                Err(why) => Err(why.clone()),
            },
            device: identity.unwrap_or_default(),
        }
    });
    peers.multicast = common(candidates, driver.multicasts_within_devices(), None);
    Ok(peers)
}
