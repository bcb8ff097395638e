//! What a NIC carries: every FIFO goes on as far as it can. Whoever has the lock may drive it: the NIC's thread, or the engine
//! while it waits anyway.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bootstrap::Failure;
use executor::Route;
use shared_memory::Bell;
use shared_memory::fifo::relay::Inflow;

use super::carry::{CarryError, Incoming};
use super::queue::{Early, Sent, Shared};
use crate::ended::Ended;
use crate::forwarding::Served;
use crate::tcp::connect::words;
use crate::tcp::pipe::Pipe;

/// What a NIC carries.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) own_bell: Bell,
    pub(super) outgoing: Vec<Sent>,
    pub(super) incoming: Vec<(Route, Incoming)>,
    pub(super) receiving: BTreeMap<Route, Box<dyn Inflow>>,
    pub(super) early: Vec<Early>,
    /// Connections that are over for no reason of their own, with the rank at their other end.
    pub(super) over: Vec<Ended<(Route, u32, CarryError)>>,
    pub(super) began: Instant,
}

impl Sent {
    /// Whether anything can still come: the rank that handed it over is there, or left something.
    fn is_awaited(&mut self) -> bool {
        let ended = self.served.as_ref().is_some_and(Served::has_ended);
        !(ended && self.outgoing.is_empty())
    }

    fn go_on(&mut self, now: Duration) -> Result<usize, CarryError> {
        let Some(served) = &mut self.served else {
            return self.outgoing.go_on(now);
        };
        if !served.has_begun() {
            return Ok(0);
        }
        let slots = self.outgoing.go_on(now)?;
        if slots > 0 {
            served.ring();
        }
        Ok(slots)
    }
}

/// Sockets of which something is awaited.
#[derive(Default)]
pub(super) struct Awaited {
    /// More bytes, or the other side's word.
    pub readable: Vec<Arc<TcpStream>>,
    /// Room for more.
    pub writable: Vec<Arc<TcpStream>>,
}

impl Worker {
    /// Takes new work; answers whether everything is to be sent now, or nothing if it is the end.
    pub(super) fn take_inbox(&mut self) -> Option<bool> {
        let mut inbox = self.shared.inbox();
        if inbox.stopping {
            return None;
        }
        let new = !inbox.receiving.is_empty() || !inbox.early.is_empty();
        self.outgoing.append(&mut inbox.outgoing);
        self.receiving.extend(inbox.receiving.drain(..));
        self.early.append(&mut inbox.early);
        let ending = inbox.ending;
        drop(inbox);
        if new {
            self.match_early();
        }
        Some(ending)
    }

    /// Joins sockets that came with the FIFOs that they are about.
    fn match_early(&mut self) {
        let routes: Vec<Route> = self.receiving.keys().copied().collect();
        for route in routes {
            let of = |it: &&Early| it.route == route;
            let Some(sockets) = self.early.iter().find(of).map(|it| it.sockets) else {
                continue;
            };
            if self.early.iter().filter(of).count() < usize::from(sockets) {
                continue;
            }
            let (mut own, others): (Vec<Early>, Vec<Early>) = std::mem::take(&mut self.early)
                .into_iter()
                .partition(|it| it.route == route);
            self.early = others;
            own.sort_by_key(|it| it.socket);
            let pipes = own
                .into_iter()
                .map(|it| Box::new(Arc::new(it.stream)) as Box<dyn Pipe>);
            if let Some(slots) = self.receiving.remove(&route) {
                let silence = self.shared.timing.silence;
                let incoming = Incoming::new(slots, pipes.collect(), silence);
                self.incoming.push((route, incoming));
            }
        }
    }

    /// Everything goes on as far as it can; answers whether anything did.
    pub(super) fn go_on(&mut self) -> bool {
        let mut went = false;
        let mut over: Vec<(Route, u32, CarryError)> = Vec::new();
        let mut on = |route: Route, peer: u32, result: Result<usize, CarryError>| {
            let error = match result {
                Ok(slots) => {
                    went |= slots > 0;
                    return true;
                }
                Err(error) => error,
            };
            over.push((route, peer, error));
            false
        };
        let now = self.began.elapsed();
        let serving = &self.shared.serving;
        self.outgoing.retain_mut(|it| {
            let stays = it.is_awaited() && on(it.route, it.route.to, it.go_on(now));
            if !stays && it.served.is_some() {
                serving.fetch_sub(1, Ordering::AcqRel);
            }
            stays
        });
        self.incoming
            .retain_mut(|(route, it)| on(*route, route.from, it.go_on(now)));
        if went {
            self.own_bell.ring();
        }
        for (route, peer, error) in over {
            match error {
                CarryError::Altered(_) | CarryError::Oversized { .. } => {
                    self.tell(&route, peer, &error);
                }
                CarryError::Announced(_) => self.tell(&route, route.from, &error),
                // A rank closes its connections when it is done, and when it gave up because of another. The news of
                // either may come a little later than the end of the connections. One that is stopped is silent in the
                // ring too, which tells more.
                CarryError::Ended | CarryError::Broken(_) | CarryError::Stalled(_) => {
                    let over = Ended::new((route, peer, error), peer, &self.shared.alarm);
                    self.over.push(over);
                }
            }
        }
        let alarm = &self.shared.alarm;
        let due = self.over.extract_if(.., |it| it.is_due(alarm));
        let due: Vec<_> = due.map(|it| it.what).collect();
        for (route, peer, error) in due {
            self.tell(&route, peer, &error);
        }
        went
    }

    /// Whether somebody was asked why a connection ended.
    pub(super) fn awaits_news(&self) -> bool {
        !self.over.is_empty()
    }

    /// Makes the job fail, unless the other rank was to end anyway.
    fn tell(&self, route: &Route, peer: u32, error: &CarryError) {
        if self.shared.alarm.is_expected(peer) {
            return;
        }
        let place = &self.shared.places[peer as usize];
        let own = &self.shared.places[self.shared.rank as usize];
        let carried = match route.from == self.shared.rank || route.to == self.shared.rank {
            true => format!("with {own}"),
            false => format!("which {own} carries"),
        };
        let what = format!("{place}: {} {carried} {error}", words(route));
        self.shared.alarm.fail(Failure::new(peer, what));
        self.own_bell.ring();
    }

    /// What other ranks handed over.
    pub(super) fn served(&self) -> impl Iterator<Item = &Served> {
        self.outgoing.iter().filter_map(|it| it.served.as_ref())
    }

    /// Whether there is any of that.
    pub(super) fn serves(&self) -> bool {
        self.served().next().is_some()
    }

    /// What those are woken by that sleep until something can go on.
    pub(super) fn awaited(&self) -> Awaited {
        let mut awaited = self.awaited_of(&|_| true);
        for (_, incoming) in &self.incoming {
            let pipes = incoming.pipes().iter().zip(&incoming.wanted);
            let wanted = pipes.filter(|(_, wanted)| **wanted);
            let sockets = wanted.filter_map(|(pipe, _)| pipe.socket());
            awaited.readable.extend(sockets);
        }
        awaited
    }

    /// Of that, what belongs to other ranks' connections.
    pub(super) fn awaited_for_served(&self) -> Awaited {
        self.awaited_of(&|sent| sent.served.is_some())
    }

    fn awaited_of(&self, counts: &dyn Fn(&Sent) -> bool) -> Awaited {
        let mut awaited = Awaited::default();
        let speaking = self.served().filter(|it| !it.has_ended());
        awaited.readable.extend(speaking.map(Served::control));
        for Sent { outgoing, .. } in self.outgoing.iter().filter(|it| counts(it)) {
            let pipes = outgoing.pipes().iter().zip(&outgoing.full);
            let full = pipes.filter(|(_, full)| **full);
            let sockets = full.filter_map(|(pipe, _)| pipe.socket());
            awaited.writable.extend(sockets);
        }
        awaited
    }

    /// Hears what the ranks said for which this one carries.
    pub(super) fn look_at_served(&mut self) {
        let served = self.outgoing.iter_mut().filter_map(|it| it.served.as_mut());
        for served in served.filter(|it| !it.has_ended()) {
            served.look();
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.outgoing.clear();
        self.incoming.clear();
        self.early.clear();
    }

    /// Whether everything that was posted is sent.
    pub(super) fn is_drained(&mut self) -> bool {
        self.outgoing.iter_mut().all(|it| it.outgoing.is_empty())
    }
}
