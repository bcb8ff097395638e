//! Whatever another process writes into shared memory, every operation returns and none panics.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fuzz_targets::memory;
use fuzz_targets::mutate::Random;

/// Number of random inputs.
const SEEDS: u64 = 3000;

/// Longest time of one input on a busy machine. Each takes about a millisecond.
const LONG: Duration = Duration::from_secs(600);

fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..200 + seed % 600)
        .map(|_| random.below(256) as u8)
        .collect()
}

#[test]
fn arbitrary_words_end_in_no_panic_and_no_endless_loop() {
    let (done, ends) = channel();
    let thread = std::thread::spawn(move || {
        for seed in 0..SEEDS {
            memory::run(&bytes(seed));
            if done.send(seed).is_err() {
                return;
            }
        }
    });
    let mut last = None;
    loop {
        match ends.recv_timeout(LONG) {
            Ok(seed) => last = Some(seed),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("after seed {last:?} an operation hangs"),
        }
    }
    assert!(thread.join().is_ok(), "after seed {last:?}");
    assert_eq!(last, Some(SEEDS - 1));
}
