//! Ranks that panic, fail, wait too long or leave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use executor::{Choice, Collective, Error, Memory, OpenGroup, Reduction, Request};
use program::{ElementType, Protocol, Schedule, Transfer};

use super::{DIRECT, LONG, local, on_all};

/// Otherwise peers would copy from and to buffers that a panic has freed.
#[test]
fn a_panic_ends_the_communicator() {
    // Rank 1 could be done before rank 0 panics.
    let panicked = AtomicBool::new(false);
    let results = on_all(local(2, Duration::from_secs(60)), |mut rank| {
        rank.set_choice(Some(DIRECT));
        let own = rank.rank();
        let mut buffer = vec![1_u64; 24];
        let call = AssertUnwindSafe(|| {
            let mut group = OpenGroup::default();
            let request = Request {
                collective: Collective::AllReduce,
                element: ElementType::U64,
                reduction: Reduction::Sum,
                root: 0,
                to: 0,
                tag: 0,
                in_place: true,
                count: 24,
                choice: None,
            };
            let memory = Memory::of_one(&mut buffer, 0..24, 0..24);
            rank.add_collective(&mut group, 0, (&request, 0), memory, LONG)?;
            while own == 1 && !panicked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            while !group.is_empty() {
                let mut stop = || match own {
                    0 => panic!("planted"),
                    _ => false,
                };
                rank.advance(&mut group, &mut stop)?;
            }
            Ok::<_, Error>(())
        });
        let ended = catch_unwind(call);
        panicked.store(true, Ordering::Release);
        let later = rank.all_reduce(&mut [1_u64; 2], Reduction::Sum);
        (ended.ok(), later.map_err(|error| error.to_string()))
    });
    assert!(results[0].0.is_none(), "{results:?}");
    assert!(matches!(results[1].0, Some(Err(_))), "{results:?}");
    let told = |(_, later): &(_, Result<(), String>)| {
        let error = later.as_ref().expect_err("the communicator has failed");
        error.contains("rank 0") && error.contains("it panicked")
    };
    assert!(results.iter().all(told), "{results:?}");
}

/// Rank 1 still reduces what is in rank 0's memory when rank 0's time is over. What rank 0 writes
/// there then is not read.
#[test]
fn no_peer_accesses_the_buffers_of_a_rank_that_failed() {
    const BYTES: usize = 128 << 20;
    let direct = Choice {
        schedule: Schedule::Mesh,
        transfer: Transfer::Direct,
        protocol: Protocol::Simple,
        channels: 1,
        piece_bytes: 1 << 20,
    };
    let request = Request {
        collective: Collective::Reduce,
        // It takes long to add these.
        element: ElementType::F16,
        reduction: Reduction::Sum,
        root: 1,
        to: 0,
        tag: 0,
        in_place: false,
        count: BYTES as u64 / 2,
        choice: None,
    };
    on_all(local(2, LONG), |mut rank| {
        rank.set_choice(Some(direct));
        let mut input = vec![0_u8; BYTES];
        let mut output = vec![0_u8; if rank.rank() == 1 { BYTES } else { 0 }];
        for last in [false, true] {
            if last && rank.rank() == 0 {
                rank.set_longest_wait(Duration::from_millis(1));
            }
            let memory = Memory::separate(&input, &mut output);
            let done = rank.run(&request, memory, 0);
            if last {
                input.fill(0xff);
            }
            assert!(last || done.is_ok(), "{done:?}");
            assert!(output.iter().all(|it| *it == 0), "{done:?}");
        }
    });
}

#[test]
fn a_rank_that_waits_too_long_says_for_whom() {
    let results = on_all(local(2, Duration::from_millis(300)), |mut rank| {
        // Rank 1 stays away, and keeps its communicator until rank 0 gave up.
        if rank.rank() == 1 {
            let mut buffer = [0_u64; 4];
            while !matches!(
                rank.receive(&mut buffer, 0),
                Err(Error::Aborted { .. }
                    | Error::Timeout { .. }
                    | Error::Broken { .. }
                    | Error::Bootstrap { .. })
            ) {}
            return None;
        }
        Some(
            rank.receive(&mut [0_u64; 4], 1)
                .map_err(|error| error.to_string()),
        )
    });
    let waited = results.into_iter().flatten().next().expect("rank 0");
    let problem = waited.expect_err("nobody sends");
    assert!(
        problem.contains("rank 0") && problem.contains("rank 1"),
        "{problem}"
    );
}

#[test]
fn a_rank_that_leaves_is_named_at_once() {
    let results = on_all(local(3, LONG), |mut rank| {
        if rank.rank() == 2 {
            return None;
        }
        let mut buffer = vec![1.0_f32; 1 << 20];
        let done = rank.all_reduce(&mut buffer, Reduction::Sum);
        // A communicator that failed stays failed.
        let again = rank.all_reduce(&mut buffer, Reduction::Sum);
        assert!(again.is_err());
        Some(done.map_err(|error| error.to_string()))
    });
    for result in results.into_iter().flatten() {
        let problem = result.expect_err("rank 2 is gone");
        assert!(problem.contains("rank 2"), "{problem}");
    }
}

/// A rank that has done its part may leave, however far the others are: its data is there although
/// the next rank, which waits for the one behind it, has not taken it yet.
#[test]
fn a_rank_that_is_done_may_leave() {
    let choice = Choice {
        schedule: Schedule::Ring,
        transfer: Transfer::Fifo,
        protocol: Protocol::Simple,
        channels: 1,
        piece_bytes: 4096,
    };
    // More than the FIFO of one rank holds, and no more than those of two do: 12 slots on the
    // choice 1 → 2 → 0.
    let elements = 12 * 4096 / size_of::<u32>();
    let (gone, left) = std::sync::mpsc::channel::<()>();
    let (gone, left) = (Mutex::new(Some(gone)), Mutex::new(left));
    let results = on_all(local(3, LONG), |mut rank| {
        rank.set_choice(Some(choice));
        let mut buffer = vec![rank.rank(); elements];
        // The FIFOs are made when they are first needed, by both of their ends.
        rank.reduce(&mut buffer, Reduction::Sum, 0)?;
        let number = rank.rank();
        buffer.fill(number);
        if number == 0 {
            let _ = left.lock().expect("no panic").recv();
            // Long enough for rank 2 to look whether rank 1 is still there: for a look, there is
            // no event. One that comes later finds the same.
            std::thread::sleep(Duration::from_millis(300));
        }
        rank.reduce(&mut buffer, Reduction::Sum, 0)?;
        if number == 1 {
            drop(rank);
            drop(gone.lock().expect("no panic").take());
        }
        Ok::<_, Error>(if number == 0 { buffer } else { Vec::new() })
    });
    let results: Result<Vec<Vec<u32>>, Error> = results.into_iter().collect();
    let results = results.expect("nobody fails");
    assert!(results[0].iter().all(|sum| *sum == 3));
}
