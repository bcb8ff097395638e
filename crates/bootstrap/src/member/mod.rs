//! A rank's side: it checks in with its root, closes the ring, tells all others of itself, and then stays: it answers
//! questions, passes failures on, and notices when a neighbor says nothing any more.
//!
//! What all tell all goes round the ring in both directions at once: towards the next rank a part goes ⌊n/2⌋ steps far,
//! towards the one before ⌊(n−1)/2⌋, so each rank sends n−1 parts and gets n−1.

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

/// Room for actions that is kept when there are none.
const MOST_KEPT: usize = 64;

/// Where a rank stands in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The rank.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// How the ring is found.
    pub meeting: Meeting,
    /// Where the rank before in the ring connects to.
    pub listens: SocketAddr,
    /// Version of the program.
    pub version: String,
    /// Host and process, for messages.
    pub name: String,
}

/// How a rank finds the next one of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// It asks a root.
    Roots(Vec<SocketAddr>),
    /// It knows, for the ranks met before in another communicator.
    Known(SocketAddr),
}

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It comes later, for the root has many ranks.
    Staggered(Duration),
    /// The ring is not closed.
    Meeting,
    /// The first exchange goes on.
    Telling,
    Ready,
}

/// A connection but the ring's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    /// To a root, by its place in the list.
    Root(usize),
    /// To a rank whose offers are wanted.
    Peer(u32),
    /// To a rank that is asked whether anything happened to it.
    Probe(u32),
    /// Somebody connected and has not said who it is.
    Unknown(Kind),
    /// A rank that asks.
    Asker(u32),
}

#[derive(Debug)]
struct Other {
    conn: Conn,
    purpose: Purpose,
    open: bool,
    /// What is to be said once it is open.
    queue: Vec<(u32, String)>,
    /// Its questions that wait for an answer.
    waiting: usize,
}

/// A connection that is to be made once more.
#[derive(Debug)]
enum Again {
    /// To a root, by its place in the list.
    Root(usize),
    /// To the next rank of the ring.
    Next,
    /// To a rank, and what it is to be asked.
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

/// An exchange in which all tell all.
#[derive(Debug)]
struct Exchange<B> {
    number: u32,
    /// Parts that came from the rank before, and from the next one.
    from_previous: u32,
    from_next: u32,
    /// What came, but for the first exchange, which goes into the table.
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
    /// Parts of the next exchange, from the rank before and from the next one, that came before this rank began it.
    early: [Vec<(u32, T::Block)>; 2],
    failure: Option<Failure>,
    left: Vec<bool>,
    /// Whether this rank is about to leave.
    finishing: bool,
    gone: u32,
    offers: HashMap<String, Vec<u8>>,
    askers: HashMap<String, Vec<(Option<Conn>, u32)>>,
    values: Vec<(u32, Vec<u8>)>,
    /// When what is tried again.
    retry: Vec<(Duration, Again)>,
    /// Where the next rank of the ring listens, once that is known.
    next_listens: Option<SocketAddr>,
    last_refusal: Option<String>,
    /// When this rank was last told anything.
    seen: Duration,
    /// When it went on that had not run for so long that the others may have given it up, and how long that was.
    stopped: Option<(Duration, Duration)>,
    /// Whether they did.
    given_up: bool,
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
            given_up: false,
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

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action<T::Block>> {
        let action = self.actions.pop_front();
        if action.is_none() && self.actions.capacity() > MOST_KEPT {
            // What came while a neighbor was not there yet goes on at once; its memory is not needed again.
            self.actions = VecDeque::new();
        }
        action
    }

    /// Whether all have met, and told each other of themselves.
    pub const fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// What made the job fail, if anything did.
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What happened to this rank, if it did not run for so long that the others gave it up.
    pub fn own_stop(&self) -> Option<Failure> {
        let (_, gap) = self.stopped.filter(|_| self.given_up)?;
        Some(self.stop_of(gap))
    }

    /// Whether a rank said that it is done.
    pub fn has_left(&self, rank: u32) -> bool {
        self.left.get(rank as usize).copied().unwrap_or(false)
    }

    /// How many said that they are done.
    pub const fn count_left(&self) -> u32 {
        self.gone
    }

    /// The ranks that said that they are done.
    pub fn all_left(&self) -> Vec<u32> {
        let all = self.left.iter().zip(0..);
        all.filter(|(left, _)| **left)
            .map(|(_, rank)| rank)
            .collect()
    }

    /// Whether nothing is to be waited for any more: all said that they are done, or the job failed.
    pub const fn is_over(&self) -> bool {
        self.gone >= self.place.ranks || self.failure.is_some()
    }

    /// What is known of the others.
    pub const fn table(&self) -> &T {
        &self.table
    }

    /// When [`Self::tick`] must be called, if nothing else happens.
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
        for side in [&self.next, &self.previous].into_iter().flatten() {
            if side.open {
                earlier(side.said + self.timing.beat);
                earlier(side.heard + self.timing.silence);
            }
        }
        deadline
    }

    /// When this rank gives up. Roots know best who is missing, then those that miss a neighbor, then the others. Where no
    /// root answers, nobody knows better.
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
        });
        let last = self.others.len() - 1;
        &mut self.others[last]
    }

    /// Where a rank is, in words.
    fn name(&self, rank: u32) -> String {
        let info = self.table.info(rank);
        info.map_or_else(|| "place not known yet".to_owned(), |info| info.place())
    }

    /// The next rank of the ring, or the one before.
    const fn neighbor(&self, of_next: bool) -> u32 {
        let Place { rank, ranks, .. } = self.place;
        (if of_next { rank + 1 } else { rank + ranks - 1 }) % ranks
    }

    /// An own connection is open.
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
        // Questions, for a probe the only one.
        let queue = std::mem::take(&mut other.queue);
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

    /// Somebody connected and knows the token.
    pub fn accepted(&mut self, kind: Kind) -> Conn {
        let conn = self.new_conn();
        self.other(conn, Purpose::Unknown(kind), true);
        conn
    }

    /// A message came.
    pub fn received(&mut self, conn: Conn, message: Message<T::Block>, now: Duration) {
        self.notice_a_stop(now);
        let of_next = self.next.as_ref().is_some_and(|it| it.conn == conn);
        let of_previous = self.previous.as_ref().is_some_and(|it| it.conn == conn);
        if of_next || of_previous {
            let side = if of_next {
                &mut self.next
            } else {
                &mut self.previous
            };
            if let Some(side) = side {
                side.heard = now;
            }
            self.of_ring(of_next, message);
            return;
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
            (Purpose::Peer(_), Message::Value(answer)) => self.values.push(*answer),
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
                let what = "a message came that does not belong there".to_owned();
                self.fail_as(Failure { rank, what }, None);
            }
        }
    }

    /// A message of a neighbor.
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
                let rank = self.neighbor(of_next);
                let what = "a message came that does not belong on the ring".to_owned();
                self.fail_as(Failure { rank, what }, None);
            }
        }
    }
}
