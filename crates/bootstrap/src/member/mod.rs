//! A process with its ranks: it checks in with its root, joins the ring and exchanges information
//! with all others. Then it answers questions, reports failures, and notices when a neighbor falls
//! silent.
//!
//! The members of the ring are processes, each with the same number of ranks, its *width*: member m
//! has the ranks from m · width on. With a width of 1, as under most launchers, a member is a rank.
//! Failures, and ranks that leave, are named by ranks; everything else counts members.
//!
//! Parts of an exchange travel around the ring in both directions: ⌊n/2⌋ steps towards the next
//! rank and ⌊(n−1)/2⌋ towards the previous one. So each rank sends n−1 parts and receives n−1.

mod ending;
mod exchange;
mod loss;
mod meeting;
mod offers;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::failure::Failure;
use crate::info::Table;
use crate::link::Kind;
use crate::machine::{Action, STAGGER_RATE, STAGGER_THRESHOLD, Timing};
use crate::message::{Conn, Message};

/// Capacity of the queue of actions that is kept while it is empty.
const MOST_KEPT: usize = 64;

/// A member's place in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The member's number: the rank, if each process has one.
    pub rank: u32,
    /// Number of members.
    pub ranks: u32,
    /// Ranks of each member.
    pub width: u32,
    /// How it finds the next member of the ring.
    pub meeting: Meeting,
    /// Address for the previous member of the ring.
    pub listens: SocketAddr,
    /// Version of the program.
    pub version: String,
    /// Host and process, for messages.
    pub name: String,
}

/// How a rank finds the next one of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// A root tells it.
    Roots(Vec<SocketAddr>),
    /// It is known, because the ranks have met before in another communicator.
    Known(SocketAddr),
}

/// The progress of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits until this time, because its root has many ranks.
    Staggered(Duration),
    /// The ring is not closed.
    Meeting,
    /// The first exchange is in progress.
    Telling,
    Ready,
}

/// The purpose of a connection outside the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    /// To a root, by its index.
    Root(usize),
    /// To a rank that is asked for offers.
    Peer(u32),
    /// To a rank that is asked whether it lives.
    Probe(u32),
    /// From a rank that is not known yet.
    Unknown(Kind),
    /// From a rank that asks for offers.
    Asker(u32),
}

#[derive(Debug)]
struct Other {
    conn: Conn,
    purpose: Purpose,
    open: bool,
    /// Questions to send once it is open.
    queue: Vec<(u32, String)>,
    /// Questions on it that wait for an answer.
    waiting: usize,
    /// The last answer on it, to close a connection to a peer that is no longer used.
    answered: Duration,
}

/// A connection to try again.
#[derive(Debug)]
enum Again {
    /// To a root, by its index.
    Root(usize),
    /// To the next rank of the ring.
    Next,
    /// To a rank, with questions for it.
    Peer(u32, Vec<(u32, String)>),
}

/// A connection of the ring.
#[derive(Debug)]
struct Side {
    conn: Conn,
    open: bool,
    heard: Duration,
    said: Duration,
}

/// An exchange in progress.
#[derive(Debug)]
struct Exchange<B> {
    number: u32,
    /// Parts received from the previous rank, and from the next one.
    from_previous: u32,
    from_next: u32,
    /// Received parts by rank. Those of the first exchange go into the table.
    parts: Vec<Option<B>>,
}

/// A rank.
#[derive(Debug)]
pub struct Member<T: Table> {
    place: Place,
    timing: Timing,
    table: T,
    own: T::Block,
    stage: Stage,
    next: Option<Side>,
    previous: Option<Side>,
    others: Vec<Other>,
    exchange: Option<Exchange<T::Block>>,
    exchanges: u32,
    finished: Option<Vec<T::Block>>,
    /// Parts of the next exchange, from the previous rank and the next one, that arrived before
    /// this rank began it.
    early: [Vec<(u32, T::Block)>; 2],
    failure: Option<Failure>,
    /// By rank: whether it is done.
    left: Vec<bool>,
    /// Whether this rank is about to leave.
    finishing: bool,
    gone: u32,
    offers: HashMap<String, Vec<u8>>,
    askers: HashMap<String, Vec<(Option<Conn>, u32)>>,
    values: Vec<(u32, Vec<u8>)>,
    /// Connections to try again, and when.
    retry: Vec<(Duration, Again)>,
    /// Address of the next rank of the ring, once known.
    next_listens: Option<SocketAddr>,
    last_refusal: Option<String>,
    /// When this rank last handled anything.
    seen: Duration,
    /// The end of the last suspension that was longer than `silence`, and its length.
    stopped: Option<(Duration, Duration)>,
    /// Whether the others abandoned this rank because of it.
    abandoned: bool,
    conns: u32,
    actions: VecDeque<Action<T::Block>>,
}

impl<T: Table> Member<T> {
    /// A rank that begins now, at time zero.
    pub fn new(place: Place, timing: Timing, table: T, own: T::Block) -> Self {
        let ranks = place.ranks;
        let mut member = Self {
            stage: Stage::Meeting,
            timing,
            table,
            own,
            next: None,
            previous: None,
            others: Vec::new(),
            exchange: None,
            exchanges: 0,
            finished: None,
            early: [Vec::new(), Vec::new()],
            failure: None,
            left: Vec::new(),
            finishing: false,
            gone: 0,
            offers: HashMap::new(),
            askers: HashMap::new(),
            values: Vec::new(),
            retry: Vec::new(),
            next_listens: None,
            last_refusal: None,
            seen: Duration::ZERO,
            stopped: None,
            abandoned: false,
            conns: 0,
            actions: VecDeque::new(),
            place,
        };
        match member.place.meeting {
            _ if ranks == 1 => member.stage = Stage::Ready,
            Meeting::Known(next) => member.connect_next(next),
            Meeting::Roots(_) => {
                let group = member.group_of(member.own_root());
                if group.len() as u32 > STAGGER_THRESHOLD {
                    let local = member.place.rank - group.start;
                    let wait = Duration::from_secs(1) * local / STAGGER_RATE;
                    member.stage = Stage::Staggered(wait);
                } else {
                    member.go_to_roots();
                }
            }
        }
        member
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action<T::Block>> {
        let action = self.actions.pop_front();
        if action.is_none() && self.actions.capacity() > MOST_KEPT {
            // A large queue arises only while a neighbor is missing.
            self.actions = VecDeque::new();
        }
        action
    }

    /// Whether all ranks have met and exchanged their information.
    pub const fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// The failure of the job, if it failed.
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// This rank's suspension, if the others abandoned it because of that.
    pub fn own_stop(&self) -> Option<Failure> {
        let (_, gap) = self.stopped.filter(|_| self.abandoned)?;
        Some(self.stop_of(gap))
    }

    /// Whether a rank is done.
    pub fn has_left(&self, rank: u32) -> bool {
        self.left.get(rank as usize).copied().unwrap_or(false)
    }

    /// Number of ranks that are done.
    pub const fn count_left(&self) -> u32 {
        self.gone
    }

    /// The ranks that are done.
    pub fn all_left(&self) -> Vec<u32> {
        let all = self.left.iter().zip(0..);
        all.filter(|(left, _)| **left)
            .map(|(_, rank)| rank)
            .collect()
    }

    /// Whether this rank can end: all are done, or the job failed.
    pub const fn is_over(&self) -> bool {
        self.gone >= self.place.ranks * self.place.width || self.failure.is_some()
    }

    /// The information of the others.
    pub const fn table(&self) -> &T {
        &self.table
    }

    /// When [`Self::tick`] must be called if nothing else happens.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.failure.is_some() {
            return None;
        }
        let mut deadline = match self.stage {
            Stage::Staggered(until) => Some(until),
            Stage::Meeting | Stage::Telling => Some(self.patience()),
            Stage::Ready => None,
        };
        let mut earlier = |at: Duration| {
            if deadline.is_none_or(|it| at < it) {
                deadline = Some(at);
            }
        };
        for (at, _) in &self.retry {
            earlier(*at);
        }
        for other in self.others.iter().filter(|it| it.is_unused_peer()) {
            earlier(other.answered + self.timing.retry);
        }
        for side in [&self.next, &self.previous].into_iter().flatten() {
            if side.open {
                earlier(side.said + self.timing.beat);
                earlier(side.heard + self.timing.silence);
            }
        }
        deadline
    }

    /// When this rank gives up meeting. Roots know best which rank is missing, then ranks that miss
    /// a neighbor, so the others wait longer. Without a root, no one knows better.
    fn patience(&self) -> Duration {
        let Timing { join, linger, .. } = self.timing;
        match self.stage {
            Stage::Telling => join + linger,
            Stage::Meeting if self.next_listens.is_none() && !self.has_a_root() => join,
            _ => join + linger / 2,
        }
    }

    fn new_conn(&mut self) -> Conn {
        self.conns += 1;
        Conn(self.conns - 1)
    }

    fn send(&mut self, conn: Conn, message: Message<T::Block>) {
        self.actions.push_back(Action::Send { conn, message });
    }

    fn connect(&mut self, to: SocketAddr, kind: Kind) -> Conn {
        let conn = self.new_conn();
        let to = Box::new(to);
        self.actions.push_back(Action::Connect { conn, to, kind });
        conn
    }

    fn other(&mut self, conn: Conn, purpose: Purpose, open: bool) -> &mut Other {
        self.others.push(Other {
            conn,
            purpose,
            open,
            queue: Vec::new(),
            waiting: 0,
            answered: Duration::ZERO,
        });
        let last = self.others.len() - 1;
        &mut self.others[last]
    }

    /// The first rank of a member, which names it in messages.
    const fn first(&self, member: u32) -> u32 {
        member.saturating_mul(self.place.width)
    }

    /// Whether all ranks of a member are done.
    fn member_left(&self, member: u32) -> bool {
        let first = self.first(member);
        (first..first + self.place.width).all(|rank| self.has_left(rank))
    }

    /// A member's process and host, for messages.
    fn name(&self, member: u32) -> String {
        let info = self.table.info(self.first(member));
        info.map_or_else(|| "place not known yet".to_owned(), |info| info.place())
    }

    /// The next rank of the ring, or the previous one.
    const fn neighbor(&self, of_next: bool) -> u32 {
        let Place { rank, ranks, .. } = self.place;
        (if of_next { rank + 1 } else { rank + ranks - 1 }) % ranks
    }

    /// The connection with that neighbor.
    const fn side(&mut self, of_next: bool) -> &mut Option<Side> {
        if of_next {
            &mut self.next
        } else {
            &mut self.previous
        }
    }

    /// Handles that a connection of this rank is open.
    pub fn connected(&mut self, conn: Conn, now: Duration) {
        self.notice_a_stop(now);
        let rank = self.place.rank;
        if let Some(next) = self.next.as_mut().filter(|it| it.conn == conn) {
            (next.open, next.heard, next.said) = (true, now, now);
            self.send(conn, Message::Hello(rank));
            self.pass_failure_on(conn);
            self.begin_telling();
            return;
        }
        let Some(other) = self.others.iter_mut().find(|it| it.conn == conn) else {
            return;
        };
        other.open = true;
        // A probe has exactly one question.
        let queue = std::mem::take(&mut other.queue);
        other.waiting = queue.len();
        let root = matches!(other.purpose, Purpose::Root(_));
        if root {
            let check_in = self.check_in();
            self.send(conn, check_in);
        } else {
            self.send(conn, Message::Hello(rank));
        }
        for (ticket, name) in queue {
            self.send(conn, Message::Get(Box::new((ticket, name))));
        }
    }

    /// Adds a connection, whose other side knows the token.
    pub fn accepted(&mut self, kind: Kind) -> Conn {
        let conn = self.new_conn();
        self.other(conn, Purpose::Unknown(kind), true);
        conn
    }

    /// Handles a message.
    pub fn received(&mut self, conn: Conn, message: Message<T::Block>, now: Duration) {
        self.notice_a_stop(now);
        for of_next in [true, false] {
            let side = self.side(of_next).as_mut();
            if let Some(side) = side.filter(|it| it.conn == conn) {
                side.heard = now;
                self.of_ring(of_next, message);
                return;
            }
        }
        let Some(at) = self.others.iter().position(|it| it.conn == conn) else {
            return;
        };
        match (self.others[at].purpose.clone(), message) {
            (Purpose::Root(_), Message::Next(next)) => self.connect_next(*next),
            (Purpose::Root(_), Message::Failed(failure)) => self.fail_as(*failure, None),
            (Purpose::Unknown(Kind::Ring), Message::Hello(rank)) => {
                self.others.remove(at);
                self.take_previous(conn, rank, now);
            }
            (Purpose::Unknown(Kind::Peer), Message::Hello(rank)) => {
                self.others[at].purpose = Purpose::Asker(rank);
            }
            (Purpose::Asker(rank), Message::Get(question)) => self.answer(at, rank, *question),
            (Purpose::Peer(_), Message::Value(answer)) => {
                self.values.push(*answer);
                let other = &mut self.others[at];
                other.waiting = other.waiting.saturating_sub(1);
                other.answered = now;
            }
            (Purpose::Probe(_), Message::Value(answer)) => {
                self.values.push(*answer);
                self.others.remove(at);
                self.actions.push_back(Action::Close { conn });
            }
            (Purpose::Peer(_) | Purpose::Probe(_) | Purpose::Asker(_), Message::Left(rank)) => {
                self.note_left(rank, None)
            }
            (
                Purpose::Peer(_) | Purpose::Probe(_) | Purpose::Asker(_),
                Message::Failed(failure),
            ) => {
                let failure = self.heard_of(*failure, false);
                self.fail_as(failure, None);
            }
            (purpose, _) => {
                let rank = match purpose {
                    Purpose::Peer(rank) | Purpose::Probe(rank) | Purpose::Asker(rank) => rank,
                    Purpose::Root(_) | Purpose::Unknown(_) => self.place.rank,
                };
                let rank = self.first(rank);
                let what = "it sent a message that does not belong on this connection".to_owned();
                self.fail_as(Failure { rank, what }, None);
            }
        }
    }

    /// Handles a neighbor's message.
    #[inline]
    fn of_ring(&mut self, of_next: bool, message: Message<T::Block>) {
        match message {
            Message::Block {
                exchange,
                origin,
                block,
            } => self.part(of_next, exchange, origin, block),
            Message::Beat => {}
            Message::Failed(failure) => {
                let failure = self.heard_of(*failure, false);
                self.fail_as(failure, Some(of_next));
            }
            Message::Left(rank) => self.note_left(rank, Some(of_next)),
            _ => {
                let rank = self.first(self.neighbor(of_next));
                let what = "it sent a message that does not belong on the ring".to_owned();
                self.fail_as(Failure { rank, what }, None);
            }
        }
    }
}
