//! A bound program with resolved addresses: an array of steps, indexes of connections, loops.

use std::ops::Range;

use executor::Waiting;
use executor::backend::PrepareRequest;
use executor::connections::Wiring;
use program::{BoundLane, BoundOperand, BoundProgram, BoundStep, BufferKind};
use program::{Protocol, Reduction};

use crate::reduce::{MOST_OPERANDS, Reduce};

/// Most signals that a step waits for, and most that it sends.
const MOST_SIGNALS: usize = 4;

/// Most ranks to wake after a step: receivers, senders and ranks that were notified.
const MOST_BELLS: usize = 2 * MOST_OPERANDS + MOST_SIGNALS;

/// Buffers of a rank: input, output, scratch.
pub const BUFFERS: usize = 3;

/// A source or destination.
#[derive(Debug, Clone, Copy)]
pub enum CpuOperand {
    Memory {
        /// Index of the base: the own buffers first, then those of each peer.
        base: u32,
        /// Offset in the first turn, bytes.
        offset: usize,
        /// Bytes to add per turn.
        stride: usize,
    },
    /// A FIFO slot, by the index of its end.
    Fifo(u32),
}

/// A step. The counts say how many entries of each array are used.
#[derive(Debug, Clone)]
pub struct CpuStep {
    /// Elements to move; 0 if the step only has signals.
    pub elements: usize,
    /// The same, in bytes.
    pub bytes: usize,
    pub source_count: u8,
    pub destination_count: u8,
    pub wait_count: u8,
    pub notify_count: u8,
    pub bell_count: u8,
    /// Bit i: multiply source i first.
    pub pre_multiply: u8,
    /// Bit i: use non-temporal stores for destination i.
    pub stream: u8,
    pub finish: bool,
    /// Whether it accesses a peer's memory.
    pub reaches: bool,
    /// Whether it only copies one source.
    pub moves: bool,
    pub waits: [u32; MOST_SIGNALS],
    pub notifies: [u32; MOST_SIGNALS],
    pub sources: [CpuOperand; MOST_OPERANDS],
    pub destinations: [CpuOperand; MOST_OPERANDS],
    pub bells: [u32; MOST_BELLS],
    /// For each wait, source and destination: what to report if it takes too long.
    pub waiting: Box<[Waiting]>,
}

macro_rules! used {
    ($($name:ident, $count:ident: $type:ty;)*) => {$(
        #[inline(always)]
        pub fn $name(&self) -> &[$type] {
            &self.$name[..usize::from(self.$count)]
        }
    )*};
}

/// The used entries of each array.
impl CpuStep {
    used! {
        waits, wait_count: u32;
        notifies, notify_count: u32;
        sources, source_count: CpuOperand;
        destinations, destination_count: CpuOperand;
        bells, bell_count: u32;
    }
}

/// A lane and its progress.
#[derive(Debug, Clone)]
pub struct CpuLane {
    begin: u32,
    body: Range<u32>,
    end: u32,
    turns: u64,
    /// The next step.
    pub at: u32,
    /// The current turn.
    pub turn: u64,
}

impl CpuLane {
    #[inline]
    pub const fn restart(&mut self) {
        self.at = self.begin;
        self.turn = 0;
    }

    /// The first step.
    pub const fn first(&self) -> Option<usize> {
        if self.begin < self.end {
            Some(self.begin as usize)
        } else {
            None
        }
    }

    #[inline]
    pub const fn is_done(&self) -> bool {
        self.at == self.end
    }

    /// Moves on to the next step.
    #[inline]
    pub const fn advance(&mut self) {
        self.at += 1;
        if self.at == self.body.end && self.body.start < self.body.end && self.turn + 1 < self.turns
        {
            self.turn += 1;
            self.at = self.body.start;
        }
    }
}

/// A program, ready to run.
#[derive(Debug)]
pub struct CpuProgram {
    pub protocol: Protocol,
    pub lanes: Box<[CpuLane]>,
    pub steps: Box<[CpuStep]>,
    /// The peers whose memory it accesses.
    pub peers: Box<[u32]>,
    /// Addresses of buffers: the own ones, then those of each peer.
    pub bases: Box<[BufferBase]>,
    /// Bytes that the program accesses from each base.
    pub extents: Box<[u64]>,
    /// Per peer: the launch in which its bases were looked up.
    pub known: Box<[u64]>,
    pub reduce: Reduce,
    /// For a program that only listens: whether its first step could run.
    pub listening: Option<bool>,
    order: Arithmetic,
}

/// The address of a buffer.
#[derive(Debug, Clone, Copy)]
pub enum BufferBase {
    /// In this process.
    Local(*mut u8),
    /// In another process.
    Remote {
        /// The process.
        process: u32,
        /// The address there.
        address: u64,
    },
}

// SAFETY: the thread that runs a launch sets the addresses it uses.
unsafe impl Send for CpuProgram {}

/// The arguments of [`Reduce::new`].
#[derive(Debug, Clone, Copy)]
struct Arithmetic {
    reduction: Reduction,
    element: program::ElementType,
    ranks: u32,
    scalar: u64,
}

impl CpuProgram {
    /// Resolves a program. Messages of at least `stream_bytes` bytes use non-temporal stores for
    /// data that nobody reads soon.
    pub fn new(request: &PrepareRequest<'_>, stream_bytes: u64) -> Self {
        let bound = request.bound;
        let streams = Streams::new(bound, stream_bytes);
        let mut steps = Vec::new();
        let lanes: Box<[CpuLane]> = bound
            .lanes
            .iter()
            .map(|lane| layout(lane, request, &streams, &mut steps))
            .collect();
        let arithmetic = Arithmetic {
            reduction: request.reduction.unwrap_or(Reduction::Sum),
            element: request.element,
            ranks: request.ranks,
            scalar: 0,
        };
        let bases = BUFFERS * (1 + bound.peers.len());
        let extents = extents(&lanes, &steps, bases);
        Self {
            protocol: request.protocol,
            lanes,
            steps: steps.into(),
            peers: bound.peers.clone().into(),
            bases: vec![BufferBase::Local(std::ptr::null_mut()); bases].into(),
            extents,
            known: vec![0; bound.peers.len()].into(),
            reduce: arithmetic.reduce(),
            listening: None,
            order: arithmetic,
        }
    }

    /// The step of a program that has only one and accesses no peer's memory.
    #[inline]
    pub fn only_step(&self) -> Option<usize> {
        let [lane] = &*self.lanes else {
            return None;
        };
        let first = lane.begin as usize;
        let is_only = lane.end == lane.begin + 1 && lane.turns <= 1;
        (is_only && !self.steps[first].reaches).then_some(first)
    }

    /// Whether all lanes have ended, or the first could begin if this program only listens.
    pub fn has_ended(&self) -> bool {
        let ended = || self.lanes.iter().all(CpuLane::is_done);
        self.listening.unwrap_or_else(ended)
    }

    /// Prepares a launch.
    #[inline]
    pub fn begin(&mut self, input: *const u8, output: *mut u8, scratch: *mut u8, scalar: u64) {
        self.bases[0] = BufferBase::Local(input.cast_mut());
        self.bases[1] = BufferBase::Local(output);
        self.bases[2] = BufferBase::Local(scratch);
        self.listening = None;
        for lane in &mut self.lanes {
            lane.restart();
        }
        if self.order.reduction == Reduction::PreMultipliedSum && self.order.scalar != scalar {
            self.order.scalar = scalar;
            self.reduce = self.order.reduce();
        }
    }
}

/// Bytes that the steps of all lanes access from each base.
fn extents(lanes: &[CpuLane], steps: &[CpuStep], bases: usize) -> Box<[u64]> {
    let mut extents: Box<[u64]> = vec![0; bases].into();
    for lane in lanes {
        let last_turn = lane.turns.saturating_sub(1) as usize;
        for step in &steps[lane.begin as usize..lane.end as usize] {
            for place in step.sources().iter().chain(step.destinations()) {
                if let CpuOperand::Memory {
                    base,
                    offset,
                    stride,
                } = place
                    && step.bytes > 0
                {
                    let end = offset + last_turn * stride + step.bytes;
                    let extent = &mut extents[*base as usize];
                    *extent = (*extent).max(end as u64);
                }
            }
        }
    }
    extents
}

impl Arithmetic {
    fn reduce(&self) -> Reduce {
        Reduce::new(self.reduction, self.element, self.scalar, self.ranks)
    }
}

/// Decides which buffers to write with non-temporal stores.
struct Streams {
    large: bool,
    /// By buffer: whether the program reads it.
    read: [bool; BUFFERS],
}

impl Streams {
    fn new(bound: &BoundProgram, stream_bytes: u64) -> Self {
        let mut read = [false; BUFFERS];
        let mut stored = 0;
        for lane in &bound.lanes {
            let parts = [
                (&lane.prologue, 1),
                (&lane.body, lane.turns),
                (&lane.last, 1),
                (&lane.epilogue, 1),
            ];
            for (step, times) in parts
                .into_iter()
                .flat_map(|(steps, times)| steps.iter().map(move |step| (step, times)))
            {
                for source in &step.sources[..usize::from(step.source_count)] {
                    if let BoundOperand::Local { buffer, .. } | BoundOperand::Peer { buffer, .. } =
                        source
                    {
                        read[*buffer as usize] = true;
                    }
                }
                let bytes = step.elements * u64::from(bound.element_bytes);
                stored += bytes * u64::from(step.destination_count) * times;
            }
        }
        let large = stored >= stream_bytes;
        Self { large, read }
    }

    fn streams(&self, operand: &BoundOperand) -> bool {
        match operand {
            BoundOperand::Local { buffer, .. } | BoundOperand::Peer { buffer, .. } => {
                // In place, reading the input before writing the output does not count.
                self.large
                    && *buffer == BufferKind::Output
                    && !self.read[BufferKind::Output as usize]
            }
            BoundOperand::None | BoundOperand::Multicast { .. } | BoundOperand::Fifo(_) => false,
        }
    }
}

fn layout(
    lane: &BoundLane,
    request: &PrepareRequest<'_>,
    streams: &Streams,
    steps: &mut Vec<CpuStep>,
) -> CpuLane {
    let mut append = |part: &[BoundStep]| {
        let begin = steps.len() as u32;
        steps.extend(part.iter().map(|it| step(it, request, streams)));
        begin..steps.len() as u32
    };
    let begin = append(&lane.prologue).start;
    let body = append(&lane.body);
    append(&lane.last);
    let end = append(&lane.epilogue).end;
    CpuLane {
        begin,
        body,
        end,
        turns: lane.turns,
        at: begin,
        turn: 0,
    }
}

fn step(step: &BoundStep, request: &PrepareRequest<'_>, streams: &Streams) -> CpuStep {
    let (bound, wiring): (&BoundProgram, &Wiring) = (request.bound, request.wiring);
    let sources = &step.sources[..usize::from(step.source_count)];
    let destinations = &step.destinations[..usize::from(step.destination_count)];
    let waits = &step.waits[..usize::from(step.wait_count)];
    let notifies = &step.notifies[..usize::from(step.notify_count)];
    let (mut bells, mut waiting) = (Vec::new(), Vec::new());
    for wait in waits {
        let connection = bound.waits[usize::from(*wait)];
        let (from, channel) = (connection.peer, connection.channel);
        waiting.push(Waiting::Signal { from, channel });
    }
    for source in sources {
        if let BoundOperand::Fifo(place) = source {
            let connection = bound.receives[usize::from(*place)];
            let (from, channel) = (connection.peer, connection.channel);
            waiting.push(Waiting::Data { from, channel });
            bells.push(from);
        }
    }
    for destination in destinations {
        if let BoundOperand::Fifo(place) = destination {
            let connection = bound.sends[usize::from(*place)];
            let (to, channel) = (connection.peer, connection.channel);
            waiting.push(Waiting::Slot { to, channel });
            bells.push(to);
        }
    }
    bells.extend(
        notifies
            .iter()
            .map(|it| bound.notifies[usize::from(*it)].peer),
    );
    bells.sort_unstable();
    bells.dedup();
    let multiplies = request.reduction == Some(Reduction::PreMultipliedSum);
    let pre_multiply = |(index, source): (usize, &BoundOperand)| match source {
        BoundOperand::Local {
            buffer: BufferKind::Input,
            ..
        } if multiplies => 1 << index,
        _ => 0,
    };
    let pre_multiply: u8 = sources.iter().enumerate().map(pre_multiply).sum();
    let stream = |(index, it): (usize, &BoundOperand)| u8::from(streams.streams(it)) << index;
    let divides = step.finish && request.reduction == Some(Reduction::Average);
    let peer = |it: &BoundOperand| matches!(it, BoundOperand::Peer { .. });
    CpuStep {
        elements: step.elements as usize,
        bytes: (step.elements * u64::from(bound.element_bytes)) as usize,
        source_count: step.source_count,
        destination_count: step.destination_count,
        wait_count: step.wait_count,
        notify_count: step.notify_count,
        bell_count: bells.len() as u8,
        pre_multiply,
        stream: destinations.iter().enumerate().map(stream).sum(),
        finish: step.finish,
        reaches: sources.iter().chain(destinations).any(peer),
        moves: sources.len() == 1 && pre_multiply == 0 && !divides,
        waits: array(waits.iter().map(|it| wiring.waits[usize::from(*it)] as u32)),
        notifies: array(
            notifies
                .iter()
                .map(|it| wiring.notifies[usize::from(*it)] as u32),
        ),
        sources: places(sources, &wiring.receives),
        destinations: places(destinations, &wiring.sends),
        bells: array(bells.iter().copied()),
        waiting: waiting.into(),
    }
}

fn array<const N: usize>(values: impl Iterator<Item = u32>) -> [u32; N] {
    let mut array = [0; N];
    for (to, value) in array.iter_mut().zip(values) {
        *to = value;
    }
    array
}

fn places(operands: &[BoundOperand], fifos: &[usize]) -> [CpuOperand; MOST_OPERANDS] {
    let mut places = [CpuOperand::Fifo(0); MOST_OPERANDS];
    for (to, operand) in places.iter_mut().zip(operands) {
        *to = match *operand {
            // Multicast was expanded before.
            BoundOperand::None | BoundOperand::Multicast { .. } => CpuOperand::Fifo(0),
            BoundOperand::Fifo(place) => CpuOperand::Fifo(fifos[usize::from(place)] as u32),
            BoundOperand::Local {
                buffer,
                offset,
                stride,
            } => CpuOperand::Memory {
                base: buffer as u32,
                offset: offset as usize,
                stride: stride as usize,
            },
            BoundOperand::Peer {
                peer,
                buffer,
                offset,
                stride,
            } => CpuOperand::Memory {
                base: (BUFFERS * (1 + usize::from(peer)) + buffer as usize) as u32,
                offset: offset as usize,
                stride: stride as usize,
            },
        };
    }
    places
}
