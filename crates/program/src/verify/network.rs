//! The lanes of one channel, of all ranks, joined by FIFOs and signals.

use super::error::{Location, StepAt, VerifyError, VerifyFault, connection};
use super::program_set::ProgramSet;
use crate::{BufferKind, ConnectionEnd, Operand, Step};

/// A connection, with the same name at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DirectedConnection {
    pub from: u32,
    pub to: u32,
    pub channel: u16,
    pub port: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Carries {
    Slots,
    Signals,
}

pub(super) const PARTS: [&str; 3] = ["prologue", "body", "epilogue"];

/// One direction of a connection: the lanes at its ends.
#[derive(Debug)]
pub(super) struct LaneLink {
    pub wire: DirectedConnection,
    /// Index of the sending lane in the network.
    pub sender: Option<u32>,
    pub receiver: Option<u32>,
    /// Sends in each part of the lane.
    pub sent: [usize; 3],
    /// Receives in each part of the lane.
    pub received: [usize; 3],
}

/// A step with its operands resolved.
#[derive(Debug)]
pub(super) struct NetworkStep<'a> {
    pub step: &'a Step,
    /// Indices into [`Network::signals`].
    pub waits: Vec<u32>,
    /// Indices into [`Network::signals`].
    pub notifies: Vec<u32>,
    /// The sources. A multicast has one at each rank.
    pub sources: Vec<ResolvedOperand>,
    pub destinations: Vec<ResolvedOperand>,
    /// The step's operand of each resolved one.
    pub named: [Vec<&'a Operand>; 2],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ResolvedOperand {
    /// Index into [`Network::fifos`].
    Fifo(u32),
    /// A block of some rank.
    Memory {
        program: u32,
        buffer: BufferKind,
        block: u32,
    },
}

#[derive(Debug)]
pub(super) struct NetworkLane<'a> {
    pub program: u32,
    pub lane: usize,
    pub parts: [Vec<NetworkStep<'a>>; 3],
}

#[derive(Debug, Default)]
pub(super) struct Network<'a> {
    pub lanes: Vec<NetworkLane<'a>>,
    pub fifos: Vec<LaneLink>,
    pub signals: Vec<LaneLink>,
    /// Whether accesses could race: a rank has several lanes or accesses another's memory.
    pub shares_memory: bool,
}

impl Network<'_> {
    /// Checks that everything sent is received: in the body in the same turn, or, of signals, in a
    /// later one. Then no step waits for a later turn.
    pub(super) fn check_balance(&self, all: &ProgramSet<'_>) -> Result<(), Box<VerifyError>> {
        let links = self.fifos.iter().map(|link| (link, "FIFO"));
        for (link, what) in links.chain(self.signals.iter().map(|link| (link, "signal"))) {
            let (sent, received) = (link.sent, link.received);
            let total = |counts: [usize; 3]| counts[0] + counts[2];
            let (part, expected) = if sent[1] != received[1] {
                (1, "as many of one as of the other")
            } else if sent[0] < received[0] {
                (0, "no more taken than given")
            } else if total(sent) != total(received) {
                (2, "that all are taken in the end")
            } else {
                continue;
            };
            let Some(lane) = link.receiver.or(link.sender) else {
                continue;
            };
            let own = link.wire.to;
            let there = ConnectionEnd {
                peer: link.wire.from,
                channel: link.wire.channel,
                port: link.wire.port,
            };
            return Err(Box::new(VerifyError {
                at: self.location(all, lane, None),
                fault: VerifyFault::Unbalanced {
                    what,
                    connection: connection(own, there, false),
                    given: sent[part],
                    taken: received[part],
                    part: PARTS[part],
                    expected,
                },
            }));
        }
        Ok(())
    }

    /// The turns until all signals sent before the turns are consumed. Later turns repeat.
    pub(super) fn turns_until_steady(&self) -> usize {
        let ahead = self.signals.iter().map(|link| {
            let surplus = link.sent[0].saturating_sub(link.received[0]);
            if link.received[1] == 0 {
                0
            } else {
                surplus.div_ceil(link.received[1])
            }
        });
        ahead.max().unwrap_or(0)
    }

    /// The location of a lane or of one of its steps.
    pub(super) fn location(
        &self,
        all: &ProgramSet<'_>,
        lane: u32,
        step: Option<StepAt>,
    ) -> Box<Location> {
        let lane = &self.lanes[lane as usize];
        let program = &all.programs[lane.program as usize];
        Box::new(Location {
            lane: Some((lane.lane, program.lanes[lane.lane].channel)),
            step,
            ..Location::of(program)
        })
    }

    /// A connection in words.
    pub(super) fn name(link: &LaneLink) -> String {
        let there = ConnectionEnd {
            peer: link.wire.to,
            channel: link.wire.channel,
            port: link.wire.port,
        };
        connection(link.wire.from, there, true)
    }
}
