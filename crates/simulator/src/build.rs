//! Makes a model of the programs of all ranks.

use program::lower::{LowerError, Lowering};
use program::{
    BindError, BoundLane, BoundOperand, BoundProgram, BoundStep, ConnectionEnd, MessageSize,
    Program,
};
use rustc_hash::FxHashMap;

use crate::model::{Connection, Lane, LinkKind, Model, Shape, Step, Transport, Use};
use crate::units::{Rate, Time};
use crate::wiring::{Wire, Wiring, WiringError};

/// Most steps in different programs that are held, about 2 GB.
const MOST_STEPS: u64 = 60_000_000;

/// Why no model can be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// No programs can be written.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A program does not fit the message.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A connection has no route.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// The programs differ too much to be held.
    #[error(
        "the programs of {ranks} ranks have more than {MOST_STEPS} different steps; take fewer ranks or channels, or a size of which every rank and channel gets an equal part"
    )]
    TooManySteps {
        /// Ranks of the job.
        ranks: u32,
    },
    /// The two ends of a connection do not match.
    #[error(
        "rank {from} and rank {to} do not agree on their connection in channel {channel}; this is a bug in topo"
    )]
    Unmatched {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The channel.
        channel: u16,
    },
}

/// The kind of a lane's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Send(ConnectionEnd),
    Receive(ConnectionEnd),
    Notify(ConnectionEnd),
    Wait(ConnectionEnd),
    /// Reads a peer's memory.
    Read(u32),
    /// Writes a peer's memory.
    Write(u32),
    /// Reads or writes all ranks' memory.
    Gather,
    Spread,
}

/// A lane's steps and ends, before connections are joined.
#[derive(Debug, Clone)]
struct Draft {
    shape: u32,
    ends: Vec<End>,
    /// Whether all pieces of each part have the same length, so that their order does not matter.
    even: bool,
}

/// Makes a model of the programs of a request, bound to a message.
///
/// # Errors
/// A program cannot be written or bound, or a connection has no route.
pub fn build(
    lowering: &Lowering<'_>,
    message: &MessageSize,
    wiring: &dyn Wiring,
) -> Result<Model, BuildError> {
    let ranks = lowering.ranks();
    let mut lowered = Lowered {
        lowering,
        message,
        fifo_pieces: fifo_pieces(lowering),
        builder: Builder::new(wiring, ranks),
        alike: FxHashMap::default(),
    };
    for rank in 0..ranks {
        for channel in 0..lowering.channels() {
            lowered.channel(rank, channel)?;
        }
    }
    lowered.builder.finish()
}

/// Makes a model of programs that run at the same time, each with a message of its own. Programs of
/// one transfer have the same message.
///
/// # Errors
/// A program cannot be bound, or a connection has no route or one end only.
pub fn build_programs<'a>(
    programs: impl IntoIterator<Item = &'a (Program, MessageSize)>,
    ranks: u32,
    wiring: &dyn Wiring,
) -> Result<Model, BuildError> {
    let mut builder = Builder::new(wiring, ranks);
    for (program, message) in programs {
        let drafts = builder.drafts(program, message)?;
        for (draft, lane) in drafts.iter().zip(&program.lanes) {
            builder.lanes(program.rank, lane.channel, std::slice::from_ref(draft))?;
        }
    }
    builder.finish()
}

/// Most pieces in a FIFO slot, of all ranks.
fn fifo_pieces(lowering: &Lowering<'_>) -> u16 {
    let mut most = 0;
    for rank in 0..lowering.ranks() {
        for channel in 0..lowering.channels() {
            let likeness = lowering.likeness(rank, channel);
            if likeness.is_none_or(|it| it.like == rank) {
                most = most.max(lowering.of_channel(rank, channel).fifo_pieces);
            }
        }
    }
    most
}

/// The programs of a request, whose lanes may be alike.
struct Lowered<'a> {
    lowering: &'a Lowering<'a>,
    message: &'a MessageSize,
    fifo_pieces: u16,
    builder: Builder<'a>,
    /// Lanes that others are like, by rank and channel; `None` if their steps differ in length.
    alike: FxHashMap<(u32, u16), Option<Vec<Draft>>>,
}

struct Builder<'a> {
    wiring: &'a dyn Wiring,
    ranks: u32,
    model: Model,
    shapes: FxHashMap<Shape, u32>,
    steps: u64,
    /// FIFOs and signals whose other end is not known yet: by sender, receiver, channel, port and
    /// whether it is a signal.
    joined: FxHashMap<(u32, u32, u16, u32, bool), u32>,
}

impl Lowered<'_> {
    fn channel(&mut self, rank: u32, channel: u16) -> Result<(), BuildError> {
        if let Some(likeness) = self.lowering.likeness(rank, channel) {
            let key = (likeness.like, channel);
            if !self.alike.contains_key(&key) {
                let drafts = self.drafts(likeness.like, channel)?;
                let even = drafts.iter().all(|it| it.even);
                self.alike.insert(key, even.then_some(drafts));
            }
            if let Some(Some(drafts)) = self.alike.get(&key) {
                let own = |end: ConnectionEnd| {
                    let mut pairs = likeness.ends.iter();
                    let found = pairs.find(|(theirs, _)| *theirs == end);
                    found.map_or(end, |(_, own)| *own)
                };
                let peer = |rank: u32| {
                    let mut pairs = likeness.ends.iter();
                    let found = pairs.find(|(theirs, _)| theirs.peer == rank);
                    found.map_or(rank, |(_, own)| own.peer)
                };
                let mut drafts = drafts.clone();
                for end in drafts.iter_mut().flat_map(|draft| &mut draft.ends) {
                    match end {
                        End::Send(at) | End::Receive(at) | End::Notify(at) | End::Wait(at) => {
                            *at = own(*at);
                        }
                        End::Read(at) | End::Write(at) => *at = peer(*at),
                        End::Gather | End::Spread => {}
                    }
                }
                return self.builder.lanes(rank, channel, &drafts);
            }
        }
        let drafts = self.drafts(rank, channel)?;
        self.builder.lanes(rank, channel, &drafts)
    }

    /// The lanes of a rank and channel.
    fn drafts(&mut self, rank: u32, channel: u16) -> Result<Vec<Draft>, BuildError> {
        let mut program = self.lowering.of_channel(rank, channel);
        program.fifo_pieces = self.fifo_pieces;
        self.builder.drafts(&program, self.message)
    }
}

impl<'a> Builder<'a> {
    fn new(wiring: &'a dyn Wiring, ranks: u32) -> Self {
        Self {
            wiring,
            ranks,
            model: Model {
                links: wiring.links().to_vec(),
                ..Model::default()
            },
            shapes: FxHashMap::default(),
            steps: 0,
            joined: FxHashMap::default(),
        }
    }

    /// The lanes of a program.
    fn drafts(
        &mut self,
        program: &Program,
        message: &MessageSize,
    ) -> Result<Vec<Draft>, BuildError> {
        let bound = program.bind_unproved(message)?;
        let mut drafts = Vec::with_capacity(bound.lanes.len());
        for (lane, written) in bound.lanes.iter().zip(&program.lanes) {
            let even = [&lane.body, &lane.last].into_iter().all(|steps| {
                // Otherwise steps were left out because their pieces are empty.
                let whole = [0, written.body.len()].contains(&steps.len());
                let moves = written
                    .body
                    .iter()
                    .zip(steps)
                    .filter(|(_, it)| it.elements > 0);
                let mut pieces = moves.map(|(it, bound)| (bound.elements, it.pieces.count));
                let first = pieces.next();
                whole
                    && pieces.all(|(elements, count)| {
                        first.is_none_or(|(one, of)| {
                            elements * u64::from(of) == one * u64::from(count)
                        })
                    })
            });
            let mut ends = Vec::new();
            let shape = shape(&bound, lane, &mut ends);
            let steps = shape.steps.len() as u64;
            let next = self.model.shapes.len() as u32;
            let shape = match self.shapes.get(&shape) {
                Some(known) => *known,
                None => {
                    self.steps += steps;
                    if self.steps > MOST_STEPS {
                        return Err(BuildError::TooManySteps { ranks: self.ranks });
                    }
                    self.model.shapes.push(shape.clone());
                    self.shapes.insert(shape, next);
                    next
                }
            };
            drafts.push(Draft { shape, ends, even });
        }
        Ok(drafts)
    }

    /// Adds lanes to the model and joins their connections.
    fn lanes(&mut self, rank: u32, channel: u16, drafts: &[Draft]) -> Result<(), BuildError> {
        let begin = self.wiring.rank(rank);
        for draft in drafts {
            let lane = self.model.lanes.len() as u32;
            let first = self.model.ends.len() as u32;
            for (end, number) in draft.ends.iter().zip(0..) {
                let connection = self.end(rank, channel, lane, number, *end)?;
                self.model.ends.push(connection);
            }
            let work = begin.work.map(|link| {
                let wire = Wire {
                    links: vec![link],
                    ..Wire::unlimited()
                };
                self.connection(lane, u32::MAX, Transport::Access, &wire)
            });
            self.model.lanes.push(Lane {
                rank,
                channel,
                shape: draft.shape,
                ends: first,
                work,
                start: begin.start,
            });
        }
        Ok(())
    }

    fn end(
        &mut self,
        rank: u32,
        channel: u16,
        lane: u32,
        number: u32,
        end: End,
    ) -> Result<u32, BuildError> {
        let wiring = self.wiring;
        let (at, sends, signal) = match end {
            End::Send(at) => (at, true, false),
            End::Receive(at) => (at, false, false),
            End::Notify(at) => (at, true, true),
            End::Wait(at) => (at, false, true),
            End::Read(peer) | End::Write(peer) => {
                let reads = matches!(end, End::Read(_));
                let (from, to) = if reads { (peer, rank) } else { (rank, peer) };
                let wire = wiring.connect(from, to, channel)?;
                if wire.window.is_some() {
                    return Err(WiringError::NotDirect {
                        from: rank,
                        to: peer,
                    }
                    .into());
                }
                return Ok(self.connection(lane, number, Transport::Access, &wire));
            }
            End::Gather | End::Spread => {
                let wire = wiring.multicast(rank, matches!(end, End::Gather))?;
                return Ok(self.connection(lane, number, Transport::Access, &wire));
            }
        };
        let (from, to) = if sends {
            (rank, at.peer)
        } else {
            (at.peer, rank)
        };
        let key = (from, to, at.channel, at.port, signal);
        if let Some(known) = self.joined.remove(&key) {
            let connection = &mut self.model.connections[known as usize];
            if sends {
                (connection.sender, connection.sender_end) = (lane, number);
            } else {
                (connection.receiver, connection.receiver_end) = (lane, number);
            }
            return Ok(known);
        }
        let wire = wiring.connect(from, to, at.channel)?;
        let transport = match (signal, wire.window) {
            (true, _) => Transport::Signal,
            (false, Some(window)) => Transport::Network { window },
            (false, None) => Transport::Direct,
        };
        let connection = self.connection(lane, number, transport, &wire);
        self.joined.insert(key, connection);
        Ok(connection)
    }

    /// Adds a connection, of which both ends are this lane's until the other is known.
    fn connection(&mut self, lane: u32, number: u32, transport: Transport, wire: &Wire) -> u32 {
        let first = self.model.routes.len() as u32;
        if transport != Transport::Signal {
            let links = wire.links.iter().map(|link| (*link, 1));
            self.model.routes.extend(links);
        }
        let data = transport != Transport::Access;
        self.model.connections.push(Connection {
            sender: lane,
            sender_end: number,
            receiver: lane,
            receiver_end: number,
            transport,
            route: (first, self.model.routes.len() as u32),
            limit: wire.limit,
            limit_kind: wire.limit_kind,
            latency: wire.latency,
            slots: wire.slots,
            header: if data { wire.header } else { 0 },
            expansion: if data { wire.expansion } else { (1, 1) },
        });
        (self.model.connections.len() - 1) as u32
    }

    fn finish(self) -> Result<Model, BuildError> {
        // Of several connections without another end, the first in the order of ranks.
        let alone = self.joined.keys().min();
        if let Some((from, to, channel, ..)) = alone {
            return Err(BuildError::Unmatched {
                from: *from,
                to: *to,
                channel: *channel,
            });
        }
        Ok(self.model)
    }
}

/// The index of an end among a lane's; adds it if it is new.
fn place(ends: &mut Vec<End>, known: &mut FxHashMap<End, u32>, end: End) -> u32 {
    *known.entry(end).or_insert_with(|| {
        ends.push(end);
        (ends.len() - 1) as u32
    })
}

/// A lane's steps without addresses.
fn shape(bound: &BoundProgram, lane: &BoundLane, ends: &mut Vec<End>) -> Shape {
    let mut shape = Shape::default();
    let mut known = FxHashMap::default();
    let parts = [&lane.prologue, &lane.body, &lane.last, &lane.epilogue];
    for (part, number) in parts.into_iter().zip(0usize..) {
        for step in part {
            add(bound, step, &mut shape, |end| place(ends, &mut known, end));
        }
        if let Some(mark) = shape.marks.get_mut(number) {
            *mark = shape.steps.len() as u32;
        }
    }
    shape.turns = if lane.body.is_empty() { 0 } else { lane.turns };
    shape.ends = ends.len() as u32;
    shape
}

fn add(
    bound: &BoundProgram,
    step: &BoundStep,
    shape: &mut Shape,
    mut place: impl FnMut(End) -> u32,
) {
    let first = shape.uses.len() as u32;
    let signals = |list: &[u16; 4], count: u8| {
        list.iter()
            .take(usize::from(count))
            .map(|at| usize::from(*at))
            .collect::<Vec<_>>()
    };
    for at in signals(&step.waits, step.wait_count) {
        shape
            .uses
            .push((Use::Wait, place(End::Wait(bound.waits[at]))));
    }
    for operand in &step.sources[..usize::from(step.source_count)] {
        match *operand {
            BoundOperand::Fifo(at) => {
                let end = place(End::Receive(bound.receives[usize::from(at)]));
                shape.uses.push((Use::Receive, end));
            }
            BoundOperand::Peer { peer, .. } => {
                let end = place(End::Read(bound.peers[usize::from(peer)]));
                shape.uses.push((Use::Access, end));
            }
            BoundOperand::Multicast { .. } => {
                shape.uses.push((Use::Access, place(End::Gather)));
            }
            BoundOperand::Local { .. } | BoundOperand::None => {}
        }
    }
    for operand in &step.destinations[..usize::from(step.destination_count)] {
        match *operand {
            BoundOperand::Fifo(at) => {
                let end = place(End::Send(bound.sends[usize::from(at)]));
                shape.uses.push((Use::Send, end));
            }
            BoundOperand::Peer { peer, .. } => {
                let end = place(End::Write(bound.peers[usize::from(peer)]));
                shape.uses.push((Use::Access, end));
            }
            BoundOperand::Multicast { .. } => {
                shape.uses.push((Use::Access, place(End::Spread)));
            }
            BoundOperand::Local { .. } | BoundOperand::None => {}
        }
    }
    for at in signals(&step.notifies, step.notify_count) {
        let end = place(End::Notify(bound.notifies[at]));
        shape.uses.push((Use::Notify, end));
    }
    let bytes = step.elements * u64::from(bound.element_bytes);
    let operands = step.source_count.max(step.destination_count);
    shape.steps.push(Step {
        bytes,
        work: bytes * u64::from(operands),
        uses: (first, shape.uses.len() as u32),
    });
}

impl Wire {
    /// A connection that nothing limits.
    const fn unlimited() -> Self {
        Self {
            links: Vec::new(),
            limit: Rate::UNLIMITED,
            limit_kind: LinkKind::Rank,
            latency: Time::ZERO,
            window: None,
            slots: 1,
            header: 0,
            expansion: (1, 1),
        }
    }
}
