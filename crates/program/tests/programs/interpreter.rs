//! Bound programs of all ranks, run on real bytes in one thread, lane by lane in a random order.

use std::collections::{HashMap, VecDeque};

use program::{BoundLane, BoundOperand, BoundProgram, BoundStep, BufferKind, ConnectionEnd};

/// The factor of the operation's first part.
pub(crate) const SCALE: u64 = 3;

/// The summand of the operation's last part.
pub(crate) const LAST: u64 = 7;

/// A rank with its memory. In place, `output` is part of `input`.
pub(crate) struct Rank {
    pub rank: u32,
    pub program: BoundProgram,
    pub input: Memory,
    pub output: Memory,
    pub scratch: Memory,
}

/// A place in one of the allocations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub allocation: usize,
    pub start: usize,
    pub bytes: usize,
}

pub(crate) struct Interpreter {
    pub ranks: Vec<Rank>,
    pub allocations: Vec<Vec<u8>>,
    /// Slots of each FIFO.
    pub slots: usize,
    /// Bytes of each slot.
    pub slot_bytes: usize,
    /// Whether inputs are scaled and results finished.
    pub reduces: bool,
    pub random: u64,
}

type Wire = (u32, u32, u16, u32);

#[derive(Default)]
struct Wires {
    fifos: HashMap<Wire, VecDeque<Vec<u8>>>,
    signals: HashMap<Wire, usize>,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    part: usize,
    turn: u64,
    step: usize,
}

fn sent(own: u32, there: ConnectionEnd) -> Wire {
    (own, there.peer, there.channel, there.port)
}

fn received(own: u32, there: ConnectionEnd) -> Wire {
    (there.peer, own, there.channel, there.port)
}

fn current<'a>(lane: &'a BoundLane, cursor: &mut Cursor) -> Option<&'a BoundStep> {
    loop {
        let (steps, repeats) = match cursor.part {
            0 => (&lane.prologue, 1),
            1 => (&lane.body, lane.turns),
            2 => (&lane.last, 1),
            3 => (&lane.epilogue, 1),
            _ => return None,
        };
        if cursor.turn < repeats
            && let Some(step) = steps.get(cursor.step)
        {
            return Some(step);
        }
        cursor.step = 0;
        cursor.turn += 1;
        if cursor.turn >= repeats {
            (cursor.part, cursor.turn) = (cursor.part + 1, 0);
        }
    }
}

impl Interpreter {
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 11).expect("a 64-bit machine") % below
    }

    /// Runs all lanes to their end.
    pub(crate) fn run(&mut self) {
        let mut wires = Wires::default();
        let mut lanes: Vec<(usize, usize, Cursor)> = Vec::new();
        for (rank, of) in self.ranks.iter().enumerate() {
            lanes.extend((0..of.program.lanes.len()).map(|lane| (rank, lane, Cursor::default())));
        }
        let mut idle = 0;
        while !lanes.is_empty() {
            let at = if idle == 0 {
                self.random(lanes.len())
            } else {
                idle - 1
            };
            let (rank, lane, mut cursor) = lanes[at];
            let step = current(&self.ranks[rank].program.lanes[lane], &mut cursor).copied();
            match step {
                None => {
                    lanes.swap_remove(at);
                    idle = 0;
                }
                Some(step) if self.can_run(&wires, rank, &step) => {
                    self.step(&mut wires, rank, &step, cursor.turn);
                    cursor.step += 1;
                    lanes[at].2 = cursor;
                    idle = 0;
                }
                // Then all in order, to see whether any can run.
                Some(_) => {
                    idle += 1;
                    assert!(idle <= lanes.len(), "no lane can run");
                }
            }
        }
        assert!(
            wires.fifos.values().all(VecDeque::is_empty),
            "a slot is left"
        );
        assert!(
            wires.signals.values().all(|count| *count == 0),
            "a signal is left"
        );
    }

    fn can_run(&self, wires: &Wires, rank: usize, step: &BoundStep) -> bool {
        let Rank { rank, program, .. } = &self.ranks[rank];
        let waits = &step.waits[..step.wait_count.into()];
        let ready = waits.iter().all(|signal| {
            let signal = received(*rank, program.waits[usize::from(*signal)]);
            wires.signals.get(&signal).is_some_and(|count| *count > 0)
        });
        let sources = step.sources[..step.source_count.into()]
            .iter()
            .all(|source| {
                let BoundOperand::Fifo(fifo) = source else {
                    return true;
                };
                let fifo = received(*rank, program.receives[usize::from(*fifo)]);
                wires
                    .fifos
                    .get(&fifo)
                    .is_some_and(|slots| !slots.is_empty())
            });
        let room = step.destinations[..step.destination_count.into()]
            .iter()
            .all(|destination| {
                let BoundOperand::Fifo(fifo) = destination else {
                    return true;
                };
                let fifo = sent(*rank, program.sends[usize::from(*fifo)]);
                wires
                    .fifos
                    .get(&fifo)
                    .is_none_or(|slots| slots.len() < self.slots)
            });
        ready && sources && room
    }

    fn step(&mut self, wires: &mut Wires, place: usize, step: &BoundStep, turn: u64) {
        let rank = self.ranks[place].rank;
        let element = self.ranks[place].program.element_bytes as usize;
        let bytes = usize::try_from(step.elements).expect("fits memory") * element;
        for signal in &step.waits[..step.wait_count.into()] {
            let wire = received(rank, self.ranks[place].program.waits[usize::from(*signal)]);
            *wires.signals.get_mut(&wire).expect("was there") -= 1;
        }
        assert_eq!(
            step.elements == 0,
            step.source_count == 0,
            "operands of nothing"
        );
        let mut sum: Option<Vec<u64>> = None;
        for source in &step.sources[..step.source_count.into()] {
            let (data, is_input) = match *source {
                BoundOperand::Fifo(fifo) => {
                    let wire =
                        received(rank, self.ranks[place].program.receives[usize::from(fifo)]);
                    let data = wires.fifos.get_mut(&wire).and_then(VecDeque::pop_front);
                    (data.expect("was there"), false)
                }
                _ => {
                    let (at, buffer) = self.place(place, source, turn, bytes);
                    let data = &self.allocations[at.allocation][at.start..at.start + at.bytes];
                    (data.to_vec(), buffer == BufferKind::Input)
                }
            };
            assert_eq!(data.len(), bytes, "both ends of a FIFO agree on the size");
            let scale = if is_input && self.reduces { SCALE } else { 1 };
            let data = elements(&data, element).map(|value| value.wrapping_mul(scale));
            sum = Some(match sum {
                None => data.collect(),
                Some(sum) => sum
                    .into_iter()
                    .zip(data)
                    .map(|(a, b)| a.wrapping_add(b))
                    .collect(),
            });
        }
        let add = if step.finish { LAST } else { 0 };
        let result: Vec<u8> = sum
            .unwrap_or_default()
            .into_iter()
            .flat_map(|value| {
                value
                    .wrapping_add(add)
                    .to_le_bytes()
                    .into_iter()
                    .take(element)
            })
            .collect();
        for destination in &step.destinations[..step.destination_count.into()] {
            if let BoundOperand::Fifo(fifo) = destination {
                assert!(result.len() <= self.slot_bytes, "the slot is too small");
                let wire = sent(rank, self.ranks[place].program.sends[usize::from(*fifo)]);
                wires
                    .fifos
                    .entry(wire)
                    .or_default()
                    .push_back(result.clone());
            } else {
                let (at, buffer) = self.place(place, destination, turn, bytes);
                assert_ne!(buffer, BufferKind::Input, "inputs are not written");
                self.allocations[at.allocation][at.start..at.start + at.bytes]
                    .copy_from_slice(&result);
            }
        }
        for signal in &step.notifies[..step.notify_count.into()] {
            let wire = sent(
                rank,
                self.ranks[place].program.notifies[usize::from(*signal)],
            );
            *wires.signals.entry(wire).or_default() += 1;
        }
    }

    /// Where an operand is in memory.
    fn place(
        &self,
        place: usize,
        operand: &BoundOperand,
        turn: u64,
        bytes: usize,
    ) -> (Memory, BufferKind) {
        let (rank, buffer, offset, stride) = match *operand {
            BoundOperand::Local {
                buffer,
                offset,
                stride,
            } => (self.ranks[place].rank, buffer, offset, stride),
            BoundOperand::Peer {
                peer,
                buffer,
                offset,
                stride,
            } => {
                let peer = self.ranks[place].program.peers[usize::from(peer)];
                (peer, buffer, offset, stride)
            }
            BoundOperand::None | BoundOperand::Fifo(_) | BoundOperand::Multicast { .. } => {
                panic!("no memory")
            }
        };
        let rank = self
            .ranks
            .iter()
            .find(|other| other.rank == rank)
            .expect("takes part");
        let memory = match buffer {
            BufferKind::Input => rank.input,
            BufferKind::Output => rank.output,
            BufferKind::Scratch => rank.scratch,
        };
        let offset = usize::try_from(offset + stride * turn).expect("fits memory");
        assert!(
            offset + bytes <= memory.bytes,
            "{buffer:?}: {offset} + {bytes} of {}",
            memory.bytes
        );
        let at = Memory {
            start: memory.start + offset,
            bytes,
            ..memory
        };
        (at, buffer)
    }
}

/// Elements, each in the low bytes of a number.
pub(crate) fn elements(bytes: &[u8], element: usize) -> impl Iterator<Item = u64> {
    bytes.chunks(element).map(|chunk| {
        let mut value = [0; 8];
        value[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(value)
    })
}
