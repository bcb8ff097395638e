//! A rank among others, over sockets: it meets them, exchanges, offers and asks. Ranks of one
//! process share its thread and its connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::drive::{Drive, StateMachine};
use super::listen;
use super::thread::{Command, Shared, State};
use crate::failure::Failure;
use crate::id::Key;
use crate::info::{Infos, PeerInfo};
use crate::machine::Timing;
use crate::member::{Meeting, Member, Place};
use crate::root::Root;

/// Interval of checks for ranks that left during an exchange.
const LOOK: Duration = Duration::from_millis(200);

/// How long parts of a rank that has left may be in transit.
const WORDS_TIME: Duration = Duration::from_secs(5);

/// What a rank needs to meet the others.
#[derive(Debug)]
pub struct Config {
    /// The key of the job.
    pub key: Key,
    /// Number of processes; each has as many ranks.
    pub processes: u32,
    /// How it finds the next process of the ring.
    pub meeting: Meeting,
    /// Roots in this process: their indices and listeners.
    pub roots: Vec<(u32, TcpListener)>,
    /// The listener of this process.
    pub listener: Arc<TcpListener>,
    /// What each rank of this process tells about itself, in their order; the address is replaced
    /// by the listener's.
    pub infos: Vec<PeerInfo>,
    /// Timeouts.
    pub timing: Timing,
}

/// Why a rank cannot meet the others, or gets no answer.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The job failed.
    #[error("{0}")]
    Failed(Failure),
    /// An offer was not made in time.
    #[error("rank {from} did not offer `{name}` within {} s", longest.as_secs_f32())]
    NoOffer {
        /// The rank that should have made it.
        from: u32,
        /// Its name.
        name: String,
        /// The time that this rank waited.
        longest: Duration,
    },
    /// The system has no socket or thread left.
    #[error("{0}")]
    System(Arc<io::Error>),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::System(Arc::new(error))
    }
}

/// A rank among others, over sockets.
pub struct Service {
    shared: Arc<Shared>,
    rank: u32,
    /// The last rank of a process that is dropped ends its thread.
    _process: Arc<Process>,
}

/// The thread of a process.
struct Process {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    linger: Duration,
}

impl Service {
    /// Meets the others. Returns the ranks of this process in their order.
    ///
    /// # Errors
    /// They do not come in time, or do not agree. The error contains the rank at fault.
    pub fn join(config: Config) -> Result<Vec<Self>, Error> {
        let Config {
            key,
            processes,
            meeting,
            roots,
            listener,
            mut infos,
            timing,
        } = config;
        let address = listener.local_addr()?;
        for info in &mut infos {
            info.address = address;
        }
        let Some(first) = infos.first() else {
            return Ok(Vec::new());
        };
        let (rank, width) = (first.rank, infos.len() as u32);
        let count = match &meeting {
            Meeting::Roots(roots) => roots.len() as u32,
            Meeting::Known(_) => 0,
        };
        let place = Place {
            rank: rank / width,
            ranks: processes,
            width,
            meeting,
            listens: address,
            version: first.version.clone(),
            name: first.place(),
        };
        let infos = Infos::of_process(infos, processes);
        let own = infos.own_block();
        let member = Member::new(place, timing, infos, own);
        let machine = StateMachine::Member(Box::new(member));
        let mut drives = vec![Drive::new(machine, key.clone(), listener)?];
        for (index, listener) in roots {
            let root = Root::new(processes, count, index, timing).of_processes(width);
            let root = StateMachine::Root(Box::new(root));
            drives.push(Drive::new(root, key.clone(), listener)?);
        }
        let (shared, thread) = Shared::start(rank, width, drives)?;
        let process = Arc::new(Process {
            shared: Arc::clone(&shared),
            thread: Some(thread),
            linger: timing.linger,
        });
        let of_rank = |rank| Self {
            shared: Arc::clone(&shared),
            rank,
            _process: Arc::clone(&process),
        };
        let services: Vec<Self> = (rank..rank + width).map(of_rank).collect();
        let waiting = |state: &mut State| state.failure.is_none() && !state.ready;
        let state = shared.changed.wait_while(shared.lock(), waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        match state.failure.clone() {
            Some(failure) => Err(Error::Failed(failure)),
            None => {
                drop(state);
                Ok(services)
            }
        }
    }

    /// This rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// The information of all ranks, in rank order.
    pub fn infos(&self) -> Arc<[PeerInfo]> {
        Arc::clone(&self.shared.lock().infos)
    }

    /// Connections of strangers that were turned away so far.
    pub fn strangers(&self) -> u32 {
        self.shared.lock().strangers
    }

    /// Offers a value under a name.
    pub fn publish(&self, name: &str, value: Vec<u8>) {
        self.alarm().publish(name, value);
    }

    /// Asks a rank for an offer. [`Alarm::answer`] returns it once the rank has made it.
    pub fn ask(&self, from: u32, name: &str) -> u32 {
        self.alarm().ask(from, name)
    }

    /// Waits for a rank's offer.
    ///
    /// # Errors
    /// The rank does not make it in time, left, or failed.
    pub fn fetch(&self, from: u32, name: &str, longest: Duration) -> Result<Vec<u8>, Error> {
        self.answer(self.ask(from, name), from, name, longest)
    }

    /// Waits for the answer to a question ([`Self::ask`]) for a rank's offer.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub fn answer(
        &self,
        ticket: u32,
        from: u32,
        name: &str,
        longest: Duration,
    ) -> Result<Vec<u8>, Error> {
        wait(&self.shared, Some(from), longest, |state| {
            state.answer(ticket)
        })?
        .ok_or_else(|| Error::NoOffer {
            from,
            name: name.to_owned(),
            longest,
        })
    }

    /// Sends a part to all others and returns all parts in rank order. All ranks exchange in the
    /// same order.
    ///
    /// # Errors
    /// The job failed, or not all parts arrived in time.
    pub fn exchange(&self, own: Vec<u8>, longest: Duration) -> Result<Arc<[Vec<u8>]>, Error> {
        let place = self.rank - self.shared.first;
        let (number, all) = (self.shared.lock().exchange).add(self.shared.width, place, own);
        self.await_exchange(number, all, longest)
    }

    /// As [`Self::exchange`], in the name of all ranks of this process, which send the same part.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub fn exchange_alike(&self, own: Vec<u8>, longest: Duration) -> Result<Arc<[Vec<u8>]>, Error> {
        let width = self.shared.width;
        let mut state = self.shared.lock();
        let parts = (0..width).map(|place| state.exchange.add(width, place, own.clone()));
        let (number, all) = parts.last().unwrap_or_default();
        drop(state);
        self.await_exchange(number, all, longest)
    }

    /// Waits for all parts of an exchange. `all` is what this process sends, if no earlier part of
    /// it was missing.
    fn await_exchange(
        &self,
        number: u32,
        all: Option<Vec<u8>>,
        longest: Duration,
    ) -> Result<Arc<[Vec<u8>]>, Error> {
        if let Some(all) = all {
            self.shared.command(Command::Exchange(all));
        }
        let until = Instant::now() + longest;
        let mut gone: Option<(u32, Instant)> = None;
        let failure = loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(all) = wait(&self.shared, None, left.min(LOOK), |state| {
                state.exchange.parts(number)
            })? {
                return Ok(all);
            }
            // A rank that left had sent its part, or never will.
            let first = self.shared.lock().left.first().copied();
            gone = gone.or(first.map(|rank| (rank, Instant::now())));
            match gone {
                Some((rank, since)) if since.elapsed() >= WORDS_TIME => {
                    break Failure::new(rank, "it ended while others still exchanged with it");
                }
                _ if left.is_zero() => {
                    let what = format!(
                        "it did not hear what all others said within {} s",
                        longest.as_secs_f32()
                    );
                    break Failure::new(self.rank, what);
                }
                _ => {}
            }
        };
        self.fail(failure.clone());
        Err(Error::Failed(failure))
    }

    /// Announces that this rank is about to leave: it closes connections before the others hear
    /// that it left, so its process, when all its ranks
    /// announced it, no longer answers probes.
    pub fn finish(&self) {
        let mut state = self.shared.lock();
        state.finishing += 1;
        let all = state.finishing == self.shared.width;
        drop(state);
        if all {
            self.shared.command(Command::Finish);
        }
    }

    /// Makes the job fail, and tells everyone.
    pub fn fail(&self, failure: Failure) {
        self.shared.command(Command::Fail(failure));
    }

    /// A handle for other threads.
    pub fn alarm(&self) -> Alarm {
        Alarm(Arc::clone(&self.shared), self.rank)
    }

    /// The failure of the job, if it failed. If a rank is waited for, its leaving counts as one.
    pub fn failure(&self, waiting_for: Option<u32>) -> Option<Failure> {
        self.shared.lock().failure(waiting_for)
    }
}

/// Waits until `take` returns a value. Returns `None` if the time is over.
fn wait<T>(
    shared: &Shared,
    from: Option<u32>,
    longest: Duration,
    mut take: impl FnMut(&mut State) -> Option<T>,
) -> Result<Option<T>, Error> {
    let until = Instant::now() + longest;
    let mut state = shared.lock();
    loop {
        if let Some(found) = take(&mut state) {
            return Ok(Some(found));
        }
        if let Some(failure) = state.failure(from) {
            return Err(Error::Failed(failure));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let waited = shared.changed.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The name of a rank's offer among those of its process.
fn offer_name(rank: u32, name: &str) -> String {
    format!("{rank} {name}")
}

/// A handle for other threads of a rank: they can make the job fail, offer and ask.
#[derive(Clone)]
pub struct Alarm(Arc<Shared>, u32);

impl Alarm {
    /// Makes the job fail, and tells everyone.
    pub fn fail(&self, failure: Failure) {
        self.0.command(Command::Fail(failure));
    }

    /// As [`Service::publish`].
    pub fn publish(&self, name: &str, value: Vec<u8>) {
        let name = offer_name(self.1, name);
        self.0.command(Command::Publish(name, value));
    }

    /// As [`Service::ask`].
    pub fn ask(&self, from: u32, name: &str) -> u32 {
        let ticket = self.0.ticket();
        let name = offer_name(from, name);
        self.0.command(Command::Ask(ticket, from, name));
        ticket
    }

    /// Asks whether a rank lives. If it does, there is an answer; if it failed, the job fails with
    /// its report; if it is gone, there is no answer.
    pub fn probe(&self, rank: u32) -> u32 {
        let ticket = self.0.ticket();
        self.0.command(Command::Probe(ticket, rank));
        ticket
    }

    /// Takes the answer to a question ([`Service::ask`]), if it has arrived.
    pub fn answer(&self, ticket: u32) -> Option<Vec<u8>> {
        self.0.lock().answer(ticket)
    }

    /// This rank's suspension, if the others abandoned it because of that.
    pub fn own_stop(&self) -> Option<Failure> {
        self.0.lock().own_stop.clone()
    }

    /// Whether a rank is done or the job failed, so that lost connections are no news.
    pub fn is_expected(&self, rank: u32) -> bool {
        let state = self.0.lock();
        state.left.contains(&rank) || state.failure.is_some() || state.ended
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail(Failure::new(self.rank, "its thread panicked"));
        }
        self.shared.command(Command::Leave(self.rank));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The others leave soon too, unless one of them still works.
        let gone = |state: &mut State| (state.everyone_left || state.ended).then_some(());
        let _ = wait(&self.shared, None, self.linger, gone);
        self.shared.command(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener on the loopback interface, for tests and measurements.
///
/// # Errors
/// There is no socket left.
pub fn loopback_listener() -> io::Result<TcpListener> {
    listen(SocketAddr::from(([127, 0, 0, 1], 0)))
}
