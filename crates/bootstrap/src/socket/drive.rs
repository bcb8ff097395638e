//! A state machine with its sockets.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::connection::Connection;
use crate::id::Key;
use crate::info::Infos;
use crate::link::Kind;
use crate::machine::{Action, Ending};
use crate::member::Member;
use crate::message::{Conn, Message};
use crate::root::Root;

/// Most connections that have not proved yet that they know the key. Further ones are not accepted meanwhile.
const MOST_UNPROVED: usize = 1024;

/// Either kind of machine.
pub enum Machine {
    /// A rank.
    Member(Box<Member<Infos>>),
    /// A root.
    Root(Box<Root<Vec<u8>>>),
}

/// A machine, where it listens, and its connections.
pub struct Drive {
    pub machine: Machine,
    key: Key,
    listener: TcpListener,
    open: Vec<(Conn, Connection)>,
    /// Connections that came and have not proved yet that they know the key.
    unproved: Vec<Connection>,
    began: Instant,
    /// Strangers that were turned away.
    pub strangers: u32,
}

impl Drive {
    pub fn new(machine: Machine, key: Key, listener: TcpListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            machine,
            key,
            listener,
            open: Vec::new(),
            unproved: Vec::new(),
            began: Instant::now(),
            strangers: 0,
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The member.
    pub fn member(&mut self) -> Option<&mut Member<Infos>> {
        match &mut self.machine {
            Machine::Member(member) => Some(member),
            Machine::Root(_) => None,
        }
    }

    /// Whether it is needed no more. What is to be sent may not be sent yet.
    pub fn is_finished(&self) -> bool {
        match &self.machine {
            Machine::Member(member) => member.is_over(),
            Machine::Root(root) => root.is_finished(self.now()),
        }
    }

    /// Whether everything that is to be sent is sent.
    pub fn is_flushed(&self) -> bool {
        let flushed = |(_, it): &(Conn, Connection)| it.link.outgoing().is_empty();
        self.open.iter().all(flushed)
    }

    /// What to poll.
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let accepts = self.unproved.len() < MOST_UNPROVED;
        let flags = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), flags));
        let all = self.open.iter().map(|(_, it)| it);
        for connection in all.chain(&self.unproved) {
            let mut flags = PollFlags::IN;
            if connection.wants_to_write() {
                flags |= PollFlags::OUT;
            }
            let fd: BorrowedFd<'a> = connection.stream().as_fd();
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }

    /// How long to sleep at most.
    pub fn sleep(&self) -> Option<Duration> {
        let now = self.now();
        let deadline = match &self.machine {
            Machine::Member(member) => member.next_deadline(),
            Machine::Root(root) => Some(root.next_deadline()),
        };
        if self.open.iter().any(|(_, it)| it.is_over()) {
            return Some(Duration::ZERO);
        }
        let mut sleep = deadline.map(|it| it.saturating_sub(now));
        let instant = Instant::now();
        let opening = |it: &&Connection| it.link.is_open().is_none();
        for connection in self
            .open
            .iter()
            .map(|(_, it)| it)
            .chain(&self.unproved)
            .filter(opening)
        {
            let left = connection.proof_until.saturating_duration_since(instant);
            sleep = Some(sleep.map_or(left, |it| it.min(left)));
        }
        sleep
    }

    /// Does everything that can be done without waiting.
    pub fn go_on(&mut self) {
        self.accept();
        self.prove();
        let now = self.now();
        let mut ended: Vec<(Conn, Ending)> = Vec::new();
        for at in 0..self.open.len() {
            let (conn, connection) = &mut self.open[at];
            let conn = *conn;
            if connection.closing {
                continue;
            }
            let was_open = connection.link.is_open().is_some();
            let read = connection.write().and_then(|()| connection.read());
            let late = Instant::now() >= connection.proof_until;
            let is_open = connection.link.is_open().is_some();
            if is_open
                && !was_open
                && let Machine::Member(member) = &mut self.machine
            {
                member.connected(conn, now);
            }
            let mut ending = read.err();
            loop {
                match self.open[at].1.link.next_frame() {
                    Ok(Some(frame)) => match Message::decode(&frame) {
                        Ok(message) => self.received(conn, message, now),
                        Err(error) => {
                            ending = Some(Ending::Distrusted(error));
                            break;
                        }
                    },
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
                Machine::Member(member) => member.closed(conn, &ending, now),
                Machine::Root(root) => root.closed(conn, &ending, now),
            }
        }
        match &mut self.machine {
            Machine::Member(member) => member.tick(now),
            Machine::Root(root) => root.tick(now),
        }
        self.carry_out();
        self.flush();
    }

    fn received(&mut self, conn: Conn, message: Message<Vec<u8>>, now: Duration) {
        match &mut self.machine {
            Machine::Member(member) => member.received(conn, message, now),
            Machine::Root(root) => root.received(conn, message, now),
        }
    }

    fn accept(&mut self) {
        while self.unproved.len() < MOST_UNPROVED {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            // One that ends at once is nobody's.
            if let Ok(connection) = Connection::accept(stream, &self.key) {
                self.unproved.push(connection);
            }
        }
    }

    /// Connections that came become the machine's once they have proved that they know the key.
    fn prove(&mut self) {
        let mut at = 0;
        while at < self.unproved.len() {
            let connection = &mut self.unproved[at];
            // One that is turned away may be told why.
            let read = connection.read();
            let gone = connection.write().and(read).is_err() && connection.link.is_open().is_none();
            if gone || Instant::now() >= connection.proof_until {
                self.strangers += 1;
                self.unproved.swap_remove(at);
                continue;
            }
            let Some(kind) = connection.link.is_open() else {
                at += 1;
                continue;
            };
            let connection = self.unproved.swap_remove(at);
            let conn = match &mut self.machine {
                Machine::Root(root) if kind == Kind::Root => root.accepted(),
                Machine::Member(member) if matches!(kind, Kind::Ring | Kind::Peer) => {
                    member.accepted(kind)
                }
                _ => continue,
            };
            self.open.push((conn, connection));
        }
    }

    fn carry_out(&mut self) {
        let now = self.now();
        loop {
            let action = match &mut self.machine {
                Machine::Member(member) => member.poll_action(),
                Machine::Root(root) => root.poll_action(),
            };
            let Some(action) = action else { return };
            match action {
                Action::Connect { conn, to, kind } => {
                    match Connection::connect(*to, &self.key, kind) {
                        Ok(connection) => self.open.push((conn, connection)),
                        Err(error) => {
                            let ending = Ending::Refused(error.to_string());
                            if let Machine::Member(member) = &mut self.machine {
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
            // One that ended is heard of when all go on next.
            let ended = connection.write().is_err();
            let done = ended || connection.link.outgoing().is_empty();
            !(connection.closing && done)
        });
    }

    /// Says that nothing more comes.
    pub fn shut_down(&self) {
        for (_, connection) in &self.open {
            let stream: &TcpStream = connection.stream();
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Reads what still comes and forgets it; answers whether all other sides have closed.
    pub fn drain(&mut self) -> bool {
        self.unproved.clear();
        self.open.retain_mut(|(_, connection)| connection.skip());
        self.open.is_empty()
    }
}
