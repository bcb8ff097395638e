//! Lost connections, silent neighbors and timeouts: which rank is at fault.

use std::time::Duration;

use super::{Again, Meeting, Member, Purpose, Side, Stage};
use crate::failure::Failure;
use crate::info::Table;
use crate::machine::{Action, Ending};
use crate::message::{Conn, Message};

/// Why a connection may be neither refused nor answered.
const NO_ANSWER: &str = "connecting was neither answered nor refused; the process that made the id \
    has not joined (it serves the others, so it must be a rank), a firewall drops it, or the \
    address is of this host and its loopback device is down (ip link set lo up)";

impl<T: Table> Member<T> {
    /// Each rank of a closed ring receives a message at least once per beat. A gap longer than
    /// `silence` means that this process was suspended: restart all timers and blame nobody yet. If
    /// the others were suspended too, as when a machine sleeps, all continue. If not, they report
    /// that this rank timed out.
    pub(super) fn notice_a_stop(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.seen);
        self.seen = now;
        if gap < self.timing.silence {
            return;
        }
        let sides = [&mut self.next, &mut self.previous];
        for side in sides.into_iter().flatten().filter(|it| it.open) {
            side.heard = now;
            self.stopped = Some((now, gap));
        }
    }

    /// The failure of a rank that was suspended.
    pub(super) fn stop_of(&self, gap: Duration) -> Failure {
        let what = format!(
            "{}: it did not run for {:.0} s (it was stopped, or its host slept), so the others abandoned it",
            self.place.name,
            gap.as_secs_f32()
        );
        Failure::new(self.first(self.place.rank), what)
    }

    /// Replaces a failure that this rank hears of soon after it was suspended: lost connections and
    /// reports about this rank are then consequences of the suspension.
    pub(super) fn heard_of(&mut self, failure: Failure, connection: bool) -> Failure {
        let recent = |(at, _): &(Duration, Duration)| self.seen < *at + self.timing.silence;
        let Some((_, gap)) = self.stopped.filter(recent) else {
            return failure;
        };
        if self.failure.is_none() {
            self.abandoned = true;
        }
        if connection || failure.rank / self.place.width == self.place.rank {
            self.stop_of(gap)
        } else {
            failure
        }
    }

    /// Handles the end of a connection.
    pub fn closed(&mut self, conn: Conn, ending: &Ending, now: Duration) {
        self.notice_a_stop(now);
        let rank = self.first(self.place.rank);
        for of_next in [true, false] {
            if let Some(was) = self.side(of_next).take_if(|it| it.conn == conn) {
                let neighbor = self.neighbor(of_next);
                if self.member_left(neighbor) || self.failure.is_some() {
                    return;
                }
                if !was.open && may_be_crowded(ending) {
                    self.retry.push((now + self.timing.retry, Again::Next));
                    return;
                }
                let too_early = match self.is_ready() {
                    true => "",
                    false => " before all ranks had met; start all ranks again",
                };
                let what = format!(
                    "{}: its connection with rank {rank}, {}, {ending}{too_early}",
                    self.name(neighbor),
                    self.place.name
                );
                let failure = self.heard_of(Failure::new(self.first(neighbor), what), true);
                self.fail_as(failure, None);
                return;
            }
        }
        let Some(at) = self.others.iter().position(|it| it.conn == conn) else {
            return;
        };
        let other = self.others.remove(at);
        match other.purpose {
            Purpose::Root(index) => self.root_closed(index, other.open, ending, now),
            Purpose::Peer(peer)
                if !other.open && may_be_crowded(ending) && self.failure.is_none() =>
            {
                let again = Again::Peer(peer, other.queue);
                self.retry.push((now + self.timing.retry, again));
            }
            Purpose::Peer(peer) if !self.member_left(peer) => {
                let what = format!(
                    "{}: the connection of rank {rank}, {}, to it {ending}",
                    self.name(peer),
                    self.place.name
                );
                let failure = self.heard_of(Failure::new(self.first(peer), what), true);
                self.fail_as(failure, None);
            }
            Purpose::Peer(_) | Purpose::Probe(_) | Purpose::Unknown(_) | Purpose::Asker(_) => {
                for askers in self.askers.values_mut() {
                    askers.retain(|(asker, _)| *asker != Some(conn));
                }
            }
        }
    }

    fn root_closed(&mut self, index: usize, open: bool, ending: &Ending, now: Duration) {
        let rank = self.first(self.place.rank);
        match ending {
            // The root may not have started.
            Ending::Refused(why) => {
                self.last_refusal = Some(why.clone());
                self.retry
                    .push((now + self.timing.retry, Again::Root(index)));
            }
            Ending::Distrusted(error) => {
                let what = format!("{}: the root: {error}", self.place.name);
                self.fail_as(Failure { rank, what }, None);
            }
            // The acceptor may have been busy with strangers, another process may have had the
            // address for a moment, or the root is done with all others.
            _ if !open => self
                .retry
                .push((now + self.timing.retry, Again::Root(index))),
            // The previous group's root may be done earlier.
            ending if self.stage == Stage::Meeting && self.own_root() == index => {
                let holder = self.first(self.group_of(index).start);
                let what = format!(
                    "{}: the connection to the root {ending} before all ranks had met; the process that holds the root \
                     (rank {holder}) may have ended; start all ranks again",
                    self.place.name
                );
                self.fail_as(Failure::new(holder, what), None);
            }
            _ => {}
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Duration) {
        self.notice_a_stop(now);
        if self.failure.is_some() {
            return;
        }
        if let Stage::Staggered(until) = self.stage
            && now >= until
        {
            self.go_to_roots();
        }
        self.close_unused(now);
        let due: Vec<_> = self.retry.extract_if(.., |(at, _)| now >= *at).collect();
        for (_, again) in due {
            match (again, self.next_listens) {
                (Again::Root(index), _) => self.go_to_root(index),
                (Again::Next, Some(next)) => self.connect_next(next),
                (Again::Next, None) => {}
                (Again::Peer(rank, questions), _) => {
                    let rank = self.first(rank);
                    for (ticket, name) in questions {
                        self.ask(ticket, rank, name);
                    }
                }
            }
        }
        if !self.is_ready() && now >= self.patience() {
            self.too_late();
            return;
        }
        let (beat, silence) = (self.timing.beat, self.timing.silence);
        let mut silent = None;
        for (side, of_next) in [(&mut self.next, true), (&mut self.previous, false)] {
            let Some(side) = side.as_mut().filter(|it| it.open) else {
                continue;
            };
            if now >= side.heard + silence {
                silent = Some(of_next);
            }
            if now >= side.said + beat {
                side.said = now;
                let (conn, message) = (side.conn, Message::Beat);
                self.actions.push_back(Action::Send { conn, message });
            }
        }
        let silent = silent.map(|of_next| self.neighbor(of_next));
        if let Some(neighbor) = silent.filter(|it| !self.member_left(*it)) {
            let what = format!(
                "{}: it said nothing to rank {}, {}, for {} s; it was stopped, or its host cannot be reached",
                self.name(neighbor),
                self.first(self.place.rank),
                self.place.name,
                silence.as_secs_f32()
            );
            self.fail_as(Failure::new(self.first(neighbor), what), None);
        }
    }

    /// Finds the rank at fault when the time to meet is over.
    fn too_late(&mut self) {
        let ranks = self.place.ranks;
        let rank = self.first(self.place.rank);
        let (before, after) = (self.neighbor(false), self.neighbor(true));
        let seconds = self.timing.join.as_secs_f32();
        let name = self.place.name.clone();
        let open = |side: &Option<Side>| side.as_ref().is_some_and(|it| it.open);
        let (culprit, what) = if self.stage == Stage::Telling {
            let exchange = self.exchange.as_ref();
            let half = exchange.is_some_and(|it| it.from_previous < ranks / 2);
            let culprit = if half { before } else { after };
            (
                culprit,
                format!(
                    "it did not pass on what others said to rank {rank}, {name}, within {seconds} s"
                ),
            )
        } else if self.next_listens.is_none() {
            match &self.place.meeting {
                Meeting::Roots(roots) if !self.has_a_root() => {
                    let own = self.own_root();
                    let why = self.last_refusal.as_deref().unwrap_or(NO_ANSWER);
                    (
                        self.group_of(own).start,
                        format!(
                            "no root answered {name} at {} within {seconds} s: {why}",
                            roots[own]
                        ),
                    )
                }
                _ => (
                    after,
                    format!(
                        "the root named no address of it to rank {rank}, {name}, within {seconds} s"
                    ),
                ),
            }
        } else if !open(&self.next) {
            (
                after,
                format!("it did not answer rank {rank}, {name}, within {seconds} s"),
            )
        } else {
            (
                before,
                format!("it did not connect to rank {rank}, {name}, within {seconds} s"),
            )
        };
        self.fail_as(Failure::new(self.first(culprit), what), None);
    }
}

/// Whether a crowded acceptor may have closed a connection before both sides had proved.
const fn may_be_crowded(ending: &Ending) -> bool {
    matches!(ending, Ending::Ended | Ending::Broken(_))
}
