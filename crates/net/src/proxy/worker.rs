//! The connections of a proxy thread. The thread or the engine drives them, whichever has the lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bootstrap::Failure;
use bootstrap::socket::service::Alarm;
use executor::Route;
use shared_memory::Bell;

use super::queue::{Received, Sent, Shared};
use crate::ended::Ended;
use crate::forwarding::Forwarded;
use crate::nic::{Awaited, ConnectionError, Nics};
use crate::tcp::connect::words;

/// How long the end of a stream may take to arrive.
const END_TIME: Duration = Duration::from_millis(500);

/// Between two looks whether it has arrived.
const END_LOOK: Duration = Duration::from_micros(20);

/// The connections of a proxy thread.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) nics: Nics,
    pub(super) rank: u32,
    /// By rank: where it is, in words.
    pub(super) places: Arc<[String]>,
    pub(super) alarm: Alarm,
    pub(super) own_bell: Bell,
    pub(super) outgoing: Vec<Sent>,
    pub(super) incoming: Vec<Received>,
    /// Connections that failed and are closed with all others.
    pub(super) unclosed_outgoing: Vec<Sent>,
    pub(super) unclosed_incoming: Vec<Received>,
    /// Connections that may have failed because of their peer's failure or end.
    pub(super) ended: Vec<Ended<Fault>>,
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

impl Sent {
    /// Whether the rank that handed it over is done, and everything is sent.
    fn is_done(&mut self) -> bool {
        let ended = self.forwarded.as_ref().is_some_and(Forwarded::has_ended);
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
        self.outgoing.append(&mut inbox.outgoing);
        self.incoming.append(&mut inbox.incoming);
        true
    }

    /// Drives all connections. Returns `true` if any made progress.
    pub(super) fn progress(&mut self) -> bool {
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
        let over = self.outgoing.extract_if(.., |it| {
            let over = it.is_done() || fails(it.route, it.nic, it.progress(now, ending));
            if over && it.forwarded.take().is_some() {
                self.shared.forwarding.fetch_sub(1, Ordering::AcqRel);
            }
            over
        });
        let unclosed = over.filter(|it| closes_late(it.nic));
        self.unclosed_outgoing.extend(unclosed);
        let over = self.incoming.extract_if(.., |it| {
            let posted = it.incoming.progress(now);
            fails(it.route, it.nic, posted.map(|slots| slots > 0))
        });
        let unclosed = over.filter(|it| closes_late(it.nic));
        self.unclosed_incoming.extend(unclosed);
        if progressed {
            self.own_bell.ring();
        }
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

    fn note(&mut self, fault: Fault) {
        if fault.error.may_follow() {
            let peer = self.peer(&fault.route);
            self.ended.push(Ended::new(fault, peer, &self.alarm));
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
    pub(super) fn forwarded(&self) -> impl Iterator<Item = &Forwarded> {
        self.outgoing.iter().filter_map(|it| it.forwarded.as_ref())
    }

    /// Whether there are any.
    pub(super) fn forwards(&self) -> bool {
        self.forwarded().next().is_some()
    }

    /// What the connections wait for.
    pub(super) fn awaited(&self) -> Awaited {
        let mut awaited = self.awaited_of(&|_| true);
        for Received { incoming, .. } in &self.incoming {
            incoming.wait_for(&mut awaited);
        }
        awaited
    }

    /// What other ranks' connections wait for.
    pub(super) fn awaited_for_forwarded(&self) -> Awaited {
        self.awaited_of(&|sent| sent.forwarded.is_some())
    }

    fn awaited_of(&self, counts: &dyn Fn(&Sent) -> bool) -> Awaited {
        let mut awaited = Awaited::default();
        let speaking = self.forwarded().filter(|it| !it.has_ended());
        awaited.readable.extend(speaking.map(Forwarded::control));
        for sent in self.outgoing.iter().filter(|it| counts(it)) {
            sent.outgoing.wait_for(&mut awaited);
        }
        awaited
    }

    /// Reads what the ranks said that handed connections over.
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
            if !self.progress() {
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
