//! The connections of a proxy thread. The thread or the engine drives them, whichever has the lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bootstrap::Failure;
use bootstrap::socket::service::Alarm;
use executor::Route;
use shared_memory::Bell;

use super::queue::{ProxyState, ReceivingConnection, SendingConnection};
use super::readiness::{Readiness, Ready, Sockets, Watch};
use crate::ended::EndedConnection;
use crate::forwarding::ForwardedFifo;
use crate::nic::{ConnectionError, Nics, Waits};
use crate::tcp::connect::words;

/// How long the end of a stream may take to arrive.
const END_TIME: Duration = Duration::from_millis(500);

/// Between two looks whether it has arrived.
const END_LOOK: Duration = Duration::from_micros(20);

/// Between two looks of an engine at connections that are not ready, which may be stalled.
const FULL_LOOK: Duration = Duration::from_millis(100);

/// Up to so many connections are read without a question whether they are ready.
const FEW: usize = 2;

/// The connections that are driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// All: the thread drives them.
    All,
    /// Those that other ranks handed over: the thread drives them while the engine drives the own
    /// ones.
    Forwarded,
    /// The own ones that may be ready.
    Ready,
    /// The own ones that send and may be ready.
    Sends,
}

pub(super) fn lock(worker: &Mutex<Worker>) -> MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections of a proxy thread.
pub(super) struct Worker {
    pub(super) shared: Arc<ProxyState>,
    pub(super) nics: Nics,
    pub(super) rank: u32,
    /// By rank: where it is, in words.
    pub(super) places: Arc<[String]>,
    pub(super) alarm: Alarm,
    pub(super) own_bell: Bell,
    /// The sockets on which the engine sleeps; `None` if it does not drive connections.
    pub(super) readiness: Option<Arc<Readiness>>,
    /// The number of the next connection.
    pub(super) next: u64,
    /// Whether the kernel does not tell of some sockets.
    pub(super) unwatched: bool,
    /// When the engine last looked at all connections.
    pub(super) looked: Duration,
    pub(super) outgoing: Vec<SendingConnection>,
    pub(super) incoming: Vec<ReceivingConnection>,
    /// Connections that failed and are closed with all others.
    pub(super) unclosed_outgoing: Vec<SendingConnection>,
    pub(super) unclosed_incoming: Vec<ReceivingConnection>,
    /// Connections that may have failed because of their peer's failure or end.
    pub(super) ended: Vec<EndedConnection<Fault>>,
    /// Whether everything is to be sent now.
    pub(super) ending: bool,
    pub(super) began: Instant,
}

/// A connection that failed.
pub(super) struct Fault {
    route: Route,
    nic: usize,
    error: ConnectionError,
}

impl Pass {
    const fn is_of_engine(self) -> bool {
        matches!(self, Self::Ready | Self::Sends)
    }

    const fn sends(self, sent: &SendingConnection) -> bool {
        match self {
            Self::All => true,
            Self::Forwarded => sent.forwarded.is_some(),
            Self::Ready | Self::Sends => sent.forwarded.is_none() && !sent.watch.blocked,
        }
    }

    const fn receives(self, received: &ReceivingConnection) -> bool {
        match self {
            Self::All => true,
            Self::Ready => !received.watch.blocked,
            Self::Forwarded | Self::Sends => false,
        }
    }
}

impl SendingConnection {
    /// Whether the rank that handed it over is done, and everything is sent.
    fn is_done(&mut self) -> bool {
        let ended = self
            .forwarded
            .as_ref()
            .is_some_and(ForwardedFifo::has_ended);
        ended && self.outgoing.is_drained()
    }

    fn progress(&mut self, now: Duration, ending: bool) -> Result<bool, ConnectionError> {
        let Some(forwarded) = &mut self.forwarded else {
            return self.outgoing.progress(now, ending);
        };
        if !forwarded.has_begun() {
            return Ok(false);
        }
        let progressed = self.outgoing.progress(now, forwarded.has_ended())?;
        if progressed {
            forwarded.ring();
        }
        Ok(progressed)
    }
}

impl Worker {
    /// Takes new connections. Returns `false` if the thread is to end.
    pub(super) fn take_inbox(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        self.ending = inbox.ending;
        if inbox.stopping {
            return false;
        }
        self.shared.pending.store(false, Ordering::Relaxed);
        let new = self.outgoing.len()..;
        self.outgoing.append(&mut inbox.outgoing);
        let outgoing = self.outgoing[new].iter_mut().map(|it| &mut it.watch);
        let new = self.incoming.len()..;
        self.incoming.append(&mut inbox.incoming);
        let incoming = self.incoming[new].iter_mut().map(|it| &mut it.watch);
        for watch in outgoing.chain(incoming) {
            watch.number = self.next;
            self.next += 1;
        }
        true
    }

    /// Drives connections. Returns `true` if any made progress.
    pub(super) fn progress(&mut self, pass: Pass) -> bool {
        let mut progressed = false;
        let mut faults: Vec<Fault> = Vec::new();
        let mut fails = |route: Route, nic: usize, result: Result<bool, ConnectionError>| {
            let error = match result {
                Ok(some) => {
                    progressed |= some;
                    return false;
                }
                Err(error) => error,
            };
            faults.push(Fault { route, nic, error });
            true
        };
        let (now, ending) = (self.began.elapsed(), self.ending);
        let closes_late = |nic: usize| self.nics[nic].properties().closes_late;
        let own = self.shared.own;
        let mut watch = |watch: &mut Watch, blocked: bool, sockets: &dyn Fn() -> Sockets, reads| {
            let readiness = self.readiness.as_deref().filter(|_| pass.is_of_engine());
            self.unwatched |= !watch.update(own, blocked, sockets, reads, readiness);
        };
        let over = self.outgoing.extract_if(.., |it| {
            if !pass.sends(it) {
                return false;
            }
            let over = it.is_done() || fails(it.route, it.nic, it.progress(now, ending));
            if over && it.forwarded.take().is_some() {
                self.shared.forwarding.fetch_sub(1, Ordering::AcqRel);
            }
            let outgoing = &it.outgoing;
            watch(
                &mut it.watch,
                outgoing.is_blocked(),
                &|| outgoing.sockets(),
                false,
            );
            over
        });
        let unclosed = over.filter(|it| closes_late(it.nic));
        self.unclosed_outgoing.extend(unclosed);
        let over = self.incoming.extract_if(.., |it| {
            if !pass.receives(it) {
                return false;
            }
            let posted = it.incoming.progress(now);
            let over = fails(it.route, it.nic, posted.map(|slots| slots > 0));
            let incoming = &it.incoming;
            watch(
                &mut it.watch,
                incoming.is_blocked(),
                &|| incoming.sockets(),
                true,
            );
            over
        });
        let unclosed = over.filter(|it| closes_late(it.nic));
        self.unclosed_incoming.extend(unclosed);
        for fault in faults {
            self.note(fault);
        }
        let alarm = &self.alarm;
        let due = self.ended.extract_if(.., |it| it.is_due(alarm));
        for fault in due.map(|it| it.what).collect::<Vec<_>>() {
            self.report(&fault);
        }
        progressed
    }

    /// Drives the own connections that may be ready, for the engine. Returns `true` if any made
    /// progress.
    pub(super) fn help(&mut self, pass: Pass) -> bool {
        if self.shared.pending.load(Ordering::Acquire) {
            self.take_inbox();
        }
        let now = self.began.elapsed();
        if self.incoming.len() <= FEW || now >= self.looked + FULL_LOOK {
            self.looked = now;
            let outgoing = self.outgoing.iter_mut().map(|it| &mut it.watch);
            let incoming = self.incoming.iter_mut().map(|it| &mut it.watch);
            outgoing.chain(incoming).for_each(|it| it.blocked = false);
        }
        self.progress(pass)
    }

    /// Whether an engine is to ask which connections are ready.
    pub(super) const fn has_many(&self) -> bool {
        self.incoming.len() > FEW
    }

    /// Whether the kernel tells of everything that this thread's connections wait for.
    pub(super) const fn is_watched(&self) -> bool {
        self.readiness.is_some() && !self.unwatched
    }

    /// Notes that a connection is ready.
    pub(super) fn set_ready(&mut self, ready: &Ready) {
        let number = ready.place.connection;
        // They are ordered by number, since new ones are added at the end.
        let outgoing = self
            .outgoing
            .binary_search_by_key(&number, |it| it.watch.number);
        let incoming = self
            .incoming
            .binary_search_by_key(&number, |it| it.watch.number);
        let watch = match (outgoing, incoming) {
            (Ok(at), _) => &mut self.outgoing[at].watch,
            (_, Ok(at)) => &mut self.incoming[at].watch,
            // It has ended.
            _ => return,
        };
        watch.blocked = false;
        watch.hung |= ready.hung;
    }

    fn note(&mut self, fault: Fault) {
        if fault.error.may_follow() {
            let peer = self.peer(&fault.route);
            self.ended
                .push(EndedConnection::new(fault, peer, &self.alarm));
        } else {
            self.report(&fault);
        }
    }

    /// Whether a peer was asked why a connection ended.
    pub(super) fn awaits_news(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The rank at the other end.
    const fn peer(&self, route: &Route) -> u32 {
        if route.to == self.rank {
            route.from
        } else {
            route.to
        }
    }

    /// Makes the job fail, unless the other rank was to end anyway.
    fn report(&self, fault: &Fault) {
        let Fault { route, nic, error } = fault;
        let (own, peer) = (self.rank, self.peer(route));
        let culprit = error.culprit(route, own, peer);
        let other = if culprit == own { peer } else { own };
        if self
            .alarm
            .is_expected(if culprit == own { peer } else { culprit })
        {
            return;
        }
        let place = |rank: u32| &self.places[rank as usize];
        let by = match [route.from, route.to].contains(&own) {
            true => format!("with {}", place(other)),
            false => format!("which {} forwards", place(own)),
        };
        let nic = self.nics[*nic].mention();
        let what = format!("{}: {} {by}{nic} {error}", place(culprit), words(route));
        self.alarm.fail(Failure::new(culprit, what));
        self.own_bell.ring();
    }

    /// FIFOs of other ranks.
    pub(super) fn forwarded(&self) -> impl Iterator<Item = &ForwardedFifo> {
        self.outgoing.iter().filter_map(|it| it.forwarded.as_ref())
    }

    /// Whether there are any.
    pub(super) fn forwards(&self) -> bool {
        self.forwarded().next().is_some()
    }

    /// The waits of the connections.
    pub(super) fn awaited(&self) -> Waits {
        let mut awaited = self.awaited_of(&|_| true);
        for ReceivingConnection { incoming, .. } in &self.incoming {
            incoming.wait_for(&mut awaited);
        }
        awaited
    }

    /// The waits of other ranks' connections.
    pub(super) fn awaited_for_forwarded(&self) -> Waits {
        self.awaited_of(&|sent| sent.forwarded.is_some())
    }

    fn awaited_of(&self, counts: &dyn Fn(&SendingConnection) -> bool) -> Waits {
        let mut awaited = Waits::default();
        let speaking = self.forwarded().filter(|it| !it.has_ended());
        awaited
            .readable
            .extend(speaking.map(ForwardedFifo::control));
        for sent in self.outgoing.iter().filter(|it| counts(it)) {
            sent.outgoing.wait_for(&mut awaited);
        }
        awaited
    }

    /// Reads the messages of ranks that handed over connections.
    pub(super) fn look_at_forwarded(&mut self) {
        let forwarded = self
            .outgoing
            .iter_mut()
            .filter_map(|it| it.forwarded.as_mut());
        for forwarded in forwarded.filter(|it| !it.has_ended()) {
            forwarded.look();
        }
    }

    /// Whether everything that was posted is sent.
    pub(super) fn is_drained(&mut self) -> bool {
        self.outgoing.iter_mut().all(|it| it.outgoing.is_drained())
    }

    /// Waits for the ends of streams. The peers have said that they are done, so these are about to
    /// arrive.
    pub(super) fn await_ends(&mut self) {
        let until = Instant::now() + END_TIME;
        while self.incoming.iter().any(|it| it.incoming.awaits_end()) && Instant::now() < until {
            if !self.progress(Pass::All) {
                std::thread::sleep(END_LOOK);
            }
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.outgoing.clear();
        self.incoming.clear();
        self.unclosed_outgoing.clear();
        self.unclosed_incoming.clear();
        // Closes their listeners.
        self.nics = Arc::new([]);
    }
}
