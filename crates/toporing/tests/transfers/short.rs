//! Short messages, which may be moved at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use toporing::communicator::{
    Arguments, Code, Collective, Comm, ElementType, End, Options, Reduction,
};

use super::{expect, message, on_all, send, transfer};

fn start(comm: &Comm, end: End, tag: u32, buffer: &mut [u8]) -> u64 {
    let started = comm.start_transfer(transfer(end, tag, buffer));
    started.expect("there is such a rank")
}

fn wait(comm: &Comm, number: u64) {
    comm.shared.await_job(number, None).expect("it ends");
}

/// Starts a collective of rank 0 or of all, in place.
fn start_collective(comm: &Comm, rank: u32, collective: Collective, buffer: &mut [u8]) -> u64 {
    let arguments = Arguments {
        collective,
        input: buffer.as_ptr(),
        output: buffer.as_mut_ptr(),
        count: buffer.len(),
        element: ElementType::U8,
        operation: Reduction::Sum,
        root: 0,
    };
    // SAFETY: the buffers of this test live until the call has ended.
    let launch = unsafe { arguments.read(rank, comm.shared.ranks) }.expect("it is right");
    comm.start(launch).expect("it starts")
}

/// Makes the ranks prepare messages of 8 bytes.
fn exchange(comm: &Comm, peer: u32) {
    for _ in 0..3 {
        send(comm, peer, 0, message(1, 8));
        expect(comm, End::From(peer), 0, &message(1, 8));
    }
}

/// Only calls that wait run what this rank starts.
fn without_background_thread(comm: &Comm) {
    comm.shared.queue().has_worker = true;
}

/// Waits for another thread, without a call.
fn yield_until(is_over: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_over() {
        assert!(Instant::now() < until, "the other thread tells");
        std::thread::yield_now();
    }
}

/// Short messages, which may be moved at once, and longer ones, more than a connection has slots.
#[test]
fn messages_of_a_tag_keep_their_order_whatever_their_lengths() {
    const LENGTHS: [usize; 8] = [8, 8, 100_000, 8, 300, 40_000, 5000, 64];
    const MESSAGES: usize = 40;
    on_all(2, |comm, rank| {
        let peer = 1 - rank;
        for round in 0..6_usize {
            let tags = [0, 3 + round as u32];
            let lengths = (0..MESSAGES).map(|at| LENGTHS[(at * (1 + round)) % LENGTHS.len()]);
            let lengths: Vec<usize> = lengths.collect();
            let messages = |mine: bool| -> Vec<Vec<u8>> {
                let number = |at| if mine { at as u8 + 1 } else { 0 };
                let all = lengths.iter().enumerate();
                all.map(|(at, bytes)| message(number(at), *bytes)).collect()
            };
            let (mut sent, mut received) = (messages(true), messages(false));
            let tag = |at: usize| tags[at % tags.len()];
            let start_all = |end, buffers: &mut [Vec<u8>]| -> Vec<u64> {
                let all = buffers.iter_mut().enumerate();
                all.map(|(at, it)| start(comm, end, tag(at), it)).collect()
            };
            // One rank sends first, and the other one, in some rounds, when messages have come.
            let (sends, receives) = if rank == 0 {
                let sends = start_all(End::To(peer), &mut sent);
                (sends, start_all(End::From(peer), &mut received))
            } else {
                let receives = start_all(End::From(peer), &mut received);
                if round % 2 == 0 {
                    wait(comm, receives[0]);
                }
                let receives = receives[1 - round % 2..].to_vec();
                (start_all(End::To(peer), &mut sent), receives)
            };
            let mut all: Vec<u64> = receives.into_iter().chain(sends).collect();
            if round % 3 == 0 {
                all.reverse();
            }
            all.into_iter().for_each(|number| wait(comm, number));
            assert_eq!(received, messages(true), "round {round}");
        }
    });
}

/// Calls of one, of a group and started ones, and receives from any rank.
#[test]
fn short_messages_of_all_kinds_of_calls_match_in_order() {
    on_all(2, |comm, rank| {
        let peer = 1 - rank;
        for round in 0..200 {
            let number = |at: u8| at.wrapping_add(round);
            let tag = u32::from(round % 3);
            let mut buffers: Vec<Vec<u8>> = (0..6).map(|_| message(0, 24)).collect();
            if rank == 0 {
                for (at, buffer) in buffers.iter_mut().enumerate() {
                    buffer.fill(number(at as u8));
                }
                let [first, second, third, fourth, rest @ ..] = &mut *buffers else {
                    unreachable!("there are six");
                };
                let first = start(comm, End::To(peer), tag, first);
                send(comm, peer, tag, second.clone());
                comm.begin_group().expect("none is open");
                for buffer in [third, fourth] {
                    let sent = transfer(End::To(peer), tag, buffer);
                    comm.transfer(sent).expect("it is added");
                }
                comm.end_group().expect("they are sent");
                let mut started = rest.iter_mut();
                let started = started
                    .by_ref()
                    .map(|it| start(comm, End::To(peer), tag, it));
                let started: Vec<u64> = started.collect();
                started.into_iter().rev().for_each(|it| wait(comm, it));
                wait(comm, first);
                expect(comm, End::From(peer), 7, &message(round, 8));
            } else {
                let [first, second, third, fourth, fifth, sixth] = &mut *buffers else {
                    unreachable!("there are six");
                };
                let end = match round % 2 {
                    0 => End::From(peer),
                    _ => End::FromAny,
                };
                let any = start(comm, end, tag, first);
                let next = start(comm, End::From(peer), tag, second);
                if round % 5 == 0 {
                    wait(comm, next);
                }
                comm.begin_group().expect("none is open");
                for buffer in [third, fourth] {
                    let received = transfer(End::From(peer), tag, buffer);
                    comm.transfer(received).expect("it is added");
                }
                comm.end_group().expect("they come");
                let received = transfer(End::From(peer), tag, fifth);
                comm.transfer(received).expect("it comes");
                let last = start(comm, End::FromAny, tag, sixth);
                wait(comm, last);
                wait(comm, any);
                if round % 5 != 0 {
                    wait(comm, next);
                }
                for (at, buffer) in buffers.iter().enumerate() {
                    assert_eq!(*buffer, message(number(at as u8), 24), "round {round}");
                }
                send(comm, peer, 7, message(round, 8));
            }
        }
    });
}

/// What was started earlier and by other ranks makes progress beside short messages.
#[test]
fn a_collective_ends_while_short_messages_are_exchanged() {
    on_all(3, |comm, rank| {
        let mut sums = vec![1_u8; 100_000];
        let started = start_collective(comm, rank, Collective::AllReduce, &mut sums);
        if rank == 2 {
            wait(comm, started);
            send(comm, 0, 1, message(1, 8));
        } else {
            let mut over = [0; 8];
            let told = (rank == 0).then(|| start(comm, End::From(2), 1, &mut over));
            let mut ends = false;
            while !ends {
                if let Some(told) = told {
                    let state = comm.shared.await_job(told, Some(Duration::ZERO));
                    ends = state.expect("nothing failed") == Code::Ok;
                }
                let (mut sent, mut received) = ([u8::from(ends); 8], [0; 8]);
                let receive = start(comm, End::From(1 - rank), 0, &mut received);
                let send = start(comm, End::To(1 - rank), 0, &mut sent);
                wait(comm, receive);
                wait(comm, send);
                ends |= received == [1; 8];
            }
            wait(comm, started);
        }
        assert_eq!(sums, vec![3; 100_000]);
    });
}

#[test]
fn a_collective_ends_while_a_rank_only_sends_short_messages() {
    let received = Barrier::new(2);
    on_all(2, |comm, rank| {
        exchange(comm, 1 - rank);
        if rank == 0 {
            without_background_thread(comm);
        }
        let mut sums = vec![1_u8; 100_000];
        let started = start_collective(comm, rank, Collective::AllReduce, &mut sums);
        let until = Instant::now() + Duration::from_secs(60);
        let mut ends = false;
        while !ends {
            let mut buffer = [0; 8];
            if rank == 0 {
                // A look that runs nothing.
                let ended = comm.shared.queue().ended(started);
                ends = ended.expect("it was started").is_some();
                assert!(ends || Instant::now() < until, "the collective ends");
                buffer = [u8::from(ends); 8];
                wait(comm, start(comm, End::To(1), 0, &mut buffer));
            } else {
                wait(comm, start(comm, End::From(0), 0, &mut buffer));
                ends = buffer == [1; 8];
            }
            // There is room for each message, so no send waits.
            received.wait();
        }
        if rank == 1 {
            wait(comm, started);
        }
        assert_eq!(sums, vec![2; 100_000]);
    });
}

/// A rank may compute after the wait.
#[test]
fn a_wait_for_a_message_that_has_come_begins_a_younger_collective() {
    let (is_sent, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    on_all(2, |comm, rank| {
        let mut data = [1 - rank as u8; 8];
        exchange(comm, 1 - rank);
        if rank == 0 {
            without_background_thread(comm);
        }
        let first = start_collective(comm, rank, Collective::Broadcast, &mut data);
        wait(comm, first);
        if rank == 0 {
            data = [2; 8];
            yield_until(|| is_sent.load(Ordering::Acquire));
            let mut received = [0; 8];
            let receive = start(comm, End::From(1), 0, &mut received);
            let second = start_collective(comm, rank, Collective::Broadcast, &mut data);
            wait(comm, receive);
            yield_until(|| is_over.load(Ordering::Acquire));
            wait(comm, second);
        } else {
            send(comm, 0, 0, message(1, 8));
            is_sent.store(true, Ordering::Release);
            let second = start_collective(comm, rank, Collective::Broadcast, &mut data);
            wait(comm, second);
            assert_eq!(data, [2; 8]);
            is_over.store(true, Ordering::Release);
        }
    });
}

/// The time limit and an abort end waits for short messages over connections that are known.
#[test]
fn waits_for_short_messages_end() {
    for aborts in [false, true] {
        let options = Options::default();
        let id = options.new_id().expect("a network interface is up");
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let (id, options) = (&id, &options);
                scope.spawn(move || {
                    let comm = Comm::join(id, rank, 2, options).expect("both join");
                    exchange(&comm, 1 - rank);
                    let mut received = [0; 8];
                    if rank == 0 {
                        let limit = Duration::from_millis(if aborts { 60_000 } else { 50 });
                        let set = comm.set_longest_wait(Some(limit));
                        set.expect("it is not a fork");
                        let number = start(&comm, End::From(1), 0, &mut received);
                        let ended = comm.shared.await_job(number, None);
                        let expected = if aborts { Code::Failed } else { Code::Timeout };
                        assert_eq!(ended.expect_err("nothing is sent").code, expected);
                    } else if aborts {
                        comm.abort().expect("it is not a fork");
                    }
                    // The other rank ends by the failure of this one.
                    let ended = comm.transfer(transfer(End::From(1 - rank), 0, &mut received));
                    ended.expect_err("the communicator has failed");
                    let sent = start(&comm, End::To(1 - rank), 0, &mut received);
                    let ended = comm.shared.await_job(sent, None);
                    ended.expect_err("the communicator has failed");
                    comm.finish().expect("nothing is left");
                });
            }
        });
    }
}

/// A task that is woken may start calls.
#[test]
fn a_waker_may_send_a_short_message() {
    struct Sends {
        comm: Arc<Comm>,
        message: Mutex<[u8; 8]>,
        sent: Mutex<Option<u64>>,
    }
    impl Wake for Sends {
        fn wake(self: Arc<Self>) {
            let mut message = self.message.lock().expect("nobody panicked");
            // The message is kept until the test ends.
            let number = start(&self.comm, End::To(1), 0, &mut *message);
            *self.sent.lock().expect("nobody panicked") = Some(number);
        }
    }
    let options = Options::default();
    let id = options.new_id().expect("a network interface is up");
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (id, options) = (&id, &options);
            scope.spawn(move || {
                let comm = Arc::new(Comm::join(id, rank, 2, options).expect("both join"));
                exchange(&comm, 1 - rank);
                if rank == 1 {
                    send(&comm, 0, 0, message(2, 8));
                    expect(&comm, End::From(0), 0, &message(3, 8));
                } else {
                    let mut received = [0; 8];
                    let number = start(&comm, End::From(1), 0, &mut received);
                    let sends = Arc::new(Sends {
                        comm: Arc::clone(&comm),
                        message: Mutex::new([3; 8]),
                        sent: Mutex::default(),
                    });
                    let waker = Waker::from(Arc::clone(&sends));
                    while comm.shared.poll_job(number, &waker).is_pending() {
                        yield_until(|| sends.sent.lock().expect("nobody panicked").is_some());
                    }
                    let sent = *sends.sent.lock().expect("nobody panicked");
                    match sent {
                        Some(sent) => wait(&comm, sent),
                        // The message had come before the task waited.
                        None => send(&comm, 1, 0, message(3, 8)),
                    }
                }
                comm.finish().expect("nothing failed");
            });
        }
    });
}
