//! Latency and bandwidth of messages between two threads: `cargo bench -p shared-memory`.
//!
//! `there_and_back` sends a message in each direction; `stream` sends slots of 4 MiB in one
//! direction. If the cores are shared, compare the fastest samples.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering};

use divan::Bencher;
use divan::counter::BytesCount;
use shared_memory::fifo::{
    FifoProtocol, LowLatency, LowLatency128, LowLatencyLine, Receiver, Sender, Simple,
};
use shared_memory::{Bell, Item, Patience, Segment, Waiter};

fn main() {
    divan::main();
}

/// NCCL's LL128 line. Its FIFO needs no more memory than one with shorter lines.
type Line128 = LowLatencyLine<16>;

/// Polls, and yields now and then.
fn until(mut look: impl FnMut() -> bool) {
    loop {
        for _ in 0..1000 {
            if look() {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

fn segment<P: FifoProtocol>(slot_bytes: usize) -> Segment {
    let fifo = Item::Fifo {
        protocol: P::PROTOCOL,
        slot_bytes,
    };
    let segment = Segment::private("bench", &[fifo, fifo, Item::Bell, Item::Bell]).unwrap();
    segment.mapping().populate().unwrap();
    segment
}

const BYTES: [usize; 5] = [8, 56, 256, 1024, 4096];

#[divan::bench(max_time = 1, types = [Simple, LowLatency, LowLatency128, Line128], args = BYTES)]
fn there_and_back<P: FifoProtocol>(bencher: Bencher<'_, '_>, bytes: usize) {
    let segment = segment::<P>(bytes);
    let ended = AtomicBool::new(false);
    let (mut sender, mut remote_sender) = (
        segment.sender::<P>(0).unwrap(),
        segment.sender::<P>(1).unwrap(),
    );
    let (mut remote_receiver, mut receiver) = (
        segment.receiver::<P>(0).unwrap(),
        segment.receiver::<P>(1).unwrap(),
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut message = vec![0; bytes];
            while !ended.load(Ordering::Relaxed) {
                until(|| {
                    remote_receiver.try_receive_into(&mut message) || ended.load(Ordering::Relaxed)
                });
                remote_sender.try_send_from(&message);
            }
        });
        let mut message = vec![1; bytes];
        bencher.bench_local(|| {
            sender.try_send_from(&message);
            until(|| receiver.try_receive_into(&mut message));
        });
        ended.store(true, Ordering::Relaxed);
    });
}

/// As `there_and_back`, but both sides wait as ranks do: with bells, yielding and sleeping.
#[divan::bench(max_time = 1, args = [2, 3])]
fn there_and_back_as_ranks_wait(bencher: Bencher<'_, '_>, ranks: usize) {
    let segment = segment::<LowLatency>(8);
    let patience = Patience::new(ranks, 2);
    let bell = |index| -> Bell { segment.bell(index).unwrap() };
    let (mut sender, mut remote_sender) = (
        segment.sender::<LowLatency>(0).unwrap(),
        segment.sender::<LowLatency>(1).unwrap(),
    );
    let (mut remote_receiver, mut receiver) = (
        segment.receiver::<LowLatency>(0).unwrap(),
        segment.receiver::<LowLatency>(1).unwrap(),
    );
    let (near_bell, remote_bell) = (bell(2), bell(3));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let waiter = Waiter::new(remote_bell.clone(), patience);
            let mut message = [0; 8];
            loop {
                let poll = || remote_receiver.try_receive_into(&mut message);
                if waiter.wait_until(poll, None).is_err() {
                    return;
                }
                assert!(remote_sender.try_send_from(&message));
                near_bell.ring();
            }
        });
        let waiter = Waiter::new(near_bell.clone(), patience);
        let mut message = [1; 8];
        bencher.bench_local(|| {
            assert!(sender.try_send_from(&message));
            remote_bell.ring();
            waiter
                .wait_until(|| receiver.try_receive_into(&mut message), None)
                .unwrap();
        });
        remote_bell.abort(1);
    });
}

const STREAMED: usize = 4 << 20;

#[divan::bench(max_time = 1, types = [Simple, LowLatency, LowLatency128, Line128], args = [4096, 16384, 65536, 262_144])]
fn stream<P: FifoProtocol>(bencher: Bencher<'_, '_>, slot_bytes: usize) {
    let segment = segment::<P>(slot_bytes);
    let ended = AtomicBool::new(false);
    let mut sender = segment.sender::<P>(0).unwrap();
    let mut receiver = segment.receiver::<P>(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let message = vec![0; slot_bytes];
            while !ended.load(Ordering::Relaxed) {
                until(|| sender.try_send_from(&message) || ended.load(Ordering::Relaxed));
            }
        });
        let mut message = vec![1; slot_bytes];
        bencher.counter(BytesCount::new(STREAMED)).bench_local(|| {
            for _ in 0..STREAMED / slot_bytes {
                until(|| receiver.try_receive_into(&mut message));
            }
        });
        ended.store(true, Ordering::Relaxed);
    });
}
