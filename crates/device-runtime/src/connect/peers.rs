//! Chooses the transport to each peer as NCCL does: P2P if a device can access the other's memory,
//! else SHM if both ranks are on one host, else NET.
//!
//! Ranks test whether they can open each other's memory, and P2P needs success at both ends. All
//! ranks learn all results, so they agree on what depends on every pair: direct transfers, LL128.

use std::time::Duration;

use executor::Transport;
use executor::bootstrap::Bootstrap;
use executor::error::Error;

use super::multicast::{Candidate, Multicasting, common};
use crate::driver::DeviceDriver;
use crate::entry::Kernel;
use crate::process_ranks::ProcessRanks;

/// Prefix of a problem between ranks on different hosts, where lack of P2P is normal.
const OTHER_HOST: &str = "other host: ";

/// Bytes of the memory that tests whether peers can open each other's.
const TRIAL_BYTES: u64 = 4096;

/// Separates ranks and problems. It does not occur in drivers' texts.
const BETWEEN: char = '\u{1f}';

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
    /// By rank: whether NICs can access the memory of its device.
    rdma: Vec<bool>,
    /// Why NICs cannot access the own device, if the network supports it.
    pub no_rdma: Option<String>,
    /// Resident blocks per rank, the minimum of all ranks.
    pub blocks: u32,
    /// The first two ranks without P2P, and why; equal on all ranks.
    pub apart: Option<(u32, u32, String)>,
    /// How all ranks can join a multicast, or why they cannot; equal on all ranks.
    pub multicast: Multicasting,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            transports: Vec::new(),
            local: Vec::new(),
            fallen_back: Vec::new(),
            all_p2p: false,
            any_shm: false,
            rdma: Vec::new(),
            no_rdma: None,
            blocks: 0,
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

    /// Whether a rank is in this process.
    pub fn is_local(&self, peer: u32) -> bool {
        self.local.get(peer as usize).copied().unwrap_or(true)
    }

    /// Whether all ranks are in this process.
    pub fn is_alone(&self) -> bool {
        self.local.iter().all(|local| *local)
    }

    /// All ranks with their transports.
    pub fn all(&self) -> impl Iterator<Item = (u32, Transport)> {
        (0..).zip(self.transports.iter().copied())
    }
}

/// What a rank tells about its device.
struct DeviceInfo {
    device: String,
    resident: u32,
    /// Whether NICs can access its memory.
    rdma: bool,
    /// A handle of its test memory, or why there is none.
    memory: Result<String, String>,
    /// Handle types of its multicasts, or why multicast is not supported.
    multicast: Result<Vec<String>, String>,
}

/// Writes a result as text.
pub(super) fn encode(result: Result<&str, &str>) -> String {
    match result {
        Ok(word) => format!("+{word}"),
        Err(why) => format!("-{}", why.replace('\n', " ")),
    }
}

/// Reads the text of [`encode`].
pub(super) fn decode(text: &str) -> Option<Result<String, String>> {
    match text.split_at_checked(1)? {
        ("+", word) => Some(Ok(word.to_owned())),
        ("-", why) => Some(Err(why.to_owned())),
        _ => None,
    }
}

impl DeviceInfo {
    fn text(&self) -> String {
        let Self {
            device,
            resident,
            rdma,
            ..
        } = self;
        let memory = encode(self.memory.as_deref().map_err(String::as_str));
        let kinds = self.multicast.as_ref().map(|kinds| kinds.join(" "));
        let kinds = encode(kinds.as_deref().map_err(|why| why.as_str()));
        format!("{device} {resident} {rdma} {memory}{BETWEEN}{kinds}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let (device, resident) = (parts.next()?, parts.next()?);
        let (rdma, rest) = (parts.next()?, parts.next()?);
        let (memory, kinds) = rest.split_once(BETWEEN)?;
        let kinds = decode(kinds)?;
        Some(Self {
            device: device.to_owned(),
            resident: resident.parse().ok()?,
            rdma: rdma.parse().ok()?,
            memory: decode(memory)?,
            multicast: kinds.map(|kinds| kinds.split_whitespace().map(str::to_owned).collect()),
        })
    }
}

/// Determines the transports to all peers. All ranks call it together.
pub(crate) fn meet<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    bootstrap: &mut dyn Bootstrap,
    longest: Duration,
) -> Result<Peers, Error> {
    let all = 0..bootstrap.ranks();
    let local: Vec<bool> = all.clone().map(|it| bootstrap.shares_memory(it)).collect();
    let (rank, device) = (bootstrap.rank(), shared.device(bootstrap.rank()));
    let failed = |why: String| Error::Device { rank, why };
    let threads = shared.options.threads;
    let resident = shared
        .driver
        .resident_blocks(device, Kernel::Move, threads)
        .map_err(failed)?;
    if local.iter().all(|local| *local) {
        return Ok(in_one_process(shared, rank, bootstrap.ranks(), resident));
    }
    // Offers are lines.
    let line = |text: String| text.replace('\n', " ");
    let trial = match shared.options.p2p {
        true => make_trial(shared, rank),
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
            Ok((_, address)) => shared.driver.export(device, *address),
            Err(why) => Err(why.clone()),
        },
        multicast: shared.driver.multicast_kinds(device),
    };
    let all_told = bootstrap.exchange("device/is", line(info.text()), longest)?;
    let mut infos = Vec::new();
    for (peer, text) in (0_u32..).zip(&all_told) {
        infos.push(DeviceInfo::parse(text).ok_or_else(|| {
            failed(format!(
                "rank {peer} describes its device in an unknown form"
            ))
        })?);
    }
    let mut problems: Vec<(u32, String)> = Vec::new();
    for peer in all.clone().filter(|it| *it != rank) {
        let remote = !bootstrap.same_host(peer);
        let opened = match (&info.memory, &infos[peer as usize].memory) {
            (Err(why), _) => Err(format!("rank {rank} cannot: {why}")),
            (_, Err(why)) => Err(format!("rank {peer} cannot: {why}")),
            (_, Ok(word)) if remote && !shared.driver.spans_hosts(word) => {
                Err("its memory cannot be opened from other hosts".to_owned())
            }
            (_, Ok(word)) => look(shared, device, word, peer),
        };
        let sign = if remote { OTHER_HOST } else { "" };
        problems.extend(opened.err().map(|why| (peer, format!("{sign}{why}"))));
    }
    let lines = problems
        .iter()
        .map(|(peer, why)| format!("{peer}{BETWEEN}{why}"));
    let tried = lines.collect::<Vec<_>>().join(&BETWEEN.to_string());
    let tried = line(format!("tried{BETWEEN}{tried}"));
    let mut of_all: Vec<Vec<(u32, String)>> = Vec::new();
    for text in bootstrap.exchange("device/tried", tried, longest)? {
        let mut words = text.split(BETWEEN).skip(1);
        let mut theirs = Vec::new();
        while let (Some(other), Some(why)) = (words.next(), words.next()) {
            theirs.extend(other.parse().ok().map(|other: u32| (other, why.to_owned())));
        }
        of_all.push(theirs);
    }
    // Peers have opened the memory until now; a driver may keep it open longer.
    if let Ok((block, _)) = trial {
        shared.keep(block, None);
    }
    let one_host = all.clone().all(|peer| bootstrap.same_host(peer));
    let serves = |kind: &str| one_host || shared.driver.spans_hosts(kind);
    let candidates = infos.iter().map(|it| Candidate {
        device: it.device.clone(),
        kinds: it.multicast.clone(),
    });
    let within = shared.driver.multicasts_within_devices();
    let apart = |(one, with): (u32, &Vec<(u32, String)>)| {
        let (other, why) = with.first()?;
        let why = why.strip_prefix(OTHER_HOST).unwrap_or(why);
        Some((one, *other, why.to_owned()))
    };
    let mut peers = Peers {
        local,
        multicast: common(candidates, within, Some(&serves)),
        apart: (0..).zip(&of_all).find_map(apart),
        all_p2p: of_all.iter().all(Vec::is_empty),
        any_shm: of_all
            .iter()
            .flatten()
            .any(|(_, why)| !why.starts_with(OTHER_HOST)),
        blocks: of_devices(&infos),
        rdma: infos.iter().map(|info| info.rdma).collect(),
        no_rdma: rdma.err().filter(|_| nics),
        ..Peers::default()
    };
    for peer in all {
        let why = |of: u32, with: u32| {
            let all = &of_all[of as usize];
            all.iter()
                .find(|(it, _)| *it == with)
                .map(|(_, why)| why.clone())
        };
        let why = why(rank, peer).or_else(|| why(peer, rank));
        peers
            .transports
            .push(match (&why, bootstrap.transport(peer)) {
                (None, _) => Transport::P2p,
                (_, Transport::Net) => Transport::Net,
                _ => Transport::Shm,
            });
        let why = why.filter(|why| !why.starts_with(OTHER_HOST));
        peers.fallen_back.extend(why.map(|why| (peer, why)));
    }
    check_shm(shared, rank, &peers)?;
    Ok(peers)
}

/// Allocates test memory with the rank's value in it.
fn make_trial<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    rank: u32,
) -> Result<(M::Block, u64), String> {
    let device = shared.device(rank);
    let made = shared.driver.allocate_for_peers(device, TRIAL_BYTES)?;
    shared
        .driver
        .write(device, made.1, &trial_value(rank).to_le_bytes())?;
    Ok(made)
}

/// Opens a peer's test memory and checks its value.
fn look<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    device: u32,
    word: &str,
    peer: u32,
) -> Result<(), String> {
    let address = shared.driver.import(device, word, TRIAL_BYTES)?;
    let mut value = [0; 8];
    shared.driver.read(device, address, &mut value)?;
    if u64::from_le_bytes(value) == trial_value(peer) {
        return Ok(());
    }
    Err(format!(
        "what was opened as memory of rank {peer} holds something else"
    ))
}

/// The value in a rank's test memory.
const fn trial_value(rank: u32) -> u64 {
    0x746f_706f_0000_0000 | rank as u64
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
                     ranks that this program starts; leave one of them on, or start the ranks by a launcher"
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Resident blocks per rank on the device with the fewest.
fn of_devices(infos: &[DeviceInfo]) -> u32 {
    let share = infos.iter().map(|own| {
        let beside = infos.iter().filter(|it| it.device == own.device).count();
        own.resident / u32::try_from(beside).unwrap_or(u32::MAX).max(1)
    });
    share.min().unwrap_or(1)
}

/// The peers if all ranks are in this process, found without communication.
fn in_one_process<M: DeviceDriver>(
    shared: &ProcessRanks<M>,
    rank: u32,
    ranks: u32,
    resident: u32,
) -> Peers {
    let problem = |one: u32, other: u32| match shared.options.p2p {
        _ if one == other => None,
        false => Some(disabled()),
        true => shared
            .driver
            .reaches(shared.device(one), shared.device(other))
            .err(),
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
    // All ranks must choose alike, so the fullest device decides.
    let beside = (0..ranks).map(|rank| shared.ranks_beside(rank)).max();
    peers.blocks = resident / beside.unwrap_or(1).max(1);
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_say_survives_as_text() {
        let kinds = vec!["fabric".to_owned(), "descriptor".to_owned()];
        for (memory, multicast) in [
            (Ok("12:34".to_owned()), Ok(kinds)),
            (Ok("12".to_owned()), Ok(Vec::new())),
            (Err("there is none".to_owned()), Err("no switch".to_owned())),
        ] {
            let info = DeviceInfo {
                device: "GPU-1".to_owned(),
                resident: 264,
                rdma: memory.is_ok(),
                memory,
                multicast,
            };
            let unflattened = DeviceInfo::parse(&info.text()).unwrap();
            assert_eq!(
                (
                    unflattened.device,
                    unflattened.resident,
                    unflattened.rdma,
                    unflattened.memory
                ),
                (info.device, info.resident, info.rdma, info.memory)
            );
            assert_eq!(unflattened.multicast, info.multicast);
        }
        assert!(DeviceInfo::parse("GPU-1 many true +1\u{1f}+").is_none());
        assert!(DeviceInfo::parse("GPU-1 264 true +1").is_none());
        assert!(DeviceInfo::parse("").is_none());
    }

    #[test]
    fn the_fullest_device_counts() {
        let info = |device: &str, resident| DeviceInfo {
            device: device.to_owned(),
            resident,
            rdma: false,
            memory: Ok(String::new()),
            multicast: Ok(Vec::new()),
        };
        assert_eq!(
            of_devices(&[info("a", 264), info("b", 264), info("a", 264)]),
            132
        );
        assert_eq!(of_devices(&[info("a", 264), info("b", 100)]), 100);
    }
}
