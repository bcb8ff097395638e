//! Waits on a core that others want: ranks, or a program that computes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use shared_memory::{Item, Patience, Segment, Waiter};

/// Binds the calling thread, and those that it starts from now on, to one core.
fn bind_to_one_core() {
    let all = sched_getaffinity(None).unwrap();
    let core = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).unwrap();
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).unwrap();
}

/// Voluntary context switches of the calling thread.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A yield gives the core to the other program for a whole time slice, so thousands of them take
/// much longer than this wait; a sleep ends after at most 100 ms.
#[test]
fn a_waiting_rank_sleeps_where_another_program_wants_the_core() {
    bind_to_one_core();
    let segment = Segment::private("test", &[Item::Bell]).unwrap();
    for patience in [Patience::new(1, 1), Patience::new(2, 1)] {
        let waiter = Waiter::new(segment.bell(0).unwrap(), patience);
        let over = AtomicBool::new(false);
        let slept = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let before = sleeps();
            // A busy machine may give the core to others for long.
            let deadline = Instant::now() + Duration::from_secs(60);
            let end = waiter.wait_until(|| sleeps() - before >= 3, Some(deadline));
            over.store(true, Ordering::Relaxed);
            end.map_err(|_| sleeps() - before)
        });
        assert_eq!(
            slept,
            Ok(()),
            "{patience:?}: how often it slept in a minute"
        );
    }
}

/// With 128 ranks on a core a yield takes more than a millisecond, although no other program runs.
#[test]
fn yields_among_many_ranks_may_take_longer() {
    let longest = |ranks, cores| Patience::new(ranks, cores).longest_yield;
    assert!(longest(2, 2) < Duration::from_millis(1));
    assert!(longest(256, 2) > Duration::from_millis(2));
    assert_eq!(longest(256, 256), longest(2, 2));
}
