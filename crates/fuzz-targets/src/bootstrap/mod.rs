//! Ranks and roots that receive frames of peers with the token, lose connections and let time pass.
//!
//! An input describes a job, then events: time that passes, connections, and frames with sensible
//! messages, arbitrary bytes or changed bytes. Frames pass the links of both sides, so their hashes
//! are valid unless an event changes them.

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use ::bootstrap::message::CheckIn;
use ::bootstrap::{Conn, Ending, Failure, Kind, LinkError, Message};
use arbitrary::{Result, Unstructured};

use self::world::{MOST_RANKS, Participant, VERSION, World, address, encoded};
use crate::input::{Depth, choose};

/// Most events of one input.
const MOST_EVENTS: usize = 300;

/// Events that let the job meet, for jobs of several sizes.
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

/// Events by their first byte, modulo their number.
const HELP: u8 = 0;
const OWN: u8 = 1;
const EVENTS: u8 = 10;

/// Runs one rank or root with its peers.
///
/// # Panics
/// It waits beyond all its deadlines, acts without end, or sends frames that its peers cannot read.
pub fn run(bytes: &[u8]) -> Depth {
    let mut choices = Unstructured::new(bytes);
    let Ok(mut world) = World::new(&mut choices) else {
        return Depth::Outside;
    };
    for _ in 0..MOST_EVENTS {
        if choices.is_empty() || world.event(&mut choices).is_err() {
            break;
        }
        world.act();
    }
    world.end();
    match (world.frames, world.met) {
        (_, true) => Depth::Accepted,
        (0, _) => Depth::Outside,
        _ => Depth::Inside,
    }
}

impl World {
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
                if let Some(conn) = any(&self.wanted, choices)? {
                    self.connect(conn);
                }
            }
            5 => {
                if let Some(conn) = any(&self.wanted, choices)? {
                    self.wanted.remove(&conn);
                    self.closed(conn, &Ending::Refused("refused".to_owned()));
                }
            }
            6 => {
                if let Some(conn) = any(&self.open, choices)? {
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
                if let Some(conn) = any(&self.open, choices)? {
                    let message = self.message(choices)?;
                    self.frame(conn, &message.encode());
                }
            }
            _ => {
                if let Some(conn) = any(&self.open, choices)? {
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

    /// Any message, with numbers close to those of the job.
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

    /// Acts as the caller of a rank.
    fn own(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        let which = choices.arbitrary::<u8>()?;
        let Participant::Member(member) = &mut self.machine else {
            return Ok(());
        };
        match which % 5 {
            0 => member.publish(name(choices)?, vec![1, 2, 3]),
            1 => {
                // Callers ask once they know the other ranks.
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
            3 => member.leave(self.rank),
            _ => member.fail(Failure::new(self.rank, "the caller failed")),
        }
        Ok(())
    }

    /// Does the next step of honest peers.
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
        // Blocks of the current exchange, in their order.
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
}

fn any<T>(all: &BTreeMap<Conn, T>, choices: &mut Unstructured<'_>) -> Result<Option<Conn>> {
    let at = usize::from(choices.arbitrary::<u8>()?);
    Ok(all.keys().nth(at % all.len().max(1)).copied())
}

fn name(choices: &mut Unstructured<'_>) -> Result<String> {
    Ok(choose(choices, &["", "a", "b", "\0a"])?.to_owned())
}
