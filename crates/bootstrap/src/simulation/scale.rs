//! Thousands of ranks that meet, with every message counted. Connections are opened with real proofs; what then goes over
//! them stands for its bytes, so that memory grows with the number of ranks and not with its square.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::failure::Failure;
use crate::id::Key;
use crate::info::{PeerInfo, Table};
use crate::link::{Kind, Link};
use crate::machine::{Action, Timing};
use crate::member::{Meeting, Member, Place};
use crate::message::{Conn, Message};
use crate::root::Root;
use crate::simulation::random::Random;

/// Messages that a node takes before what it says to them is sent.
const AT_A_TIME: usize = 64;

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Ranks.
    pub ranks: u32,
    /// Roots.
    pub roots: u32,
    /// Connections that were opened and proved.
    pub connections: u64,
    /// Parts of the exchange that each rank sent; least and most over the ranks.
    pub parts: (u32, u32),
    /// Other messages that each rank sent; least and most.
    pub others: (u32, u32),
    /// Messages of all roots together.
    pub of_roots: u64,
    /// Most messages that were on their way at a time.
    pub most_on_way: usize,
}

/// All ranks look at one list; a part that travels is its place there.
struct Shared<'a> {
    own: &'a PeerInfo,
    all: &'a [PeerInfo],
    taken: u32,
}

impl Table for Shared<'_> {
    type Block = u32;

    #[inline]
    fn take(&mut self, origin: u32, block: &u32) -> Result<(), Failure> {
        if *block != origin {
            return Err(Failure::new(
                origin,
                "another rank's part came under its name",
            ));
        }
        self.taken += 1;
        self.own.agrees(&self.all[origin as usize])
    }

    fn info(&self, rank: u32) -> Option<&PeerInfo> {
        self.all.get(rank as usize)
    }
}

enum What {
    Connected,
    Accepted(Kind, (u32, Conn)),
    Message(Message<u32>),
}

/// A node's connections: by number, the node at the other end and its number there.
type Ends = Vec<Option<(u32, Conn)>>;

struct Network<'a> {
    members: Vec<Member<Shared<'a>>>,
    roots: Vec<Root<u32>>,
    ends: Vec<Ends>,
    /// What has come for each node. Messages of one connection stay in order; that is all that sockets promise.
    inboxes: Vec<VecDeque<(Conn, What)>>,
    on_way: usize,
    key: Key,
    random: Random,
    connections: u64,
    parts: Vec<u32>,
    others: Vec<u32>,
    of_roots: u64,
    most: usize,
}

fn address(node: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(10 << 24 | node), 1))
}

fn node_at(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(address) => address.ip().to_bits() & 0x00ff_ffff,
        SocketAddr::V6(_) => 0,
    }
}

/// Lets so many ranks meet.
///
/// # Errors
/// They do not, which would be a fault of the state machines.
pub fn run(ranks: u32, roots: u32, seed: u64) -> Result<Scale, Failure> {
    let infos: Vec<PeerInfo> = (0..ranks)
        .map(|rank| PeerInfo {
            rank,
            version: "1".to_owned(),
            fingerprint: [7; 32],
            options: Vec::new(),
            host: u64::from(rank / 8),
            host_name: format!("host{}", rank / 8),
            machine: 0,
            cores: Vec::new(),
            process: rank,
            device: format!("device {}", rank % 8),
            address: address(rank),
            nics: Vec::new(),
        })
        .collect();
    let timing = Timing::default();
    let root_addresses: Vec<SocketAddr> = (0..roots).map(|root| address(ranks + root)).collect();
    let member = |rank: u32| {
        let own = &infos[rank as usize];
        let place = Place {
            rank,
            ranks,
            meeting: Meeting::Roots(root_addresses.clone()),
            listens: own.address,
            version: own.version.clone(),
            name: own.place(),
        };
        let taken = 0;
        let all = &infos;
        Member::new(place, timing, Shared { own, all, taken }, rank)
    };
    let nodes = (ranks + roots) as usize;
    let mut network = Network {
        members: (0..ranks).map(member).collect(),
        roots: (0..roots)
            .map(|root| Root::new(ranks, roots, root, timing))
            .collect(),
        ends: vec![Vec::new(); nodes],
        inboxes: (0..nodes).map(|_| VecDeque::new()).collect(),
        on_way: 0,
        key: Key::of_secret(b"a simulation"),
        random: Random::new(seed),
        connections: 0,
        parts: vec![0; ranks as usize],
        others: vec![0; ranks as usize],
        of_roots: 0,
        most: 0,
    };
    network.run()?;
    let bounds = |counts: &[u32]| {
        (
            counts.iter().copied().min().unwrap_or(0),
            counts.iter().copied().max().unwrap_or(0),
        )
    };
    Ok(Scale {
        ranks,
        roots,
        connections: network.connections,
        parts: bounds(&network.parts),
        others: bounds(&network.others),
        of_roots: network.of_roots,
        most_on_way: network.most,
    })
}

impl Network<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let ranks = self.members.len() as u32;
        for rank in 0..ranks {
            // Ranks of large groups come later.
            let begins = self.members[rank as usize].next_deadline();
            if let Some(begins) = begins.filter(|at| *at < Timing::default().join) {
                self.members[rank as usize].tick(begins);
            }
            self.carry_out(rank);
        }
        // Round the ring and back again, each node doing all that has come for it.
        let nodes = self.inboxes.len() as u32;
        while self.on_way > 0 {
            (0..nodes).for_each(|node| self.work(node));
            (0..nodes).rev().for_each(|node| self.work(node));
        }
        for member in &self.members {
            if let Some(failure) = member.failure() {
                return Err(failure.clone());
            }
            let table = member.table();
            if !member.is_ready() || (table.taken != ranks - 1) {
                return Err(Failure::new(table.own.rank, "it did not meet all others"));
            }
        }
        Ok(())
    }

    fn work(&mut self, node: u32) {
        let mut inbox = std::mem::take(&mut self.inboxes[node as usize]);
        self.on_way -= inbox.len();
        for (at, (conn, what)) in inbox.drain(..).enumerate() {
            self.happen(node, conn, what);
            // As with sockets, of which many messages are read at a time.
            if at % AT_A_TIME == 0 {
                self.carry_out(node);
            }
        }
        self.carry_out(node);
    }

    fn post(&mut self, node: u32, conn: Conn, what: What) {
        self.inboxes[node as usize].push_back((conn, what));
        self.on_way += 1;
        self.most = self.most.max(self.on_way);
    }

    #[inline]
    fn happen(&mut self, node: u32, conn: Conn, what: What) {
        let now = Duration::ZERO;
        let ranks = self.members.len() as u32;
        match what {
            What::Message(message) if node < ranks => {
                self.members[node as usize].received(conn, message, now);
            }
            What::Message(message) => {
                self.roots[(node - ranks) as usize].received(conn, message, now);
            }
            What::Connected if node < ranks => {
                self.members[node as usize].connected(conn, now);
            }
            What::Connected => {}
            What::Accepted(kind, from) => {
                let conn = if node < ranks {
                    self.members[node as usize].accepted(kind)
                } else {
                    self.roots[(node - ranks) as usize].accepted()
                };
                self.join((node, conn), from);
                self.join(from, (node, conn));
                self.post(from.0, from.1, What::Connected);
            }
        }
    }

    fn join(&mut self, (node, conn): (u32, Conn), to: (u32, Conn)) {
        let ends = &mut self.ends[node as usize];
        let at = conn.0 as usize;
        if ends.len() <= at {
            ends.resize(at + 1, None);
        }
        ends[at] = Some(to);
    }

    #[inline]
    fn carry_out(&mut self, node: u32) {
        let ranks = self.members.len() as u32;
        loop {
            let action = if node < ranks {
                self.members[node as usize].poll_action()
            } else {
                self.roots[(node - ranks) as usize].poll_action()
            };
            let Some(action) = action else { return };
            match action {
                Action::Send { conn, message } => {
                    if node >= ranks {
                        self.of_roots += 1;
                    } else if matches!(message, Message::Block { .. }) {
                        self.parts[node as usize] += 1;
                    } else {
                        self.others[node as usize] += 1;
                    }
                    let end = self.ends[node as usize].get(conn.0 as usize);
                    if let Some(Some((to, conn))) = end {
                        self.post(*to, *conn, What::Message(message));
                    }
                }
                Action::Connect { conn, to, kind } => {
                    self.prove(kind);
                    self.post(node_at(&to), conn, What::Accepted(kind, (node, conn)));
                }
                Action::Close { .. } => {}
            }
        }
    }

    /// Both sides of a new connection prove that they know the token.
    fn prove(&mut self, kind: Kind) {
        let mut one = Link::connect(&self.key, kind, self.random.bytes());
        let mut other = Link::accept(&self.key, self.random.bytes());
        for _ in 0..2 {
            let there = one.outgoing().to_vec();
            one.sent(there.len());
            let proved = other.push(&there);
            let back = other.outgoing().to_vec();
            other.sent(back.len());
            let proved = proved.and_then(|()| one.push(&back));
            assert_eq!(proved, Ok(()), "both sides have the same key");
        }
        assert_eq!((one.is_open(), other.is_open()), (Some(kind), Some(kind)));
        self.connections += 1;
    }
}
