//! Connections over pipes that delay, stall, cut, drop and alter, drawn from a seed.

mod calls;
mod faults;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use net::framing::{FramedIn, FramedOut};
use net::nic::{ConnectionError, Incoming, Outgoing};
use net::tcp::pipe::Pipe;
use net::tcp::sockets::{SocketsIn, SocketsOut};
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Item, Segment};

use faults::{Fault, Faulty};

/// Data bytes of a slot: long enough to be split over pipes.
const SLOT_BYTES: usize = 96 << 10;

/// Virtual time of a turn.
const TURN: Duration = Duration::from_millis(1);

/// Virtual time in which every run ends. The longest successful runs trickle.
const DEADLINE: Duration = Duration::from_secs(600);

/// Time between beats, and without one, as in [`bootstrap::Timing`].
const BEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(15);

#[derive(Default)]
struct Stream {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// One end of a stream within this process.
#[derive(Clone)]
struct Local {
    stream: Arc<Mutex<Stream>>,
    random: Rng,
}

impl Pipe for Local {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = self.stream.lock().unwrap();
        let room = (256_usize << 10).saturating_sub(stream.bytes.len());
        let all = pieces.iter().flat_map(|piece| piece.iter().copied());
        let before = stream.bytes.len();
        stream.bytes.extend(all.take(room));
        match stream.bytes.len() - before {
            0 if room == 0 => Err(ErrorKind::WouldBlock.into()),
            written => Ok(written),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream.lock().unwrap();
        if stream.bytes.is_empty() {
            return if stream.closed {
                Ok(0)
            } else {
                Err(ErrorKind::WouldBlock.into())
            };
        }
        // In pieces, as networks do.
        let most = self.random.usize(1..=into.len());
        let count = most.min(stream.bytes.len());
        for (to, byte) in into.iter_mut().zip(stream.bytes.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        None
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Error(String),
}

/// A connection over pipes, of which one has a fault.
struct Linked<P: FifoProtocol> {
    fault: Fault,
    streams: Vec<Local>,
    sender: P::Sender,
    outgoing: FramedOut<SocketsOut>,
    incoming: FramedIn<SocketsIn>,
    receiver: P::Receiver,
}

impl<P: FifoProtocol> Linked<P>
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    fn new(seed: u64, random: &mut Rng) -> Self {
        let pipes = random.usize(1..=3);
        let items = [Item::Fifo {
            protocol: P::PROTOCOL,
            slot_bytes: SLOT_BYTES,
        }];
        let near = Segment::private("near", &items).unwrap();
        let remote = Segment::private("remote", &items).unwrap();
        let mut sender = near.sender::<P>(0).unwrap();
        sender.announce_lengths();
        let faulty = random.usize(..pipes);
        let fault = Fault::random(random, 60_000);
        let streams: Vec<Local> = (0..pipes)
            .map(|_| Local {
                stream: Arc::default(),
                random: random.fork(),
            })
            .collect();
        let outs = streams.iter().enumerate().map(|(at, stream)| {
            let fault = if at == faulty { fault } else { Fault::None };
            Box::new(Faulty::new(stream.clone(), fault, seed)) as Box<dyn Pipe>
        });
        let ins = streams
            .iter()
            .map(|it| Box::new(it.clone()) as Box<dyn Pipe>);
        Self {
            fault,
            sender,
            outgoing: FramedOut::new(
                SocketsOut::new(outs.collect(), BEAT),
                Box::new(near.receiver::<P>(0).unwrap()),
                true,
            ),
            incoming: FramedIn::new(
                SocketsIn::new(ins.collect(), SILENCE),
                Box::new(remote.sender::<P>(0).unwrap()),
            ),
            receiver: remote.receiver::<P>(0).unwrap(),
            streams,
        }
    }
}

fn run<P: FifoProtocol>(seed: u64) -> (Fault, Outcome)
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    let mut random = Rng::with_seed(seed);
    let Linked {
        fault,
        streams,
        mut sender,
        mut outgoing,
        mut incoming,
        mut receiver,
    } = Linked::<P>::new(seed, &mut random);
    let lengths: Vec<usize> = (0..20)
        .map(|_| {
            let most = 1 << random.u32(..17);
            random.usize(..most)
        })
        .map(|length| length.min(SLOT_BYTES))
        .collect();
    let message = |at: usize| -> Vec<u8> {
        let mut random = Rng::with_seed(seed ^ at as u64);
        (0..lengths[at]).map(|_| random.u8(..)).collect()
    };
    // Sometimes a rank computes for longer than `SILENCE`: that is no fault.
    let mut busy = [Duration::ZERO; 2];
    let (mut sent, mut got, mut now) = (0, 0, Duration::ZERO);
    let name = |error: ConnectionError| Outcome::Error(error.to_string());
    while got < lengths.len() {
        now += TURN;
        assert!(
            now < DEADLINE,
            "seed {seed}: {fault:?} does not end, {got} of {} slots came",
            lengths.len()
        );
        // Sometimes the whole machine sleeps.
        if random.u32(..20_000) == 0 {
            now += 2 * SILENCE;
        }
        for until in &mut busy {
            if random.u32(..20_000) == 0 {
                *until = now + 2 * SILENCE;
            }
        }
        if sent < lengths.len() && now >= busy[0] && sender.try_send_from(&message(sent)) {
            sent += 1;
        }
        if let Err(error) = outgoing.progress(now, false) {
            // The system closes the other end.
            for stream in &streams {
                stream.stream.lock().unwrap().closed = true;
            }
            let _ = incoming.progress(now);
            return (fault, name(error));
        }
        if let Err(error) = incoming.progress(now) {
            return (fault, name(error));
        }
        if now < busy[1] {
            continue;
        }
        let mut slot = vec![0; lengths[got]];
        if receiver.try_receive_into(&mut slot) {
            assert!(
                slot == message(got),
                "seed {seed}: slot {got} came altered under {fault:?}"
            );
            got += 1;
        }
    }
    (fault, Outcome::Done)
}

#[test]
fn five_hundred_seeded_faults_end_in_success_or_a_named_error() {
    let (mut done, mut broken, mut altered, mut stalled) = (0, 0, 0, 0);
    for seed in 0..500 {
        let (fault, outcome) = match seed % 3 {
            0 => run::<Simple>(seed),
            1 => run::<LowLatency>(seed),
            _ => run::<LowLatency128>(seed),
        };
        match (&outcome, fault) {
            (Outcome::Done, _) => done += 1,
            (Outcome::Error(what), Fault::Cut(_)) if what.contains("broke") => broken += 1,
            (Outcome::Error(what), Fault::Drop(_) | Fault::Alter(_))
                if what.contains("not those that were sent") =>
            {
                altered += 1;
            }
            // After lost bytes the receiver waits for the end of a slot that does not arrive.
            (Outcome::Error(what), Fault::Stall(_) | Fault::Drop(_))
                if what.contains("brought nothing for 15 s") =>
            {
                stalled += 1;
            }
            _ => panic!("seed {seed}: {fault:?} ended in {outcome:?}"),
        }
        // A pipe that only delays is no failure.
        if matches!(fault, Fault::None | Fault::Trickle) {
            assert_eq!(outcome, Outcome::Done, "seed {seed}");
        }
    }
    assert!(
        done > 100 && broken > 20 && altered > 40 && stalled > 20,
        "{done} {broken} {altered} {stalled}"
    );
}

#[test]
fn a_rank_that_receives_nothing_is_no_stalled_connection() {
    let items = [Item::Fifo {
        protocol: Simple::PROTOCOL,
        slot_bytes: SLOT_BYTES,
    }];
    let (near, remote) = (
        Segment::private("near", &items).unwrap(),
        Segment::private("remote", &items).unwrap(),
    );
    let mut sender = near.sender::<Simple>(0).unwrap();
    sender.announce_lengths();
    let stream = Local {
        stream: Arc::default(),
        random: Rng::with_seed(1),
    };
    let pipe = || vec![Box::new(stream.clone()) as Box<dyn Pipe>];
    let mut outgoing = FramedOut::new(
        SocketsOut::new(pipe(), BEAT),
        Box::new(near.receiver::<Simple>(0).unwrap()),
        true,
    );
    let mut incoming = FramedIn::new(
        SocketsIn::new(pipe(), SILENCE),
        Box::new(remote.sender::<Simple>(0).unwrap()),
    );
    let mut receiver = remote.receiver::<Simple>(0).unwrap();
    let (mut sent, mut got, mut now) = (0, 0, Duration::ZERO);
    // After an hour the receiver takes all.
    while now < Duration::from_secs(3600) || got < sent {
        now += Duration::from_millis(100);
        sent += u32::from(now < Duration::from_secs(60) && sender.try_send_from(&[7; 50_000]));
        outgoing.progress(now, false).unwrap();
        incoming.progress(now).unwrap();
        if now >= Duration::from_secs(3600) {
            got += u32::from(receiver.try_receive_into(&mut vec![0; 50_000]));
        }
    }
    assert!(sent > 8, "{sent}");
    // Then an hour with beats only.
    for _ in 0..36_000 {
        now += Duration::from_millis(100);
        outgoing.progress(now, false).unwrap();
        incoming.progress(now).unwrap();
    }
}
