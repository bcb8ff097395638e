//! Few ranks over connections that carry real bytes, and faults from a seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::failure::Failure;
use crate::id::Key;
use crate::info::{Infos, PeerInfo};
use crate::link::{Kind, Link, LinkError};
use crate::machine::{Action, Ending, Timing, group};
use crate::member::{Meeting, Member, Place};
use crate::message::{Conn, Message};
use crate::root::Root;
use crate::simulation::random::Random;
use crate::simulation::scenario::{Fault, Outcome, Scenario};

/// Time that bytes are on their way when nothing is wrong.
pub(super) const LATENCY: Duration = Duration::from_micros(200);

/// After this the caller of a question that is not answered gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) enum Participant {
    Member(Box<Member<Infos>>),
    Root(Box<Root<Vec<u8>>>),
    Stranger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Running,
    Stopped,
    Gone,
}

/// How far a member's work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Meeting,
    Exchanging,
    Asking(Duration),
    Leaving,
}

pub(super) struct Node {
    pub machine: Participant,
    pub state: State,
    /// The rank whose process it is in.
    pub process: u32,
    pub key: Key,
    pub address: SocketAddr,
    pub pipes: BTreeMap<Conn, usize>,
    pub timer: Option<Duration>,
    /// Until then it is stopped.
    pub resumes: Duration,
    pub work: Work,
    pub outcome: Option<(Outcome, Duration)>,
}

/// One side of a connection.
pub(super) struct Side {
    pub node: usize,
    pub conn: Option<Conn>,
    pub link: Link,
    pub told_open: bool,
    /// The other end closed it, or it broke: nothing more is to be told.
    pub over: bool,
}

pub(super) struct Pipe {
    pub sides: [Side; 2],
    pub delay: Duration,
    pub stalled: bool,
    pub alter: bool,
    /// When the last bytes in each direction arrive, for they stay in order.
    pub last: [Duration; 2],
}

pub(super) enum Event {
    Bytes(usize, usize, Vec<u8>),
    /// The side hears that the connection ended.
    Ended(usize, usize, Ending),
    Refused(usize, Conn),
    Timer(usize),
    Start(usize),
    Fault(Fault),
}

pub(super) struct World {
    pub nodes: Vec<Node>,
    pub pipes: Vec<Pipe>,
    pub events: BTreeMap<u64, Event>,
    pub queue: BinaryHeap<Reverse<(Duration, u64)>>,
    pub next: u64,
    pub now: Duration,
    pub random: Random,
    pub ranks: u32,
}

pub(super) fn address(node: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(10 << 24 | node as u32), 1))
}

impl World {
    pub fn new(scenario: &Scenario) -> Self {
        let Scenario { ranks, roots, .. } = *scenario;
        let timing = Timing::default();
        let right = Key::of_secret(b"the job");
        let root_addresses: Vec<SocketAddr> = (ranks..ranks + roots)
            .map(|node| address(node as usize))
            .collect();
        let mut world = Self {
            nodes: Vec::new(),
            pipes: Vec::new(),
            events: BTreeMap::new(),
            queue: BinaryHeap::new(),
            next: 0,
            now: Duration::ZERO,
            random: Random::new(scenario.seed ^ 0x5eed),
            ranks,
        };
        let doubles: Vec<u32> = (0..ranks)
            .filter(|rank| scenario.has(Fault::Double(*rank)))
            .collect();
        let mut all: Vec<(usize, u32)> = (0..ranks).map(|rank| (rank as usize, rank)).collect();
        let first_double = (ranks + roots) as usize;
        all.extend((first_double..).zip(doubles));
        let member = |node: usize, rank: u32| {
            let same = scenario.has(Fault::SameDevice(rank));
            let info = PeerInfo {
                rank,
                version: "1".to_owned(),
                fingerprint: [u8::from(scenario.has(Fault::OtherPlan(rank))); 32],
                options: Vec::new(),
                host: if same { 0 } else { u64::from(rank / 2) },
                host_name: format!("host{}", rank / 2),
                machine: 0,
                cores: Vec::new(),
                process: node as u32,
                device: format!("device {}", if same { 0 } else { rank % 2 }),
                address: address(node),
                nics: Vec::new(),
            };
            let place = Place {
                rank,
                ranks,
                meeting: Meeting::Roots(root_addresses.clone()),
                listens: info.address,
                version: info.version.clone(),
                name: info.place(),
            };
            let infos = Infos::new(info, ranks);
            let own = infos.own_block();
            let wrong = scenario.has(Fault::WrongToken(rank));
            Node {
                machine: Participant::Member(Box::new(Member::new(place, timing, infos, own))),
                state: State::Waiting,
                process: if node < ranks as usize {
                    rank
                } else {
                    u32::MAX
                },
                key: if wrong {
                    Key::of_secret(b"another job")
                } else {
                    right.clone()
                },
                address: address(node),
                pipes: BTreeMap::new(),
                timer: None,
                resumes: Duration::ZERO,
                work: Work::Meeting,
                outcome: None,
            }
        };
        let (first, more) = all.split_at(ranks as usize);
        for (node, rank) in first {
            world.nodes.push(member(*node, *rank));
        }
        for root in 0..roots {
            world.nodes.push(Node {
                machine: Participant::Root(Box::new(Root::new(ranks, roots, root, timing))),
                state: State::Waiting,
                process: group(ranks, roots, root).start,
                key: right.clone(),
                address: address((ranks + root) as usize),
                pipes: BTreeMap::new(),
                timer: None,
                resumes: Duration::ZERO,
                work: Work::Meeting,
                outcome: None,
            });
        }
        for (node, rank) in more {
            world.nodes.push(member(*node, *rank));
        }
        for node in 0..world.nodes.len() {
            let late = matches!(world.nodes[node].machine, Participant::Root(_))
                && scenario.has(Fault::LateRoots);
            let missing = scenario.has(Fault::Missing(world.nodes[node].process));
            let begin = Duration::from_micros(world.random.below(500_000));
            let begin = if late { Duration::from_secs(3) } else { begin };
            if missing {
                world.nodes[node].state = State::Gone;
            } else {
                world.at(begin, Event::Start(node));
            }
        }
        for (at, fault) in &scenario.faults {
            world.at(*at, Event::Fault(*fault));
        }
        world
    }

    pub fn at(&mut self, at: Duration, event: Event) {
        self.events.insert(self.next, event);
        self.queue.push(Reverse((at, self.next)));
        self.next += 1;
    }

    pub fn run(mut self, scenario: &Scenario) -> Result<Vec<(Outcome, Duration)>, String> {
        let deadline = scenario.deadline();
        while let Some(Reverse((at, number))) = self.queue.pop() {
            if at > deadline {
                break;
            }
            self.now = at;
            let Some(event) = self.events.remove(&number) else {
                continue;
            };
            self.happen(event);
        }
        let ranks = self.ranks as usize;
        let mut outcomes = Vec::new();
        for (rank, node) in self.nodes.drain(..).enumerate().take(ranks) {
            let gone = (Outcome::Gone, Duration::ZERO);
            let outcome = match (node.outcome, node.state) {
                (Some(outcome), _) => outcome,
                (None, State::Gone | State::Stopped) => gone,
                (None, _) => {
                    return Err(format!(
                        "rank {rank} neither succeeds nor fails within {deadline:?}: {scenario:?}"
                    ));
                }
            };
            if let (Outcome::Failed(failure), _) = &outcome
                && (failure.what.is_empty() || failure.rank >= self.ranks)
            {
                return Err(format!("rank {rank} hears of no culprit: {failure:?}"));
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The node that something happens to.
    fn of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Bytes(pipe, side, _) | Event::Ended(pipe, side, _) => {
                Some(self.pipes[*pipe].sides[*side].node)
            }
            Event::Refused(node, _) | Event::Timer(node) | Event::Start(node) => Some(*node),
            Event::Fault(_) => None,
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(node) = self.of(&event) {
            let resumes = self.nodes[node].resumes;
            if resumes > self.now {
                // The system keeps everything for a process that is stopped, in order.
                if matches!(event, Event::Timer(_)) && self.nodes[node].timer == Some(self.now) {
                    self.nodes[node].timer = Some(resumes);
                }
                self.at(resumes, event);
                return;
            }
        }
        match event {
            Event::Start(node) => {
                if self.nodes[node].state == State::Waiting {
                    self.nodes[node].state = State::Running;
                    self.go_on(node);
                }
            }
            Event::Timer(node) => {
                if self.nodes[node].timer == Some(self.now) {
                    self.nodes[node].timer = None;
                    if self.nodes[node].state == State::Running {
                        self.go_on(node);
                    }
                }
            }
            Event::Refused(node, conn) => {
                let ending = Ending::Refused("connection refused".to_owned());
                self.tell_closed(node, conn, &ending);
            }
            Event::Bytes(pipe, side, bytes) => self.bytes(pipe, side, &bytes),
            Event::Ended(pipe, side, ending) => {
                let to = &mut self.pipes[pipe].sides[side];
                if !std::mem::replace(&mut to.over, true)
                    && let (node, Some(conn)) = (to.node, to.conn)
                {
                    self.tell_closed(node, conn, &ending);
                }
            }
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn tell_closed(&mut self, node: usize, conn: Conn, ending: &Ending) {
        let now = self.now;
        if self.nodes[node].state != State::Running {
            return;
        }
        self.nodes[node].pipes.remove(&conn);
        match &mut self.nodes[node].machine {
            Participant::Member(member) => member.closed(conn, ending, now),
            Participant::Root(root) => root.closed(conn, ending, now),
            Participant::Stranger => {}
        }
        self.go_on(node);
    }

    /// Bytes come to a side of a connection.
    fn bytes(&mut self, at: usize, side: usize, bytes: &[u8]) {
        let now = self.now;
        let pipe = &mut self.pipes[at];
        let to = &mut pipe.sides[side];
        let node = to.node;
        if to.over || self.nodes[node].state != State::Running {
            return;
        }
        let before = to.link.is_open();
        let pushed = to.link.push(bytes);
        let opened = to.link.is_open().filter(|_| before.is_none());
        let mut messages = Vec::new();
        let mut wrong = pushed.err();
        while wrong.is_none() {
            match to.link.next_frame() {
                Ok(Some(frame)) => match Message::decode(&frame) {
                    Ok(message) => messages.push(message),
                    Err(error) => wrong = Some(error),
                },
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
        if opened.is_some() && side == 0 && !to.told_open {
            to.told_open = true;
            if let (Participant::Member(member), Some(conn)) =
                (&mut self.nodes[node].machine, to.conn)
            {
                member.connected(conn, now);
            }
        }
        if let Some(conn) = self.pipes[at].sides[side].conn {
            for message in messages {
                match &mut self.nodes[node].machine {
                    Participant::Member(member) => member.received(conn, message, now),
                    Participant::Root(root) => root.received(conn, message, now),
                    Participant::Stranger => {}
                }
            }
        }
        if let Some(error) = wrong {
            self.distrust(at, side, error);
        }
        self.go_on(node);
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

    /// The other side of a connection hears, after what is on its way, that this one closed it.
    fn end_other(&mut self, at: usize, side: usize) {
        let pipe = &mut self.pipes[at];
        let arrives = (self.now + LATENCY + pipe.delay).max(pipe.last[1 - side]);
        if !pipe.stalled {
            self.at(arrives, Event::Ended(at, 1 - side, Ending::Ended));
        }
    }

    /// Sends what a side has to send.
    fn flush(&mut self, at: usize, side: usize) {
        let random = self.random.next();
        let pipe = &mut self.pipes[at];
        let bytes = pipe.sides[side].link.outgoing().to_vec();
        pipe.sides[side].link.sent(bytes.len());
        if bytes.is_empty() || pipe.stalled {
            return;
        }
        let arrives = (self.now + LATENCY + pipe.delay).max(pipe.last[1 - side]);
        pipe.last[1 - side] = arrives;
        let mut bytes = bytes;
        if std::mem::take(&mut pipe.alter) {
            let bit = random as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // In two pieces now and then, for a stream has no seams.
        let cut = (random >> 32) as usize % (bytes.len() + 1);
        let rest = bytes.split_off(cut);
        for piece in [bytes, rest] {
            self.at(arrives, Event::Bytes(at, 1 - side, piece));
        }
    }

    /// Lets a node do what it can.
    fn go_on(&mut self, node: usize) {
        let now = self.now;
        if self.nodes[node].state != State::Running {
            return;
        }
        self.work(node);
        match &mut self.nodes[node].machine {
            Participant::Member(member) => member.tick(now),
            Participant::Root(root) => root.tick(now),
            Participant::Stranger => {}
        }
        loop {
            let action = match &mut self.nodes[node].machine {
                Participant::Member(member) => member.poll_action(),
                Participant::Root(root) => root.poll_action(),
                Participant::Stranger => None,
            };
            let Some(action) = action else { break };
            self.carry_out(node, action);
        }
        let (over, deadline) = match &self.nodes[node].machine {
            Participant::Member(member) => (member.is_over(), member.next_deadline()),
            Participant::Root(root) => (root.is_finished(now), Some(root.next_deadline())),
            Participant::Stranger => (false, None),
        };
        if over {
            let outcome = match &self.nodes[node].machine {
                Participant::Member(member) => member.failure().cloned(),
                _ => None,
            };
            let outcome = outcome.map_or(Outcome::Done, Outcome::Failed);
            self.nodes[node].outcome = Some((outcome, now));
            self.end(node);
            return;
        }
        let mut deadline = deadline;
        if let Work::Asking(until) = self.nodes[node].work {
            deadline = Some(deadline.map_or(until, |it| it.min(until)));
        }
        if let Some(deadline) = deadline.map(|it| it.max(now + Duration::from_micros(1)))
            && self.nodes[node].timer.is_none_or(|timer| deadline < timer)
        {
            self.nodes[node].timer = Some(deadline);
            self.at(deadline, Event::Timer(node));
        }
    }

    /// What a rank does once all have met: an exchange, an offer and a question, and then it leaves.
    fn work(&mut self, node: usize) {
        let (now, ranks) = (self.now, self.ranks);
        let random = self.random.next();
        let Node { machine, work, .. } = &mut self.nodes[node];
        let Participant::Member(member) = machine else {
            return;
        };
        if member.failure().is_some() {
            return;
        }
        let of = |rank: u32| format!("what rank {rank} says").into_bytes();
        let own = member.table().all().and_then(|all| {
            let mut own = all.iter().filter(|it| it.process == node as u32);
            own.next().map(|it| it.rank)
        });
        let Some(own) = own else { return };
        match *work {
            Work::Meeting if member.is_ready() => {
                *work = Work::Exchanging;
                member.begin_exchange(of(own));
                self.work(node);
            }
            Work::Exchanging => {
                if let Some(all) = member.take_exchanged() {
                    let right: Vec<Vec<u8>> = (0..ranks).map(of).collect();
                    assert_eq!(all, right, "an exchange gave something else than was said");
                    member.publish("offer".to_owned(), of(own));
                    member.ask(7, random as u32 % ranks, "offer".to_owned());
                    *work = Work::Asking(now + PATIENCE);
                    self.work(node);
                }
            }
            Work::Asking(until) => {
                let values = member.take_values();
                let asked = (0..ranks).map(of).any(|it| values.contains(&(7, it)));
                if asked {
                    member.leave();
                    *work = Work::Leaving;
                } else if now >= until {
                    member.fail(Failure::new(own, "it waited too long for an offer"));
                }
            }
            Work::Meeting | Work::Leaving => {}
        }
    }

    fn carry_out(&mut self, node: usize, action: Action<Vec<u8>>) {
        match action {
            Action::Connect { conn, to, kind } => self.connect(node, conn, &to, kind),
            Action::Send { conn, message } => {
                if let Some(at) = self.nodes[node].pipes.get(&conn).copied() {
                    let pipe = &mut self.pipes[at];
                    let side =
                        usize::from(pipe.sides[1].node == node && pipe.sides[1].conn == Some(conn));
                    match pipe.sides[side].link.send(&message.encode()) {
                        Ok(()) => self.flush(at, side),
                        Err(error) => self.distrust(at, side, error),
                    }
                }
            }
            Action::Close { conn } => {
                if let Some(at) = self.nodes[node].pipes.remove(&conn) {
                    self.close(at, node);
                }
            }
        }
    }

    pub fn connect(&mut self, node: usize, conn: Conn, to: &SocketAddr, kind: Kind) {
        let there = self.nodes.iter().position(|it| it.address == *to);
        let listens = |it: &usize| matches!(self.nodes[*it].state, State::Running | State::Stopped);
        let Some(there) = there.filter(listens) else {
            self.at(self.now + LATENCY, Event::Refused(node, conn));
            return;
        };
        let side = |node: usize, conn, link| Side {
            node,
            conn,
            link,
            told_open: false,
            over: false,
        };
        let one = Link::connect(&self.nodes[node].key, kind, self.random.bytes());
        let other = Link::accept(&self.nodes[there].key, self.random.bytes());
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
            if self.pipes[at].sides[side].node == node && !self.pipes[at].sides[side].over {
                self.pipes[at].sides[side].over = true;
                self.end_other(at, side);
            }
        }
    }

    /// A node's process ends: the system closes its connections.
    pub fn end(&mut self, node: usize) {
        self.nodes[node].state = State::Gone;
        for at in 0..self.pipes.len() {
            if self.pipes[at].sides.iter().any(|side| side.node == node) {
                self.close(at, node);
            }
        }
    }
}
