//! The FIFOs in one thread and between two: messages arrive once and in order.

use program::Protocol;
use proptest::prelude::*;
use shared_memory::fifo::{
    FifoProtocol, LowLatency, LowLatency128, Receiver, SLOTS, Sender, Simple,
};
use shared_memory::{Item, Segment};

const SLOT_BYTES: usize = 1000;

fn segment<P: FifoProtocol>() -> Segment {
    let items = [Item::Fifo {
        protocol: P::PROTOCOL,
        slot_bytes: SLOT_BYTES,
    }];
    Segment::private("test", &items).unwrap()
}

/// A byte of a message that differs from its neighbors and from other messages.
fn byte(step: u64, place: usize) -> u8 {
    (step as usize * 31 + place * 7 + place / 250) as u8
}

fn message(step: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| byte(step, place)).collect()
}

fn fills_and_empties<P: FifoProtocol>(first_step: u64) {
    let segment = segment::<P>();
    let mut sender = segment.sender_from::<P>(0, first_step).unwrap();
    let mut receiver = segment.receiver_from::<P>(0, first_step).unwrap();
    let mut step = 0;
    for bytes in [
        0, 1, 3, 4, 5, 8, 55, 56, 57, 64, 120, 121, 999, SLOT_BYTES, 0, 7, 2, 1,
    ] {
        assert!(!receiver.is_complete(bytes), "nothing was sent");
        for slot in 0..SLOTS {
            assert!(sender.try_send_from(&message(step + slot, bytes)));
        }
        assert!(!sender.is_free(), "all slots are in use");
        for slot in 0..SLOTS {
            let mut received = vec![0; bytes];
            assert!(receiver.try_receive_into(&mut received));
            assert_eq!(received, message(step + slot, bytes));
        }
        assert!(!receiver.is_complete(bytes), "everything was received");
        step += SLOTS;
    }
    assert_eq!(sender.step(), first_step + step);
    assert_eq!(receiver.step(), first_step + step);
}

/// Through the ends' own memory instead of the caller's.
fn slot_memory<P: FifoProtocol>() {
    let segment = segment::<P>();
    let mut sender = segment.sender::<P>(0).unwrap();
    let mut receiver = segment.receiver::<P>(0).unwrap();
    for step in 0..100 {
        let bytes = step as usize * 10;
        let expected = message(step, bytes);
        assert!(sender.is_free());
        // SAFETY: a slot is free and has `SLOT_BYTES` bytes.
        unsafe { std::ptr::copy_nonoverlapping(expected.as_ptr(), sender.slot(bytes), bytes) };
        sender.post_slot(bytes);
        assert!(receiver.is_complete(bytes));
        // SAFETY: the slot is complete.
        let received = unsafe { std::slice::from_raw_parts(receiver.slot(bytes).unwrap(), bytes) };
        assert_eq!(received, expected);
        receiver.release();
    }
}

/// With lines, parts of a slot can be read before the last was written.
fn in_parts<P: FifoProtocol>() {
    let segment = segment::<P>();
    let mut sender = segment.sender::<P>(0).unwrap();
    let mut receiver = segment.receiver::<P>(0).unwrap();
    let part = P::GRAIN * 3;
    let (parts, bytes) = (SLOT_BYTES / part, SLOT_BYTES / part * part - 1);
    for step in 0..20 {
        let expected = message(step, bytes);
        let mut received = vec![0; bytes];
        assert!(sender.is_free());
        for index in 0..parts {
            let range = index * part..bytes.min((index + 1) * part);
            assert!(!receiver.is_complete(bytes));
            // SAFETY: the range is within both.
            unsafe {
                sender.write(range.start, expected[range.clone()].as_ptr(), range.len());
                if P::PROTOCOL != Protocol::Simple {
                    assert!(receiver.has_begun());
                    let to = received[range.clone()].as_mut_ptr();
                    assert!(receiver.read(range.start, to, range.len()));
                }
            }
        }
        sender.post(bytes);
        assert!(receiver.is_complete(bytes));
        if P::PROTOCOL == Protocol::Simple {
            // SAFETY: the bytes are borrowed.
            unsafe { assert!(receiver.read(0, received.as_mut_ptr(), bytes)) };
        }
        receiver.release();
        assert_eq!(received, expected);
    }
}

/// Reading stops at a line that does not arrive, even if a later one has.
fn misses_a_line<P: FifoProtocol>() {
    let segment = segment::<P>();
    let mut sender = segment.sender::<P>(0).unwrap();
    let mut receiver = segment.receiver::<P>(0).unwrap();
    let mut received = [0; 200];
    assert!(sender.is_free());
    let part = P::GRAIN * 2;
    // SAFETY: the bytes are borrowed.
    unsafe {
        sender.write(0, [1; 200].as_ptr(), part);
        assert!(!receiver.read(0, received.as_mut_ptr(), 200));
        sender.write(3 * P::GRAIN, [1; 200].as_ptr(), 200 - 3 * P::GRAIN);
    }
    assert!(receiver.is_complete(200));
    assert!(receiver.slot(200).is_none());
    assert!(!receiver.try_receive_into(&mut received));
    // SAFETY: as above.
    unsafe { sender.write(part, [1; 200].as_ptr(), P::GRAIN) };
    assert!(receiver.try_receive_into(&mut received));
    assert_eq!(received, [1; 200]);
}

fn between_threads<P: FifoProtocol>(first_step: u64) {
    const STEPS: u64 = 20_000;
    let segment = segment::<P>();
    let mut sender = segment.sender_from::<P>(0, first_step).unwrap();
    let mut receiver = segment.receiver_from::<P>(0, first_step).unwrap();
    let size = |step: u64| (step * 37 % 300) as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0..STEPS {
                let message = message(step, size(step));
                while !sender.try_send_from(&message) {
                    std::thread::yield_now();
                }
            }
        });
        for step in 0..STEPS {
            let mut received = vec![0; size(step)];
            while !receiver.try_receive_into(&mut received) {
                std::thread::yield_now();
            }
            assert!(received == message(step, size(step)), "step {step}");
        }
    });
}

macro_rules! each_protocol {
    ($($name:ident: $check:expr;)*) => {
        mod simple { use super::*; type P = Simple; $(#[test] fn $name() { $check(); })* }
        mod low_latency { use super::*; type P = LowLatency; $(#[test] fn $name() { $check(); })* }
        mod low_latency_128 { use super::*; type P = LowLatency128; $(#[test] fn $name() { $check(); })* }
    };
}

each_protocol! {
    a_fifo_fills_and_empties: || fills_and_empties::<P>(0);
    a_fifo_fills_and_empties_where_flags_come_round: || fills_and_empties::<P>((1 << 32) - 40);
    slots_are_memory: slot_memory::<P>;
    slots_go_in_parts: in_parts::<P>;
    threads_exchange_messages: || between_threads::<P>(0);
    threads_exchange_messages_where_flags_come_round: || between_threads::<P>((1 << 32) - 9000);
}

#[test]
fn a_missing_line_is_not_awaited() {
    misses_a_line::<LowLatency>();
    misses_a_line::<LowLatency128>();
}

#[test]
fn an_end_is_given_out_once() {
    let segment = segment::<Simple>();
    let _sender = segment.sender::<Simple>(0).unwrap();
    let again = segment.sender::<Simple>(0).unwrap_err().to_string();
    assert_eq!(
        again,
        "segment \"test\": the sending end of item 0 was taken before"
    );
    let wrong = segment.receiver::<LowLatency>(0).unwrap_err().to_string();
    assert_eq!(
        wrong,
        "segment \"test\": item 0 is a FIFO (Simple) of 1000-byte slots, not a FIFO (LL)"
    );
    let missing = segment.bell(7).unwrap_err().to_string();
    assert_eq!(missing, "segment \"test\": item 7 is missing, not a bell");
}

#[test]
#[should_panic(expected = "is_known_free")]
fn a_full_fifo_cannot_be_posted() {
    let segment = segment::<Simple>();
    let mut sender = segment.sender::<Simple>(0).unwrap();
    for _ in 0..=SLOTS {
        sender.post_slot(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any order of sending and receiving, a FIFO is a queue of eight messages.
    #[test]
    fn a_fifo_is_a_queue(actions in prop::collection::vec((any::<bool>(), 0..300_usize), 0..200)) {
        like_a_queue::<Simple>(&actions)?;
        like_a_queue::<LowLatency>(&actions)?;
        like_a_queue::<LowLatency128>(&actions)?;
    }
}

fn like_a_queue<P: FifoProtocol>(actions: &[(bool, usize)]) -> Result<(), TestCaseError> {
    let segment = segment::<P>();
    let mut sender = segment.sender::<P>(0).unwrap();
    let mut receiver = segment.receiver::<P>(0).unwrap();
    let mut queue = std::collections::VecDeque::new();
    for (step, &(send, bytes)) in actions.iter().enumerate() {
        if send {
            let message = message(step as u64, bytes);
            let sent = sender.try_send_from(&message);
            prop_assert_eq!(sent, (queue.len() as u64) < SLOTS);
            if sent {
                queue.push_back(message);
            }
        } else if let Some(expected) = queue.pop_front() {
            let mut received = vec![0; expected.len()];
            prop_assert!(receiver.try_receive_into(&mut received));
            prop_assert_eq!(received, expected);
        } else {
            prop_assert!(!receiver.is_complete(bytes));
        }
    }
    Ok(())
}
