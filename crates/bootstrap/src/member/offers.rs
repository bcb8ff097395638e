//! Offers, and questions for them.

use super::{Member, Purpose};
use crate::failure::Failure;
use crate::info::Table;
use crate::link::Kind;
use crate::message::Message;

/// What every rank offers as long as nothing happened to it: nothing, under this name.
const ALIVE: &str = "alive";

/// Most questions of a rank that wait for an answer. A rank asks for the buffers of another one, and for each end of a FIFO.
const MOST_WAITING: usize = 1 << 14;

/// Longest name of an offer that is waited for, bytes.
const LONGEST_NAME: usize = 256;

impl<T: Table> Member<T> {
    /// Offers something under a name.
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

    /// Answers a rank that asks, at once or when the offer is made.
    pub(super) fn answer(&mut self, at: usize, rank: u32, (ticket, name): (u32, String)) {
        let conn = self.others[at].conn;
        if let Some(failure) = self.failure.clone() {
            self.send(conn, Message::Failed(Box::new(failure)));
            return;
        }
        let own = self.place.rank;
        let left = self.has_left(own);
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
                self.fail_as(Failure::new(rank, what), None);
                return;
            }
            None => {
                self.others[at].waiting += 1;
                let waiting = self.askers.entry(name).or_default();
                waiting.push((Some(conn), ticket));
            }
        }
        if left {
            // It came too late to hear it with all others that were connected.
            self.send(conn, Message::Left(own));
        }
    }

    /// Asks a rank whether anything happened to it. If it lives and nothing did, an answer comes from
    /// [`Self::take_values`] with the same ticket; if something did, this rank hears of it; if it is gone, nothing comes.
    pub fn probe(&mut self, ticket: u32, rank: u32) {
        let Some(address) = self.table.info(rank).map(|info| info.address) else {
            return;
        };
        let conn = self.connect(address, Kind::Peer);
        let other = self.other(conn, Purpose::Probe(rank), false);
        other.queue.push((ticket, ALIVE.to_owned()));
    }

    /// Asks a rank for what it offers under a name; the answer comes from [`Self::take_values`] with the same ticket.
    pub fn ask(&mut self, ticket: u32, from: u32, name: String) {
        if from == self.place.rank {
            match self.offers.get(&name) {
                Some(value) => self.values.push((ticket, value.clone())),
                None => self.askers.entry(name).or_default().push((None, ticket)),
            }
            return;
        }
        let known = self
            .others
            .iter_mut()
            .find(|it| it.purpose == Purpose::Peer(from));
        match known {
            Some(other) if other.open => {
                let conn = other.conn;
                self.send(conn, Message::Get(Box::new((ticket, name))));
            }
            Some(other) => other.queue.push((ticket, name)),
            None => {
                let Some(address) = self.table.info(from).map(|info| info.address) else {
                    return;
                };
                let conn = self.connect(address, Kind::Peer);
                let other = self.other(conn, Purpose::Peer(from), false);
                other.queue.push((ticket, name));
            }
        }
    }

    /// Answers that came.
    pub fn take_values(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.values)
    }
}
