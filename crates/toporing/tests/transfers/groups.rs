//! Groups of messages of several lengths, whose connections differ.

use toporing::communicator::{Comm, End};

use super::{expect, message, on_all, send, transfer};

/// As many messages as a connection has slots.
const SLOTS: usize = 8;

/// Lengths with a connection of their own each, the last longer than its slots.
const LENGTHS: [usize; 4] = [8, 4 << 10, 32 << 10, 100 << 10];

/// Makes each rank prepare messages of these lengths.
fn prepare(comm: &Comm, peer: u32, lengths: &[usize]) {
    for bytes in lengths {
        let (mut sent, mut received) = (message(1, *bytes), message(0, *bytes));
        let group = vec![
            transfer(End::To(peer), 0, &mut sent),
            transfer(End::From(peer), 0, &mut received),
        ];
        comm.run_group(group).expect("the ranks agree");
    }
}

/// Both ranks have sent what their connections hold. A send finds room only when the peer has
/// received half of that, in a group with a send that finds room only when this rank has.
#[test]
fn sends_wait_for_receives_behind_messages_of_another_length() {
    let (long, short) = (4 << 10, 8);
    on_all(2, |comm, rank| {
        let peer = 1 - rank;
        prepare(comm, peer, &[long, short]);
        for bytes in [long, short].repeat(2) {
            expect_after_send(comm, peer, bytes);
        }
        for bytes in [long, short] {
            for _ in 0..SLOTS {
                send(comm, peer, 0, message(7, bytes));
            }
        }
        let mut sent = message(7, short);
        let lengths = [vec![long; SLOTS], vec![short; SLOTS + 1]].concat();
        let mut received: Vec<_> = lengths.iter().map(|it| message(0, *it)).collect();
        let receives = received.iter_mut();
        let receives = receives.map(|it| transfer(End::From(peer), 0, it));
        let group = [transfer(End::To(peer), 0, &mut sent)]
            .into_iter()
            .chain(receives)
            .collect();
        comm.run_group(group)
            .expect("each message has room in time");
        for (bytes, received) in lengths.into_iter().zip(received) {
            assert_eq!(received, message(7, bytes));
        }
    });
}

fn expect_after_send(comm: &Comm, peer: u32, bytes: usize) {
    send(comm, peer, 0, message(1, bytes));
    expect(comm, End::From(peer), 0, &message(1, bytes));
}

/// The messages between each two ranks: first some that are sent one by one, no more than fit; then
/// two groups, which end at the same messages on all ranks.
struct Plan {
    lengths: Vec<usize>,
    one_by_one: usize,
    /// The first message of the second group.
    middle: usize,
}

impl Plan {
    fn random(random: &mut fastrand::Rng) -> Self {
        let lengths = |_| LENGTHS[random.usize(..LENGTHS.len())];
        let lengths: Vec<usize> = (0..30).map(lengths).collect();
        let fits = |count: &usize| {
            let sent = &lengths[..*count];
            let has_room = |it: &usize| sent.iter().filter(|one| *one == it).count() <= SLOTS;
            !sent.contains(&LENGTHS[3]) && sent.iter().all(has_room)
        };
        let most = (0..=lengths.len()).take_while(fits).last().unwrap_or(0);
        let middle = random.usize(..=lengths.len());
        Self {
            one_by_one: random.usize(..=most),
            middle,
            lengths,
        }
    }
}

/// Whatever is sent before, in whatever order transfers are added, groups end.
#[test]
fn groups_of_any_lengths_end() {
    const RANKS: u32 = 3;
    on_all(RANKS, |comm, rank| {
        let others = || (0..RANKS).filter(|it| *it != rank);
        for seed in 0..50 {
            // All ranks make the same plans.
            let mut random = fastrand::Rng::with_seed(seed);
            let all = (0..RANKS * RANKS).map(|_| Plan::random(&mut random));
            let all: Vec<Plan> = all.collect();
            let plan = |from: u32, to: u32| &all[(from * RANKS + to) as usize];
            let mut random = fastrand::Rng::with_seed(seed << 8 | u64::from(rank));
            for to in others() {
                let plan = plan(rank, to);
                for bytes in &plan.lengths[..plan.one_by_one] {
                    send(comm, to, 0, message(seed as u8, *bytes));
                }
            }
            for second in [false, true] {
                let range = |plan: &Plan| match second {
                    false => 0..plan.middle,
                    true => plan.middle..plan.lengths.len(),
                };
                // The order of transfers with one end stays.
                let mut ends: Vec<(End, usize)> = Vec::new();
                for other in others() {
                    let sent = plan(rank, other);
                    let range_sent = range(sent);
                    let begin = range_sent.start.max(sent.one_by_one).min(range_sent.end);
                    let received = plan(other, rank);
                    for (end, lengths) in [
                        (End::To(other), &sent.lengths[begin..range_sent.end]),
                        (End::From(other), &received.lengths[range(received)]),
                    ] {
                        let mut at = 0;
                        for bytes in lengths {
                            at = random.usize(at..=ends.len());
                            ends.insert(at, (end, *bytes));
                            at += 1;
                        }
                    }
                }
                let buffer = |(end, bytes): &(End, usize)| match end {
                    End::To(_) => message(seed as u8, *bytes),
                    _ => message(!seed as u8, *bytes),
                };
                let mut buffers: Vec<_> = ends.iter().map(buffer).collect();
                let group = ends.iter().zip(&mut buffers);
                let group = group.map(|((end, _), buffer)| transfer(*end, 0, buffer));
                let done = comm.run_group(group.collect());
                done.unwrap_or_else(|fault| panic!("seed {seed}: {fault:?}"));
                let filled = |it: &Vec<u8>| it.iter().all(|byte| *byte == seed as u8);
                assert!(buffers.iter().all(filled), "seed {seed}");
            }
        }
    });
}
