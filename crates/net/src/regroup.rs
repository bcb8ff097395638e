//! Going on after a failure: the ranks that are left gather at the lowest of them, and become a communicator of their own.
//!
//! Every rank still listens where it did when all met. The lowest rank that is not known to be lost waits until all
//! others that are not have come, or have had their time; then it tells those that came who they are. A rank whose
//! process is gone refuses connections, which proves that it is lost. If others are missing that may be alive, those that
//! gathered go on only if they are more than half: otherwise two groups could both go on.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::machine::Ending;
use bootstrap::member::Meeting;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Key, Kind, PeerInfo};
use executor::Error;
use serde::{Deserialize, Serialize};

use crate::hosts::{Base, Hosts, Ring};

/// How long somebody who connects may take to prove that it belongs to the job.
const PROOF_TIME: Duration = Duration::from_secs(2);

/// How long ranks are waited for that are suspected to be lost and may not be.
const MOMENT: Duration = Duration::from_secs(4);

/// Between two looks whether somebody has come.
const LOOK: Duration = Duration::from_millis(2);

/// A rank that can go on.
#[derive(Debug)]
pub struct Survivor {
    pub(crate) rank: u32,
    pub(crate) infos: Vec<PeerInfo>,
    pub(crate) key: Key,
    pub(crate) generation: u64,
    pub(crate) base: Arc<Base>,
    pub(crate) listener: TcpListener,
}

/// Before a leader is asked again that turned this rank away.
const AGAIN: Duration = Duration::from_millis(50);

/// What a rank says when it comes.
#[derive(Debug, Serialize, Deserialize)]
struct Come {
    rank: u32,
    /// Where the one before it in the new ring connects to.
    ring: SocketAddr,
}

/// Who goes on, by their ranks before, with where they listen now.
type Gathered = Vec<(u32, SocketAddr)>;

impl Survivor {
    /// Gathers with the others that are left, and joins them. `lost` is the rank that is known to have failed. Gives the
    /// new bootstrap, and the former ranks of its members in their new order.
    ///
    /// # Errors
    /// Too few are left, or they do not find each other.
    pub fn regroup(self, lost: u32) -> Result<(Hosts, Vec<u32>), Error> {
        let rank = self.rank;
        let refused = |why: String| Error::Bootstrap { rank, why };
        let listener = self
            .base
            .listen()
            .map_err(|error| refused(error.to_string()))?;
        let ring = listener
            .local_addr()
            .map_err(|error| refused(error.to_string()))?;
        let generation = self.generation + 1;
        let key = self.key.child("regroup", generation);
        let mut suspects = vec![lost];
        // A rank that others take for lost may itself be left.
        suspects.retain(|it| *it != rank);
        let mut gathered = None;
        for leader in 0..self.infos.len() as u32 {
            if suspects.contains(&leader) {
                continue;
            }
            if leader == rank {
                gathered = Some(self.lead(&key, &suspects, ring)?);
                break;
            }
            match self.follow(&key, leader, ring) {
                Some(said) => {
                    gathered = Some(said);
                    break;
                }
                None => suspects.push(leader),
            }
        }
        let gathered =
            gathered.ok_or_else(|| refused("no other rank is left that leads".to_owned()))?;
        let place = gathered.iter().position(|(it, _)| *it == rank);
        let place = place.ok_or_else(|| {
            refused("the other ranks went on without this one, for it came too late".to_owned())
        })?;
        let (_, next) = gathered[(place + 1) % gathered.len()];
        let members: Vec<u32> = gathered.iter().map(|(rank, _)| *rank).collect();
        let hosts = Hosts::meet(
            Arc::clone(&self.base),
            Ring {
                rank: place as u32,
                ranks: gathered.len() as u32,
                key,
                meeting: Meeting::Known(next),
                roots: Vec::new(),
                listener,
                generation,
            },
        )?;
        Ok((hosts, members))
    }

    /// How long ranks are waited for that may not have noticed yet.
    fn patience(&self) -> Duration {
        2 * self.base.timing.silence
    }

    fn lead(&self, key: &Key, suspects: &[u32], ring: SocketAddr) -> Result<Gathered, Error> {
        let refused = |why: String| Error::Bootstrap {
            rank: self.rank,
            why,
        };
        let nonblocking = self.listener.set_nonblocking(true);
        nonblocking.map_err(|error| refused(error.to_string()))?;
        let until = Instant::now() + self.patience();
        let mut come: Vec<(Come, Connection)> = Vec::new();
        let own = self.rank;
        let all = 0..self.infos.len() as u32;
        let missing = |come: &[(Come, Connection)]| -> Vec<u32> {
            let here = |rank: &u32| *rank == own || come.iter().any(|(it, _)| it.rank == *rank);
            all.clone().filter(|rank| !here(rank)).collect()
        };
        // Whoever is suspected may be left all the same, and gets a moment.
        let moment = Instant::now() + MOMENT;
        let mut gone: Vec<u32> = Vec::new();
        let mut look = Instant::now();
        while Instant::now() < until {
            if Instant::now() >= look {
                let absent = missing(&come).into_iter();
                gone.extend(absent.filter(|it| self.is_gone(*it)));
                look = Instant::now() + MOMENT / 4;
            }
            let early = Instant::now() < moment;
            let awaited = |it: &u32| !gone.contains(it) && (early || !suspects.contains(it));
            if !missing(&come).iter().any(awaited) {
                break;
            }
            let Ok((stream, _)) = self.listener.accept() else {
                std::thread::sleep(LOOK);
                continue;
            };
            // Connections of the communicator that failed know another key.
            let Ok(mut connection) = Connection::accept(stream, key, PROOF_TIME) else {
                continue;
            };
            let said = connection.receive(PROOF_TIME).ok();
            let said = said.and_then(|it| postcard::from_bytes::<Come>(&it).ok());
            let Some(said) = said.filter(|it| connection.kind() == Kind::Regroup && it.rank != own)
            else {
                continue;
            };
            come.retain(|(it, _)| it.rank != said.rank);
            come.push((said, connection));
        }
        let missing = missing(&come);
        let members = come.len() + 1;
        let alive: Vec<u32> = missing
            .into_iter()
            .filter(|it| !self.is_gone(*it))
            .collect();
        if !alive.is_empty() && members * 2 <= self.infos.len() {
            return Err(refused(format!(
                "{members} of {} ranks are left, and the others ({}) may be alive and only cut off; more than half must be \
                 left to go on",
                self.infos.len(),
                alive
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let mut gathered: Gathered = come.iter().map(|(it, _)| (it.rank, it.ring)).collect();
        gathered.push((own, ring));
        gathered.sort_unstable_by_key(|(rank, _)| *rank);
        let told = postcard::to_allocvec(&gathered).unwrap_or_default();
        for (_, connection) in &mut come {
            // One that is lost meanwhile makes the new ring fail, and is named then.
            let _ = connection.send(&told);
        }
        Ok(gathered)
    }

    /// Whether a rank's process is gone for certain: its host answers, and nobody listens.
    fn is_gone(&self, rank: u32) -> bool {
        let address = self.infos[rank as usize].address;
        let connected = TcpStream::connect_timeout(&address, PROOF_TIME);
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    /// Goes to a leader; nothing if it is lost too.
    fn follow(&self, key: &Key, leader: u32, ring: SocketAddr) -> Option<Gathered> {
        let until = Instant::now() + self.patience() + PROOF_TIME;
        while Instant::now() < until {
            match self.ask(key, leader, ring, until) {
                Ok(gathered) => return Some(gathered),
                Err(Ending::Refused(_)) => return None,
                // The leader may not have noticed yet, so that what failed still listens there.
                Err(_) => std::thread::sleep(AGAIN),
            }
        }
        None
    }

    fn ask(
        &self,
        key: &Key,
        leader: u32,
        ring: SocketAddr,
        until: Instant,
    ) -> Result<Gathered, Ending> {
        let address = self.infos[leader as usize].address;
        let left = || until.saturating_duration_since(Instant::now());
        let mut connection = Connection::open(address, key, Kind::Regroup, left())?;
        let broken = |error: postcard::Error| Ending::Broken(error.to_string());
        let come = Come {
            rank: self.rank,
            ring,
        };
        connection.send(&postcard::to_allocvec(&come).map_err(broken)?)?;
        let said = connection.receive(left())?;
        postcard::from_bytes(&said).map_err(broken)
    }
}
