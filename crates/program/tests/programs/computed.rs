//! The results of bound programs, compared with the definition of each collective.

use program::Collective;
use program::verify::{VerifiedProgram, verify};
use program::{Channels, Forest, ForestChannel, ForestTree, MessageSize, Schedule, Tree};
use proptest::prelude::*;

use crate::cases::{self, Case};
use crate::interpreter::{Interpreter, LAST, Memory, Rank, SCALE, elements};
use crate::mutate::{Change, mutate};

/// Blocks of the input and of the output of a rank.
fn blocks(case: &Case, ranks: u32, rank: u32) -> (u32, u32) {
    let root = |blocks| if rank == case.root { blocks } else { 0 };
    match case.collective {
        Collective::AllReduce => (1, 1),
        Collective::Broadcast => (root(1), 1),
        Collective::Reduce => (1, root(1)),
        Collective::AllGather => (1, ranks),
        Collective::ReduceScatter => (ranks, 1),
        Collective::AllToAll => (ranks, ranks),
        Collective::Gather => (1, root(ranks)),
        Collective::Scatter => (root(ranks), 1),
        Collective::SendRecv => (root(1), u32::from(rank == (case.root + 1) % ranks)),
    }
}

/// The first byte of the output in the input, or of the input in the output, in place: (output,
/// input).
fn overlap(case: &Case, rank: u32, block: usize) -> (usize, usize) {
    let block = block * rank as usize;
    match case.collective {
        Collective::AllGather | Collective::Gather => (0, block),
        Collective::ReduceScatter | Collective::Scatter => (block, 0),
        _ => (0, 0),
    }
}

/// The value of an element of an input.
fn input(rank: u32, at: u64) -> u64 {
    (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ at.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The value of an element of the output: `at` counts from the start of the buffer.
fn expected(case: &Case, ranks: u32, rank: u32, at: u64, count: u64) -> u64 {
    let (block, within) = (u32::try_from(at / count).expect("a block"), at % count);
    let sum = |at: u64| {
        let all = (0..ranks).map(|rank| input(rank, at).wrapping_mul(SCALE));
        all.fold(LAST, u64::wrapping_add)
    };
    let own = u64::from(rank) * count + within;
    match case.collective {
        Collective::AllReduce | Collective::Reduce => sum(within),
        Collective::ReduceScatter => sum(own),
        Collective::Broadcast | Collective::SendRecv => input(case.root, within),
        Collective::AllGather | Collective::Gather => input(block, within),
        Collective::AllToAll => input(block, own),
        Collective::Scatter => input(case.root, own),
    }
}

/// Runs a case on real bytes and compares every output, and every input that must stay as it was.
fn check(case: &Case, channels: &Channels, message: &MessageSize, slots: u32, seed: u64) {
    let programs = case
        .lower(channels)
        .unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let slots = slots.max(case.slots());
    let programs =
        verify(programs, case.slots()).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    check_programs(case, &programs, message, slots, seed);
}

fn check_programs(
    case: &Case,
    programs: &[VerifiedProgram],
    message: &MessageSize,
    slots: u32,
    seed: u64,
) {
    let ranks = programs[0].program().ranks;
    let element = message.element_bytes as usize;
    let block = usize::try_from(message.count).expect("fits memory") * element;
    let mut machine = Interpreter {
        ranks: Vec::new(),
        allocations: Vec::new(),
        slots: slots as usize,
        slot_bytes: message.slot_bytes as usize,
        reduces: case.collective.reduces(),
        random: seed | 1,
    };
    for program in programs {
        let rank = program.program().rank;
        let (inputs, outputs) = blocks(case, ranks, rank);
        let program = program
            .bind(message)
            .unwrap_or_else(|error| panic!("{case:?}: {error}"));
        // No switch here.
        let program = program.without_multicast(rank, ranks).into_owned();
        let mut allocate = |bytes: usize| {
            machine.allocations.push(vec![0xee; bytes]);
            Memory {
                allocation: machine.allocations.len() - 1,
                start: 0,
                bytes,
            }
        };
        let (input_bytes, output_bytes) = (inputs as usize * block, outputs as usize * block);
        let (input_memory, output_memory) = if case.in_place && inputs > 0 && outputs > 0 {
            let both = allocate(input_bytes.max(output_bytes));
            let (output, input) = overlap(case, rank, block);
            let part = |start, bytes| Memory {
                start,
                bytes,
                ..both
            };
            (part(input, input_bytes), part(output, output_bytes))
        } else {
            (allocate(input_bytes), allocate(output_bytes))
        };
        let scratch = allocate(usize::try_from(program.scratch_bytes).expect("fits memory"));
        let there = &mut machine.allocations[input_memory.allocation];
        let there = &mut there[input_memory.start..input_memory.start + input_memory.bytes];
        for (at, chunk) in (0..).zip(there.chunks_mut(element)) {
            chunk.copy_from_slice(&input(rank, at).to_le_bytes()[..element]);
        }
        machine.ranks.push(Rank {
            rank,
            program,
            input: input_memory,
            output: output_memory,
            scratch,
        });
    }
    machine.run();
    let mask = u64::MAX >> (64 - 8 * element);
    for rank in &machine.ranks {
        let memory = |memory: Memory| {
            &machine.allocations[memory.allocation][memory.start..memory.start + memory.bytes]
        };
        for (at, found) in (0..).zip(elements(memory(rank.output), element)) {
            let wanted = expected(case, ranks, rank.rank, at, message.count) & mask;
            assert_eq!(
                found, wanted,
                "{case:?}, {ranks} ranks, {message:?}: rank {}, element {at}",
                rank.rank
            );
        }
        if rank.input.allocation != rank.output.allocation {
            for (at, found) in (0..).zip(elements(memory(rank.input), element)) {
                assert_eq!(
                    found,
                    input(rank.rank, at) & mask,
                    "{case:?}: the input changed"
                );
            }
        }
    }
}

const RANKS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];

#[test]
fn every_algorithm_computes_odd_sizes() {
    for ranks in RANKS {
        let channels = Channels::plain(ranks, 1 + ranks as usize % 3).expect("few ranks");
        let hosts: Vec<u32> = (0..ranks).map(|rank| rank / 2).collect();
        let channels = channels.on_hosts(&hosts).expect("a host for each rank");
        for case in cases::on(&channels, ranks / 3) {
            for (count, slot_bytes) in [(0, 512), (1, 512), (13, 64), (377, 256)] {
                let message = MessageSize {
                    count,
                    element_bytes: 8,
                    slot_bytes: slot_bytes * ranks,
                    piece_bytes: 256,
                };
                check(&case, &channels, &message, 2, u64::from(ranks) + count);
            }
        }
    }
}

prop_compose! {
    /// Rings in any order, and any trees.
    fn any_channels()(
        ranks in prop::sample::select(RANKS.to_vec()),
        count in 1_usize..4,
    )(
        ranks in Just(ranks),
        rings in prop::collection::vec(Just((0..ranks).collect::<Vec<_>>()).prop_shuffle(), count),
        orders in prop::collection::vec(Just((0..ranks).collect::<Vec<_>>()).prop_shuffle(), count),
        picks in prop::collection::vec(any::<prop::sample::Index>(), ranks as usize),
        hosts in any_hosts(ranks),
    ) -> Channels {
        let trees = orders.iter().map(|order| {
            // Each rank hangs on one that came before it.
            let mut parents = vec![None; ranks as usize];
            for (at, rank) in order.iter().enumerate().skip(1) {
                parents[*rank as usize] = Some(order[picks[at].index(at)]);
            }
            Tree { parents }
        });
        let channels = Channels::new(ranks, rings, trees.collect());
        let channels = channels.expect("rings and trees over all ranks");
        let channels = channels.on_hosts(&hosts).expect("a host for each rank");
        with_forests(channels, picks.len() + picks[0].index(5))
    }
}

/// The channels with forests: for each root any of the trees, and shares of different lengths.
fn with_forests(channels: Channels, seed: usize) -> Channels {
    let (ranks, trees) = (channels.ranks(), channels.trees().to_vec());
    let forest = |collective: Collective| {
        let roots: Vec<u32> = match collective {
            Collective::Broadcast | Collective::Reduce => vec![seed as u32 % ranks],
            Collective::AllReduce => (0..1 + seed as u32 % 3).map(|it| it % ranks).collect(),
            _ => (0..ranks).collect(),
        };
        let spreads = !matches!(collective, Collective::Reduce | Collective::ReduceScatter);
        let channel = |at: usize| ForestChannel {
            share: 1 + (seed as u32 + at as u32) % 4,
            trees: roots
                .iter()
                .map(|root| {
                    let tree = |at: usize| trees[at % trees.len()].rooted(*root);
                    let up = collective.reduces().then(|| tree(at + *root as usize));
                    let down = spreads.then(|| tree(at + seed + *root as usize));
                    ForestTree { up, down }
                })
                .collect(),
        };
        let channels = (0..1 + seed % 4).map(channel).collect();
        Forest::new(collective, ranks, channels).expect("trees over all ranks")
    };
    Collective::TUNED
        .into_iter()
        .fold(channels, |channels, it| {
            channels.with_forest(forest(it)).expect("as many ranks")
        })
}

#[test]
fn forests_end_with_one_slot() {
    for ranks in [2, 3, 5, 8] {
        let plain = Channels::plain(ranks, 3).expect("few ranks");
        for seed in 0..4 {
            let channels = with_forests(plain.clone(), seed);
            let cases = cases::on(&channels, ranks / 2);
            for case in cases.iter().filter(|it| it.schedule == Schedule::Forest) {
                let programs = case.lower(&channels).expect("served");
                let programs = verify(programs, 1).unwrap_or_else(|it| panic!("{case:?}: {it}"));
                let message = MessageSize {
                    count: 1111,
                    element_bytes: 4,
                    slot_bytes: 256,
                    piece_bytes: 0,
                };
                check_programs(case, &programs, &message, 1, seed as u64);
            }
        }
    }
}

#[test]
fn what_is_no_forest() {
    let tree = Tree::binary(4, false);
    let new = |collective, share, up: Option<&Tree>, down: Option<&Tree>, trees| {
        let tree = ForestTree {
            up: up.cloned(),
            down: down.cloned(),
        };
        let trees = vec![tree; trees];
        Forest::new(collective, 4, vec![ForestChannel { share, trees }])
    };
    let (tree, other) = (Some(&tree), Some(&tree.rooted(2)));
    assert!(new(Collective::Broadcast, 1, None, tree, 1).is_ok());
    assert!(new(Collective::Broadcast, 0, None, tree, 1).is_err());
    assert!(new(Collective::Broadcast, 1, tree, None, 1).is_err());
    assert!(new(Collective::Broadcast, 1, None, tree, 2).is_err());
    assert!(new(Collective::AllReduce, 1, tree, tree, 2).is_ok());
    assert!(new(Collective::AllReduce, 1, tree, other, 2).is_err());
    assert!(new(Collective::AllGather, 1, None, tree, 4).is_err());
    assert!(new(Collective::AllToAll, 1, None, tree, 1).is_err());
    assert!(Forest::new(Collective::Broadcast, 4, Vec::new()).is_err());
}

/// The hosts of ranks: any, or each with as many ranks.
fn any_hosts(ranks: u32) -> impl Strategy<Value = Vec<u32>> {
    let hosts = (1..=ranks).filter(|hosts| ranks.is_multiple_of(*hosts));
    let even = prop::sample::select(hosts.collect::<Vec<_>>())
        .prop_map(move |hosts| (0..ranks).map(|rank| rank % hosts).collect::<Vec<_>>())
        .prop_shuffle();
    let any = prop::collection::vec(0..ranks, ranks as usize);
    prop_oneof![3 => even, 1 => any]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_message_over_any_channels(
        channels in any_channels(),
        root in any::<prop::sample::Index>(),
        case in any::<prop::sample::Index>(),
        count in prop_oneof![0_u64..20, 0_u64..3000],
        element_bytes in prop::sample::select(vec![1_u32, 2, 4, 8]),
        slot_bytes in prop_oneof![256_u32..2000, Just(4096), Just(1 << 20)],
        piece_bytes in prop_oneof![Just(0_u32), 1_u32..5000],
        slots in 2_u32..9,
        seed in any::<u64>(),
    ) {
        let root = u32::try_from(root.index(channels.ranks() as usize)).expect("a rank");
        let cases = cases::on(&channels, root);
        let message = MessageSize { count, element_bytes, slot_bytes, piece_bytes };
        check(&cases[case.index(cases.len())], &channels, &message, slots, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever is done to programs: if they are not refused, they compute what they should, in any
    /// order of lanes.
    #[test]
    fn what_is_accepted_is_right(
        ranks in 2_u32..6,
        case in any::<prop::sample::Index>(),
        changes in prop::collection::vec(any::<[usize; 8]>(), 1..4),
        count in prop_oneof![0_u64..20, 0_u64..900],
        slots in 2_u32..4,
        seed in any::<u64>(),
    ) {
        let channels = Channels::plain(ranks, 1).expect("few ranks");
        let cases = cases::all(0);
        let case = &cases[case.index(cases.len())];
        let mut programs = case.lower(&channels).expect("served");
        for picks in changes {
            mutate(&mut programs, Change { picks });
        }
        let slots = slots.max(case.slots());
        if let Ok(programs) = verify(programs, case.slots()) {
            let message = MessageSize { count, element_bytes: 4, slot_bytes: 1024, piece_bytes: 64 };
            for turn in 0..4 {
                check_programs(case, &programs, &message, slots, seed.wrapping_add(turn));
            }
        }
    }
}

/// Windows of messages that no test can hold in memory.
#[test]
fn beyond_four_gibibytes() {
    let channels = Channels::plain(3, 2).expect("three ranks");
    for case in cases::all(1) {
        let programs = case.lower(&channels).expect("served");
        for program in verify(programs, case.slots()).expect("proved") {
            let count = (1 << 33) + 5;
            let message = MessageSize {
                count,
                element_bytes: 4,
                slot_bytes: 1 << 16,
                piece_bytes: 0,
            };
            let bound = program.bind(&message).expect("fits an address space");
            let most = u64::from(program.program().ranks) * count * 4;
            // Each lane walks its whole share, however many of its steps move it.
            let mut walked = std::collections::BTreeMap::new();
            for (lane, from) in bound.lanes.iter().zip(&program.program().lanes) {
                let operands =
                    |step: &program::BoundStep| step.sources.into_iter().chain(step.destinations);
                for (steps, turns) in [(&lane.body, lane.turns), (&lane.last, 1)] {
                    for step in steps {
                        for operand in operands(step) {
                            if let program::BoundOperand::Local {
                                buffer: program::BufferKind::Input | program::BufferKind::Output,
                                offset,
                                stride,
                            } = operand
                            {
                                let end = offset + stride * (turns - 1) + step.elements * 4;
                                assert!(end <= most, "{case:?}: {end} beyond {most}");
                                let reached: &mut u64 = walked.entry(from.channel).or_default();
                                *reached = (*reached).max(end % (count * 4));
                                if end % (count * 4) == 0 {
                                    *reached = count * 4;
                                }
                            }
                        }
                    }
                }
            }
            let reaches = walked.values().max().copied();
            assert!(
                reaches.is_none_or(|end| end > count * 2),
                "{case:?}: only {reaches:?}"
            );
        }
    }
}

#[test]
fn messages_that_cannot_be_bound() {
    let channels = Channels::plain(4, 1).expect("four ranks");
    let case = cases::all(0)[0];
    let programs = verify(case.lower(&channels).expect("served"), 2).expect("proved");
    let message = MessageSize {
        count: 10,
        element_bytes: 8,
        slot_bytes: 64,
        piece_bytes: 0,
    };
    assert!(programs[0].bind(&message).is_ok());
    for wrong in [
        MessageSize {
            element_bytes: 0,
            ..message
        },
        MessageSize {
            slot_bytes: 7,
            ..message
        },
        MessageSize {
            count: u64::MAX,
            ..message
        },
        MessageSize {
            count: 1 << 60,
            ..message
        },
    ] {
        assert!(programs[0].bind(&wrong).is_err(), "{wrong:?}");
    }
}
