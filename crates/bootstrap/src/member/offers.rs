//! Offers, and questions for them.

use super::{Member, Purpose};
use crate::info::Table;
use crate::link::Kind;
use crate::message::{Conn, Message};

/// What every rank offers as long as nothing happened to it: nothing, under this name.
const ALIVE: &str = "alive";

impl<T: Table> Member<T> {
    /// Offers something under a name.
    pub fn publish(&mut self, name: String, value: Vec<u8>) {
        for (conn, ticket) in self.askers.remove(&name).unwrap_or_default() {
            let value = value.clone();
            self.send(conn, Message::Value(Box::new((ticket, value))));
        }
        let own = self.own_askers(&name);
        for ticket in own {
            self.values.push((ticket, value.clone()));
        }
        self.offers.insert(name, value);
    }

    /// Answers a rank that asks, at once or when the offer is made.
    pub(super) fn answer(&mut self, conn: Conn, (ticket, name): (u32, String)) {
        if let Some(failure) = self.failure.clone() {
            self.send(conn, Message::Failed(Box::new(failure)));
            return;
        }
        let own = self.place.rank;
        let left = self.has_left(own);
        let value = match name.as_str() {
            ALIVE => (!left).then(Vec::new),
            name => self.offers.get(name).cloned(),
        };
        match value {
            Some(value) => self.send(conn, Message::Value(Box::new((ticket, value)))),
            None if name == ALIVE => {}
            None => self.askers.entry(name).or_default().push((conn, ticket)),
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

    /// Questions of this rank to itself, which wait under a name that no other rank can ask.
    fn own_askers(&mut self, name: &str) -> Vec<u32> {
        let waiting = self.askers.remove(&format!("\0{name}"));
        let waiting = waiting.unwrap_or_default().into_iter();
        waiting.map(|(_, ticket)| ticket).collect()
    }

    /// Asks a rank for what it offers under a name; the answer comes from [`Self::take_values`] with the same ticket.
    pub fn ask(&mut self, ticket: u32, from: u32, name: String) {
        if from == self.place.rank {
            match self.offers.get(&name) {
                Some(value) => self.values.push((ticket, value.clone())),
                None => {
                    let waiting = self.askers.entry(format!("\0{name}")).or_default();
                    waiting.push((Conn(u32::MAX), ticket));
                }
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
