//! What ranks and roots do with frames of peers that know the token, and with everything else that happens to them.
//!
//! An input describes a job and then events: time that passes, connections, frames with sensible messages, with any bytes,
//! and altered ones. Every frame goes through the links of both sides, so its hash is right unless it shall not be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use ::bootstrap::info::Table;
use ::bootstrap::link::LONGEST_FRAME;
use ::bootstrap::member::Meeting;
use ::bootstrap::message::CheckIn;
use ::bootstrap::{
    Action, Conn, Ending, Failure, Infos, Key, Kind, Link, LinkError, Member, Message, PeerInfo,
    Place, Root, Timing,
};
use arbitrary::{Result, Unstructured};

use crate::target::Reached;

/// Most events of one input.
const MOST_EVENTS: usize = 300;

/// Actions after one event above which something goes on for ever.
const MOST_ACTIONS: usize = 10_000;

/// Most ranks of the job.
const MOST_RANKS: u32 = 6;

const VERSION: &str = "1";

/// Events that let the job meet, of jobs of several sizes.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for of_root in [0, 1] {
        for ranks in 0..MOST_RANKS as u8 {
            for known in [0, 1] {
                let mut seed = vec![of_root, ranks, ranks / 2, known, 1];
                seed.extend([HELP; 24]);
                seed.extend([OWN, 0, HELP, HELP, OWN, 2, HELP, HELP, HELP, HELP, OWN, 3]);
                seeds.push(seed);
            }
        }
    }
    seeds
}

/// Events by their first byte; others are taken modulo their number.
const HELP: u8 = 0;
const OWN: u8 = 1;
const EVENTS: u8 = 10;

/// Runs a job of one machine and its peers.
///
/// # Panics
/// A rank or a root waits beyond all its deadlines, does something without end, or sends what its peers cannot read.
pub fn run(bytes: &[u8]) -> Reached {
    let mut choices = Unstructured::new(bytes);
    let Ok(mut world) = World::new(&mut choices) else {
        return Reached::Outside;
    };
    for _ in 0..MOST_EVENTS {
        if choices.is_empty() || world.event(&mut choices).is_err() {
            break;
        }
        world.act();
    }
    world.end();
    match (world.frames, world.met) {
        (_, true) => Reached::Accepted,
        (0, _) => Reached::Outside,
        _ => Reached::Inside,
    }
}

enum Participant {
    Member(Box<Member<Infos>>),
    Root(Box<Root<Vec<u8>>>),
}

/// Both ends of a connection.
struct Pipe {
    own: Link,
    peer: Link,
    /// Whether the own side made the connection.
    connects: bool,
}

impl Pipe {
    /// A connection that is open.
    fn new(key: &Key, kind: Kind, connects: bool) -> Self {
        let connector = Link::connect(key, kind, [1; 32]);
        let acceptor = Link::accept(key, [2; 32]);
        let (own, peer) = if connects {
            (connector, acceptor)
        } else {
            (acceptor, connector)
        };
        let mut pipe = Self {
            own,
            peer,
            connects,
        };
        while pipe.carry() {}
        assert_eq!(
            (pipe.own.is_open(), pipe.peer.is_open()),
            (Some(kind), Some(kind))
        );
        pipe
    }

    /// Carries bytes both ways; answers whether there were any.
    fn carry(&mut self) -> bool {
        let there = self.own.outgoing().to_vec();
        let back = self.peer.outgoing().to_vec();
        self.own.sent(there.len());
        self.peer.sent(back.len());
        self.peer.push(&there).expect("the own side is honest");
        self.own.push(&back).expect("the key is right");
        !(there.is_empty() && back.is_empty())
    }
}

struct World {
    machine: Participant,
    key: Key,
    rank: u32,
    ranks: u32,
    roots: u32,
    now: Duration,
    /// Connections that the machine wants to make.
    wanted: BTreeMap<Conn, Kind>,
    open: BTreeMap<Conn, (Kind, Pipe)>,
    /// Blocks that each side of the ring sent in the exchange that goes on: of the next rank, of the one before.
    told: [u32; 2],
    exchanges: u32,
    tickets: u32,
    /// Frames that were read as messages.
    frames: u64,
    /// All ranks met.
    met: bool,
}

fn address(rank: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, (rank % 250) as u8], 1000))
}

fn info(rank: u32) -> PeerInfo {
    PeerInfo {
        rank,
        version: VERSION.to_owned(),
        fingerprint: [0; 32],
        options: Vec::new(),
        host: u64::from(rank),
        host_name: format!("host{rank}"),
        machine: u64::from(rank),
        cores: vec![1],
        process: rank,
        device: String::new(),
        address: address(rank),
        nics: Vec::new(),
    }
}

impl World {
    fn new(choices: &mut Unstructured<'_>) -> Result<Self> {
        let of_root = choices.arbitrary::<u8>()? & 1 != 0;
        let ranks = 1 + u32::from(choices.arbitrary::<u8>()?) % MOST_RANKS;
        let rank = u32::from(choices.arbitrary::<u8>()?) % ranks;
        let known = choices.arbitrary::<u8>()? & 1 != 0;
        let roots = 1 + u32::from(choices.arbitrary::<u8>()?) % ranks.min(2);
        let timing = Timing::default();
        let machine = if of_root {
            Participant::Root(Box::new(Root::new(ranks, roots, rank % roots, timing)))
        } else {
            let infos = Infos::new(info(rank), ranks);
            let own = infos.own_block();
            let place = Place {
                rank,
                ranks,
                meeting: if known {
                    Meeting::Known(address((rank + 1) % ranks))
                } else {
                    Meeting::Roots((0..roots).map(|root| address(100 + root)).collect())
                },
                listens: address(rank),
                version: VERSION.to_owned(),
                name: format!("process {rank}"),
            };
            Participant::Member(Box::new(Member::new(place, timing, infos, own)))
        };
        let mut world = Self {
            machine,
            key: Key::of_secret(b"the job"),
            rank,
            ranks,
            roots,
            now: Duration::ZERO,
            wanted: BTreeMap::new(),
            open: BTreeMap::new(),
            told: [0; 2],
            exchanges: 0,
            tickets: 0,
            frames: 0,
            met: false,
        };
        world.act();
        Ok(world)
    }

    fn event(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        match choices.arbitrary::<u8>()? % EVENTS {
            HELP => self.help(),
            OWN => self.own(choices)?,
            2 => {
                let milliseconds = choose(choices, &[0, 1, 100, 999, 1000, 5000, 16_000, 70_000])?;
                self.pass(Duration::from_millis(milliseconds));
            }
            3 => {
                let kind = match &self.machine {
                    Participant::Root(_) => Kind::Root,
                    Participant::Member(_) => choose(choices, &[Kind::Ring, Kind::Peer])?,
                };
                self.accept(kind);
            }
            4 => {
                if let Some(conn) = self.any_wanted(choices)? {
                    self.connect(conn);
                }
            }
            5 => {
                if let Some(conn) = self.any_wanted(choices)? {
                    self.wanted.remove(&conn);
                    self.closed(conn, &Ending::Refused("refused".to_owned()));
                }
            }
            6 => {
                if let Some(conn) = self.any_open(choices)? {
                    let ending = match choices.arbitrary::<u8>()? % 3 {
                        0 => Ending::Ended,
                        1 => Ending::Broken("broken".to_owned()),
                        _ => Ending::Distrusted(LinkError::Altered),
                    };
                    self.open.remove(&conn);
                    self.closed(conn, &ending);
                }
            }
            7 | 8 => {
                if let Some(conn) = self.any_open(choices)? {
                    let message = self.message(choices)?;
                    self.frame(conn, &message.encode());
                }
            }
            _ => {
                if let Some(conn) = self.any_open(choices)? {
                    let length = usize::from(choices.arbitrary::<u8>()?).min(choices.len());
                    let bytes = choices.bytes(length)?;
                    if choices.arbitrary::<u8>()? & 1 == 0 {
                        self.frame(conn, bytes);
                    } else {
                        self.wire(conn, bytes);
                    }
                }
            }
        }
        Ok(())
    }

    fn any_wanted(&self, choices: &mut Unstructured<'_>) -> Result<Option<Conn>> {
        let at = usize::from(choices.arbitrary::<u8>()?);
        let count = self.wanted.len().max(1);
        Ok(self.wanted.keys().nth(at % count).copied())
    }

    fn any_open(&self, choices: &mut Unstructured<'_>) -> Result<Option<Conn>> {
        let at = usize::from(choices.arbitrary::<u8>()?);
        let count = self.open.len().max(1);
        Ok(self.open.keys().nth(at % count).copied())
    }

    /// Any message, with numbers near those that there are.
    fn message(&self, choices: &mut Unstructured<'_>) -> Result<Message<Vec<u8>>> {
        let ranks = self.ranks;
        let rank = choose(choices, &[0, 1, 2, self.rank, ranks - 1, ranks, u32::MAX])?;
        let number = choose(choices, &[0, 1, 2, u32::MAX])?;
        Ok(match choices.arbitrary::<u8>()? % 11 {
            0 => Message::CheckIn(Box::new(CheckIn {
                rank,
                ranks: choose(choices, &[ranks, number])?,
                roots: choose(choices, &[self.roots, number])?,
                version: choose(choices, &[VERSION, "2"])?.to_owned(),
                place: "a place".to_owned(),
                ring: address(rank),
            })),
            1 => Message::Next(Box::new(address(rank))),
            2 => Message::Done,
            3 => Message::Hello(rank),
            4 => Message::Block {
                exchange: number,
                origin: rank,
                block: encoded(rank % ranks.max(1)),
            },
            5 => Message::Beat,
            6 => Message::Failed(Box::new(Failure::new(rank, "a failure"))),
            7 => Message::Left(rank),
            8 => Message::Get(Box::new((number, name(choices)?))),
            9 => Message::Value(Box::new((number, vec![7; 3]))),
            _ => Message::Block {
                exchange: number,
                origin: rank,
                block: choices.arbitrary::<[u8; 4]>()?.to_vec(),
            },
        })
    }

    /// What the caller of a machine does.
    fn own(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        let which = choices.arbitrary::<u8>()?;
        let Participant::Member(member) = &mut self.machine else {
            return Ok(());
        };
        match which % 5 {
            0 => member.publish(name(choices)?, vec![1, 2, 3]),
            1 => {
                // Callers ask once they know where the others are.
                if member.is_ready() {
                    let from = u32::from(choices.arbitrary::<u8>()?) % self.ranks;
                    self.tickets += 1;
                    member.ask(self.tickets, from, name(choices)?);
                }
            }
            2 => {
                if member.is_ready() && self.exchanges == 0 && member.failure().is_none() {
                    self.exchanges += 1;
                    self.told = [0; 2];
                    member.begin_exchange(vec![9; 5]);
                }
            }
            3 => member.leave(),
            _ => member.fail(Failure::new(self.rank, "the caller failed")),
        }
        Ok(())
    }

    /// Does what honest peers would do next.
    fn help(&mut self) {
        if let Some(conn) = self.wanted.keys().next().copied() {
            self.connect(conn);
            return;
        }
        match &self.machine {
            Participant::Root(_) => self.help_root(),
            Participant::Member(member) => {
                let ready = member.is_ready();
                self.help_member(ready);
            }
        }
    }

    fn help_root(&mut self) {
        let conn = self.accept(Kind::Root);
        let rank = conn.0 % self.ranks;
        let check_in = Message::CheckIn(Box::new(CheckIn {
            rank,
            ranks: self.ranks,
            roots: self.roots,
            version: VERSION.to_owned(),
            place: format!("process {rank}"),
            ring: address(rank),
        }));
        self.frame(conn, &check_in.encode());
    }

    fn help_member(&mut self, ready: bool) {
        let of = |kind: Kind, connects: bool| {
            let found = self
                .open
                .iter()
                .find(|(_, (it, pipe))| *it == kind && pipe.connects == connects);
            found.map(|(conn, _)| *conn)
        };
        let (next, previous) = (of(Kind::Ring, true), of(Kind::Ring, false));
        if next.is_none()
            && let Some(root) = of(Kind::Root, true)
        {
            let message = Message::Next(Box::new(address((self.rank + 1) % self.ranks)));
            self.frame(root, &message.encode());
            return;
        }
        let before = (self.rank + self.ranks - 1) % self.ranks;
        let Some(previous) = previous else {
            let conn = self.accept(Kind::Ring);
            self.frame(conn, &Message::Hello(before).encode());
            return;
        };
        let Some(next) = next else { return };
        // Parts of the exchange that goes on, in the order in which they are due.
        let exchange = u32::from(ready) * self.exchanges;
        let sides = [(next, true), (previous, false)];
        for (at, (conn, of_next)) in sides.into_iter().enumerate() {
            let furthest = if of_next {
                (self.ranks - 1) / 2
            } else {
                self.ranks / 2
            };
            if self.told[at] >= furthest {
                continue;
            }
            self.told[at] += 1;
            let distance = self.told[at];
            let origin = if of_next {
                (self.rank + distance) % self.ranks
            } else {
                (self.rank + self.ranks - distance) % self.ranks
            };
            let block = encoded(origin);
            let message = Message::Block {
                exchange,
                origin,
                block,
            };
            self.frame(conn, &message.encode());
            return;
        }
    }

    fn accept(&mut self, kind: Kind) -> Conn {
        let conn = match &mut self.machine {
            Participant::Root(root) => root.accepted(),
            Participant::Member(member) => member.accepted(kind),
        };
        self.open
            .insert(conn, (kind, Pipe::new(&self.key, kind, false)));
        conn
    }

    fn connect(&mut self, conn: Conn) {
        let Some(kind) = self.wanted.remove(&conn) else {
            return;
        };
        self.open
            .insert(conn, (kind, Pipe::new(&self.key, kind, true)));
        if let Participant::Member(member) = &mut self.machine {
            member.connected(conn, self.now);
        }
    }

    fn closed(&mut self, conn: Conn, ending: &Ending) {
        match &mut self.machine {
            Participant::Member(member) => member.closed(conn, ending, self.now),
            Participant::Root(root) => root.closed(conn, ending, self.now),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        match &mut self.machine {
            Participant::Member(member) => member.tick(self.now),
            Participant::Root(root) => root.tick(self.now),
        }
    }

    /// The peer sends a frame.
    fn frame(&mut self, conn: Conn, payload: &[u8]) {
        let Some((_, pipe)) = self.open.get_mut(&conn) else {
            return;
        };
        pipe.peer.send(payload).expect("the link is open");
        let bytes = pipe.peer.outgoing().to_vec();
        pipe.peer.sent(bytes.len());
        self.wire(conn, &bytes);
    }

    /// Bytes come from the peer.
    fn wire(&mut self, conn: Conn, bytes: &[u8]) {
        let Some((_, pipe)) = self.open.get_mut(&conn) else {
            return;
        };
        let mut ending = pipe.own.push(bytes).err();
        while ending.is_none() {
            let Some((_, pipe)) = self.open.get_mut(&conn) else {
                return;
            };
            let message = match pipe.own.next_frame() {
                Ok(Some(frame)) => Message::decode(&frame),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            match message {
                Ok(message) => {
                    self.frames += 1;
                    match &mut self.machine {
                        Participant::Member(member) => member.received(conn, message, self.now),
                        Participant::Root(root) => root.received(conn, message, self.now),
                    }
                    self.act();
                }
                Err(error) => ending = Some(error),
            }
        }
        if let Some(error) = ending {
            self.open.remove(&conn);
            self.closed(conn, &Ending::Distrusted(error));
        }
    }

    /// Does what the machine wants done.
    fn act(&mut self) {
        let mut count = 0;
        loop {
            let action = match &mut self.machine {
                Participant::Member(member) => member.poll_action(),
                Participant::Root(root) => root.poll_action(),
            };
            let Some(action) = action else { break };
            count += 1;
            assert!(count < MOST_ACTIONS, "it does something without end");
            match action {
                Action::Connect { conn, kind, .. } => {
                    self.wanted.insert(conn, kind);
                }
                Action::Send { conn, message } => self.send(conn, &message),
                Action::Close { conn } => {
                    self.wanted.remove(&conn);
                    self.open.remove(&conn);
                }
            }
        }
        if let Participant::Member(member) = &mut self.machine {
            let _ = (member.take_values(), member.own_stop(), member.all_left());
            let _ = member.next_deadline();
            if member.is_ready() {
                let known = |rank| member.table().info(rank).is_some();
                assert!(
                    (0..self.ranks).all(known),
                    "it is ready and does not know all"
                );
                self.met = true;
                if let Some(parts) = member.take_exchanged() {
                    assert_eq!(parts.len(), self.ranks as usize);
                    self.exchanges += 1;
                }
            }
        }
    }

    fn send(&mut self, conn: Conn, message: &Message<Vec<u8>>) {
        let Some((_, pipe)) = self.open.get_mut(&conn) else {
            return;
        };
        let payload = message.encode();
        assert!(payload.len() <= LONGEST_FRAME);
        pipe.own.send(&payload).expect("the link is open");
        pipe.carry();
        let frame = pipe.peer.next_frame().expect("the own side is honest");
        let frame = frame.expect("a whole frame was carried");
        assert_eq!(Message::decode(&frame).as_ref(), Ok(message));
    }

    /// Lets all time pass: a rank has met the others then, or knows why not; a root is needed no more.
    fn end(&mut self) {
        let timing = Timing::default();
        for _ in 0..3 {
            self.pass(timing.join + timing.linger);
            self.act();
        }
        match &self.machine {
            Participant::Member(member) => assert!(
                member.is_ready() || member.failure().is_some(),
                "it waits beyond its deadline"
            ),
            Participant::Root(root) => {
                assert!(
                    root.is_finished(self.now),
                    "the root waits beyond its deadline"
                );
                self.met = root.failure().is_none();
            }
        }
    }
}

/// What a rank tells all others of itself.
fn encoded(rank: u32) -> Vec<u8> {
    Infos::new(info(rank), rank + 1).own_block()
}

fn choose<T: Copy>(choices: &mut Unstructured<'_>, of: &[T]) -> Result<T> {
    Ok(of[usize::from(choices.arbitrary::<u8>()?) % of.len()])
}

fn name(choices: &mut Unstructured<'_>) -> Result<String> {
    Ok(choose(choices, &["", "a", "b", "\0a"])?.to_owned())
}
