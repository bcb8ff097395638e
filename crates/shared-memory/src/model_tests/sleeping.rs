//! No rank sleeps forever although its condition is true.
//!
//! Sleeping has no timeout in the model, so a lost wake-up is a deadlock, which loom reports.

use std::time::Duration;

use super::check;
use crate::bell::{Bell, RING_WORDS};
use crate::fifo::{FifoProtocol, LowLatency, Receiver, Sender, Simple};
use crate::signal::{Signal, SignalCount};
use crate::sync::Words;
use crate::wait::{Interrupted, Patience, Waiter};

/// Sleeps at once.
const NONE: Patience = Patience {
    spins: 0,
    yields: Duration::ZERO,
    most_yields: u32::MAX,
    longest_yield: Duration::from_millis(1),
    sleeps_often: false,
};

#[test]
fn a_signal_wakes() {
    check(4, || {
        let words = Words::zeroed(RING_WORDS + 1);
        let waiter = Waiter::new(Bell::new(&words), NONE);
        let bell = Bell::new(&words);
        let mut signal = Signal::new(words.word(RING_WORDS));
        let mut count = SignalCount::new(words.word(RING_WORDS));
        let thread = loom::thread::spawn(move || {
            for _ in 0..2 {
                signal.notify();
                bell.ring();
            }
        });
        for _ in 0..2 {
            waiter.wait_until(|| count.try_take(), None).unwrap();
        }
        thread.join().unwrap();
    });
}

#[test]
fn two_givers_wake() {
    check(2, || {
        let words = Words::zeroed(RING_WORDS + 2);
        let waiter = Waiter::new(Bell::new(&words), NONE);
        let threads = [0, 1].map(|number| {
            let bell = Bell::new(&words);
            let mut signal = Signal::new(words.word(RING_WORDS + number));
            loom::thread::spawn(move || {
                signal.notify();
                bell.ring();
            })
        });
        let mut counts = [0, 1].map(|number| SignalCount::new(words.word(RING_WORDS + number)));
        let mut taken = 0;
        while taken < 2 {
            let mut poll = || {
                let before = taken;
                taken += counts
                    .iter_mut()
                    .filter_map(|count| count.try_take().then_some(()))
                    .count();
                taken > before
            };
            waiter.wait_until(&mut poll, None).unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A message in each direction, with both ranks asleep while they wait.
fn there_and_back<P: FifoProtocol>()
where
    P::Sender: 'static,
    P::Receiver: 'static,
{
    let words = P::fifo_words(8);
    let (there, back) = (Words::zeroed(words), Words::zeroed(words));
    let bells = [Words::zeroed(RING_WORDS), Words::zeroed(RING_WORDS)];
    let mut sender = P::sender(&there, 8, 0);
    let mut receiver = P::receiver(&back, 8, 0);
    let mut other_sender = P::sender(&back, 8, 0);
    let mut other_receiver = P::receiver(&there, 8, 0);
    let (one, other) = (
        Waiter::new(Bell::new(&bells[0]), NONE),
        Waiter::new(Bell::new(&bells[1]), NONE),
    );
    let (ring_one, ring_other) = (Bell::new(&bells[0]), Bell::new(&bells[1]));
    let thread = loom::thread::spawn(move || {
        let mut message = [0; 8];
        other
            .wait_until(|| other_receiver.try_receive_into(&mut message), None)
            .unwrap();
        assert!(other_sender.try_send_from(&message));
        ring_one.ring();
    });
    assert!(sender.try_send_from(&[5; 8]));
    ring_other.ring();
    let mut message = [0; 8];
    one.wait_until(|| receiver.try_receive_into(&mut message), None)
        .unwrap();
    assert_eq!(message, [5; 8]);
    thread.join().unwrap();
}

#[test]
fn messages_wake() {
    check(3, there_and_back::<Simple>);
    check(3, there_and_back::<LowLatency>);
}

#[test]
fn an_abort_wakes() {
    check(4, || {
        let words = Words::zeroed(RING_WORDS);
        let waiter = Waiter::new(Bell::new(&words), NONE);
        let bell = Bell::new(&words);
        let thread = loom::thread::spawn(move || bell.abort(9));
        let end = waiter.wait_until(|| false, None);
        assert_eq!(end, Err(Interrupted::Aborted { reason: 9 }));
        thread.join().unwrap();
    });
}
