//! How each peer is reached, as NCCL decides it: by P2P where a device can access the other's memory, else by SHM where
//! both ranks are on one host, else by NET.
//!
//! Whether memory of another process can be opened is tried, not taken for granted, and both ends of a pair must have
//! succeeded. All ranks hear of all trials, so they also agree on what depends on every pair: direct transfers, and LL128.

use std::time::Duration;

use executor::Transport;
use executor::bootstrap::Bootstrap;
use executor::error::Error;

use super::multicast::{Candidate, Multicasting, common};
use crate::entry::Kernel;
use crate::machine::DeviceDriver;
use crate::process_ranks::ProcessRanks;

/// What the words of a problem begin with if the ranks are on different hosts, where it is none.
const FAR: &str = "far: ";

/// Bytes of the memory by which ranks find out whether they can open each other's.
const TRIAL_BYTES: u64 = 4096;

/// Between two problems of a rank, and between a rank and its problem. Neither occurs in the words of machines.
const BETWEEN: char = '\u{1f}';

/// How the peers of a rank are reached.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    /// By rank.
    transports: Vec<Transport>,
    /// Ranks of this process.
    local: Vec<bool>,
    /// Ranks of this host that are not reached by P2P, and why not.
    pub fallen_back: Vec<(u32, String)>,
    /// Whether every rank reaches every other by P2P.
    pub all_p2p: bool,
    /// Whether any two ranks of one host do not reach each other by P2P.
    pub any_shm: bool,
    /// By rank: whether NICs reach the memory of its device.
    rdma: Vec<bool>,
    /// Why they do not reach the own one's, if NICs could.
    pub no_rdma: Option<String>,
    /// Blocks that a rank can have at the same time; the least of all ranks.
    pub blocks: u32,
    /// The first two ranks that do not reach each other by P2P, and why not; the same on all ranks.
    pub apart: Option<(u32, u32, String)>,
    /// How all ranks can be members of a multicast, or why they cannot; the same on all ranks.
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
    /// How a rank is reached.
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

    /// Whether NICs reach the memory of a rank's device.
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

    /// All ranks with how they are reached.
    pub fn all(&self) -> impl Iterator<Item = (u32, Transport)> {
        (0..).zip(self.transports.iter().copied())
    }
}

/// What a rank says of its device.
struct Told {
    device: String,
    resident: u32,
    /// Whether NICs reach its memory.
    rdma: bool,
    /// A word of its memory, or why there is none.
    memory: Result<String, String>,
    /// Kinds of handles of its multicasts, or why it has none.
    multicast: Result<Vec<String>, String>,
}

/// A result as a text that says which of both it is.
pub(super) fn signed(result: Result<&str, &str>) -> String {
    match result {
        Ok(word) => format!("+{word}"),
        Err(why) => format!("-{}", why.replace('\n', " ")),
    }
}

/// What [`signed`] made a text of.
pub(super) fn unsigned(text: &str) -> Option<Result<String, String>> {
    match text.split_at_checked(1)? {
        ("+", word) => Some(Ok(word.to_owned())),
        ("-", why) => Some(Err(why.to_owned())),
        _ => None,
    }
}

impl Told {
    fn text(&self) -> String {
        let Self {
            device,
            resident,
            rdma,
            ..
        } = self;
        let memory = signed(self.memory.as_deref().map_err(String::as_str));
        let kinds = self.multicast.as_ref().map(|kinds| kinds.join(" "));
        let kinds = signed(kinds.as_deref().map_err(|why| why.as_str()));
        format!("{device} {resident} {rdma} {memory}{BETWEEN}{kinds}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let (device, resident) = (parts.next()?, parts.next()?);
        let (rdma, rest) = (parts.next()?, parts.next()?);
        let (memory, kinds) = rest.split_once(BETWEEN)?;
        let kinds = unsigned(kinds)?;
        Some(Self {
            device: device.to_owned(),
            resident: resident.parse().ok()?,
            rdma: rdma.parse().ok()?,
            memory: unsigned(memory)?,
            multicast: kinds.map(|kinds| kinds.split_whitespace().map(str::to_owned).collect()),
        })
    }
}

/// Finds out how the peers of a rank are reached. All ranks call it together.
pub(crate) fn meet<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    bootstrap: &mut dyn Bootstrap,
    longest: Duration,
) -> Result<Peers, Error> {
    let all = 0..bootstrap.ranks();
    let local: Vec<bool> = all.clone().map(|it| bootstrap.shares_memory(it)).collect();
    let (rank, device) = (bootstrap.rank(), process_ranks.device(bootstrap.rank()));
    let failed = |why: String| Error::Device { rank, why };
    let threads = process_ranks.options.threads;
    let resident = process_ranks
        .machine
        .resident_blocks(device, Kernel::Move, threads)
        .map_err(failed)?;
    if local.iter().all(|local| *local) {
        return Ok(in_one_process(
            process_ranks,
            rank,
            bootstrap.ranks(),
            resident,
        ));
    }
    // Offers are lines.
    let line = |text: String| text.replace('\n', " ");
    let trial = match process_ranks.options.p2p {
        true => make_trial(process_ranks, rank),
        false => Err(disabled()),
    };
    let nics = bootstrap.network().is_some_and(|it| it.reaches_devices());
    let rdma = match process_ranks.options.rdma {
        true => process_ranks.machine.rdma(device),
        false => Err("the settings forbid it (NCCL_NET_GDR_LEVEL)".to_owned()),
    };
    let told = Told {
        device: process_ranks.machine.identity(device).map_err(failed)?,
        resident,
        rdma: nics && rdma.is_ok(),
        memory: match &trial {
            Ok((_, address)) => process_ranks.machine.export(device, *address),
            Err(why) => Err(why.clone()),
        },
        multicast: process_ranks.machine.multicast_kinds(device),
    };
    let all_told = bootstrap.exchange("device/is", line(told.text()), longest)?;
    let mut infos = Vec::new();
    for (peer, text) in (0_u32..).zip(&all_told) {
        infos.push(Told::parse(text).ok_or_else(|| {
            failed(format!(
                "rank {peer} speaks of its device in an unknown form"
            ))
        })?);
    }
    let mut problems: Vec<(u32, String)> = Vec::new();
    for peer in all.clone().filter(|it| *it != rank) {
        let far = !bootstrap.same_host(peer);
        let opened = match (&told.memory, &infos[peer as usize].memory) {
            (Err(why), _) => Err(format!("rank {rank} cannot: {why}")),
            (_, Err(why)) => Err(format!("rank {peer} cannot: {why}")),
            (_, Ok(word)) if far && !process_ranks.machine.spans_hosts(word) => {
                Err("its memory cannot be opened from other hosts".to_owned())
            }
            (_, Ok(word)) => look(process_ranks, device, word, peer),
        };
        let sign = if far { FAR } else { "" };
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
    // The memory is there until all have tried; a machine may keep what it opened.
    if let Ok((block, _)) = trial {
        process_ranks.keep(block, None);
    }
    let one_host = all.clone().all(|peer| bootstrap.same_host(peer));
    let serves = |kind: &str| one_host || process_ranks.machine.spans_hosts(kind);
    let candidates = infos.iter().map(|it| Candidate {
        device: it.device.clone(),
        kinds: it.multicast.clone(),
    });
    let within = process_ranks.machine.multicasts_within_devices();
    let apart = |(one, with): (u32, &Vec<(u32, String)>)| {
        let (other, why) = with.first()?;
        let why = why.strip_prefix(FAR).unwrap_or(why);
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
            .any(|(_, why)| !why.starts_with(FAR)),
        blocks: of_devices(&infos),
        rdma: infos.iter().map(|told| told.rdma).collect(),
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
        let why = why.filter(|why| !why.starts_with(FAR));
        peers.fallen_back.extend(why.map(|why| (peer, why)));
    }
    check_shm(process_ranks, rank, &peers)?;
    Ok(peers)
}

/// Memory for others to open, with the rank in it.
fn make_trial<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    rank: u32,
) -> Result<(M::Block, u64), String> {
    let device = process_ranks.device(rank);
    let made = process_ranks
        .machine
        .allocate_for_peers(device, TRIAL_BYTES)?;
    process_ranks
        .machine
        .write(device, made.1, &trial_value(rank).to_le_bytes())?;
    Ok(made)
}

/// Opens what a peer made, and looks whether it is that.
fn look<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    device: u32,
    word: &str,
    peer: u32,
) -> Result<(), String> {
    let address = process_ranks.machine.import(device, word, TRIAL_BYTES)?;
    let mut value = [0; 8];
    process_ranks.machine.read(device, address, &mut value)?;
    if u64::from_le_bytes(value) == trial_value(peer) {
        return Ok(());
    }
    Err(format!(
        "what was opened as memory of rank {peer} holds something else"
    ))
}

/// What a rank writes into memory that others are to open.
const fn trial_value(rank: u32) -> u64 {
    0x746f_706f_0000_0000 | rank as u64
}

fn disabled() -> String {
    "NCCL_P2P_DISABLE is set".to_owned()
}

/// Without a network there must be shared memory where there is no P2P.
fn check_shm<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    rank: u32,
    peers: &Peers,
) -> Result<(), Error> {
    let shm = peers.all().find(|(_, it)| *it == Transport::Shm);
    match shm {
        Some((peer, _)) if !process_ranks.options.shm => {
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

/// Blocks for each rank on the device that can have the fewest for each.
fn of_devices(infos: &[Told]) -> u32 {
    let share = infos.iter().map(|own| {
        let beside = infos.iter().filter(|it| it.device == own.device).count();
        own.resident / u32::try_from(beside).unwrap_or(u32::MAX).max(1)
    });
    share.min().unwrap_or(1)
}

/// Without asking anybody, for all devices are here.
fn in_one_process<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    rank: u32,
    ranks: u32,
    resident: u32,
) -> Peers {
    let problem = |one: u32, other: u32| match process_ranks.options.p2p {
        _ if one == other => None,
        false => Some(disabled()),
        true => process_ranks
            .machine
            .reaches(process_ranks.device(one), process_ranks.device(other))
            .err(),
    };
    let mut peers = Peers {
        local: vec![true; ranks as usize],
        ..Peers::default()
    };
    for peer in 0..ranks {
        // A device that another one cannot reach cannot reach that one either, as far as a connection is concerned.
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
    let machine = &process_ranks.machine;
    let candidates = (0..ranks).map(|rank| {
        let identity = machine.identity(process_ranks.device(rank));
        Candidate {
            kinds: match &identity {
                Ok(_) => machine.multicast_kinds(process_ranks.device(rank)),
                Err(why) => Err(why.clone()),
            },
            device: identity.unwrap_or_default(),
        }
    });
    peers.multicast = common(candidates, machine.multicasts_within_devices(), None);
    // All ranks must choose alike, so what counts is the fullest device.
    let beside = (0..ranks)
        .map(|rank| process_ranks.ranks_beside(rank))
        .max();
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
            let told = Told {
                device: "GPU-1".to_owned(),
                resident: 264,
                rdma: memory.is_ok(),
                memory,
                multicast,
            };
            let again = Told::parse(&told.text()).unwrap();
            assert_eq!(
                (again.device, again.resident, again.rdma, again.memory),
                (told.device, told.resident, told.rdma, told.memory)
            );
            assert_eq!(again.multicast, told.multicast);
        }
        assert!(Told::parse("GPU-1 many true +1\u{1f}+").is_none());
        assert!(Told::parse("GPU-1 264 true +1").is_none());
        assert!(Told::parse("").is_none());
    }

    #[test]
    fn the_fullest_device_counts() {
        let told = |device: &str, resident| Told {
            device: device.to_owned(),
            resident,
            rdma: false,
            memory: Ok(String::new()),
            multicast: Ok(Vec::new()),
        };
        assert_eq!(
            of_devices(&[told("a", 264), told("b", 264), told("a", 264)]),
            132
        );
        assert_eq!(of_devices(&[told("a", 264), told("b", 100)]), 100);
    }
}
