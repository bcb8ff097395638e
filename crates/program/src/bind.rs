//! Binds a program to a message size: steps with addresses and lengths.

use super::bound::{BoundLane, BoundOperand, BoundProgram, BoundStep, MessageSize};
use super::operand::{BufferKind, ConnectionEnd, Operand};
use super::step::{Lane, Step};
use super::{Pieces, Program};

/// Shares, windows and pieces begin on multiples of this many bytes, so that no two ranks write one
/// cache line.
pub const ALIGNMENT_BYTES: u64 = 64;

/// Why a program cannot be bound to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The elements have no size.
    #[error("elements of 0 bytes; expected the size of an element type")]
    NoElement,
    /// The message does not fit an address space.
    #[error(
        "{blocks} blocks of {count} elements of {element_bytes} bytes do not fit an address space; take a smaller count"
    )]
    TooLong {
        /// Blocks of the larger buffer.
        blocks: u64,
        /// Elements of a block.
        count: u64,
        /// Bytes of one.
        element_bytes: u32,
    },
    /// A slot cannot hold one element of each piece.
    #[error(
        "a FIFO slot of {slot_bytes} bytes cannot hold {pieces} pieces of at least one element of {element_bytes} bytes; take larger slots"
    )]
    SlotTooSmall {
        /// Bytes of a slot.
        slot_bytes: u32,
        /// Pieces that must fit.
        pieces: u16,
        /// Bytes of an element.
        element_bytes: u32,
    },
    /// A rank has more ends of connections, signals or peers than numbers for them.
    #[error(
        "a rank has {found} {what}; expected at most {MOST_PLACES}: take fewer channels or ranks"
    )]
    TooMany {
        /// The kind of the counted things.
        what: &'static str,
        /// How many.
        found: usize,
    },
}

/// Connections, signals and peers that a bound program can number.
const MOST_PLACES: usize = 1 << 16;

/// A channel's share of a block, and its turns. All in elements.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// Where it begins in a block.
    start: u64,
    /// Elements of one piece of a full turn.
    piece: u64,
    turns: u64,
    /// Elements of the shorter last turn; 0 if there is none.
    rest: u64,
    /// Elements of one piece of the last turn.
    rest_piece: u64,
}

/// The sizes that all channels share.
struct MessageLayout<'a> {
    program: &'a Program,
    message: &'a MessageSize,
    /// Elements per cache line; 1 if elements do not fill lines.
    unit: u64,
    /// Most elements of a piece.
    most: u64,
    /// Bytes of one block of scratch.
    scratch_block: u64,
}

impl Program {
    /// Binds a program that nobody has proved, to simulate it. To run a program, prove it
    /// ([`verify`](crate::verify::verify)) and bind it then.
    ///
    /// # Errors
    /// The message is too long for any address space, or a slot is too small for the smallest
    /// piece.
    pub fn bind_unproved(&self, message: &MessageSize) -> Result<BoundProgram, BindError> {
        self.bind(message)
    }

    /// Binds the program to a message. The bound programs of all ranks fit together if their
    /// messages are equal.
    ///
    /// # Errors
    /// The message is too long for any address space, or a slot is too small for the smallest
    /// piece.
    pub(crate) fn bind(&self, message: &MessageSize) -> Result<BoundProgram, BindError> {
        let layout = MessageLayout::new(self, message)?;
        let mut bound = BoundProgram {
            element_bytes: message.element_bytes,
            scratch_bytes: layout.scratch_block
                * u64::from(self.scratch_blocks)
                * u64::from(self.channels),
            most_slot_bytes: layout.most_slot_bytes(),
            receives: Vec::new(),
            sends: Vec::new(),
            waits: Vec::new(),
            notifies: Vec::new(),
            multicasts: self.multicasts(|_| true),
            multicasts_inputs: self.multicasts(|buffer| buffer == BufferKind::Input),
            multicasts_outputs: self.multicasts(|buffer| buffer == BufferKind::Output),
            peers: Vec::new(),
            lanes: Vec::with_capacity(self.lanes.len()),
        };
        for lane in &self.lanes {
            let lane = layout.lane(lane, &mut bound);
            bound.lanes.push(lane);
        }
        bound.check_places()?;
        Ok(bound)
    }
}

impl BoundProgram {
    /// Refuses more places than [`place`] has numbers for.
    fn check_places(&self) -> Result<(), BindError> {
        let all = [
            ("connections from peers", self.receives.len()),
            ("connections to peers", self.sends.len()),
            ("signals to wait for", self.waits.len()),
            ("signals to give", self.notifies.len()),
            ("peers", self.peers.len()),
        ];
        match all.into_iter().find(|(_, found)| *found > MOST_PLACES) {
            Some((what, found)) => Err(BindError::TooMany { what, found }),
            None => Ok(()),
        }
    }
}

impl<'a> MessageLayout<'a> {
    fn new(program: &'a Program, message: &'a MessageSize) -> Result<Self, BindError> {
        let element = u64::from(message.element_bytes);
        if element == 0 {
            return Err(BindError::NoElement);
        }
        let blocks = program.collective.blocks(program.ranks);
        let bytes = message
            .count
            .checked_mul(element)
            .and_then(|bytes| bytes.checked_mul(blocks));
        // A quarter of the address space leaves room for roundings and for scratch memory.
        if bytes.is_none_or(|bytes| bytes > 1 << 62) {
            return Err(BindError::TooLong {
                blocks,
                count: message.count,
                element_bytes: message.element_bytes,
            });
        }
        let unit = if ALIGNMENT_BYTES.is_multiple_of(element) {
            ALIGNMENT_BYTES / element
        } else {
            1
        };
        let mut layout = Self {
            program,
            message,
            unit,
            most: u64::MAX,
            scratch_block: 0,
        };
        if program.fifo_pieces > 0 {
            let fits = u64::from(message.slot_bytes) / element / u64::from(program.fifo_pieces);
            layout.most = layout.aligned_down(fits);
            if layout.most == 0 {
                return Err(BindError::SlotTooSmall {
                    slot_bytes: message.slot_bytes,
                    pieces: program.fifo_pieces,
                    element_bytes: message.element_bytes,
                });
            }
        }
        if message.piece_bytes > 0 {
            let wanted = (u64::from(message.piece_bytes) / element).max(1);
            layout.most = layout.most.min(layout.aligned_down(wanted));
        }
        if program.scratch_blocks > 0 {
            let shares = (0..program.channels).map(|channel| layout.share(channel));
            let longest = shares.map(|share| share.piece.max(share.rest_piece)).max();
            let bytes = longest.unwrap_or(0) * u64::from(program.pieces) * element;
            layout.scratch_block = bytes.next_multiple_of(ALIGNMENT_BYTES);
        }
        Ok(layout)
    }

    /// Bytes of the pieces that a slot has to hold, of the longest channel.
    fn most_slot_bytes(&self) -> u32 {
        let shares = (0..self.program.channels).map(|channel| self.share(channel));
        let piece = shares.map(|share| share.piece.max(share.rest_piece)).max();
        let pieces = u64::from(self.program.fifo_pieces);
        let bytes = piece.unwrap_or(0) * pieces * u64::from(self.message.element_bytes);
        bytes.min(u64::from(self.message.slot_bytes)) as u32
    }

    /// Rounds down to whole cache lines, if there is at least one.
    fn aligned_down(&self, elements: u64) -> u64 {
        if elements > self.unit {
            elements - elements % self.unit
        } else {
            elements
        }
    }

    /// Where the share of a channel begins, in elements; it may be beyond the message.
    fn begin(&self, channel: u16) -> u64 {
        let units = self.message.count.div_ceil(self.unit);
        let shares = &self.program.shares;
        if shares.is_empty() {
            // If the units do not divide evenly, the first channels get one more.
            let (channel, channels) = (u64::from(channel), u64::from(self.program.channels));
            let (each, more) = (units / channels, units % channels);
            return (each * channel + channel.min(more)) * self.unit;
        }
        let sum = |shares: &[u32]| shares.iter().map(|it| u128::from(*it)).sum::<u128>();
        let before = sum(&shares[..usize::from(channel).min(shares.len())]);
        let part = u128::from(units) * before / sum(shares).max(1);
        // At most the units of the message.
        part as u64 * self.unit
    }

    fn share(&self, channel: u16) -> Share {
        let pieces = u64::from(self.program.pieces);
        let start = self.begin(channel).min(self.message.count);
        let length = self.begin(channel + 1).min(self.message.count) - start;
        let mut share = Share {
            start,
            piece: 0,
            turns: 0,
            rest: 0,
            rest_piece: 0,
        };
        if length == 0 {
            return share;
        }
        let piece_of = |window: u64| {
            let exact = window.div_ceil(pieces);
            exact.next_multiple_of(self.unit).min(self.most)
        };
        // Turns of equal length: a short last turn would cost as much as a long one.
        let turns = length.div_ceil(self.most.saturating_mul(pieces));
        share.piece = piece_of(length.div_ceil(turns));
        let window = share.piece * pieces;
        share.turns = length / window;
        share.rest = length % window;
        if share.turns == 1 && share.rest == 0 {
            // A single turn is always the last one.
            (share.turns, share.rest) = (0, window);
        }
        if share.rest > 0 {
            share.rest_piece = piece_of(share.rest);
        }
        share
    }

    fn lane(&self, lane: &Lane, bound: &mut BoundProgram) -> BoundLane {
        let share = self.share(lane.channel);
        let full = WindowTurn {
            layout: self,
            channel: lane.channel,
            start: share.start,
            length: share.piece * u64::from(self.program.pieces),
            piece: share.piece,
            repeats: true,
        };
        let last = WindowTurn {
            start: share.start + share.turns * full.length,
            length: share.rest,
            piece: share.rest_piece,
            repeats: false,
            ..full
        };
        let body = if share.turns > 0 { &lane.body[..] } else { &[] };
        let rest = if share.rest > 0 { &lane.body[..] } else { &[] };
        BoundLane {
            channel: lane.channel,
            prologue: last.steps(&lane.prologue, bound),
            body: full.steps(body, bound),
            turns: share.turns,
            last: last.steps(rest, bound),
            epilogue: last.steps(&lane.epilogue, bound),
        }
    }
}

/// One turn of one channel.
struct WindowTurn<'a> {
    layout: &'a MessageLayout<'a>,
    channel: u16,
    /// Where its window begins in a block, elements.
    start: u64,
    length: u64,
    piece: u64,
    /// Whether more turns with the same steps follow.
    repeats: bool,
}

impl WindowTurn<'_> {
    fn steps(&self, steps: &[Step], bound: &mut BoundProgram) -> Vec<BoundStep> {
        let steps = steps.iter().filter_map(|step| self.step(step, bound));
        steps.collect()
    }

    /// Where pieces begin in the window, and how long they are, in elements.
    fn range(&self, pieces: Pieces) -> (u64, u64) {
        let (first, count) = (u64::from(pieces.first), u64::from(pieces.count));
        let begin = (first * self.piece).min(self.length);
        let end = ((first + count) * self.piece).min(self.length);
        (begin, end - begin)
    }

    /// The bound step; `None` if it would do nothing.
    fn step(&self, step: &Step, bound: &mut BoundProgram) -> Option<BoundStep> {
        let (begin, elements) = self.range(step.pieces);
        let moves = elements > 0 && !step.destinations.is_empty();
        if !moves && step.waits.is_empty() && step.notifies.is_empty() {
            return None;
        }
        let mut flat = BoundStep {
            elements: 0,
            sources: [BoundOperand::None; 4],
            source_count: 0,
            destinations: [BoundOperand::None; 4],
            destination_count: 0,
            finish: step.finish && moves,
            waits: [0; 4],
            wait_count: count(step.waits.len()),
            notifies: [0; 4],
            notify_count: count(step.notifies.len()),
        };
        for (flat, signal) in flat.waits.iter_mut().zip(&step.waits) {
            *flat = place(&mut bound.waits, *signal);
        }
        for (flat, signal) in flat.notifies.iter_mut().zip(&step.notifies) {
            *flat = place(&mut bound.notifies, *signal);
        }
        if moves {
            flat.elements = elements;
            flat.source_count = count(step.sources.len());
            flat.destination_count = count(step.destinations.len());
            for (flat, operand) in flat.sources.iter_mut().zip(&step.sources) {
                *flat = self.operand(operand, begin, &mut bound.receives, &mut bound.peers);
            }
            for (flat, operand) in flat.destinations.iter_mut().zip(&step.destinations) {
                *flat = self.operand(operand, begin, &mut bound.sends, &mut bound.peers);
            }
        }
        Some(flat)
    }

    fn operand(
        &self,
        operand: &Operand,
        begin: u64,
        fifos: &mut Vec<ConnectionEnd>,
        peers: &mut Vec<u32>,
    ) -> BoundOperand {
        match *operand {
            Operand::Fifo(connection) => BoundOperand::Fifo(place(fifos, connection)),
            Operand::Local { buffer, block } => {
                let (offset, stride) = self.address(buffer, block, begin);
                BoundOperand::Local {
                    buffer,
                    offset,
                    stride,
                }
            }
            Operand::Multicast { buffer, block } => {
                let (offset, stride) = self.address(buffer, block, begin);
                BoundOperand::Multicast {
                    buffer,
                    offset,
                    stride,
                }
            }
            Operand::Peer {
                rank,
                buffer,
                block,
            } => {
                let (offset, stride) = self.address(buffer, block, begin);
                BoundOperand::Peer {
                    peer: place(peers, rank),
                    buffer,
                    offset,
                    stride,
                }
            }
        }
    }

    fn address(&self, buffer: BufferKind, block: u32, begin: u64) -> (u64, u64) {
        let layout = self.layout;
        let element = u64::from(layout.message.element_bytes);
        match buffer {
            BufferKind::Input | BufferKind::Output => {
                let offset = u64::from(block) * layout.message.count + self.start + begin;
                let stride = if self.repeats { self.length } else { 0 };
                (offset * element, stride * element)
            }
            BufferKind::Scratch => {
                let blocks = u64::from(layout.program.scratch_blocks);
                let at = u64::from(self.channel) * blocks + u64::from(block);
                (at * layout.scratch_block + begin * element, 0)
            }
        }
    }
}

/// The index of an item in a list; adds the item if it is new. A list that becomes too long is
/// refused in the end ([`BoundProgram::check_places`]).
pub(super) fn place<T: PartialEq>(known: &mut Vec<T>, thing: T) -> u16 {
    let at = known.iter().position(|other| *other == thing);
    let at = at.unwrap_or_else(|| {
        known.push(thing);
        known.len() - 1
    });
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// Counts the operands or signals of a verified step: at most four.
fn count(operands: usize) -> u8 {
    u8::try_from(operands).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collective, Pieces, Schedule};

    /// A program that waits for one signal of each of as many channels.
    fn waiting(signals: u32) -> Program {
        let wait = |signal: u32| ConnectionEnd {
            peer: 1 + (signal >> 8),
            channel: (signal & 255) as u16,
            port: 0,
        };
        let step = |signal: u32| Step {
            waits: vec![wait(signal)],
            pieces: Pieces::one(0),
            sources: Vec::new(),
            finish: false,
            destinations: Vec::new(),
            notifies: Vec::new(),
        };
        Program {
            collective: Collective::AllToAll,
            schedule: Schedule::Mesh,
            ranks: 2 + (signals >> 8),
            rank: 0,
            root: 0,
            in_place: false,
            channels: 1,
            shares: Vec::new(),
            pieces: 1,
            fifo_pieces: 0,
            scratch_blocks: 0,
            lanes: vec![Lane {
                channel: 0,
                prologue: (0..signals).map(step).collect(),
                body: Vec::new(),
                epilogue: Vec::new(),
            }],
        }
    }

    #[test]
    fn every_signal_has_a_number_of_its_own_or_the_program_is_refused() {
        let message = MessageSize {
            count: 1,
            element_bytes: 4,
            slot_bytes: 0,
            piece_bytes: 0,
        };
        let bound = waiting(MOST_PLACES as u32).bind_unproved(&message).unwrap();
        let last = bound.lanes[0].prologue.last().unwrap();
        assert_eq!(last.waits[0], u16::MAX);
        let refused = waiting(MOST_PLACES as u32 + 1).bind_unproved(&message);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("65537 signals to wait for"), "{error}");
    }
}
