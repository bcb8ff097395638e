//! The rank or root under test, and the connections to its peers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use ::bootstrap::info::Table;
use ::bootstrap::link::LONGEST_FRAME;
use ::bootstrap::member::Meeting;
use ::bootstrap::{
    Action, Conn, Ending, Infos, Key, Kind, Link, Member, Message, PeerInfo, Place, Root, Timing,
};
use arbitrary::{Result, Unstructured};

/// Actions after one event that are taken for an endless loop.
const MOST_ACTIONS: usize = 10_000;

/// Most ranks of the job.
pub const MOST_RANKS: u32 = 6;

/// The version that all ranks name.
pub const VERSION: &str = "1";

pub enum Participant {
    Member(Box<Member<Infos>>),
    Root(Box<Root<Vec<u8>>>),
}

/// Both ends of a connection.
pub struct Pipe {
    own: Link,
    peer: Link,
    /// Whether the side under test made the connection.
    pub connects: bool,
}

impl Pipe {
    /// An open connection.
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

    /// Moves bytes in both directions. Returns `true` if there were any.
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

pub struct World {
    pub machine: Participant,
    key: Key,
    pub rank: u32,
    pub ranks: u32,
    pub roots: u32,
    now: Duration,
    /// Connections that the rank or root wants to make.
    pub wanted: BTreeMap<Conn, Kind>,
    pub open: BTreeMap<Conn, (Kind, Pipe)>,
    /// Blocks of the current exchange that the ring's two sides sent: the next rank's, the previous
    /// rank's.
    pub told: [u32; 2],
    pub exchanges: u32,
    pub tickets: u32,
    /// Frames that were read as messages.
    pub frames: u64,
    /// Whether all ranks met.
    pub met: bool,
}

/// The address of a rank or root.
pub fn address(rank: u32) -> SocketAddr {
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
    pub fn new(choices: &mut Unstructured<'_>) -> Result<Self> {
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
                width: 1,
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

    pub fn accept(&mut self, kind: Kind) -> Conn {
        let conn = match &mut self.machine {
            Participant::Root(root) => root.accepted(),
            Participant::Member(member) => member.accepted(kind),
        };
        self.open
            .insert(conn, (kind, Pipe::new(&self.key, kind, false)));
        conn
    }

    pub fn connect(&mut self, conn: Conn) {
        let Some(kind) = self.wanted.remove(&conn) else {
            return;
        };
        self.open
            .insert(conn, (kind, Pipe::new(&self.key, kind, true)));
        if let Participant::Member(member) = &mut self.machine {
            member.connected(conn, self.now);
        }
    }

    pub fn closed(&mut self, conn: Conn, ending: &Ending) {
        match &mut self.machine {
            Participant::Member(member) => member.closed(conn, ending, self.now),
            Participant::Root(root) => root.closed(conn, ending, self.now),
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        match &mut self.machine {
            Participant::Member(member) => member.tick(self.now),
            Participant::Root(root) => root.tick(self.now),
        }
    }

    /// Sends a frame of the peer.
    pub fn frame(&mut self, conn: Conn, payload: &[u8]) {
        let Some((_, pipe)) = self.open.get_mut(&conn) else {
            return;
        };
        pipe.peer.send(payload).expect("the link is open");
        let bytes = pipe.peer.outgoing().to_vec();
        pipe.peer.sent(bytes.len());
        self.wire(conn, &bytes);
    }

    /// Receives bytes of the peer.
    pub fn wire(&mut self, conn: Conn, bytes: &[u8]) {
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

    /// Carries out the actions that the rank or root asks for.
    pub fn act(&mut self) {
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

    /// Lets all deadlines pass. A rank has then met the others or knows why not, and a root is
    /// finished.
    pub fn end(&mut self) {
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

/// The block of a rank in the first exchange.
pub fn encoded(rank: u32) -> Vec<u8> {
    Infos::new(info(rank), rank + 1).own_block()
}
