//! Survivors of a failure gather at the lowest of them (the leader) and form a new communicator.
//!
//! Every rank listens for its whole life at the address where it met the others (`Home`). The
//! leader is the lowest rank that is not known to be lost. It waits until all other survivors have
//! connected or timed out, then tells those that connected who they are. A suspected rank may be
//! alive, for another one that was lost may have closed its connections: so it leads if it answers
//! within a moment.
//!
//! A process is gone if its port refuses connections and its machine is within reach: this one, or
//! one of a survivor. From other machines a firewall may refuse them. If missing ranks may be
//! alive, the others continue only with a quorum, more than half, or half with the lowest rank:
//! otherwise two groups could continue. Late ranks are told who survived (`late_joins`).

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::Kind;
use bootstrap::machine::Ending;
use bootstrap::member::Meeting;
use bootstrap::message::read_whole;
use bootstrap::socket::blocking::Connection;
use bootstrap::socket::service::Alarm;
use executor::{Error, Failure};

use crate::accept_thread::AcceptThread;
use crate::errors::{of_job, of_system};
use crate::home::{Candidate, Home, NewMembers, PROOF_TIME, candidate};
use crate::hosts::{Base, Hosts, Ring};
use crate::late_joins;

/// How long a host may take to refuse a connection to a process that is gone.
const REFUSAL_TIME: Duration = Duration::from_millis(500);

/// Most ranks that are checked at a time.
const MOST_ASKED: usize = 32;

/// How long the leader waits for ranks that may be lost, and others for a leader that may be.
const MOMENT: Duration = Duration::from_secs(10);

/// Between two checks whether missing ranks are gone.
const GONE_LOOK: Duration = Duration::from_secs(1);

/// A rank that can continue after others failed.
pub struct Survivor {
    home: Arc<Home>,
    /// By present rank: the first rank. First ranks are those when all met.
    members: Vec<u32>,
    generation: u64,
    base: Arc<Base>,
    alarm: Alarm,
    late_joins: Option<AcceptThread>,
}

/// Why a rank that met nobody cannot continue.
const ALONE: &str = "no rank is left";

/// Pause before a leader that turned this rank away is asked again.
const AGAIN: Duration = Duration::from_millis(50);

impl Hosts {
    /// A handle with which other threads can make the communicator fail.
    ///
    /// # Errors
    /// The communicator has ended.
    pub fn alarm(&self) -> Result<Alarm, Error> {
        Ok(self.service()?.alarm())
    }

    /// The data with which this rank continues if others fail. To be taken before the communicator
    /// is made, and kept while it works.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn survivor(&self) -> Result<Survivor, Error> {
        let (home, members) = (Arc::clone(&self.home), self.members.clone());
        // Nobody is late before ranks were lost.
        let late_joins = if self.generation == 0 {
            None
        } else {
            let kept = late_joins::listen(Arc::clone(&home), members.clone(), self.generation);
            Some(kept.map_err(|error| of_system(self.rank, &error))?)
        };
        Ok(Survivor {
            home,
            members,
            generation: self.generation,
            base: Arc::clone(&self.base),
            alarm: self.service()?.alarm(),
            late_joins,
        })
    }
}

impl Survivor {
    /// The failure of this rank, if it was suspended for so long that the others must have excluded
    /// it. It must not continue then.
    pub fn own_stop(&self) -> Option<Failure> {
        self.alarm.own_stop().map(of_job)
    }

    /// Gathers with the other survivors and joins them; gathers again if another rank is lost
    /// meanwhile. `lost` is the rank that failed. Returns the new bootstrap, and by its ranks the
    /// first ranks.
    ///
    /// # Errors
    /// There is no quorum, survivors do not find each other, or they continued without this rank.
    pub fn regroup(mut self, lost: u32) -> Result<(Hosts, Vec<u32>), Error> {
        self.late_joins = None;
        let rank = self.home.rank;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let mut suspect = self.members.get(lost as usize).copied();
        let mut failed = None;
        for _ in 0..self.members.len() {
            let listener = self
                .base
                .listen()
                .map_err(|error| of_system(rank, &error))?;
            let ring = listener.local_addr();
            let ring = ring.map_err(|error| of_system(rank, &error))?;
            let NewMembers {
                generation,
                members,
            } = self.gather(suspect, ring)?;
            let place = members.iter().position(|(it, _)| *it == rank);
            let place = place.ok_or_else(|| {
                refused(
                    "the other ranks continued without this one, because it came too late"
                        .to_owned(),
                )
            })?;
            let (_, next) = members[(place + 1) % members.len()];
            self.generation = generation;
            self.members = members.iter().map(|(rank, _)| *rank).collect();
            let ring = Ring {
                rank: place as u32,
                ranks: members.len() as u32,
                width: 1,
                key: self.home.key.child("regroup", generation),
                meeting: Meeting::Known(next),
                roots: Vec::new(),
                listener,
                planned: self.home.planned.of(self.members.iter().copied()),
                home: Some((Arc::clone(&self.home), self.members.clone(), generation)),
            };
            let met = Hosts::meet(&self.base, ring);
            match met.and_then(|it| {
                it.into_iter()
                    .next()
                    .ok_or_else(|| refused(ALONE.to_owned()))
            }) {
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
        Err(failed.unwrap_or_else(|| refused(ALONE.to_owned())))
    }

    /// Finds the leader, or leads.
    fn gather(&self, suspect: Option<u32>, ring: SocketAddr) -> Result<NewMembers, Error> {
        let rank = self.home.rank;
        // This rank may itself be suspected by others.
        let suspect = suspect.filter(|it| *it != rank);
        for leader in self.members.iter().copied() {
            if leader == rank {
                return self.lead(suspect, ring);
            }
            if let Some(said) = self.follow(leader, suspect == Some(leader), ring) {
                return Ok(said);
            }
        }
        let why = "no other rank is left to lead".to_owned();
        Err(Error::Bootstrap { rank, why })
    }

    /// How long the leader waits for ranks that may not have noticed the failure yet.
    fn patience(&self) -> Duration {
        2 * self.base.timing().silence
    }

    /// All ranks below this one are lost, or gather without it.
    fn lead(&self, suspect: Option<u32>, ring: SocketAddr) -> Result<NewMembers, Error> {
        let own = self.home.rank;
        let refused = |why: String| Error::Bootstrap { rank: own, why };
        let acceptor = self.home.acceptor();
        let mut acceptor = acceptor.map_err(|error| of_system(own, &error))?;
        let until = Instant::now() + self.patience();
        let mut arrived: Vec<(Candidate, Connection)> = Vec::new();
        let missing = |arrived: &[(Candidate, Connection)]| -> Vec<u32> {
            let here = |rank: &u32| *rank == own || arrived.iter().any(|(it, _)| it.rank == *rank);
            let all = self.members.iter().copied();
            all.filter(|rank| !here(rank)).collect()
        };
        let moment = Instant::now() + MOMENT;
        let mut refusing: Vec<u32> = Vec::new();
        let mut look = Instant::now();
        while Instant::now() < until {
            if Instant::now() >= look {
                refusing.extend(self.refusing(&missing(&arrived)));
                look = Instant::now() + GONE_LOOK;
            }
            let early = Instant::now() < moment;
            let suspected = |it: &u32| suspect == Some(*it) && !early;
            let awaited = |it: &u32| *it > own && !refusing.contains(it) && !suspected(it);
            if !missing(&arrived).iter().any(awaited) {
                break;
            }
            acceptor.sleep(None, Some(look.min(until)));
            for (said, mut connection) in acceptor.accept().into_iter().filter_map(candidate) {
                if said.rank == own || !self.members.contains(&said.rank) {
                    // It is told that the others continued without it.
                    let present = self.home.present(&self.members, self.generation);
                    let _ = connection.send(&present.encode());
                    continue;
                }
                arrived.retain(|(it, _)| it.rank != said.rank);
                arrived.push((said, connection));
            }
        }
        let missing = missing(&arrived);
        let here: Vec<u32> = arrived.iter().map(|(it, _)| it.rank).chain([own]).collect();
        let machines: Vec<u64> = here.iter().map(|rank| self.machine(*rank)).collect();
        let refusing = self.refusing(&missing);
        let gone = |rank: &u32| refusing.contains(rank) && machines.contains(&self.machine(*rank));
        let alive: Vec<u32> = missing.into_iter().filter(|it| !gone(it)).collect();
        let (members, all) = (here.len(), self.members.len());
        if !alive.is_empty() && !is_quorum(&here, &self.members) {
            return Err(refused(format!(
                "{members} of {all} ranks are left, and the others ({}) may be alive and only cut off; more than half must \
                 be left to continue, or half with the lowest rank",
                alive
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let theirs = arrived.iter().map(|(it, _)| it.generation);
        let mut gathered = NewMembers {
            generation: theirs.fold(self.generation, u64::max).saturating_add(1),
            members: arrived.iter().map(|(it, _)| (it.rank, it.ring)).collect(),
        };
        gathered.members.push((own, ring));
        gathered.members.sort_unstable_by_key(|(rank, _)| *rank);
        let told = gathered.encode();
        for (_, connection) in &mut arrived {
            // If one is lost meanwhile, the new ring fails and reports it.
            let _ = connection.send(&told);
        }
        Ok(gathered)
    }

    /// The machine of a rank.
    fn machine(&self, rank: u32) -> u64 {
        self.home.infos[rank as usize].machine
    }

    /// The ranks whose ports refuse connections.
    fn refusing(&self, ranks: &[u32]) -> Vec<u32> {
        let refuses = |rank: &u32| {
            let address = self.home.infos[*rank as usize].address;
            let connected = TcpStream::connect_timeout(&address, REFUSAL_TIME);
            connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        let mut all = Vec::new();
        for some in ranks.chunks(MOST_ASKED) {
            // A rank that does not answer delays only those that are checked with it.
            let refused = std::thread::scope(|scope| {
                let asked = some.iter().map(|it| scope.spawn(move || refuses(it)));
                let asked: Vec<_> = asked.collect();
                let refused = asked.into_iter().map(|it| it.join().unwrap_or(false));
                refused.collect::<Vec<bool>>()
            });
            let both = some.iter().zip(refused);
            all.extend(both.filter_map(|(rank, refused)| refused.then_some(*rank)));
        }
        all
    }

    /// Joins a leader; `None` if it is lost too.
    fn follow(&self, leader: u32, suspected: bool, ring: SocketAddr) -> Option<NewMembers> {
        let now = Instant::now();
        let until = now + self.patience() + PROOF_TIME;
        let answer = if suspected { now + MOMENT } else { until };
        while Instant::now() < answer {
            match self.ask(leader, ring, answer, until) {
                Ok(gathered) => return Some(gathered),
                Err(Ending::Refused(_)) => return None,
                // The leader may not have noticed the failure yet, and still have its old
                // communicator.
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
        None
    }

    /// Asks a leader that answers until `answer` who has gathered `until` then.
    fn ask(
        &self,
        leader: u32,
        ring: SocketAddr,
        answer: Instant,
        until: Instant,
    ) -> Result<NewMembers, Ending> {
        let address = self.home.infos[leader as usize].address;
        let key = self.home.gather_key();
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let mut connection = Connection::open(address, &key, Kind::Regroup, left(answer))?;
        let broken = |error: postcard::Error| Ending::Broken(error.to_string());
        let own = Candidate {
            rank: self.home.rank,
            ring,
            generation: self.generation,
        };
        connection.send(&postcard::to_allocvec(&own).map_err(broken)?)?;
        let said = connection.receive(left(until))?;
        let gathered: NewMembers = read_whole(&said).map_err(broken)?;
        // Members are used as indices, so they are checked.
        let ranks = self.home.infos.len();
        if !gathered.is_valid(ranks) {
            let why =
                format!("rank {leader} named members that are not ascending and below {ranks}");
            return Err(Ending::Refused(why));
        }
        Ok(gathered)
    }
}

/// Whether ranks may continue although other members may be alive. Two groups that share no rank
/// never both may.
fn is_quorum(here: &[u32], members: &[u32]) -> bool {
    let lowest = members.iter().min();
    match (2 * here.len()).cmp(&members.len()) {
        Ordering::Less => false,
        Ordering::Equal => lowest.is_some_and(|it| here.contains(it)),
        Ordering::Greater => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_groups_at_most_one_is_a_quorum() {
        let members = [1, 2, 4, 5, 7];
        for count in 1..=members.len() {
            let members = &members[..count];
            for chosen in 0..1_u32 << count {
                let of = |side: u32| -> Vec<u32> {
                    let places = (0..count).filter(|at| chosen >> at & 1 == side);
                    places.map(|at| members[at]).collect()
                };
                let (one, other) = (is_quorum(&of(1), members), is_quorum(&of(0), members));
                assert!(one != other, "{:?} of {members:?}", of(1));
            }
        }
    }
}
