//! A thread that drives a rank's state machine, and what the rank's other threads say to it.

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

/// Between two looks whether somebody left while all exchange something.
const LOOK: Duration = Duration::from_millis(200);

/// How long words of a rank may be under way that has left.
const WORDS_TIME: Duration = Duration::from_secs(5);

/// What a rank needs to meet the others.
#[derive(Debug)]
pub struct Config {
    /// What the ranks know.
    pub key: Key,
    /// Ranks.
    pub ranks: u32,
    /// How the ring is found.
    pub meeting: Meeting,
    /// Roots that are in this process: their places in the list, and where they listen.
    pub roots: Vec<(u32, TcpListener)>,
    /// Where this rank listens.
    pub listener: TcpListener,
    /// What it says of itself; its address is the listener's.
    pub info: PeerInfo,
    /// How long things may take.
    pub timing: Timing,
}

/// Why a rank cannot meet the others, or does not hear of something.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The job failed.
    #[error("{0}")]
    Failed(Failure),
    /// An offer did not come.
    #[error("rank {from} did not offer `{name}` within {} s", longest.as_secs_f32())]
    NoOffer {
        /// Who should have offered it.
        from: u32,
        /// Its name.
        name: String,
        /// How long it was waited for.
        longest: Duration,
    },
    /// The system gave no socket or thread.
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
    thread: Option<JoinHandle<()>>,
    rank: u32,
    linger: Duration,
}

impl Service {
    /// Meets the others.
    ///
    /// # Errors
    /// They do not come in time, or do not agree; the error names the culprit.
    pub fn join(config: Config) -> Result<Self, Error> {
        let Config {
            key,
            ranks,
            meeting,
            roots,
            listener,
            mut info,
            timing,
        } = config;
        info.address = listener.local_addr()?;
        let rank = info.rank;
        let count = match &meeting {
            Meeting::Roots(roots) => roots.len() as u32,
            Meeting::Known(_) => 0,
        };
        let place = Place {
            rank,
            ranks,
            meeting,
            listens: info.address,
            version: info.version.clone(),
            name: info.place(),
        };
        let infos = Infos::new(info, ranks);
        let own = infos.own_block();
        let member = Member::new(place, timing, infos, own);
        let machine = StateMachine::Member(Box::new(member));
        let mut drives = vec![Drive::new(machine, key.clone(), listener)?];
        for (index, listener) in roots {
            let root = StateMachine::Root(Box::new(Root::new(ranks, count, index, timing)));
            drives.push(Drive::new(root, key.clone(), listener)?);
        }
        let (shared, thread) = Shared::start(rank, drives)?;
        let service = Self {
            shared,
            thread: Some(thread),
            rank,
            linger: timing.linger,
        };
        let waiting = |state: &mut State| state.failure.is_none() && !state.ready;
        let changed = &service.shared.changed;
        let state = changed.wait_while(service.shared.lock(), waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        match state.failure.clone() {
            Some(failure) => Err(Error::Failed(failure)),
            None => {
                drop(state);
                Ok(service)
            }
        }
    }

    /// The own rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// What all ranks say of themselves, in rank order.
    pub fn infos(&self) -> Vec<PeerInfo> {
        self.shared.lock().infos.clone()
    }

    /// Strangers that were turned away so far.
    pub fn strangers(&self) -> u32 {
        self.shared.lock().strangers
    }

    /// Offers something under a name.
    pub fn publish(&self, name: &str, value: Vec<u8>) {
        self.shared
            .command(Command::Publish(name.to_owned(), value));
    }

    /// Asks what a rank offers under a name. The answer comes to [`Alarm::answer`] once the rank offers it.
    pub fn ask(&self, from: u32, name: &str) -> u32 {
        self.alarm().ask(from, name)
    }

    /// What a rank offers under a name, waiting until it does.
    ///
    /// # Errors
    /// It does not in time, left, or failed.
    pub fn fetch(&self, from: u32, name: &str, longest: Duration) -> Result<Vec<u8>, Error> {
        let ticket = self.ask(from, name);
        self.wait(Some(from), longest, |state| state.answer(ticket))?
            .ok_or_else(|| Error::NoOffer {
                from,
                name: name.to_owned(),
                longest,
            })
    }

    /// Tells all others something and hears what they tell, in rank order. All ranks do so in the same order.
    ///
    /// # Errors
    /// The job failed, or not all told in time.
    pub fn exchange(&self, own: Vec<u8>, longest: Duration) -> Result<Vec<Vec<u8>>, Error> {
        self.shared.command(Command::Exchange(own));
        let until = Instant::now() + longest;
        let mut gone: Option<(u32, Instant)> = None;
        let failure = loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(all) = self.wait(None, left.min(LOOK), |state| state.exchanged.take())? {
                return Ok(all);
            }
            // One that left had said its part, or never will.
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

    /// Waits until something is there; nothing if the time is over.
    fn wait<T>(
        &self,
        from: Option<u32>,
        longest: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let until = Instant::now() + longest;
        let mut state = self.shared.lock();
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
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that this rank is about to leave: it closes connections before the others hear that it left, so from now on
    /// it does not answer that nothing happened to it.
    pub fn finish(&self) {
        self.shared.command(Command::Finish);
    }

    /// Makes the job fail, and tells everyone.
    pub fn fail(&self, failure: Failure) {
        self.shared.command(Command::Fail(failure));
    }

    /// Something by which other threads make the job fail.
    pub fn alarm(&self) -> Alarm {
        Alarm(Arc::clone(&self.shared))
    }

    /// What made the job fail, if anything did; that a rank left, if it is waited for, counts too.
    pub fn failure(&self, waiting_for: Option<u32>) -> Option<Failure> {
        self.shared.lock().failure(waiting_for)
    }
}

/// By which other threads make a job fail, and hear what was asked for.
#[derive(Clone)]
pub struct Alarm(Arc<Shared>);

impl Alarm {
    /// Makes the job fail, and tells everyone.
    pub fn fail(&self, failure: Failure) {
        self.0.command(Command::Fail(failure));
    }

    /// As [`Service::publish`].
    pub fn publish(&self, name: &str, value: Vec<u8>) {
        (self.0).command(Command::Publish(name.to_owned(), value));
    }

    /// As [`Service::ask`].
    pub fn ask(&self, from: u32, name: &str) -> u32 {
        let ticket = self.0.ticket();
        self.0.command(Command::Ask(ticket, from, name.to_owned()));
        ticket
    }

    /// Asks a rank whether anything happened to it. An answer says that nothing did; if something did, it is heard as any
    /// failure of the job is, or not at all if the rank is gone.
    pub fn probe(&self, rank: u32) -> u32 {
        let ticket = self.0.ticket();
        self.0.command(Command::Probe(ticket, rank));
        ticket
    }

    /// The answer to a question ([`Service::ask`]), if it has come. It is given once.
    pub fn answer(&self, ticket: u32) -> Option<Vec<u8>> {
        self.0.lock().answer(ticket)
    }

    /// What happened to this rank, if it did not run for so long that the others gave it up.
    pub fn own_stop(&self) -> Option<Failure> {
        self.0.lock().own_stop.clone()
    }

    /// Whether a rank said that it is done, or the job failed: then the end of its connections is no news.
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
        self.shared.command(Command::Leave);
        // The others leave soon too, unless one of them still works; it is not waited for long.
        let gone = |state: &mut State| (state.everyone_left || state.ended).then_some(());
        let _ = self.wait(None, self.linger, gone);
        self.shared.command(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Meets in one process: for tests and for measuring.
///
/// # Errors
/// There is no socket.
pub fn loopback_listener() -> io::Result<TcpListener> {
    listen(SocketAddr::from(([127, 0, 0, 1], 0)))
}
