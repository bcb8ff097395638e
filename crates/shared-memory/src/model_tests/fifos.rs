//! Messages arrive whole, once and in order, and are not overwritten while they are read.

use super::check;
use crate::fifo::{FifoProtocol, LowLatency, LowLatencyLine, Receiver, SLOTS, Sender, Simple};
use crate::sync::{Words, pause};

/// Lines of two words, so that a message has several.
type Line = LowLatencyLine<2>;

const SLOT_BYTES: usize = 16;

/// A message whose bytes identify its step.
fn message<const BYTES: usize>(step: u64) -> [u8; BYTES] {
    std::array::from_fn(|place| (step * 16) as u8 + place as u8 + 1)
}

/// Sends `steps` messages from `first_step` on through a FIFO in which `used` slots were used
/// before.
fn exchange<P: FifoProtocol, const BYTES: usize>(used: u64, steps: u64)
where
    P::Sender: 'static,
{
    let words = Words::zeroed(P::fifo_words(SLOT_BYTES));
    let mut sender = P::sender(&words, SLOT_BYTES, 0);
    let mut receiver = P::receiver(&words, SLOT_BYTES, 0);
    for step in 0..used {
        // Messages sent before the threads start cannot go wrong, and cost no executions.
        assert!(sender.try_send_from(&message::<BYTES>(step)));
    }
    let thread = loom::thread::spawn(move || {
        for step in used..used + steps {
            while !sender.is_free() {
                pause();
            }
            assert!(sender.try_send_from(&message::<BYTES>(step)));
        }
    });
    for step in 0..used + steps {
        let mut received = [0; BYTES];
        while !receiver.try_receive_into(&mut received) {
            pause();
        }
        assert_eq!(received, message::<BYTES>(step));
    }
    thread.join().unwrap();
}

/// Reads a message while it is being written.
fn pipelined<P: FifoProtocol>()
where
    P::Sender: 'static,
{
    let words = Words::zeroed(P::fifo_words(SLOT_BYTES));
    let mut sender = P::sender(&words, SLOT_BYTES, 0);
    let mut receiver = P::receiver(&words, SLOT_BYTES, 0);
    let thread = loom::thread::spawn(move || {
        assert!(sender.try_send_from(&message::<SLOT_BYTES>(0)));
    });
    while !receiver.has_begun() {
        pause();
    }
    let mut received = [0; SLOT_BYTES];
    // SAFETY: the bytes are borrowed.
    while !unsafe { receiver.read(0, received.as_mut_ptr(), SLOT_BYTES) } {
        pause();
    }
    receiver.release();
    assert_eq!(received, message::<SLOT_BYTES>(0));
    thread.join().unwrap();
}

#[test]
fn simple_messages_come_whole() {
    check(3, || exchange::<Simple, 16>(0, 2));
}

#[test]
fn simple_slots_are_used_again_only_when_read() {
    check(3, || exchange::<Simple, 8>(SLOTS, 2));
}

#[test]
fn low_latency_messages_come_whole() {
    check(3, || exchange::<LowLatency, 12>(0, 2));
}

#[test]
fn low_latency_messages_are_read_while_they_come() {
    check(3, pipelined::<LowLatency>);
}

#[test]
fn low_latency_slots_are_used_again_only_when_read() {
    check(3, || exchange::<LowLatency, 8>(SLOTS, 2));
}

#[test]
fn low_latency_128_messages_come_whole() {
    check(3, || exchange::<Line, 16>(0, 2));
}

#[test]
fn low_latency_128_messages_are_read_while_they_come() {
    check(3, pipelined::<Line>);
}

#[test]
fn low_latency_128_slots_are_used_again_only_when_read() {
    check(3, || exchange::<Line, 8>(SLOTS, 2));
}

/// The receiver also waits for an empty message.
#[test]
fn empty_messages_are_awaited() {
    fn after_empty<P: FifoProtocol>()
    where
        P::Sender: 'static,
    {
        let words = Words::zeroed(P::fifo_words(SLOT_BYTES));
        let mut sender = P::sender(&words, SLOT_BYTES, 0);
        let mut receiver = P::receiver(&words, SLOT_BYTES, 0);
        let sent = std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&sent);
        let thread = loom::thread::spawn(move || {
            sent.store(true, loom::sync::atomic::Ordering::SeqCst);
            assert!(sender.try_send_from(&[]));
        });
        while !receiver.try_receive_into(&mut []) {
            pause();
        }
        let _ = seen.load(loom::sync::atomic::Ordering::SeqCst);
        thread.join().unwrap();
    }
    check(3, after_empty::<Simple>);
    check(3, after_empty::<LowLatency>);
    check(3, after_empty::<Line>);
}
