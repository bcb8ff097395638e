//! A connection changes its tag only when nobody waits there and all messages were taken.

use super::check;
use crate::signal::{Signal, SignalCount};
use crate::sync::{Ordering, Words, pause};
use crate::tag_table::{TagReceiver, TagSender};

/// Calls `poll` until it returns something.
fn until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    loop {
        match poll() {
            Some(found) => return found,
            None => pause(),
        }
    }
}

/// Messages of two tags over one connection: the table's only entry, a signal for each message, and
/// the message.
#[test]
fn receives_get_messages_of_their_tag() {
    check(3, || {
        let words = Words::zeroed(3);
        let mut sender = TagSender::new(&words, 1);
        let mut receiver = TagReceiver::new(&words, 1);
        let mut signal = Signal::new(words.word(1));
        let mut count = SignalCount::new(words.word(1));
        let data = words.clone();
        let thread = loom::thread::spawn(move || {
            for tag in [7, 9] {
                assert_eq!(until(|| sender.send(tag)), (0, true));
                data.slice(2, 1)[0].store(u64::from(tag), Ordering::Relaxed);
                signal.notify();
            }
        });
        let mut receive = |receiver: &mut TagReceiver, tag: u32| {
            let number = until(|| receiver.begin(tag));
            until(|| count.try_take().then_some(()));
            let seen = words.slice(2, 1)[0].load(Ordering::Relaxed);
            assert_eq!(seen, u64::from(tag));
            assert!(receiver.is_sent(tag));
            receiver.end(number, true);
        };
        receive(&mut receiver, 7);
        // A second receive of the tag that begins keeps the connection until it ends.
        if let Some(number) = receiver.begin(7) {
            pause();
            assert!(receiver.is_sent(7) && !receiver.is_sent(9));
            receiver.end(number, false);
        }
        receive(&mut receiver, 9);
        assert_eq!(receiver.begin(7), None);
        thread.join().unwrap();
    });
}
