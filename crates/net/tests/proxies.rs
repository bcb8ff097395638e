//! Proxies over pipes that delay, stall, cut, drop and alter, from a seed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use bootstrap::simulation::random::Random;
use net::proxy::carry::{CarryError, Incoming, Outgoing};
use net::proxy::faults::{Fault, Faulty};
use net::proxy::pipe::Pipe;
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Item, Segment};

/// Data bytes of a slot: long enough to be split over pipes.
const SLOT_BYTES: usize = 96 << 10;

/// Turns after which a connection that does not go on counts as stalled. With real sockets time says so.
const DEADLINE: usize = 20_000;

#[derive(Default)]
struct Stream {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// One end of a stream within this process.
#[derive(Clone)]
struct Local {
    stream: Arc<Mutex<Stream>>,
    random: Random,
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
        // As a network does, in pieces.
        let most = 1 + self.random.below(into.len() as u64) as usize;
        let count = most.min(stream.bytes.len());
        for (to, byte) in into.iter_mut().zip(stream.bytes.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Stalled,
    Error(String),
}

fn run<P: FifoProtocol>(seed: u64) -> (Fault, Outcome)
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    let mut random = Random::new(seed);
    let pipes = 1 + random.below(3) as usize;
    let items = [Item::Fifo {
        protocol: P::PROTOCOL,
        slot_bytes: SLOT_BYTES,
    }];
    let (near, far) = (
        Segment::private("near", &items).unwrap(),
        Segment::private("far", &items).unwrap(),
    );
    let (mut sender, mut receiver) = (near.sender::<P>(0).unwrap(), far.receiver::<P>(0).unwrap());
    sender.announce_lengths();
    let faulty = random.below(pipes as u64) as usize;
    let fault = Fault::random(&mut random, 200_000);
    let streams: Vec<Local> = (0..pipes)
        .map(|_| Local {
            stream: Arc::default(),
            random: Random::new(random.next()),
        })
        .collect();
    let outs = streams.iter().enumerate().map(|(at, stream)| {
        let fault = if at == faulty { fault } else { Fault::None };
        Box::new(Faulty::new(stream.clone(), fault, seed)) as Box<dyn Pipe>
    });
    let ins = streams
        .iter()
        .map(|it| Box::new(it.clone()) as Box<dyn Pipe>);
    let mut outgoing = Outgoing::new(
        Box::new(near.receiver::<P>(0).unwrap()),
        outs.collect(),
        true,
    );
    let mut incoming = Incoming::new(Box::new(far.sender::<P>(0).unwrap()), ins.collect());
    let lengths: Vec<usize> = (0..20)
        .map(|_| {
            let most = 1 << random.below(17);
            random.below(most) as usize
        })
        .map(|length| length.min(SLOT_BYTES))
        .collect();
    let message = |at: usize| -> Vec<u8> {
        let mut random = Random::new(seed ^ at as u64);
        (0..lengths[at]).map(|_| random.next() as u8).collect()
    };
    let (mut sent, mut got, mut idle) = (0, 0, 0);
    let name = |error: CarryError| Outcome::Error(error.to_string());
    while got < lengths.len() {
        idle += 1;
        if idle > DEADLINE {
            return (fault, Outcome::Stalled);
        }
        if sent < lengths.len() && sender.try_send_from(&message(sent)) {
            (sent, idle) = (sent + 1, 0);
        }
        let before: usize = streams
            .iter()
            .map(|it| it.stream.lock().unwrap().bytes.len())
            .sum();
        if let Err(error) = outgoing.go_on() {
            // The system tells the other side.
            for stream in &streams {
                stream.stream.lock().unwrap().closed = true;
            }
            let _ = incoming.go_on();
            return (fault, name(error));
        }
        if let Err(error) = incoming.go_on() {
            return (fault, name(error));
        }
        let after: usize = streams
            .iter()
            .map(|it| it.stream.lock().unwrap().bytes.len())
            .sum();
        if before != after {
            idle = 0;
        }
        let mut slot = vec![0; lengths[got]];
        if receiver.try_receive_into(&mut slot) {
            assert!(
                slot == message(got),
                "seed {seed}: slot {got} came altered under {fault:?}"
            );
            (got, idle) = (got + 1, 0);
        }
    }
    (fault, Outcome::Done)
}

#[test]
fn five_hundred_seeded_faults_end_in_success_or_a_named_error() {
    let (mut done, mut errors, mut stalled) = (0, 0, 0);
    for seed in 0..500 {
        let (fault, outcome) = match seed % 3 {
            0 => run::<Simple>(seed),
            1 => run::<LowLatency>(seed),
            _ => run::<LowLatency128>(seed),
        };
        match (&outcome, fault) {
            (Outcome::Done, _) => done += 1,
            // Lost bytes make the receiver wait for a slot's end that does not come, unless more follows.
            (Outcome::Stalled, Fault::Stall(_) | Fault::Drop(_) | Fault::Alter(_)) => stalled += 1,
            (Outcome::Error(what), Fault::Cut(_) | Fault::Drop(_) | Fault::Alter(_)) => {
                assert!(
                    what.contains("broke") || what.contains("not those that were sent"),
                    "{what}"
                );
                errors += 1;
            }
            _ => panic!("seed {seed}: {fault:?} ended in {outcome:?}"),
        }
        // A pipe that only delays changes nothing.
        if matches!(fault, Fault::None | Fault::Trickle) {
            assert_eq!(outcome, Outcome::Done, "seed {seed}");
        }
    }
    assert!(
        done > 100 && errors > 50 && stalled > 20,
        "{done} {errors} {stalled}"
    );
}
