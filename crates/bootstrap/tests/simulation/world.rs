//! Roots and members on a virtual clock and a virtual network.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bootstrap::machine::group;
use bootstrap::member::Meeting;
use bootstrap::{
    Conn, Ending, Failure, Key, Link, LinkError, Member, Message, PeerInfo, Place, Root, Table,
    Timing,
};
use fastrand::Rng;

use crate::scenario::{Fault, Outcome};

/// Transit time of bytes without faults.
pub(crate) const LATENCY: Duration = Duration::from_micros(200);

/// The time in which every node reads its inbox once.
const READ_ROUND: Duration = Duration::from_millis(20);

/// How long a rank waits for an offer of another.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const VERSION: &str = "1";

/// How messages travel, and what ranks do once they have met.
pub(crate) trait Traffic: Table<Block: PartialEq + std::fmt::Debug> {
    /// A message as bytes; or the message, if it travels as a value.
    fn encode(message: Message<Self::Block>) -> Result<Vec<u8>, Message<Self::Block>>;

    /// A message from bytes.
    fn decode(bytes: &[u8]) -> Result<Message<Self::Block>, LinkError>;

    /// A rank's part of the exchange after the meeting; `None`: ranks only meet.
    fn part(rank: u32) -> Option<Self::Block>;
}

pub(crate) enum Participant<T: Traffic> {
    Member(Box<Member<T>>),
    Root(Box<Root<T::Block>>),
    Stranger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Stopped,
    Gone,
}

/// The progress of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Meeting,
    Exchanging,
    Asking(Duration),
    Leaving,
}

pub(crate) struct Node<T: Traffic> {
    pub machine: Participant<T>,
    pub state: State,
    pub rank: u32,
    /// The rank whose process it is in.
    pub process: u32,
    pub key: Key,
    pub pipes: BTreeMap<Conn, usize>,
    pub timer: Option<Duration>,
    /// When it resumes after a pause.
    pub resumes: Duration,
    pub work: Work,
    pub outcome: Option<(Outcome, Duration)>,
    /// Messages that arrived as values and were not read yet.
    pub inbox: Vec<(Conn, Message<T::Block>)>,
    /// Messages that it sent: parts of an exchange; others, without beats.
    pub sent: [u32; 2],
}

/// One side of a connection.
pub(crate) struct Side {
    pub node: usize,
    pub conn: Option<Conn>,
    pub link: Link,
    pub told_open: bool,
    /// The connection ended for this side.
    pub over: bool,
}

pub(crate) struct Pipe {
    pub sides: [Side; 2],
    pub delay: Duration,
    pub stalled: bool,
    pub alter: bool,
    /// When the last bytes in each direction arrive: bytes stay in order.
    pub last: [Duration; 2],
}

pub(crate) enum Event {
    Bytes(usize, usize, Vec<u8>),
    /// A node reads its inbox.
    Read(usize),
    /// The side is told that the connection ended.
    Ended(usize, usize, Ending),
    Refused(usize, Conn),
    Timer(usize),
    Start(usize),
    Fault(Fault),
}

pub(crate) struct World<T: Traffic> {
    pub nodes: Vec<Node<T>>,
    pub pipes: Vec<Pipe>,
    /// Events by their time; those of one time in the order in which they were added.
    queue: BTreeMap<Duration, VecDeque<Event>>,
    pub now: Duration,
    pub random: Rng,
    pub ranks: u32,
    pub roots: u32,
    /// Ranks that have met all others.
    pub met: u32,
    /// Messages in transit as values, now and at most.
    pub in_transit: [usize; 2],
}

pub(crate) fn address(node: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(10 << 24 | node as u32), 1))
}

/// The node that listens at an address.
pub(crate) fn node_at(address: &SocketAddr) -> usize {
    match address {
        SocketAddr::V4(address) => (address.ip().to_bits() & 0x00ff_ffff) as usize,
        SocketAddr::V6(_) => usize::MAX,
    }
}

/// What a rank tells of itself, on hosts of equal size.
pub(crate) fn info(rank: u32, per_host: u32) -> PeerInfo {
    PeerInfo {
        rank,
        version: VERSION.to_owned(),
        fingerprint: [0; 32],
        options: Vec::new(),
        host: u64::from(rank / per_host),
        host_name: format!("host{}", rank / per_host),
        machine: 0,
        cores: Vec::new(),
        process: rank,
        device: format!("device {}", rank % per_host),
        address: address(rank as usize),
        nics: Vec::new(),
    }
}

impl<T: Traffic> World<T> {
    pub(crate) fn new(ranks: u32, roots: u32, seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            pipes: Vec::new(),
            queue: BTreeMap::new(),
            now: Duration::ZERO,
            random: Rng::with_seed(seed),
            ranks,
            roots,
            met: 0,
            in_transit: [0; 2],
        }
    }

    /// Adds a participant, which starts by an event.
    pub(crate) fn add(&mut self, machine: Participant<T>, rank: u32, process: u32, key: Key) {
        self.nodes.push(Node {
            machine,
            state: State::Waiting,
            rank,
            process,
            key,
            pipes: BTreeMap::new(),
            timer: None,
            resumes: Duration::ZERO,
            work: Work::Meeting,
            outcome: None,
            inbox: Vec::new(),
            sent: [0; 2],
        });
    }

    /// Adds a member; `own` is its part of the first exchange.
    pub(crate) fn add_member(
        &mut self,
        info: &PeerInfo,
        process: u32,
        key: Key,
        table: T,
        own: T::Block,
    ) {
        let (ranks, roots) = (self.ranks, self.roots);
        let place = Place {
            rank: info.rank,
            ranks,
            width: 1,
            meeting: Meeting::Roots(
                (ranks..ranks + roots)
                    .map(|node| address(node as usize))
                    .collect(),
            ),
            listens: info.address,
            version: info.version.clone(),
            name: info.place(),
        };
        let member = Member::new(place, Timing::default(), table, own);
        self.add(
            Participant::Member(Box::new(member)),
            info.rank,
            process,
            key,
        );
    }

    /// Adds the roots, each in the process of its group's first rank.
    pub(crate) fn add_roots(&mut self, key: &Key) {
        let (ranks, roots) = (self.ranks, self.roots);
        for root in 0..roots {
            let machine = Root::new(ranks, roots, root, Timing::default());
            let process = group(ranks, roots, root).start;
            self.add(
                Participant::Root(Box::new(machine)),
                process,
                process,
                key.clone(),
            );
        }
    }

    pub(crate) fn at(&mut self, at: Duration, event: Event) {
        self.queue.entry(at).or_default().push_back(event);
    }

    /// When a node reads its inbox next: once in each round, in the order of the nodes and, in
    /// every second round, in reverse. So the parts of an exchange gather on their way round the
    /// ring, and a node handles hundreds at a time, which is several times as fast as one by one.
    pub(crate) fn next_read(&self, node: usize) -> Duration {
        let (node, nodes) = (node as u32, self.nodes.len() as u32);
        let in_round = |round: u32| {
            let turn = if round.is_multiple_of(2) {
                node
            } else {
                nodes - 1 - node
            };
            READ_ROUND * round + READ_ROUND / nodes * turn
        };
        let round = (self.now.as_millis() / READ_ROUND.as_millis()) as u32;
        let this = in_round(round);
        if this > self.now {
            this
        } else {
            in_round(round + 1)
        }
    }

    /// Handles the next event; `false` if there is none until the deadline.
    pub(crate) fn step(&mut self, deadline: Duration) -> bool {
        while let Some(mut first) = self.queue.first_entry() {
            self.now = *first.key();
            if self.now > deadline {
                return false;
            }
            let Some(event) = first.get_mut().pop_front() else {
                first.remove();
                continue;
            };
            self.handle(event);
            return true;
        }
        false
    }

    /// The node that an event concerns.
    fn node_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Bytes(pipe, side, _) | Event::Ended(pipe, side, _) => {
                Some(self.pipes[*pipe].sides[*side].node)
            }
            Event::Read(node)
            | Event::Refused(node, _)
            | Event::Timer(node)
            | Event::Start(node) => Some(*node),
            Event::Fault(_) => None,
        }
    }

    fn handle(&mut self, event: Event) {
        if let Some(node) = self.node_of(&event) {
            let resumes = self.nodes[node].resumes;
            if resumes > self.now {
                // The system keeps all events of a paused process, in order.
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
                    self.progress(node);
                }
            }
            Event::Timer(node) => {
                if self.nodes[node].timer == Some(self.now) {
                    self.nodes[node].timer = None;
                    self.progress(node);
                }
            }
            Event::Refused(node, conn) => {
                let ending = Ending::Refused("connection refused".to_owned());
                self.tell_closed(node, conn, &ending);
            }
            Event::Bytes(pipe, side, bytes) => self.bytes(pipe, side, &bytes),
            Event::Read(node) => {
                self.read(node);
                self.progress(node);
            }
            Event::Ended(pipe, side, ending) => {
                let to = &mut self.pipes[pipe].sides[side];
                if !std::mem::replace(&mut to.over, true)
                    && let (node, Some(conn)) = (to.node, to.conn)
                {
                    self.read(node);
                    self.tell_closed(node, conn, &ending);
                }
            }
            Event::Fault(fault) => self.fault(fault),
        }
    }

    /// Handles the messages in a node's inbox.
    fn read(&mut self, node: usize) {
        let inbox = std::mem::take(&mut self.nodes[node].inbox);
        self.in_transit[0] -= inbox.len();
        for (conn, message) in inbox {
            self.receive(node, conn, message);
        }
    }

    pub(crate) fn receive(&mut self, node: usize, conn: Conn, message: Message<T::Block>) {
        match &mut self.nodes[node].machine {
            Participant::Member(member) => member.received(conn, message, self.now),
            Participant::Root(root) => root.received(conn, message, self.now),
            Participant::Stranger => {}
        }
    }

    pub(crate) fn tell_closed(&mut self, node: usize, conn: Conn, ending: &Ending) {
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
        self.progress(node);
    }

    /// Lets a running node do everything that it can do now.
    pub(crate) fn progress(&mut self, node: usize) {
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
        let (over, failure, mut deadline) = match &self.nodes[node].machine {
            Participant::Member(member) => {
                (member.is_over(), member.failure(), member.next_deadline())
            }
            Participant::Root(root) => (root.is_finished(now), None, Some(root.next_deadline())),
            Participant::Stranger => (false, None, None),
        };
        if over {
            let outcome = failure.map_or(Outcome::Done, |it| Outcome::Failed(it.clone()));
            self.nodes[node].outcome = Some((outcome, now));
            self.end(node);
            return;
        }
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

    /// A rank's work after the meeting: an exchange, an offer and a question; then it leaves.
    fn work(&mut self, node: usize) {
        let (now, ranks) = (self.now, self.ranks);
        let Node {
            machine,
            work,
            rank: own,
            ..
        } = &mut self.nodes[node];
        let Participant::Member(member) = machine else {
            return;
        };
        if member.failure().is_some() {
            return;
        }
        if *work == Work::Meeting && member.is_ready() {
            *work = Work::Exchanging;
            self.met += 1;
            if let Some(part) = T::part(*own) {
                member.begin_exchange(part);
            }
        }
        if *work == Work::Exchanging
            && let Some(all) = member.take_exchanged()
        {
            let expected: Vec<_> = (0..ranks).filter_map(T::part).collect();
            assert_eq!(all, expected, "an exchange changed a part");
            member.publish("offer".to_owned(), offer(*own));
            member.ask(7, self.random.u32(..ranks), "offer".to_owned());
            *work = Work::Asking(now + PATIENCE);
        }
        if let Work::Asking(until) = *work {
            let values = member.take_values();
            if let [(7, value)] = values.as_slice() {
                assert!(
                    (0..ranks).any(|rank| *value == offer(rank)),
                    "an offer was changed"
                );
                member.leave(*own);
                *work = Work::Leaving;
            } else if now >= until {
                member.fail(Failure::new(*own, "it waited too long for an offer"));
            }
        }
    }
}

fn offer(rank: u32) -> Vec<u8> {
    format!("what rank {rank} offers").into_bytes()
}
