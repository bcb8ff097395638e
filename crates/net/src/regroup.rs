//! Going on after a failure: the ranks that are left gather at the lowest of them, and become a communicator of their own.
//!
//! Every rank listens for its whole life where it did when all met (`Home`). The lowest rank that is not known to be
//! lost waits until all others that are not have come, or have had their time; then it tells those that came who they
//! are. A rank whose process is gone refuses connections, which proves that it is lost. If others are missing that may be
//! alive, those that gathered go on only if they are more than half: otherwise two groups could both go on. Whoever comes
//! when the others have gone on without it is told so (`late_joins`).

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::machine::Ending;
use bootstrap::member::Meeting;
use bootstrap::socket::Acceptor;
use bootstrap::socket::accept::{Arrived, Until};
use bootstrap::socket::blocking::Connection;
use bootstrap::socket::service::Alarm;
use bootstrap::{Key, Kind, PeerInfo};
use executor::{Error, Failure};
use serde::{Deserialize, Serialize};

use crate::hosts::{Base, Hosts, Ring};
use crate::late_joins::LateJoinListener;
use crate::ports::Planned;

/// How long a connection may take to be made, or to take an answer.
const PROOF_TIME: Duration = Duration::from_secs(2);

/// How long the refusal of a connection may take, by which a process is known to be gone.
const REFUSAL_TIME: Duration = Duration::from_millis(500);

/// Most ranks that are asked at a time whether they are gone.
const MOST_ASKED: usize = 32;

/// How long ranks are waited for that are suspected to be lost and may not be.
const MOMENT: Duration = Duration::from_secs(10);

/// Between two looks whether those that are missing are gone.
const GONE_LOOK: Duration = Duration::from_secs(1);

/// Where a rank's process is found for its whole life, whatever communicator it is in.
#[derive(Debug)]
pub(crate) struct Home {
    /// The rank that it was when all met.
    pub rank: u32,
    /// What all said of themselves then.
    pub infos: Vec<PeerInfo>,
    pub key: Key,
    pub listener: TcpListener,
    /// Which ranks they are in the plan.
    pub planned: Planned,
}

impl Home {
    /// What those know that gather.
    pub fn gather_key(&self) -> Key {
        self.key.child("gather", 0)
    }

    /// Lets those in.
    pub fn acceptor(&self) -> std::io::Result<Acceptor> {
        let listener = self.listener.try_clone()?;
        Acceptor::new(listener, &self.gather_key(), &[Kind::Regroup], Until::Heard)
    }
}

/// A rank that can go on.
pub struct Survivor {
    pub(crate) home: Arc<Home>,
    /// By their present ranks, the first ranks of all members.
    pub(crate) members: Vec<u32>,
    pub(crate) generation: u64,
    pub(crate) base: Arc<Base>,
    pub(crate) alarm: Alarm,
    pub(crate) late_joins: Option<LateJoinListener>,
}

/// Before a leader is asked again that turned this rank away.
const AGAIN: Duration = Duration::from_millis(50);

/// What a rank says when it comes. Ranks are those of the beginning.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Come {
    pub rank: u32,
    /// Where the one before it in the new ring connects to.
    ring: SocketAddr,
    /// How often it has gathered.
    generation: u64,
}

impl Come {
    pub const fn new(rank: u32, ring: SocketAddr, generation: u64) -> Self {
        Self {
            rank,
            ring,
            generation,
        }
    }
}

/// Who goes on, by their first ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Gathered {
    pub generation: u64,
    /// With where they listen now.
    pub members: Vec<(u32, SocketAddr)>,
}

impl Gathered {
    /// Whether the members are ascending and below `ranks`, the number of ranks that met at first.
    fn is_valid(&self, ranks: usize) -> bool {
        let members = &self.members;
        members.is_sorted_by(|(one, _), (next, _)| one < next)
            && members
                .last()
                .is_some_and(|(last, _)| (*last as usize) < ranks)
    }
}

impl Survivor {
    /// What happened to this rank, if it did not run for so long that the others must have given it up. It is the one that
    /// is lost then, and does not go on.
    pub fn own_stop(&self) -> Option<Failure> {
        let failure = self.alarm.own_stop()?;
        Some(Failure {
            rank: failure.rank,
            what: failure.what,
        })
    }

    /// Gathers with the others that are left, and joins them. `lost` is the rank that is known to have failed. Gives the
    /// new bootstrap, and by the ranks of its members those that they had when all met.
    ///
    /// Should another one be lost meanwhile, those that are left gather again.
    ///
    /// # Errors
    /// Too few are left, they do not find each other, or went on without this one.
    pub fn regroup(mut self, lost: u32) -> Result<(Hosts, Vec<u32>), Error> {
        self.late_joins = None;
        let rank = self.home.rank;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let mut suspect = self.members.get(lost as usize).copied();
        let mut failed = None;
        for _ in 0..self.members.len() {
            let listener = self.base.listen();
            let listener = listener.map_err(|error| refused(error.to_string()))?;
            let ring = listener.local_addr();
            let ring = ring.map_err(|error| refused(error.to_string()))?;
            let Gathered {
                generation,
                members,
            } = self.gather(suspect, ring)?;
            let place = members.iter().position(|(it, _)| *it == rank);
            let place = place.ok_or_else(|| {
                refused("the other ranks went on without this one, for it came too late".to_owned())
            })?;
            let (_, next) = members[(place + 1) % members.len()];
            self.generation = generation;
            self.members = members.iter().map(|(rank, _)| *rank).collect();
            let ring = Ring {
                rank: place as u32,
                ranks: members.len() as u32,
                key: self.home.key.child("regroup", generation),
                meeting: Meeting::Known(next),
                roots: Vec::new(),
                listener,
                planned: self.home.planned.of(self.members.iter().copied()),
                home: Some((Arc::clone(&self.home), self.members.clone(), generation)),
            };
            match Hosts::meet(Arc::clone(&self.base), ring) {
                Ok(hosts) => return Ok((hosts, self.members)),
                Err(error) => {
                    suspect = match &error {
                        Error::Aborted { failure, .. } => {
                            self.members.get(failure.rank as usize).copied()
                        }
                        _ => None,
                    };
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| refused("no rank is left".to_owned())))
    }

    /// Finds the one that leads, or leads.
    fn gather(&self, suspect: Option<u32>, ring: SocketAddr) -> Result<Gathered, Error> {
        let rank = self.home.rank;
        // A rank that others take for lost may itself be left.
        let mut suspects: Vec<u32> = suspect.into_iter().filter(|it| *it != rank).collect();
        for leader in self.members.iter().copied() {
            if suspects.contains(&leader) {
                continue;
            }
            if leader == rank {
                return self.lead(&suspects, ring);
            }
            match self.follow(leader, ring) {
                Some(said) => return Ok(said),
                None => suspects.push(leader),
            }
        }
        let why = "no other rank is left that leads".to_owned();
        Err(Error::Bootstrap { rank, why })
    }

    /// How long ranks are waited for that may not have noticed yet.
    fn patience(&self) -> Duration {
        2 * self.base.timing.silence
    }

    fn lead(&self, suspects: &[u32], ring: SocketAddr) -> Result<Gathered, Error> {
        let own = self.home.rank;
        let refused = |why: String| Error::Bootstrap { rank: own, why };
        let acceptor = self.home.acceptor();
        let mut acceptor = acceptor.map_err(|error| refused(error.to_string()))?;
        let until = Instant::now() + self.patience();
        let mut come: Vec<(Come, Connection)> = Vec::new();
        let missing = |come: &[(Come, Connection)]| -> Vec<u32> {
            let here = |rank: &u32| *rank == own || come.iter().any(|(it, _)| it.rank == *rank);
            let all = self.members.iter().copied();
            all.filter(|rank| !here(rank)).collect()
        };
        // Whoever is suspected may be left all the same, and gets a moment.
        let moment = Instant::now() + MOMENT;
        let mut gone: Vec<u32> = Vec::new();
        let mut look = Instant::now();
        while Instant::now() < until {
            if Instant::now() >= look {
                gone.extend(self.gone(&missing(&come)));
                look = Instant::now() + GONE_LOOK;
            }
            let early = Instant::now() < moment;
            let awaited = |it: &u32| !gone.contains(it) && (early || !suspects.contains(it));
            if !missing(&come).iter().any(awaited) {
                break;
            }
            acceptor.sleep(None, Some(look.min(until)));
            for (said, mut connection) in acceptor.accept().into_iter().filter_map(heard) {
                if said.rank == own || !self.members.contains(&said.rank) {
                    // It hears that they went on without it.
                    let _ = connection.send(&told(&self.present()));
                    continue;
                }
                come.retain(|(it, _)| it.rank != said.rank);
                come.push((said, connection));
            }
        }
        let missing = missing(&come);
        let (members, all) = (come.len() + 1, self.members.len());
        let gone = self.gone(&missing);
        let alive: Vec<u32> = missing
            .into_iter()
            .filter(|it| !gone.contains(it))
            .collect();
        if !alive.is_empty() && members * 2 <= all {
            return Err(refused(format!(
                "{members} of {all} ranks are left, and the others ({}) may be alive and only cut off; more than half must \
                 be left to go on",
                alive
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let theirs = come.iter().map(|(it, _)| it.generation);
        let mut gathered = Gathered {
            generation: theirs.fold(self.generation, u64::max).saturating_add(1),
            members: come.iter().map(|(it, _)| (it.rank, it.ring)).collect(),
        };
        gathered.members.push((own, ring));
        gathered.members.sort_unstable_by_key(|(rank, _)| *rank);
        let told = told(&gathered);
        for (_, connection) in &mut come {
            // One that is lost meanwhile makes the new ring fail, and is named then.
            let _ = connection.send(&told);
        }
        Ok(gathered)
    }

    /// The members as they are, for whoever is none of them.
    fn present(&self) -> Gathered {
        present(&self.home, &self.members, self.generation)
    }

    /// Those of some ranks whose processes are gone for certain: their hosts answer, and nobody listens.
    fn gone(&self, ranks: &[u32]) -> Vec<u32> {
        let refuses = |rank: &u32| {
            let address = self.home.infos[*rank as usize].address;
            let connected = TcpStream::connect_timeout(&address, REFUSAL_TIME);
            connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        let mut gone = Vec::new();
        for some in ranks.chunks(MOST_ASKED) {
            // One that does not answer keeps nobody waiting but those that are asked with it.
            let refused = std::thread::scope(|scope| {
                let asked = some.iter().map(|it| scope.spawn(move || refuses(it)));
                let asked: Vec<_> = asked.collect();
                let refused = asked.into_iter().map(|it| it.join().unwrap_or(false));
                refused.collect::<Vec<bool>>()
            });
            let both = some.iter().zip(refused);
            gone.extend(both.filter_map(|(rank, refused)| refused.then_some(*rank)));
        }
        gone
    }

    /// Goes to a leader; nothing if it is lost too.
    fn follow(&self, leader: u32, ring: SocketAddr) -> Option<Gathered> {
        let until = Instant::now() + self.patience() + PROOF_TIME;
        while Instant::now() < until {
            match self.ask(leader, ring, until) {
                Ok(gathered) => return Some(gathered),
                Err(Ending::Refused(_)) => return None,
                // The leader may not have noticed yet, so that what failed still listens there.
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
        None
    }

    fn ask(&self, leader: u32, ring: SocketAddr, until: Instant) -> Result<Gathered, Ending> {
        let address = self.home.infos[leader as usize].address;
        let key = self.home.gather_key();
        let left = || until.saturating_duration_since(Instant::now());
        let mut connection = Connection::open(address, &key, Kind::Regroup, left())?;
        let broken = |error: postcard::Error| Ending::Broken(error.to_string());
        let come = Come::new(self.home.rank, ring, self.generation);
        connection.send(&postcard::to_allocvec(&come).map_err(broken)?)?;
        let said = connection.receive(left())?;
        let gathered: Gathered = postcard::from_bytes(&said).map_err(broken)?;
        // Members are used as indices. A leader that names others is not followed.
        let ranks = self.home.infos.len();
        if !gathered.is_valid(ranks) {
            let why =
                format!("rank {leader} named members that are not ascending and below {ranks}");
            return Err(Ending::Refused(why));
        }
        Ok(gathered)
    }
}

/// What somebody says that an acceptor let in. Connections of a communicator know another key.
pub(crate) fn heard(arrived: Arrived) -> Option<(Come, Connection)> {
    let come = postcard::from_bytes(&arrived.frame).ok()?;
    Some((come, Connection::of(arrived, PROOF_TIME).ok()?))
}

/// The members of a communicator, for whoever is none of them.
pub(crate) fn present(home: &Home, members: &[u32], generation: u64) -> Gathered {
    let address = |rank: &u32| (*rank, home.infos[*rank as usize].address);
    Gathered {
        generation,
        members: members.iter().map(address).collect(),
    }
}

pub(crate) fn told(gathered: &Gathered) -> Vec<u8> {
    postcard::to_allocvec(gathered).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascending_ranks_that_met_are_members() {
        let valid = |ranks: &[u32]| {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            let members = ranks.iter().map(|rank| (*rank, address)).collect();
            let gathered = Gathered {
                generation: 1,
                members,
            };
            gathered.is_valid(4)
        };
        assert!(valid(&[0, 1, 2, 3]) && valid(&[2]));
        for ranks in [&[][..], &[0, 4], &[u32::MAX], &[1, 1], &[2, 1]] {
            assert!(!valid(ranks), "{ranks:?}");
        }
    }
}
