//! The operations of a lane.

use std::collections::BTreeMap;

use program::{Lane, Operand, Program, Step};

use super::connections::{Carries, Connection, Connections, fifos, steps};
use super::format::{
    BufferType, ChannelRefs, Chunks, MEMORY, Op, RemoteBuffer, RemoteBufferRefs, Threadblock,
};
use super::layout::{Layout, buffer_type};
use super::{MOST_CHANNELS, MOST_OPERATIONS, MOST_PER_OPERATION, NotExpressed};

/// All threads of the block wait for each other.
const SYNCHRONIZE: &str = "nop";

/// Writes the operations of one lane.
pub(super) struct Writer<'a> {
    program: &'a Program,
    connections: &'a Connections,
    layout: &'a mut Layout,
    /// The rank's remote buffers.
    buffers: &'a mut Vec<RemoteBuffer>,
    /// The thread block's channels and remote buffers, as numbers of the rank's.
    channels: Vec<usize>,
    refs: Vec<usize>,
    /// Chunks that passed each FIFO.
    passed: BTreeMap<Connection, u32>,
    ops: Vec<Op>,
}

impl<'a> Writer<'a> {
    /// Writes for one rank.
    pub(super) fn new(
        program: &'a Program,
        connections: &'a Connections,
        layout: &'a mut Layout,
        buffers: &'a mut Vec<RemoteBuffer>,
    ) -> Self {
        Self {
            program,
            connections,
            layout,
            buffers,
            channels: Vec::new(),
            refs: Vec::new(),
            passed: BTreeMap::new(),
            ops: Vec::new(),
        }
    }

    /// The thread block of a lane.
    pub(super) fn threadblock(
        mut self,
        id: usize,
        lane: &Lane,
    ) -> Result<Threadblock, NotExpressed> {
        self.free_places(lane);
        for step in steps(lane) {
            self.step(lane.channel, step)?;
        }
        let counts = [
            (self.ops.len(), "operations", MOST_OPERATIONS),
            (self.channels.len(), "channels", MOST_CHANNELS),
            (self.refs.len(), "remote buffers", MOST_CHANNELS),
        ];
        let rank = self.program.rank;
        if let Some((count, what, most)) = counts.into_iter().find(|(it, _, most)| it > most) {
            return Err(NotExpressed::TooMany {
                rank,
                count,
                what,
                most,
            });
        }
        Ok(Threadblock {
            id,
            ops: self.ops,
            channels: vec![ChannelRefs {
                channel_type: MEMORY,
                channel_ids: self.channels,
            }],
            remote_buffer_refs: vec![RemoteBufferRefs {
                access_channel_type: MEMORY,
                remote_buffer_ids: self.refs,
            }],
        })
    }

    /// Tells the senders of all FIFOs that the last launch has read everything, and waits for the
    /// receivers.
    fn free_places(&mut self, lane: &Lane) {
        let rank = self.program.rank;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for step in steps(lane) {
            from.extend(fifos(&step.sources).map(|end| incoming(rank, end)));
            to.extend(fifos(&step.destinations).map(|end| outgoing(rank, end)));
        }
        for connections in [&mut from, &mut to] {
            connections.sort_unstable();
            connections.dedup();
        }
        self.exchange("signal", &from);
        self.exchange("wait", &to);
    }

    fn step(&mut self, channel: u16, step: &Step) -> Result<(), NotExpressed> {
        let rank = self.program.rank;
        let arrived = fifos(&step.sources).map(|end| incoming(rank, end));
        let signals = step.waits.iter();
        let signals = signals.map(|end| Connection::incoming(rank, *end, Carries::Signals));
        let waits: Vec<Connection> = arrived.chain(signals).collect();
        self.exchange("wait", &waits);
        self.data(channel, step)?;
        let sent = fifos(&step.destinations).map(|end| outgoing(rank, end));
        let signals = step.notifies.iter();
        let signals = signals.map(|end| Connection::outgoing(rank, *end, Carries::Signals));
        let notifies: Vec<Connection> = sent.chain(signals).collect();
        self.exchange("signal", &notifies);
        Ok(())
    }

    /// Signals or awaits connections, a few at a time.
    fn exchange(&mut self, name: &'static str, connections: &[Connection]) {
        for some in connections.chunks(MOST_PER_OPERATION) {
            let channels = some.iter().map(|it| self.channel(it)).collect();
            // Signals follow each other without waiting; so do waits.
            if self.ops.last().is_some_and(|last| last.name != name) {
                self.synchronize();
            }
            self.ops.push(Op {
                name,
                channel_ids: channels,
                channel_type: Some(MEMORY),
                ..Op::default()
            });
        }
    }

    fn synchronize(&mut self) {
        if self.ops.last().is_some_and(|it| it.name != SYNCHRONIZE) {
            self.ops.push(Op {
                name: SYNCHRONIZE,
                ..Op::default()
            });
        }
    }

    /// The number of a connection in this thread block.
    fn channel(&mut self, connection: &Connection) -> usize {
        let number = self.connections.number(self.program.rank, connection);
        // Every connection of a program is among those that were collected from all programs.
        position(&mut self.channels, number.unwrap_or(usize::MAX))
    }

    fn data(&mut self, channel: u16, step: &Step) -> Result<(), NotExpressed> {
        let (local, remote) = self.chunks(channel, step, &step.sources, true)?;
        let (own, others) = self.chunks(channel, step, &step.destinations, false)?;
        let count = u32::from(step.pieces.count);
        match (local.as_slice(), remote.as_slice()) {
            ([], []) => {}
            ([one], []) => self.spread(*one, &own, &others),
            ([], [one]) => {
                let first = self.get(*one, own.first().copied())?;
                self.spread(first, &own[1..], &others);
            }
            ([], [first, rest @ ..]) => {
                let sum = self.get(*first, own.first().copied())?;
                self.reduce(&[sum], rest, sum, &others);
                self.spread(sum, own.get(1..).unwrap_or_default(), &[]);
            }
            (local, remote) => {
                let sum = own.first().copied();
                let sum = sum.unwrap_or_else(|| Chunks {
                    kind: Some(BufferType::Scratch),
                    buffer_id: None,
                    index: self.layout.sum(count),
                    size: count,
                });
                self.reduce(local, remote, sum, &others);
                self.spread(sum, own.get(1..).unwrap_or_default(), &[]);
            }
        }
        Ok(())
    }

    /// Reduces the rank's own chunks and remote ones into own chunks, and sends the result.
    fn reduce(&mut self, local: &[Chunks], remote: &[Chunks], sum: Chunks, to: &[Chunks]) {
        let destinations = || [sum].into_iter().chain(to.iter().copied()).collect();
        let names = |sends: bool| match (remote.is_empty(), sends) {
            (true, false) => "re",
            (true, true) => "res",
            (false, false) => "rre",
            (false, true) => "rres",
        };
        let op = |name, sources: Vec<Chunks>, to: Vec<Chunks>| Op {
            name,
            channel_type: Some(MEMORY),
            src_buff: sources,
            dst_buff: to,
            reduce_op: Some("sum"),
            ..Op::default()
        };
        let name = names(!to.is_empty());
        if remote.is_empty() {
            return self.push(op(name, local.to_vec(), destinations()));
        }
        // An operation with remote sources has one own source.
        let own = match local {
            [one] => *one,
            several => {
                self.push(op("re", several.to_vec(), vec![sum]));
                sum
            }
        };
        let sources = [own].into_iter().chain(remote.iter().copied());
        self.push(op(name, sources.collect(), destinations()));
    }

    /// Copies the rank's own chunks to own chunks and to peers.
    fn spread(&mut self, from: Chunks, own: &[Chunks], others: &[Chunks]) {
        let op = |name, to: Chunks| Op {
            name,
            channel_type: Some(MEMORY),
            src_buff: vec![from],
            dst_buff: vec![to],
            ..Op::default()
        };
        for to in own.iter().filter(|it| **it != from) {
            self.push(op("copy", *to));
        }
        for to in others {
            self.push(op("put", *to));
        }
    }

    /// Copies a peer's chunks to the rank's own, and returns these.
    fn get(&mut self, from: Chunks, to: Option<Chunks>) -> Result<Chunks, NotExpressed> {
        let to = to.filter(|it| it.index == from.index);
        let to = to.ok_or(NotExpressed::Get(self.program.rank))?;
        self.push(Op {
            name: "get",
            channel_type: Some(MEMORY),
            src_buff: vec![from],
            dst_buff: vec![to],
            ..Op::default()
        });
        Ok(to)
    }

    /// Adds an operation on data after those before are complete.
    fn push(&mut self, op: Op) {
        self.synchronize();
        self.ops.push(op);
    }

    /// The chunks of operands: the rank's own, and those of peers.
    fn chunks(
        &mut self,
        channel: u16,
        step: &Step,
        operands: &[Operand],
        are_sources: bool,
    ) -> Result<(Vec<Chunks>, Vec<Chunks>), NotExpressed> {
        let rank = self.program.rank;
        let size = u32::from(step.pieces.count);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for operand in operands {
            let of = |kind, buffer_id, index| Chunks {
                kind,
                buffer_id,
                index,
                size,
            };
            match *operand {
                Operand::Local { buffer, block } => {
                    let index = self.layout.chunk(block, channel, step.pieces);
                    own.push(of(Some(buffer_type(buffer)), None, index));
                }
                Operand::Peer {
                    rank,
                    buffer,
                    block,
                } => {
                    let index = self.layout.chunk(block, channel, step.pieces);
                    let buffer = self.remote_buffer(rank, buffer_type(buffer));
                    others.push(of(None, Some(buffer), index));
                }
                Operand::Fifo(end) if are_sources => {
                    let index = self.place(incoming(rank, end), size);
                    own.push(of(Some(BufferType::Scratch), None, index));
                }
                Operand::Fifo(end) => {
                    let index = self.place(outgoing(rank, end), size);
                    let buffer = self.remote_buffer(end.peer, BufferType::Scratch);
                    others.push(of(None, Some(buffer), index));
                }
                Operand::Multicast { .. } => return Err(NotExpressed::Multicast),
            }
        }
        Ok((own, others))
    }

    /// The place of the next message of a FIFO in the receiver's scratch memory.
    fn place(&mut self, connection: Connection, chunks: u32) -> u32 {
        let passed = self.passed.entry(connection).or_insert(0);
        let at = self.connections.fifo_start(&connection) + *passed;
        *passed += chunks;
        self.layout.fifo_chunk(at)
    }

    /// The number of a remote buffer in this thread block.
    fn remote_buffer(&mut self, rank: u32, kind: BufferType) -> usize {
        let new = RemoteBuffer {
            rank,
            kind,
            access_channel_types: vec![MEMORY],
        };
        let number = position(self.buffers, new);
        position(&mut self.refs, number)
    }
}

fn incoming(rank: u32, end: program::ConnectionEnd) -> Connection {
    Connection::incoming(rank, end, Carries::Messages)
}

fn outgoing(rank: u32, end: program::ConnectionEnd) -> Connection {
    Connection::outgoing(rank, end, Carries::Messages)
}

/// The position of an item, which is added if it is not there.
fn position<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    if let Some(at) = items.iter().position(|it| *it == item) {
        return at;
    }
    items.push(item);
    items.len() - 1
}
