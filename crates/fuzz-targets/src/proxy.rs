//! FIFOs forwarded over TCP, and the hellos of data connections. The first byte chooses:
//!
//! - A receiving half gets slots, headers with a valid checksum, beats and arbitrary bytes, in
//!   pieces of any length over several pipes. Slots must arrive unchanged until anything else is
//!   sent.
//! - A sending and a receiving half are connected by pipes that move pieces of any length.
//! - A hello is read.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use net::framing::{FramedIn, FramedOut};
use net::nic::{ConnectionError, Incoming, Outgoing};
use net::tcp::connect::{Hello, MOST_SOCKETS};
use net::tcp::pipe::Pipe;
use net::tcp::sockets::{SocketsIn, SocketsOut};
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Item, Segment};

use crate::input::{Depth, choose};

/// Most events of one input.
const MOST_EVENTS: usize = 200;

/// A connection without a sign of life for this time is abandoned.
const SILENCE: Duration = Duration::from_secs(5);

/// Shorter slots use only the first pipe, bytes.
const LEAST_SPLIT: usize = 64 << 10;

/// The length in a beat.
const BEAT: u32 = u32::MAX;

/// Receivers, pairs and hellos.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for protocol in 0..3 {
        for (size, pipes) in [(0, 0), (1, 1), (3, 2)] {
            let begin = [protocol, size, pipes];
            let slots = [0, 1, 200, 9, 3, 1, 4, 0, 2, 90, 1, 3, 2, 7, 0, 4, 0, 4, 0];
            seeds.push([&[0][..], &begin, &slots].concat());
            seeds.push([&[1][..], &begin, &[0, 40, 2, 1, 5, 3, 1, 2, 9, 1, 1, 2, 3]].concat());
        }
    }
    let hello = [2, 1, 0, 0, 0, 2, 0, 1];
    seeds.push([&[2][..], &hello].concat());
    seeds
}

/// Forwards slots, or reads a hello.
///
/// # Panics
/// Slots arrive changed, or a connection fails that moved only slots.
pub fn run(bytes: &[u8]) -> Depth {
    let mut choices = Unstructured::new(bytes);
    let Ok(which) = choices.arbitrary::<u8>() else {
        return Depth::Outside;
    };
    if which % 3 == 2 {
        return hello(choices.take_rest());
    }
    let Ok(setup) = Setup::read(&mut choices) else {
        return Depth::Outside;
    };
    match setup.protocol {
        0 => carry::<Simple>(which, &setup, &mut choices),
        1 => carry::<LowLatency>(which, &setup, &mut choices),
        _ => carry::<LowLatency128>(which, &setup, &mut choices),
    }
}

/// Reads the first message of a sender.
fn hello(bytes: &[u8]) -> Depth {
    let Ok(hello) = postcard::from_bytes::<Hello>(bytes) else {
        return Depth::Outside;
    };
    match hello.route(1) {
        Some(route) => {
            assert!(hello.socket < hello.sockets && hello.sockets <= MOST_SOCKETS);
            let again = Hello::new(&route, hello.socket, hello.sockets);
            assert_eq!(again, hello);
            Depth::Accepted
        }
        None => Depth::Inside,
    }
}

struct Setup {
    protocol: u8,
    slot_bytes: usize,
    pipes: usize,
}

impl Setup {
    fn read(choices: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self {
            protocol: choices.arbitrary::<u8>()? % 3,
            slot_bytes: choose(choices, &[64, 1000, 4096, 128 << 10])?,
            pipes: 1 + usize::from(choices.arbitrary::<u8>()? % 4),
        })
    }
}

fn carry<P: FifoProtocol>(which: u8, setup: &Setup, choices: &mut Unstructured<'_>) -> Depth
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    let items = [Item::Fifo {
        protocol: P::PROTOCOL,
        slot_bytes: setup.slot_bytes,
    }];
    let segment = || Segment::private("fuzz", &items).expect("there is memory");
    let to = segment();
    let ends = (
        to.sender::<P>(0).expect("it was not taken"),
        to.receiver::<P>(0).expect("it was not taken"),
    );
    if which.is_multiple_of(3) {
        let mut stream = Stream::<P>::new(setup, ends);
        for _ in 0..MOST_EVENTS {
            if stream.over || choices.is_empty() || stream.event(choices).is_err() {
                break;
            }
        }
        stream.end()
    } else {
        let from = segment();
        let mut sender = from.sender::<P>(0).expect("it was not taken");
        sender.announce_lengths();
        let receiver = from.receiver::<P>(0).expect("it was not taken");
        pair::<P>(setup, (sender, receiver), ends, choices)
    }
}

/// The bytes of a stream in transit.
#[derive(Default)]
struct Bytes {
    waiting: VecDeque<u8>,
    closed: bool,
    /// Most bytes per read or write, and most bytes in transit.
    piece: usize,
    room: usize,
}

#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Bytes>>);

impl Wire {
    fn new(piece: usize, room: usize) -> Self {
        let wire = Self::default();
        (wire.lock().piece, wire.lock().room) = (piece, room);
        wire
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipe for Wire {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut bytes = self.lock();
        let room = bytes.room.saturating_sub(bytes.waiting.len());
        let most = room.min(bytes.piece);
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let all = pieces.iter().flat_map(|piece| piece.iter().copied());
        let before = bytes.waiting.len();
        bytes.waiting.extend(all.take(most));
        Ok(bytes.waiting.len() - before)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.lock();
        let most = into.len().min(bytes.piece).min(bytes.waiting.len());
        match (most, bytes.closed) {
            (0, true) => Ok(0),
            (0, false) => Err(ErrorKind::WouldBlock.into()),
            _ => {
                for (to, byte) in into.iter_mut().zip(bytes.waiting.drain(..most)) {
                    *to = byte;
                }
                Ok(most)
            }
        }
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        None
    }
}

fn boxed(wires: &[Wire]) -> Vec<Box<dyn Pipe>> {
    let one = |wire: &Wire| -> Box<dyn Pipe> { Box::new(wire.clone()) };
    wires.iter().map(one).collect()
}

/// A receiving half and its input.
struct Stream<P: FifoProtocol> {
    incoming: FramedIn<SocketsIn>,
    receiver: P::Receiver,
    wires: Vec<Wire>,
    slot_bytes: usize,
    step: u32,
    now: Duration,
    /// Slots that were sent and not yet received, if only slots were sent.
    honest: VecDeque<Vec<u8>>,
    tampered: bool,
    posted: usize,
    over: bool,
}

impl<P: FifoProtocol> Stream<P>
where
    P::Sender: 'static,
{
    fn new(setup: &Setup, (sender, receiver): (P::Sender, P::Receiver)) -> Self {
        let wires: Vec<Wire> = (0..setup.pipes)
            .map(|_| Wire::new(usize::MAX, usize::MAX))
            .collect();
        Self {
            incoming: FramedIn::new(SocketsIn::new(boxed(&wires), SILENCE), Box::new(sender)),
            receiver,
            wires,
            slot_bytes: setup.slot_bytes,
            step: 0,
            now: Duration::ZERO,
            honest: VecDeque::new(),
            tampered: false,
            posted: 0,
            over: false,
        }
    }

    fn event(&mut self, choices: &mut Unstructured<'_>) -> Result<()> {
        match choices.arbitrary::<u8>()? % 8 {
            0 | 1 => {
                let length =
                    usize::from(choices.arbitrary::<u8>()?) * 4 * (self.slot_bytes / 256 + 1);
                let first = choices.arbitrary::<u8>()?;
                let checks = first & 1 != 0;
                let slot = pattern(length.min(self.slot_bytes), first);
                self.slot(&slot, if checks { checksum(&slot) } else { 0 });
                self.honest.push_back(slot);
            }
            2 => {
                self.now += Duration::from_millis(choose(choices, &[0, 1, 1000, 6000])?);
                self.make_progress();
            }
            3 => self.make_progress(),
            4 => self.receive(),
            5 => {
                let header = header(self.step, BEAT, 0);
                self.wires[0].lock().waiting.extend(header);
            }
            6 => {
                self.tampered = true;
                let most = self.slot_bytes as u32;
                let length = choose(choices, &[0, 1, 64, most - 1, most, most + 1, BEAT - 1])?;
                let step = self
                    .step
                    .wrapping_add(choose(choices, &[0, 0, 0, 1, u32::MAX])?);
                let header = header(step, length, choices.arbitrary::<u8>()?.into());
                self.wires[0].lock().waiting.extend(header);
            }
            _ => {
                let wire = usize::from(choices.arbitrary::<u8>()?) % self.wires.len();
                let mut bytes = self.wires[wire].lock();
                match choices.arbitrary::<u8>()? {
                    0..8 => (bytes.closed, self.tampered) = (true, true),
                    piece @ 8..64 => bytes.piece = usize::from(piece),
                    length => {
                        self.tampered = true;
                        let length = usize::from(length).min(choices.len());
                        bytes.waiting.extend(choices.bytes(length)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a slot over all pipes.
    fn slot(&mut self, slot: &[u8], checksum: u32) {
        let count = self.wires.len();
        let header = header(self.step, slot.len() as u32, checksum);
        self.wires[0].lock().waiting.extend(header);
        for (at, wire) in self.wires.iter().enumerate() {
            let part = if slot.len() < LEAST_SPLIT || count == 1 {
                if at == 0 { slot } else { &[] }
            } else {
                &slot[slot.len() * at / count..slot.len() * (at + 1) / count]
            };
            wire.lock().waiting.extend(part);
        }
        self.step = self.step.wrapping_add(1);
    }

    fn make_progress(&mut self) {
        match self.incoming.progress(self.now) {
            Ok(posted) => self.posted += posted,
            Err(error) => {
                let _ = error.to_string();
                self.over = true;
                let stalled = matches!(error, ConnectionError::Stalled(_));
                assert!(self.tampered || stalled, "{error}");
            }
        }
    }

    fn receive(&mut self) {
        if self.tampered || self.posted == 0 {
            return;
        }
        let Some(slot) = self.honest.pop_front() else {
            return;
        };
        let mut bytes = vec![0; slot.len()];
        assert!(
            self.receiver.try_receive_into(&mut bytes),
            "a slot was not posted"
        );
        assert_eq!(bytes, slot, "a slot arrived altered");
        self.posted -= 1;
    }

    /// Receives what is left. Returns how far the input came.
    fn end(mut self) -> Depth {
        while !self.over && !self.tampered && !self.honest.is_empty() {
            let before = self.posted;
            self.make_progress();
            if self.posted == 0 && before == 0 {
                break;
            }
            self.receive();
        }
        match (self.step, self.over) {
            (0, _) => Depth::Outside,
            (_, true) => Depth::Inside,
            _ => Depth::Accepted,
        }
    }
}

/// Connects a sending half with a receiving half.
fn pair<P: FifoProtocol>(
    setup: &Setup,
    (mut sender, carried): (P::Sender, P::Receiver),
    (into, mut receiver): (P::Sender, P::Receiver),
    choices: &mut Unstructured<'_>,
) -> Depth
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    let Ok((pieces, checks)) = choices.arbitrary::<(u8, bool)>() else {
        return Depth::Outside;
    };
    let piece = 1 + usize::from(pieces) * (setup.slot_bytes / 128).max(1);
    let wires: Vec<Wire> = (0..setup.pipes)
        .map(|_| Wire::new(piece, 3 * piece))
        .collect();
    let pace = Duration::from_secs(1);
    let mut outgoing = FramedOut::new(
        SocketsOut::new(boxed(&wires), pace),
        Box::new(carried),
        checks,
    );
    let mut incoming = FramedIn::new(SocketsIn::new(boxed(&wires), SILENCE), Box::new(into));
    let (mut now, mut sent, mut got) = (Duration::ZERO, VecDeque::new(), 0);
    for _ in 0..MOST_EVENTS {
        let Ok(event) = choices.arbitrary::<u8>() else {
            break;
        };
        match event % 4 {
            0 => {
                let Ok((length, first)) = choices.arbitrary::<(u8, u8)>() else {
                    break;
                };
                let length = usize::from(length) * 4 * (setup.slot_bytes / 256 + 1);
                let slot = pattern(length.min(setup.slot_bytes), first);
                if sender.try_send_from(&slot) {
                    sent.push_back(slot);
                }
            }
            1 => {
                now += Duration::from_millis(500);
                outgoing.progress(now, false).expect("the pipes are whole");
            }
            2 => match incoming.progress(now) {
                Ok(_) => {}
                // Pipes that are too slow are abandoned.
                Err(ConnectionError::Stalled(_)) => return Depth::Inside,
                Err(error) => panic!("{error}"),
            },
            _ => {
                if let Some(slot) = sent.front() {
                    let mut bytes = vec![0; slot.len()];
                    if receiver.try_receive_into(&mut bytes) {
                        assert_eq!(&bytes, slot, "a slot arrived altered");
                        sent.pop_front();
                        got += 1;
                    }
                }
            }
        }
    }
    Depth::accepted_if(got > 0, Depth::Inside)
}

fn pattern(length: usize, first: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(7).wrapping_add(first))
        .collect()
}

/// The header of a slot: step, length, checksum of its bytes or 0, checksum of these three.
pub fn header(step: u32, length: u32, checksum: u32) -> Vec<u8> {
    let mut header: Vec<u8> = [step, length, checksum]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

/// The checksum of a slot's bytes, which is not 0.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes).max(1)
}
