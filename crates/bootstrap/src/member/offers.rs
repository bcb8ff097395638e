//! Offers, and questions for them.

use std::time::Duration;

use super::{Member, Other, Purpose};
use crate::failure::Failure;
use crate::info::Table;
use crate::link::Kind;
use crate::machine::Action;
use crate::message::Message;

/// Name of an empty offer that every rank makes while it lives.
const ALIVE: &str = "alive";

/// Most questions of a rank that wait for an answer. A rank asks another one for its buffers and
/// for each end of a FIFO.
const MOST_WAITING: usize = 1 << 14;

/// Longest name of an offer that is waited for, bytes.
const LONGEST_NAME: usize = 256;

impl Other {
    /// Whether it is to a peer that has answered all questions.
    pub(super) const fn is_unused_peer(&self) -> bool {
        matches!(self.purpose, Purpose::Peer(_)) && self.open && self.waiting == 0
    }
}

impl<T: Table> Member<T> {
    /// Offers a value under a name.
    pub fn publish(&mut self, name: String, value: Vec<u8>) {
        for (asker, ticket) in self.askers.remove(&name).unwrap_or_default() {
            let answer = (ticket, value.clone());
            match asker {
                Some(conn) => {
                    if let Some(other) = self.others.iter_mut().find(|it| it.conn == conn) {
                        other.waiting -= 1;
                    }
                    self.send(conn, Message::Value(Box::new(answer)));
                }
                None => self.values.push(answer),
            }
        }
        self.offers.insert(name, value);
    }

    /// Answers a question, now or when the offer is made.
    pub(super) fn answer(&mut self, at: usize, rank: u32, (ticket, name): (u32, String)) {
        let conn = self.others[at].conn;
        if let Some(failure) = self.failure.clone() {
            self.send(conn, Message::Failed(Box::new(failure)));
            return;
        }
        let own = self.first(self.place.rank);
        let left = self.member_left(self.place.rank);
        let value = match name.as_str() {
            ALIVE => (!left && !self.finishing).then(Vec::new),
            name => self.offers.get(name).cloned(),
        };
        match value {
            Some(value) => self.send(conn, Message::Value(Box::new((ticket, value)))),
            None if name == ALIVE => {}
            None if name.len() > LONGEST_NAME || self.others[at].waiting == MOST_WAITING => {
                let what = format!(
                    "it asks rank {own} for more than {MOST_WAITING} offers that are not made, or by a name of more than \
                     {LONGEST_NAME} bytes"
                );
                self.fail_as(Failure::new(self.first(rank), what), None);
                return;
            }
            None => {
                self.others[at].waiting += 1;
                let waiting = self.askers.entry(name).or_default();
                waiting.push((Some(conn), ticket));
            }
        }
        if left {
            // The asker connected too late to hear it with the others.
            for rank in own..own + self.place.width {
                self.send(conn, Message::Left(rank));
            }
        }
    }

    /// Asks whether a rank lives. If it does, [`Self::take_values`] returns an answer with this
    /// ticket; if it failed, this rank hears of the failure; if it is gone, there is no answer.
    pub fn probe(&mut self, ticket: u32, rank: u32) {
        let Some(address) = self.table.info(rank).map(|info| info.address) else {
            return;
        };
        let conn = self.connect(address, Kind::Peer);
        let member = rank / self.place.width;
        let other = self.other(conn, Purpose::Probe(member), false);
        other.queue.push((ticket, ALIVE.to_owned()));
    }

    /// Asks a rank for an offer; [`Self::take_values`] returns the answer with this ticket.
    pub fn ask(&mut self, ticket: u32, from: u32, name: String) {
        let member = from / self.place.width;
        if member == self.place.rank {
            match self.offers.get(&name) {
                Some(value) => self.values.push((ticket, value.clone())),
                None => self.askers.entry(name).or_default().push((None, ticket)),
            }
            return;
        }
        let known = self
            .others
            .iter_mut()
            .find(|it| it.purpose == Purpose::Peer(member));
        match known {
            Some(other) if other.open => {
                other.waiting += 1;
                let conn = other.conn;
                self.send(conn, Message::Get(Box::new((ticket, name))));
            }
            Some(other) => other.queue.push((ticket, name)),
            None => {
                let Some(address) = self.table.info(from).map(|info| info.address) else {
                    return;
                };
                let conn = self.connect(address, Kind::Peer);
                let other = self.other(conn, Purpose::Peer(member), false);
                other.queue.push((ticket, name));
            }
        }
    }

    /// Closes connections to peers that answered everything a while ago: each is a descriptor on
    /// both sides. The while is for the news that the peer left, which follows its answer.
    pub(super) fn close_unused(&mut self, now: Duration) {
        let retry = self.timing.retry;
        let unused = |it: &mut Other| it.is_unused_peer() && now >= it.answered + retry;
        for Other { conn, .. } in self.others.extract_if(.., unused) {
            self.actions.push_back(Action::Close { conn });
        }
    }

    /// Takes the answers that have arrived.
    pub fn take_values(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.values)
    }
}
