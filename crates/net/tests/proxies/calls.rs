//! The number of reads and writes that messages take.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::framing::{FramedIn, FramedOut};
use net::nic::{Incoming, Outgoing};
use net::tcp::pipe::Pipe;
use net::tcp::sockets::{SocketsIn, SocketsOut};
use shared_memory::fifo::{FifoProtocol, Receiver, Sender, Simple};
use shared_memory::{Item, Segment};

/// A stream that counts calls, and takes `room` bytes until they are read.
#[derive(Default)]
struct Counted {
    bytes: VecDeque<u8>,
    room: usize,
    writes: usize,
    reads: usize,
}

#[derive(Clone)]
struct End(Arc<Mutex<Counted>>);

impl Pipe for End {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = self.0.lock().unwrap();
        stream.writes += 1;
        let room = stream.room - stream.bytes.len();
        let all = pieces.iter().flat_map(|piece| piece.iter().copied());
        let before = stream.bytes.len();
        stream.bytes.extend(all.take(room));
        match stream.bytes.len() - before {
            0 => Err(ErrorKind::WouldBlock.into()),
            written => Ok(written),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.0.lock().unwrap();
        stream.reads += 1;
        let count = into.len().min(stream.bytes.len());
        for (to, byte) in into.iter_mut().zip(stream.bytes.drain(..count)) {
            *to = byte;
        }
        match count {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        None
    }
}

/// Sends slots of these lengths at once through a stream with `room`. Returns the writes and reads
/// that it took.
fn calls(lengths: &[usize], room: usize) -> (usize, usize) {
    const SLOT_BYTES: usize = 64 << 10;
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
    let mut receiver = remote.receiver::<Simple>(0).unwrap();
    let stream = End(Arc::default());
    stream.0.lock().unwrap().room = room;
    let pipe = || vec![Box::new(stream.clone()) as Box<dyn Pipe>];
    let second = Duration::from_secs(1);
    let mut outgoing = FramedOut::new(
        SocketsOut::new(pipe(), second),
        Box::new(near.receiver::<Simple>(0).unwrap()),
        true,
    );
    let into = Box::new(remote.sender::<Simple>(0).unwrap());
    let mut incoming = FramedIn::new(SocketsIn::new(pipe(), 15 * second), into);
    let slot = |at: usize| -> Vec<u8> { (0..lengths[at]).map(|it| (it * 7 + at) as u8).collect() };
    for at in 0..lengths.len() {
        assert!(sender.try_send_from(&slot(at)));
    }
    let mut got = 0;
    while got < lengths.len() {
        outgoing.progress(Duration::ZERO, false).unwrap();
        incoming.progress(Duration::ZERO).unwrap();
        let mut room = vec![0; lengths[got]];
        while got < lengths.len() && receiver.try_receive_into(&mut room) {
            assert!(room == slot(got), "slot {got} came altered");
            got += 1;
            room.resize(lengths.get(got).copied().unwrap_or(0), 0);
        }
    }
    assert!(outgoing.is_drained());
    let stream = stream.0.lock().unwrap();
    (stream.writes, stream.reads)
}

#[test]
fn short_slots_share_writes_and_reads() {
    const PLENTY: usize = 1 << 20;
    assert_eq!(calls(&[8; 8], PLENTY), (1, 1));
    assert_eq!(calls(&[0, 8, 500, 0, 1500, 8, 4, 2], PLENTY), (1, 1));
    // A long slot leaves with the short ones before it; most of it is read into its place. Only one
    // more read tells that nothing follows.
    assert_eq!(calls(&[8, 8, 50_000], PLENTY), (1, 3));
    assert_eq!(calls(&[8, 50_000, 8], PLENTY), (2, 3));
    // What a full stream did not take is sent later.
    let (writes, _) = calls(&[100; 8], 64);
    assert!((14..=29).contains(&writes), "{writes} writes");
}
