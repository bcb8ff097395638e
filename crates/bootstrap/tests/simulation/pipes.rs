//! Connections of the virtual network: their proofs, the bytes and messages on them, and their
//! ends.

use std::net::SocketAddr;
use std::time::Duration;

use bootstrap::{Action, Conn, Ending, Kind, Link, LinkError, Message};

use crate::world::{Event, LATENCY, Participant, Pipe, Side, State, Traffic, World, node_at};

impl<T: Traffic> World<T> {
    /// Bytes arrive at a side of a connection.
    pub(crate) fn bytes(&mut self, at: usize, side: usize, bytes: &[u8]) {
        let now = self.now;
        let to = &mut self.pipes[at].sides[side];
        let node = to.node;
        if to.over || self.nodes[node].state != State::Running {
            return;
        }
        let before = to.link.is_open();
        let mut wrong = to.link.push(bytes).err();
        let opened = to.link.is_open().filter(|_| before.is_none());
        let mut messages = Vec::new();
        while wrong.is_none() {
            let frame = to.link.next_frame();
            match frame.and_then(|it| it.map(|it| T::decode(&it)).transpose()) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => wrong = Some(error),
            }
        }
        if let Some(kind) = opened
            && side == 1
        {
            let conn = match &mut self.nodes[node].machine {
                Participant::Member(member) => member.accepted(kind),
                Participant::Root(root) => root.accepted(),
                Participant::Stranger => Conn(0),
            };
            self.pipes[at].sides[1].conn = Some(conn);
            self.nodes[node].pipes.insert(conn, at);
        }
        self.flush(at, side);
        let to = &mut self.pipes[at].sides[side];
        if opened.is_some()
            && side == 0
            && !std::mem::replace(&mut to.told_open, true)
            && let (Participant::Member(member), Some(conn)) =
                (&mut self.nodes[node].machine, to.conn)
        {
            member.connected(conn, now);
        }
        if let Some(conn) = self.pipes[at].sides[side].conn {
            for message in messages {
                self.receive(node, conn, message);
            }
        }
        if let Some(error) = wrong {
            self.distrust(at, side, error);
        }
        self.progress(node);
    }

    fn distrust(&mut self, at: usize, side: usize, error: LinkError) {
        let to = &mut self.pipes[at].sides[side];
        to.over = true;
        let (node, conn) = (to.node, to.conn);
        self.end_other(at, side);
        if let Some(conn) = conn {
            self.tell_closed(node, conn, &Ending::Distrusted(error));
        }
    }

    /// When bytes that a side sends now arrive.
    fn arrival(&mut self, at: usize, side: usize) -> Duration {
        let pipe = &mut self.pipes[at];
        (self.now + LATENCY + pipe.delay).max(pipe.last[1 - side])
    }

    /// The other side learns, after the bytes in transit, that this one closed the connection.
    fn end_other(&mut self, at: usize, side: usize) {
        if !self.pipes[at].stalled {
            let arrives = self.arrival(at, side);
            self.at(arrives, Event::Ended(at, 1 - side, Ending::Ended));
        }
    }

    /// Sends the outgoing bytes of a side.
    fn flush(&mut self, at: usize, side: usize) {
        let pipe = &mut self.pipes[at];
        let mut bytes = pipe.sides[side].link.outgoing().to_vec();
        pipe.sides[side].link.sent(bytes.len());
        if bytes.is_empty() || pipe.stalled {
            return;
        }
        if std::mem::take(&mut pipe.alter) {
            let bit = self.random.usize(..bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let arrives = self.arrival(at, side);
        self.pipes[at].last[1 - side] = arrives;
        // In two pieces: a stream keeps no boundaries.
        let rest = bytes.split_off(self.random.usize(..=bytes.len()));
        for piece in [bytes, rest] {
            self.at(arrives, Event::Bytes(at, 1 - side, piece));
        }
    }

    pub(crate) fn carry_out(&mut self, node: usize, action: Action<T::Block>) {
        match action {
            Action::Connect { conn, to, kind } => self.connect(node, conn, &to, kind),
            Action::Send { conn, message } => self.send(node, conn, message),
            Action::Close { conn } => {
                if let Some(at) = self.nodes[node].pipes.remove(&conn) {
                    self.close(at, node);
                }
            }
        }
    }

    fn send(&mut self, node: usize, conn: Conn, message: Message<T::Block>) {
        let from = &mut self.nodes[node];
        let Some(at) = from.pipes.get(&conn).copied() else {
            return;
        };
        match message {
            Message::Block { .. } => from.sent[0] += 1,
            Message::Beat => {}
            _ => from.sent[1] += 1,
        }
        let accepted = &self.pipes[at].sides[1];
        let side = usize::from(accepted.node == node && accepted.conn == Some(conn));
        match T::encode(message) {
            Ok(bytes) => match self.pipes[at].sides[side].link.send(&bytes) {
                Ok(()) => self.flush(at, side),
                Err(error) => self.distrust(at, side, error),
            },
            Err(message) => {
                let Side { node, conn, .. } = self.pipes[at].sides[1 - side];
                let conn = conn.expect("values travel on open connections");
                if self.nodes[node].inbox.is_empty() {
                    self.at(self.next_read(node), Event::Read(node));
                }
                self.nodes[node].inbox.push((conn, message));
                self.in_transit[0] += 1;
                self.in_transit[1] = self.in_transit[1].max(self.in_transit[0]);
            }
        }
    }

    pub(crate) fn connect(&mut self, node: usize, conn: Conn, to: &SocketAddr, kind: Kind) {
        let there = node_at(to);
        let listens = self
            .nodes
            .get(there)
            .is_some_and(|it| matches!(it.state, State::Running | State::Stopped));
        if !listens {
            self.at(self.now + LATENCY, Event::Refused(node, conn));
            return;
        }
        let mut nonce = || std::array::from_fn(|_| self.random.u8(..));
        let one = Link::connect(&self.nodes[node].key, kind, nonce());
        let other = Link::accept(&self.nodes[there].key, nonce());
        let side = |node: usize, conn, link| Side {
            node,
            conn,
            link,
            told_open: false,
            over: false,
        };
        self.pipes.push(Pipe {
            sides: [side(node, Some(conn), one), side(there, None, other)],
            delay: Duration::ZERO,
            stalled: false,
            alter: false,
            last: [Duration::ZERO; 2],
        });
        let at = self.pipes.len() - 1;
        self.nodes[node].pipes.insert(conn, at);
        self.flush(at, 0);
    }

    /// A node closes its side.
    fn close(&mut self, at: usize, node: usize) {
        for side in 0..2 {
            let own = &mut self.pipes[at].sides[side];
            if own.node == node && !std::mem::replace(&mut own.over, true) {
                self.end_other(at, side);
            }
        }
    }

    /// The process of a node ends: the system closes its connections.
    pub(crate) fn end(&mut self, node: usize) {
        self.nodes[node].state = State::Gone;
        for at in 0..self.pipes.len() {
            if self.pipes[at].sides.iter().any(|side| side.node == node) {
                self.close(at, node);
            }
        }
    }
}
