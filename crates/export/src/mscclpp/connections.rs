//! Connections between ranks: which channel of a rank is which, and where FIFOs are in scratch
//! memory.

use std::collections::BTreeMap;

use program::{ConnectionEnd, Lane, Operand, Program, Step};

/// The data of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Carries {
    /// Messages of a FIFO.
    Messages,
    /// Signals.
    Signals,
}

/// A connection. The order of connections between two ranks is the same for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Connection {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    channel: u16,
    port: u32,
    /// Its data.
    pub carries: Carries,
}

impl Connection {
    /// A connection from this rank to a peer.
    pub(super) const fn outgoing(rank: u32, end: ConnectionEnd, carries: Carries) -> Self {
        Self {
            from: rank,
            to: end.peer,
            channel: end.channel,
            port: end.port,
            carries,
        }
    }

    /// A connection from a peer to this rank.
    pub(super) const fn incoming(rank: u32, end: ConnectionEnd, carries: Carries) -> Self {
        Self {
            from: end.peer,
            to: rank,
            channel: end.channel,
            port: end.port,
            carries,
        }
    }

    const fn other(&self, rank: u32) -> Option<u32> {
        match (self.from == rank, self.to == rank) {
            (true, _) => Some(self.to),
            (_, true) => Some(self.from),
            _ => None,
        }
    }
}

/// The steps of a lane with one turn.
pub(super) fn steps(lane: &Lane) -> impl Iterator<Item = &Step> {
    lane.steps()
}

/// The FIFOs among operands.
pub(super) fn fifos(operands: &[Operand]) -> impl Iterator<Item = ConnectionEnd> {
    operands.iter().filter_map(|operand| match operand {
        Operand::Fifo(end) => Some(*end),
        _ => None,
    })
}

/// All connections of a collective.
#[derive(Debug)]
pub(super) struct Connections {
    /// The chunks that a turn sends through each FIFO; 0 for signals.
    all: BTreeMap<Connection, u32>,
}

impl Connections {
    /// Those of all ranks' programs.
    pub(super) fn of(programs: &[&Program]) -> Self {
        let mut all = BTreeMap::new();
        for program in programs {
            let rank = program.rank;
            for step in program.lanes.iter().flat_map(steps) {
                for end in fifos(&step.destinations) {
                    let key = Connection::outgoing(rank, end, Carries::Messages);
                    *all.entry(key).or_insert(0) += u32::from(step.pieces.count);
                }
                for end in &step.notifies {
                    let key = Connection::outgoing(rank, *end, Carries::Signals);
                    all.entry(key).or_insert(0);
                }
            }
        }
        Self { all }
    }

    fn of_rank(&self, rank: u32) -> impl Iterator<Item = (&Connection, u32)> {
        let all = self.all.keys();
        all.filter_map(move |it| Some((it, it.other(rank)?)))
    }

    /// The rank at the other end of each channel of a rank.
    pub(super) fn peers(&self, rank: u32) -> Vec<u32> {
        self.of_rank(rank).map(|(_, peer)| peer).collect()
    }

    /// The number of a connection among a rank's channels.
    pub(super) fn number(&self, rank: u32, connection: &Connection) -> Option<usize> {
        self.of_rank(rank).position(|(it, _)| it == connection)
    }

    /// The chunk after the scratch blocks of the receiver at which a FIFO begins.
    pub(super) fn fifo_start(&self, connection: &Connection) -> u32 {
        let before = self.all.range(..connection);
        let to_same = before.filter(|(it, _)| it.to == connection.to);
        to_same.map(|(_, chunks)| chunks).sum()
    }

    /// Chunks of all FIFOs to a rank.
    pub(super) fn fifo_chunks(&self, rank: u32) -> u32 {
        let incoming = self.all.iter().filter(|(it, _)| it.to == rank);
        incoming.map(|(_, chunks)| chunks).sum()
    }
}
