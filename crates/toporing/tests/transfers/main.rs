//! Transfers beside other calls.

mod groups;
mod short;

use std::time::Duration;

use toporing::communicator::{
    Arguments, Collective, Comm, ElementType, End, Options, Reduction, Transfer,
};

/// Runs one function per rank of a communicator, each in a thread of its own.
fn on_all(ranks: u32, run: impl Fn(&Comm, u32) + Sync) {
    let options = Options {
        longest_wait: Duration::from_secs(60),
        ..Options::default()
    };
    let id = options.new_id().expect("a network interface is up");
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (id, options, run) = (&id, &options, &run);
            scope.spawn(move || {
                let comm = Comm::join(id, rank, ranks, options).expect("all join");
                run(&comm, rank);
                comm.finish().expect("nothing failed");
            });
        }
    });
}

fn transfer(end: End, tag: u32, buffer: &mut [u8]) -> Transfer {
    let memory = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the buffers of this test live until the transfer has ended.
    unsafe { Transfer::new(end, tag, memory, std::ptr::null_mut()) }
}

#[test]
fn calls_of_many_sizes_end_while_a_receive_waits() {
    const SIZES: usize = 6000;
    on_all(2, |comm, rank| {
        let (mut sums, mut message) = (vec![1_u8; SIZES], vec![2_u8; SIZES]);
        let mut pending = [0_u8; 8];
        let waits = (rank == 0).then(|| {
            let receive = transfer(End::FromAny, 5, &mut pending);
            comm.start_transfer(receive).expect("there is another rank")
        });
        for size in 1..=SIZES {
            let arguments = Arguments {
                collective: Collective::AllReduce,
                input: sums.as_ptr(),
                output: sums.as_mut_ptr(),
                count: size,
                element: ElementType::U8,
                operation: Reduction::Maximum,
                root: 0,
            };
            // SAFETY: the buffers live until the call has returned.
            let launch = unsafe { arguments.read(rank, 2) }.expect("it is right");
            comm.run(launch).expect("the ranks agree");
            let end = if rank == 0 { End::To(1) } else { End::From(0) };
            let sent = transfer(end, 0, &mut message[..size]);
            comm.transfer(sent).expect("the ranks agree");
        }
        match waits {
            Some(number) => {
                let ended = comm.shared.await_job(number, None);
                ended.expect("the message comes");
                assert_eq!(pending, [7; 8]);
            }
            None => {
                let mut last = [7; 8];
                let sent = transfer(End::To(0), 5, &mut last);
                comm.transfer(sent).expect("it is received");
            }
        }
    });
}

/// The bytes of a message.
fn message(number: u8, bytes: usize) -> Vec<u8> {
    vec![number; bytes]
}

fn send(comm: &Comm, to: u32, tag: u32, mut bytes: Vec<u8>) {
    let sent = comm.transfer(transfer(End::To(to), tag, &mut bytes));
    sent.expect("it is buffered or received");
}

fn expect(comm: &Comm, from: End, tag: u32, expected: &[u8]) {
    let mut received = message(0, expected.len());
    let done = comm.transfer(transfer(from, tag, &mut received));
    done.expect("the message comes");
    assert_eq!(received, expected, "from {from:?} with tag {tag}");
}

/// Ranks that all send first would wait for each other if sends waited for their receives.
#[test]
fn short_messages_are_sent_before_their_receives_are_posted() {
    on_all(3, |comm, rank| {
        let (next, before) = ((rank + 1) % 3, (rank + 2) % 3);
        for round in 0..3 {
            for (tag, bytes) in [(0, 8), (7, 8), (7, 4096), (7, 32 << 10), (2_000_000_000, 1)] {
                // As many as a FIFO has slots, in the first round with connections that are new.
                for number in 0..8 {
                    send(comm, next, tag + round % 2, message(number + 1, bytes));
                }
            }
            for (tag, bytes) in [(2_000_000_000, 1), (7, 32 << 10), (7, 4096), (7, 8), (0, 8)] {
                for number in 0..8 {
                    let tag = tag + round % 2;
                    expect(comm, End::From(before), tag, &message(number + 1, bytes));
                }
            }
        }
    });
}

#[test]
fn receives_of_any_rank_hear_ranks_that_send_late() {
    on_all(3, |comm, rank| {
        if rank == 0 {
            for number in [1, 2, 2, 1] {
                expect(comm, End::FromAny, 3, &message(number, 16));
                send(comm, u32::from(number), 4, message(0, 1));
            }
        } else {
            // Each message follows the answer to the one before it.
            if rank == 2 {
                expect(comm, End::From(1), 5, &message(0, 1));
            }
            send(comm, 0, 3, message(rank as u8, 16));
            expect(comm, End::From(0), 4, &message(0, 1));
            if rank == 1 {
                send(comm, 2, 5, message(0, 1));
                expect(comm, End::From(2), 5, &message(0, 1));
            }
            send(comm, 0, 3, message(rank as u8, 16));
            expect(comm, End::From(0), 4, &message(0, 1));
            if rank == 2 {
                send(comm, 1, 5, message(0, 1));
            }
        }
    });
}

#[test]
fn a_message_outlives_its_sender_and_one_that_nobody_wants_keeps_nobody() {
    on_all(2, |comm, rank| {
        send(comm, 1 - rank, 9, message(9, 100));
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(200));
            expect(comm, End::From(0), 9, &message(9, 100));
        }
    });
}

/// A tag keeps nothing once its messages were received.
#[test]
fn programs_may_take_as_many_tags_as_they_like() {
    on_all(2, |comm, rank| {
        for tag in 0..20_000 {
            let bytes = [8, 300, 5000][tag as usize % 3];
            let (number, peer) = (tag as u8, 1 - rank);
            send(comm, peer, tag, message(number, bytes));
            let from = if tag % 7 == 0 {
                End::FromAny
            } else {
                End::From(peer)
            };
            expect(comm, from, tag, &message(number, bytes));
        }
    });
}

#[test]
fn a_receive_may_wait_while_its_sender_takes_many_other_tags() {
    on_all(2, |comm, rank| {
        let mut pending = [0_u8; 8];
        if rank == 0 {
            send(comm, 1, 5, message(5, 8));
            expect(comm, End::From(1), 6, &message(0, 1));
        } else {
            expect(comm, End::From(0), 5, &message(5, 8));
            let receive = transfer(End::From(0), 5, &mut pending);
            let waits = comm.start_transfer(receive).expect("there is a rank 0");
            send(comm, 0, 6, message(0, 1));
            for tag in 10..200 {
                expect(comm, End::From(0), tag, &message(1, 8));
            }
            comm.shared.await_job(waits, None).expect("it comes");
            assert_eq!(pending, [7; 8]);
            return;
        }
        for tag in 10..200 {
            send(comm, 1, tag, message(1, 8));
        }
        send(comm, 1, 5, message(7, 8));
    });
}

/// A receive from any rank that took a message no longer holds the connections of other ranks.
#[test]
fn receives_of_a_tag_get_no_message_of_another_tag() {
    on_all(3, |comm, rank| match rank {
        0 => {
            for tag in [7, 1, 2, 3] {
                expect(comm, End::From(2), tag, &message(tag as u8, 8));
            }
            let (mut any, mut last) = ([0_u8; 8], [0_u8; 8]);
            let start = |end, buffer: &mut [u8]| {
                let started = comm.start_transfer(transfer(end, 7, buffer));
                started.expect("there are other ranks")
            };
            let (first, second) = (
                start(End::FromAny, &mut any),
                start(End::From(2), &mut last),
            );
            comm.shared.await_job(first, None).expect("it comes");
            assert_eq!(any, [1; 8]);
            // The second receive waits.
            send(comm, 2, 8, message(0, 1));
            expect(comm, End::From(2), 9, &message(9, 8));
            comm.shared.await_job(second, None).expect("it comes");
            assert_eq!(last, [7; 8]);
        }
        1 => send(comm, 0, 7, message(1, 8)),
        _ => {
            for tag in [7, 1, 2, 3] {
                send(comm, 0, tag, message(tag as u8, 8));
            }
            expect(comm, End::From(0), 8, &message(0, 1));
            send(comm, 0, 9, message(9, 8));
            send(comm, 0, 7, message(7, 8));
        }
    });
}

/// The limit for connections between hosts does not count those on a host.
#[test]
fn tags_on_a_host_take_no_room_between_hosts() {
    on_all(2, |comm, rank| {
        // Their slots have more than 1 GiB of address space.
        const TAGS: u32 = 280;
        for tag in 1..=TAGS {
            send(comm, 1 - rank, tag, message(tag as u8, 64 << 10));
        }
        for tag in 1..=TAGS {
            let expected = message(tag as u8, 64 << 10);
            expect(comm, End::From(1 - rank), tag, &expected);
        }
    });
}

/// A group sends although the answer, which it receives, is not sent yet.
#[test]
fn a_group_sends_before_its_new_receives_have_senders() {
    on_all(3, |comm, rank| {
        for bytes in [1, 5000, 100_000] {
            let (next, before) = ((rank + 1) % 3, (rank + 2) % 3);
            if rank == 0 {
                let (mut sent, mut received) = (message(3, bytes), message(0, bytes));
                comm.begin_group().expect("none is open");
                for part in [
                    transfer(End::From(before), 0, &mut received),
                    transfer(End::To(next), 0, &mut sent),
                ] {
                    comm.transfer(part).expect("it is added");
                }
                comm.end_group().expect("the message goes around");
                assert_eq!(received, sent);
            } else {
                expect(comm, End::From(before), 0, &message(3, bytes));
                send(comm, next, 0, message(3, bytes));
            }
        }
    });
}
