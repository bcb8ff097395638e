//! A state machine with its sockets.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::accept::{Acceptor, Until};
use super::connection::{Connection, READ_BYTES};
use crate::id::Key;
use crate::info::Infos;
use crate::link::Kind;
use crate::machine::{Action, Ending};
use crate::member::Member;
use crate::message::{Conn, Message};
use crate::root::Root;

/// A state machine of either kind.
pub(super) enum StateMachine {
    /// A rank.
    Member(Box<Member<Infos>>),
    /// A root.
    Root(Box<Root<Vec<u8>>>),
}

/// A state machine, its listener and its connections.
pub(super) struct Drive {
    pub machine: StateMachine,
    key: Key,
    acceptor: Acceptor,
    open: Vec<(Conn, Connection)>,
    /// Whether somebody connects or must be turned away.
    accepts: bool,
    /// Memory for reads.
    bytes: Vec<u8>,
    began: Instant,
}

impl Drive {
    pub(super) fn new(
        machine: StateMachine,
        key: Key,
        listener: impl Into<Arc<TcpListener>>,
    ) -> std::io::Result<Self> {
        let kinds: &[Kind] = match machine {
            StateMachine::Member(_) => &[Kind::Ring, Kind::Peer],
            StateMachine::Root(_) => &[Kind::Root],
        };
        Ok(Self {
            machine,
            acceptor: Acceptor::new(listener, &key, kinds, Until::Proved)?,
            key,
            open: Vec::new(),
            accepts: true,
            bytes: vec![0; READ_BYTES],
            began: Instant::now(),
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Connections of strangers that were turned away.
    pub(super) const fn strangers(&self) -> u32 {
        self.acceptor.turned_away()
    }

    /// The rank, unless this is a root.
    pub(super) fn member(&mut self) -> Option<&mut Member<Infos>> {
        match &mut self.machine {
            StateMachine::Member(member) => Some(member),
            StateMachine::Root(_) => None,
        }
    }

    /// Whether the state machine is done. Bytes may still wait to be sent.
    pub(super) fn is_finished(&self) -> bool {
        match &self.machine {
            StateMachine::Member(member) => member.is_over(),
            StateMachine::Root(root) => root.is_finished(self.now()),
        }
    }

    /// Whether everything is sent.
    pub(super) fn is_flushed(&self) -> bool {
        let flushed = |(_, it): &(Conn, Connection)| it.link.outgoing().is_empty();
        self.open.iter().all(flushed)
    }

    /// Adds the descriptors to poll. [`Self::polled`] takes what was found.
    pub(super) fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.acceptor, PollFlags::IN));
        for (_, connection) in &self.open {
            let mut flags = PollFlags::IN;
            if connection.wants_to_write() {
                flags |= PollFlags::OUT;
            }
            let fd: BorrowedFd<'a> = connection.stream().as_fd();
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }

    /// Takes which of the descriptors of [`Self::poll_fds`] are ready, in the same order.
    pub(super) fn polled(&mut self, ready: &mut impl Iterator<Item = bool>) {
        self.accepts = ready.next().unwrap_or(true);
        for ((_, connection), ready) in self.open.iter_mut().zip(ready) {
            connection.ready |= ready;
        }
    }

    /// The longest sleep.
    pub(super) fn sleep(&self) -> Option<Duration> {
        let now = self.now();
        let deadline = match &self.machine {
            StateMachine::Member(member) => member.next_deadline(),
            StateMachine::Root(root) => Some(root.next_deadline()),
        };
        if self.open.iter().any(|(_, it)| it.is_over()) {
            return Some(Duration::ZERO);
        }
        let mut sleep = deadline.map(|it| it.saturating_sub(now));
        let instant = Instant::now();
        let opening = self.open.iter().map(|(_, it)| it);
        let opening = opening.filter(|it| it.link.is_open().is_none());
        let deadlines = opening.map(|it| it.proof_until);
        for deadline in deadlines.chain(self.acceptor.next_deadline()) {
            let left = deadline.saturating_duration_since(instant);
            sleep = Some(sleep.map_or(left, |it| it.min(left)));
        }
        sleep
    }

    /// Does everything that needs no waiting.
    pub(super) fn make_progress(&mut self) {
        self.accept();
        let now = self.now();
        let mut ended: Vec<(Conn, Ending)> = Vec::new();
        for at in 0..self.open.len() {
            let (conn, connection) = &mut self.open[at];
            let conn = *conn;
            let was_open = connection.link.is_open().is_some();
            let late = !was_open && Instant::now() >= connection.proof_until;
            let idle = !(connection.ready || connection.is_over() || late);
            if connection.closing || idle {
                continue;
            }
            connection.ready = false;
            let read = connection.write();
            let read = read.and_then(|()| connection.read(&mut self.bytes));
            let is_open = connection.link.is_open().is_some();
            if is_open
                && !was_open
                && let StateMachine::Member(member) = &mut self.machine
            {
                member.connected(conn, now);
            }
            let mut ending = read.err();
            loop {
                let frame = self.open[at].1.link.next_frame();
                match frame.and_then(|it| it.map(|it| Message::decode(&it)).transpose()) {
                    Ok(Some(message)) => self.received(conn, message, now),
                    Ok(None) => break,
                    Err(error) => {
                        ending = Some(Ending::Distrusted(error));
                        break;
                    }
                }
            }
            if !is_open && late && ending.is_none() {
                let why = "the other side did not prove in time that it belongs to the job";
                ending = Some(Ending::Broken(why.to_owned()));
            }
            if let Some(ending) = ending {
                ended.push((conn, ending));
            }
        }
        self.open
            .retain(|(conn, _)| !ended.iter().any(|(it, _)| it == conn));
        for (conn, ending) in ended {
            match &mut self.machine {
                StateMachine::Member(member) => member.closed(conn, &ending, now),
                StateMachine::Root(root) => root.closed(conn, &ending, now),
            }
        }
        match &mut self.machine {
            StateMachine::Member(member) => member.tick(now),
            StateMachine::Root(root) => root.tick(now),
        }
        self.carry_out();
        self.flush();
    }

    fn received(&mut self, conn: Conn, message: Message<Vec<u8>>, now: Duration) {
        match &mut self.machine {
            StateMachine::Member(member) => member.received(conn, message, now),
            StateMachine::Root(root) => root.received(conn, message, now),
        }
    }

    /// Hands authenticated connections to the state machine.
    fn accept(&mut self) {
        let due = self.acceptor.next_deadline();
        if !std::mem::take(&mut self.accepts) && due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        for arrived in self.acceptor.accept() {
            let conn = match &mut self.machine {
                StateMachine::Root(root) => root.accepted(),
                StateMachine::Member(member) => member.accepted(arrived.kind),
            };
            self.open.push((conn, arrived.into()));
        }
        if let StateMachine::Root(root) = &mut self.machine
            && let Some((from, why)) = self.acceptor.take_refused()
        {
            root.turned_away(from, &why);
        }
    }

    fn carry_out(&mut self) {
        let now = self.now();
        loop {
            let action = match &mut self.machine {
                StateMachine::Member(member) => member.poll_action(),
                StateMachine::Root(root) => root.poll_action(),
            };
            let Some(action) = action else { return };
            match action {
                Action::Connect { conn, to, kind } => {
                    match Connection::connect(*to, &self.key, kind) {
                        Ok(connection) => self.open.push((conn, connection)),
                        Err(error) => {
                            let ending = Ending::Refused(error.to_string());
                            if let StateMachine::Member(member) = &mut self.machine {
                                member.closed(conn, &ending, now);
                            }
                        }
                    }
                }
                Action::Send { conn, message } => {
                    let connection = self.open.iter_mut().find(|(it, _)| *it == conn);
                    if let Some((_, connection)) = connection {
                        connection.send(&message.encode());
                    }
                }
                Action::Close { conn } => {
                    let connection = self.open.iter_mut().find(|(it, _)| *it == conn);
                    if let Some((_, connection)) = connection {
                        connection.closing = true;
                    }
                }
            }
        }
    }

    fn flush(&mut self) {
        self.open.retain_mut(|(_, connection)| {
            // The next progress reports its end.
            let ended = connection.write().is_err();
            let done = ended || connection.link.outgoing().is_empty();
            !(connection.closing && done)
        });
    }

    /// Shuts down sending.
    pub(super) fn shut_down(&self) {
        for (_, connection) in &self.open {
            let stream: &TcpStream = connection.stream();
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Discards received bytes. Returns `true` if all other sides have closed.
    pub(super) fn drain(&mut self) -> bool {
        self.open.retain_mut(|(_, connection)| connection.skip());
        self.open.is_empty()
    }
}
