//! Data written before a signal is seen after it, and no signal is lost or taken twice.

use super::check;
use crate::buffer_table::{BufferTable, Descriptor, Place};
use crate::signal::{Signal, SignalCount};
use crate::sync::{Ordering, Words, pause, store_bytes};

#[test]
fn data_comes_with_its_signal() {
    check(3, || {
        let words = Words::zeroed(3);
        let (mut signal, data) = (Signal::new(words.word(0)), words.clone());
        let mut count = SignalCount::new(words.word(0));
        let thread = loom::thread::spawn(move || {
            for number in 1..=2 {
                data.slice(number, 1)[0].store(number as u64, Ordering::Relaxed);
                signal.notify();
            }
        });
        for number in 1..=2 {
            while !count.try_take() {
                pause();
            }
            let seen = words.slice(number, 1)[0].load(Ordering::Relaxed);
            assert_eq!(seen, number as u64);
        }
        assert!(!count.try_take());
        thread.join().unwrap();
    });
}

fn buffers(launch: u64) -> [Descriptor; 3] {
    [1, 2, 3].map(|number| Descriptor {
        place: Place::Address(launch * 10 + number),
        bytes: launch,
    })
}

#[test]
fn buffers_come_with_the_number_of_the_launch() {
    check(3, || {
        let words = Words::zeroed(BufferTable::words(1));
        let (owner, peer) = (BufferTable::new(&words, 1), BufferTable::new(&words, 1));
        let thread = loom::thread::spawn(move || owner.publish(1, 5, &buffers(1)));
        let found = loop {
            if let Some(found) = peer.read(1) {
                break found;
            }
            pause();
        };
        assert_eq!(found, (5, buffers(1)));
        thread.join().unwrap();
    });
}

/// Many launches in one entry, which signals in both directions keep apart, as in programs.
#[test]
fn buffers_of_the_next_launch_wait_for_the_peer() {
    check(2, || {
        let end = BufferTable::words(1);
        let words = Words::zeroed(end + 2);
        let (owner, peer) = (BufferTable::new(&words, 1), BufferTable::new(&words, 1));
        let (mut ready, mut done) = (
            Signal::new(words.word(end)),
            Signal::new(words.word(end + 1)),
        );
        let (mut is_ready, mut is_done) = (
            SignalCount::new(words.word(end)),
            SignalCount::new(words.word(end + 1)),
        );
        let thread = loom::thread::spawn(move || {
            for launch in 1..=2 {
                owner.publish(launch, 5, &buffers(launch));
                ready.notify();
                while !is_done.try_take() {
                    pause();
                }
            }
        });
        for launch in 1..=2 {
            while !is_ready.try_take() {
                pause();
            }
            assert_eq!(peer.read(launch), Some((5, buffers(launch))));
            done.notify();
        }
        thread.join().unwrap();
    });
}

/// A rank that withdrew its buffers uses them alone, although a peer may have been about to access
/// them.
#[test]
fn withdrawn_buffers_are_not_accessed() {
    check(3, || {
        let tables = [0, 1].map(|_| BufferTable::new(&Words::zeroed(BufferTable::words(1)), 1));
        let buffer = Words::zeroed(1);
        let (of_peer, to) = (tables.clone(), buffer.clone());
        let thread = loom::thread::spawn(move || {
            let [owner, peer] = of_peer;
            peer.begin_access();
            if !owner.is_withdrawn() {
                let bytes = [1; 8];
                // SAFETY: the bytes are readable; loom checks the accesses.
                unsafe { store_bytes(to.slice(0, 1), bytes.as_ptr(), 8) };
            }
            peer.end_access();
        });
        let [owner, peer] = tables;
        owner.withdraw();
        peer.await_access(|| {
            pause();
            true
        });
        let bytes = [2; 8];
        // SAFETY: as above.
        unsafe { store_bytes(buffer.slice(0, 1), bytes.as_ptr(), 8) };
        thread.join().unwrap();
    });
}
