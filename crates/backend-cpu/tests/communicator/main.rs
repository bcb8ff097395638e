//! Communicators from outside: mistakes, failures, and groups.

mod failures;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use backend_cpu::Cpu;
use executor::{
    Choice, Collective, Communicator, Error, Memory, OpenGroup, Reduction, Request, Settings,
};
use program::{ElementType, Protocol};
use program::{Schedule, Transfer};

fn settings(longest_wait: Duration) -> Settings {
    Settings {
        longest_wait,
        buffer_bytes: Some(64 << 20),
        ..Settings::default()
    }
}

fn local(ranks: u32, longest_wait: Duration) -> Vec<Communicator<Cpu>> {
    Communicator::local(ranks, &settings(longest_wait), |_| Cpu::default()).expect("threads meet")
}

const LONG: Duration = Duration::from_secs(600);

/// Runs one function per rank, each in a thread of its own.
fn on_all<T: Send>(
    ranks: Vec<Communicator<Cpu>>,
    run: impl Fn(Communicator<Cpu>) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = ranks
            .into_iter()
            .map(|rank| scope.spawn(move || run(rank)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, T>| thread.join().expect("no panic");
        threads.into_iter().map(join).collect()
    })
}

#[test]
fn wrong_lengths_and_ranks_are_refused_before_anything_runs() {
    let mut ranks = local(2, LONG);
    let rank = &mut ranks[0];
    let error = rank.all_reduce((&[1.0_f32; 3], &mut [0.0; 2]), Reduction::Sum);
    assert!(error.is_err_and(|error| error.to_string().contains("2 elements, expected 3")));
    let error = rank.all_gather((&[1_u8; 3], &mut [0; 5]));
    assert!(error.is_err_and(|error| error.to_string().contains("expected 6")));
    let error = rank.broadcast((&[1_u8], &mut [0]), 2);
    assert!(error.is_err_and(|error| error.to_string().contains("rank 2 does not exist")));
}

/// Otherwise safe code could make programs write beyond its buffers.
#[test]
fn requests_longer_than_their_memory_are_refused() {
    let mut ranks = local(2, LONG);
    let rank = &mut ranks[0];
    for collective in Collective::ALL {
        let request = Request {
            collective,
            element: ElementType::U8,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count: 1 << 20,
            choice: None,
        };
        let (input, mut output) = ([0_u8; 1], [0_u8; 1]);
        let refused = rank.run(&request, Memory::separate(&input, &mut output), 0);
        let refused = refused.expect_err("one byte is too short");
        let is_refused = |it: &Error| match collective {
            // A part of a group.
            Collective::SendRecv => matches!(it, Error::Unsupported { .. }),
            _ => matches!(it, Error::Length { .. }),
        };
        assert!(is_refused(&refused), "{refused}");
        let mut group = OpenGroup::default();
        let memory = Memory::separate(&input, &mut output);
        let refused = rank.add_collective(&mut group, 1, (&request, 0), memory, LONG);
        assert!(refused.as_ref().is_err_and(is_refused), "{refused:?}");
    }
}

#[test]
fn a_pre_multiplied_sum_of_an_open_group_has_its_factor() {
    on_all(local(2, LONG), |mut rank| {
        let (input, mut output) = ([1 + rank.rank()], [0_u32]);
        let request = Request {
            collective: Collective::AllReduce,
            element: ElementType::U32,
            reduction: Reduction::PreMultipliedSum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count: 1,
            choice: None,
        };
        let mut group = OpenGroup::default();
        let memory = Memory::separate(&input, &mut output);
        let added = rank.add_collective(&mut group, 0, (&request, 5), memory, LONG);
        added.expect("it is possible");
        while !group.is_empty() {
            rank.advance(&mut group, &mut || false).expect("it ends");
        }
        drop(group);
        assert_eq!(output, [5 * 3]);
    });
}

const DIRECT: Choice = Choice {
    schedule: Schedule::TwoPhaseMesh,
    transfer: Transfer::Direct,
    protocol: Protocol::Simple,
    channels: 1,
    piece_bytes: 0,
};

/// Runs these calls of rank 0 and rank 1, which differ, between two that are equal.
fn told_of_differences(choice: Choice, calls: [Call; 2]) {
    let results = on_all(local(2, LONG), |mut rank| {
        rank.set_choice(Some(choice));
        let both = rank.all_reduce(&mut vec![1_u64; 24], Reduction::Sum);
        both.expect("the ranks agree");
        let done = calls[rank.rank() as usize](&mut rank);
        // The other rank may have ended before it could be told.
        done.and_then(|()| rank.all_reduce(&mut [1_u64; 2], Reduction::Sum))
            .map_err(|error| error.to_string())
    });
    let told = |it: &Result<(), String>| {
        it.as_ref()
            .is_err_and(|error| error.contains("calls another collective"))
    };
    assert!(results.iter().all(told), "{choice}: {results:?}");
}

type Call = fn(&mut Communicator<Cpu>) -> Result<(), Error>;

/// Otherwise one would write to buffers that the other does not lend any more, or take another's
/// data for its own.
#[test]
fn ranks_whose_calls_differ_are_told() {
    const KNOWN: Call = |rank| rank.all_reduce(&mut vec![1_u64; 24], Reduction::Sum);
    const LONGER: Call = |rank| rank.all_reduce(&mut vec![1_u64; 32], Reduction::Sum);
    const LONGEST: Call = |rank| rank.all_reduce(&mut vec![1_u64; 1 << 20], Reduction::Sum);
    const FLOATS: Call = |rank| rank.all_reduce(&mut vec![1_f64; 24], Reduction::Sum);
    const SMALLEST: Call = |rank| rank.all_reduce(&mut vec![1_u64; 24], Reduction::Minimum);
    let fifo = Choice {
        transfer: Transfer::Fifo,
        protocol: Protocol::Ll,
        ..DIRECT
    };
    for choice in [DIRECT, fifo] {
        for call in [LONGER, LONGEST, FLOATS, SMALLEST] {
            told_of_differences(choice, [KNOWN, call]);
            told_of_differences(choice, [call, KNOWN]);
        }
        told_of_differences(choice, [LONGER, LONGEST]);
    }
}

/// A rank that has gone on is not compared with what the others refused before.
#[test]
fn what_all_refuse_is_compared_with_nothing() {
    let tree = Choice {
        schedule: Schedule::Tree,
        transfer: Transfer::Fifo,
        protocol: Protocol::Ll,
        channels: 1,
        piece_bytes: 0,
    };
    let results = on_all(local(2, LONG), |mut rank| {
        rank.set_choice(Some(tree));
        rank.all_reduce(&mut [1_u64; 24], Reduction::Sum)?;
        let refused = rank.all_gather((&[1_u8; 3], &mut [0; 6]));
        assert!(refused.is_err(), "trees gather nothing");
        if rank.rank() == 1 {
            // Rank 0 waits meanwhile, and looks at what this one has published: for a look, there
            // is no event. A look that comes later finds the same.
            std::thread::sleep(Duration::from_millis(300));
        }
        rank.all_reduce(&mut [1_u64; 24], Reduction::Sum)
    });
    for result in results {
        result.unwrap();
    }
}

/// Nothing was moved, so the communicator can be used.
#[test]
fn a_group_that_all_refuse_begins_nothing() {
    let refused = Choice {
        transfer: Transfer::Hierarchical,
        ..FIFO
    };
    let exchange = |rank: &mut Communicator<Cpu>| {
        let (peer, own) = (1 - rank.rank(), [rank.rank()]);
        let mut received = [[u32::MAX]; 2];
        let [plain, tagged] = &mut received;
        let mut group = rank.group_start();
        group.send(&own, peer)?;
        group.send_tagged(&own, peer, 7)?;
        group.receive(plain, peer)?;
        group.receive_tagged(tagged, peer, 7)?;
        group.group_end()?;
        assert_eq!(received, [[peer]; 2]);
        Ok::<(), Error>(())
    };
    on_all(local(2, LONG), |mut rank| {
        for _ in 0..2 {
            rank.set_choice(Some(refused));
            let error = exchange(&mut rank).expect_err("there is one host");
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            rank.set_choice(None);
            exchange(&mut rank).expect("nothing was moved");
        }
    });
}

const FIFO: Choice = Choice {
    schedule: Schedule::TwoPhaseMesh,
    transfer: Transfer::Fifo,
    protocol: Protocol::Simple,
    channels: 1,
    piece_bytes: 0,
};

/// As many requests as are remembered, then one again whose program only one rank has to prepare:
/// before, it ran in place there.
#[test]
fn equal_calls_that_one_rank_prepares_again_are_not_told_apart() {
    let results = on_all(local(2, LONG), |mut rank| {
        rank.set_choice(Some(FIFO));
        for count in (1..=4096).chain(1..3) {
            let input = vec![1_u32; count];
            let mut output = input.clone();
            match rank.rank() {
                1 => rank.all_reduce((&input, &mut output), Reduction::Sum)?,
                _ => rank.all_reduce(&mut output, Reduction::Sum)?,
            }
        }
        let mut output = [1_u32; 1];
        rank.all_reduce((&[1_u32], &mut output), Reduction::Sum)
    });
    for result in results {
        result.unwrap();
    }
}

/// More requests than are remembered, and some of them again.
#[test]
fn equal_calls_of_many_lengths_are_not_told_apart() {
    let results = on_all(local(2, LONG), |mut rank| {
        rank.set_choice(Some(FIFO));
        for count in (1..4200).chain(1..40).chain(4000..4300) {
            // Received where it was sent from by one rank only.
            let input = vec![1_u32; count];
            let mut output = input.clone();
            match rank.rank() {
                0 => rank.all_reduce(&mut output, Reduction::Sum)?,
                _ => rank.all_reduce((&input, &mut output), Reduction::Sum)?,
            }
            assert!(output.iter().all(|it| *it == 2));
        }
        Ok::<_, Error>(())
    });
    for result in results {
        result.unwrap();
    }
}

/// A transfer that has not begun is not polled, so that a bell ends the sleep, and soon.
#[test]
fn another_thread_ends_the_wait_for_a_peer_that_is_not_ready() {
    const TURNS: usize = 31;
    let mut ranks = local(2, LONG);
    let rank = &mut ranks[0];
    let bell = rank.bell();
    let mut received = [0_u8; 8];
    let mut group = OpenGroup::default();
    let memory = Memory::separate(&[0_u8; 0], &mut received);
    let receive = (executor::End::From(1), 7);
    let added = rank.add_transfer(&mut group, 0, receive, memory, LONG);
    added.expect("there is a rank 1");
    let rung = Mutex::new(None::<Instant>);
    let since = || {
        let rung = rung.lock().expect("no panic");
        rung.map(|it| it.elapsed()).expect("the bell has rung")
    };
    let mut late = Vec::new();
    // How late a thread is that waits for another one's message: the machine may be busy.
    let mut usual = Vec::new();
    for turn in 0..TURNS {
        let (wake, woken) = std::sync::mpsc::channel();
        *rung.lock().expect("no panic") = None;
        std::thread::scope(|scope| {
            let beside = scope.spawn(move || {
                woken.recv().expect("no panic");
                since()
            });
            scope.spawn(|| {
                // Long enough that the rank looks seldom, and at any time between two looks.
                std::thread::sleep(Duration::from_micros(40_000 + 700 * turn as u64));
                *rung.lock().expect("no panic") = Some(Instant::now());
                bell.ring();
                wake.send(()).expect("no panic");
            });
            let mut stop = || rung.lock().expect("no panic").is_some();
            let ended = rank.advance(&mut group, &mut stop);
            late.push(since());
            assert!(ended.expect("nothing failed").is_empty());
            usual.push(beside.join().expect("no panic"));
        });
    }
    late.sort();
    usual.sort();
    let most = Duration::from_millis(1) + 2 * usual[TURNS / 2];
    assert!(late[TURNS / 2] < most, "{late:?}, beside it {usual:?}");
}

#[test]
fn groups_exchange_with_everyone_at_once_however_long_messages_are() {
    on_all(local(4, LONG), |mut rank| {
        let own = rank.rank();
        for count in [0_usize, 1, 1000, 300_000] {
            let sent: Vec<Vec<u32>> = (0..4).map(|to| vec![own * 10 + to; count]).collect();
            let mut received: Vec<Vec<u32>> = vec![vec![0; count]; 4];
            let mut twice = vec![0_u32; count];
            let mut group = rank.group_start();
            for (to, sent) in (0..4).zip(&sent) {
                group.send(sent, to).expect("a rank");
            }
            // A second one to the next rank keeps its order behind the first.
            group
                .send(&sent[own as usize], (own + 1) % 4)
                .expect("a rank");
            for (from, received) in (0..4).zip(&mut received) {
                group.receive(received, from).expect("a rank");
            }
            group.receive(&mut twice, (own + 3) % 4).expect("a rank");
            group.group_end().expect("all are there");
            for (from, received) in (0..4).zip(&received) {
                assert!(received.iter().all(|value| *value == from * 10 + own));
            }
            let before = (own + 3) % 4;
            assert!(twice.iter().all(|value| *value == before * 11));
        }
    });
}

#[test]
fn many_ranks_on_few_cores_get_on() {
    on_all(local(16, LONG), |mut rank| {
        let mut sum = [0_u64];
        for round in 0..200_u64 {
            rank.all_reduce((&[round], &mut sum), Reduction::Sum)
                .expect("all reduce");
            assert_eq!(sum, [16 * round]);
        }
    });
}
