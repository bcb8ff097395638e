//! Thousands of ranks that meet, with every message counted. Connections are opened with real
//! proofs; then messages travel as values, so that memory grows with the number of ranks and not
//! with its square.

use std::rc::Rc;
use std::time::Duration;

use bootstrap::{Failure, Key, LinkError, Message, PeerInfo, Table, Timing};

use crate::world::{Event, Participant, Traffic, World, info};

/// The counts of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Connections that were opened.
    pub connections: usize,
    /// Parts of the exchange that each rank sent; least and most over the ranks.
    pub parts: (u32, u32),
    /// Other messages that each rank sent; least and most.
    pub others: (u32, u32),
    /// Messages of all roots together.
    pub of_roots: u32,
    /// Most messages in transit at a time.
    pub most_in_transit: usize,
}

/// A rank's view of a list that all ranks share; a part of the exchange is an index of the list.
struct Shared {
    own: u32,
    all: Rc<[PeerInfo]>,
    taken: u32,
}

impl Table for Shared {
    type Block = u32;

    fn take(&mut self, origin: u32, block: &u32) -> Result<(), Failure> {
        if *block != origin {
            return Err(Failure::new(origin, "another rank's part has its name"));
        }
        self.taken += 1;
        self.all[self.own as usize].agrees(&self.all[origin as usize])
    }

    fn info(&self, rank: u32) -> Option<&PeerInfo> {
        self.all.get(rank as usize)
    }
}

impl Traffic for Shared {
    fn encode(message: Message<u32>) -> Result<Vec<u8>, Message<u32>> {
        Err(message)
    }

    fn decode(_: &[u8]) -> Result<Message<u32>, LinkError> {
        Err(LinkError::Unknown)
    }

    fn part(_: u32) -> Option<u32> {
        None
    }
}

/// Lets ranks meet.
///
/// # Errors
/// They do not, which is a bug of the state machines.
pub(crate) fn run(ranks: u32, roots: u32, seed: u64) -> Result<Scale, Failure> {
    let all: Rc<[PeerInfo]> = (0..ranks).map(|rank| info(rank, 8)).collect();
    let key = Key::of_secret(b"a simulation");
    let mut world = World::new(ranks, roots, seed);
    for own in 0..ranks {
        let table = Shared {
            own,
            all: Rc::clone(&all),
            taken: 0,
        };
        world.add_member(&all[own as usize], own, key.clone(), table, own);
    }
    world.add_roots(&key);
    for node in 0..world.nodes.len() {
        // Roots first, so that no rank is refused.
        let node = (node + ranks as usize) % world.nodes.len();
        world.at(Duration::ZERO, Event::Start(node));
    }
    while world.met < ranks && world.step(Timing::default().join) {}
    for node in &world.nodes {
        let Participant::Member(member) = &node.machine else {
            continue;
        };
        if let Some(failure) = member.failure() {
            return Err(failure.clone());
        }
        if !member.is_ready() || member.table().taken != ranks - 1 {
            return Err(Failure::new(node.rank, "it did not meet all others"));
        }
    }
    let (members, root_nodes) = world.nodes.split_at(ranks as usize);
    let bounds = |kind: usize| {
        let counts = members.iter().map(|node| node.sent[kind]);
        (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
    };
    Ok(Scale {
        connections: world.pipes.len(),
        parts: bounds(0),
        others: bounds(1),
        of_roots: root_nodes.iter().map(|node| node.sent[1]).sum(),
        most_in_transit: world.in_transit[1],
    })
}
