//! NVLS between ranks that share no process memory: processes of one host, and threads that act as
//! hosts joined by a fabric. Every rank maps the memory of all behind one address.

use device_runtime::LaunchOptions;
use executor::suite::Case;
use executor::{Choice, Error, Reduction};
use kernel_emulator::{Bug, Emulator};
use program::{Collective, ElementType, Protocol};
use program::{Schedule, Transfer};

use super::hosts::{Place, each, on};
use super::processes::{Children, rank};
use super::{Rank, join, join_on, run, small};

const NVLS: Choice = Choice {
    schedule: Schedule::Nvls,
    transfer: Transfer::Direct,
    protocol: Protocol::Simple,
    channels: 2,
    piece_bytes: 0,
};

/// Elements of a block. Two of them need a longer window, then the first one is used again.
const COUNTS: [usize; 5] = [401, 30_011, 7, 9000, 0];

/// Everything that a switch supports, types and operations in turn, with messages of changing
/// length.
fn cases(ranks: u32, allowed: impl Fn(ElementType) -> bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut number = 0;
    for collective in [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
    ] {
        for element in ElementType::OF_NCCL.into_iter().filter(|it| allowed(*it)) {
            for reduction in [Reduction::Sum, Reduction::Maximum, Reduction::Average] {
                number += 1;
                let case = Case {
                    collective,
                    choice: Choice {
                        channels: 1 + (number % 2) as u16,
                        piece_bytes: [0, 4096][number / 2 % 2],
                        ..NVLS
                    },
                    element,
                    reduction: match collective.reduces() {
                        true => reduction,
                        false => Reduction::Sum,
                    },
                    ranks,
                    root: 0,
                    count: COUNTS[number % COUNTS.len()],
                    in_place: number % 3 == 0,
                };
                if case.exists() {
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// Runs every `one_of`-th case on ranks that are processes, copied or in a window.
fn some_by_processes(test: &str, ranks: u32, stages_in_window: bool, one_of: usize) {
    let Some(hosts) = rank() else {
        return all_do_well(test, ranks);
    };
    let options = LaunchOptions {
        stages_in_window,
        ..small()
    };
    let (_, mut communicator) = join(hosts, options, 31).unwrap();
    let cases = cases(ranks, |_| true);
    assert!(cases.len() > 30);
    let cases: Vec<Case> = cases.into_iter().step_by(one_of).collect();
    run(&mut communicator, &cases).unwrap();
}

/// Starts this test again for each rank.
fn all_do_well(test: &str, ranks: u32) {
    for (well, text) in Children::start(test, ranks).end() {
        assert!(well, "{text}");
    }
}

/// Runs all cases on ranks that are processes on weak memory, copied or in a window.
fn on_weak_memory(test: &str, ranks: u32, stages_in_window: bool) {
    let Some(hosts) = rank() else {
        return all_do_well(test, ranks);
    };
    let options = LaunchOptions {
        stages_in_window,
        ..small()
    };
    let number = executor::bootstrap::Bootstrap::rank(&*hosts);
    let emulator = Emulator::new(71 + u64::from(number), Bug::None).with_weak_memory();
    let (_, mut communicator) = join_on(emulator, hosts, options).unwrap();
    let compiled = |it| matches!(it, ElementType::I32 | ElementType::U8);
    let cases = cases(ranks, compiled);
    assert!(cases.len() >= 9);
    run(&mut communicator, &cases).unwrap();
}

#[test]
fn two_processes() {
    some_by_processes("multicast::two_processes", 2, false, 1);
}

#[test]
fn three_processes() {
    some_by_processes("multicast::three_processes", 3, false, 4);
}

#[test]
fn three_processes_with_windows() {
    some_by_processes("multicast::three_processes_with_windows", 3, true, 4);
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn three_processes() {
        some_by_processes("multicast::deep::three_processes", 3, false, 1);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn three_processes_with_windows() {
        let test = "multicast::deep::three_processes_with_windows";
        some_by_processes(test, 3, true, 1);
    }
}

#[test]
fn three_processes_with_windows_on_weak_memory() {
    let test = "multicast::three_processes_with_windows_on_weak_memory";
    on_weak_memory(test, 3, true);
}

#[test]
fn three_processes_on_weak_memory() {
    on_weak_memory("multicast::three_processes_on_weak_memory", 3, false);
}

#[test]
fn hosts_that_a_fabric_joins() {
    let places = [on("a"), on("b"), on("a")];
    let results = each(&places, |rank, hosts| {
        let emulator = Emulator::new(19 + u64::from(rank), Bug::None).with_fabric();
        let (_, mut communicator) = join_on(emulator, hosts, small()).unwrap();
        let cases: Vec<Case> = cases(3, |_| true).into_iter().step_by(2).collect();
        run(&mut communicator, &cases)
    });
    for result in results {
        result.unwrap();
    }
}

/// Asks for a sum with NVLS, which is refused, then for one with the default choice. Returns the
/// reason of the refusal.
fn refused(communicator: &mut Rank, ranks: u32) -> String {
    let rank = communicator.rank();
    communicator.set_choice(Some(NVLS));
    let mut sum = vec![rank + 1; 20_000];
    let refused = communicator.all_reduce(&mut sum, Reduction::Sum);
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    assert!(sum.iter().all(|it| *it == rank + 1));
    communicator.set_choice(None);
    summed(communicator, ranks);
    refused.to_string()
}

/// Sums with the choice that was set.
fn summed(communicator: &mut Rank, ranks: u32) {
    let mut sum = vec![communicator.rank() + 1; 5000];
    communicator.all_reduce(&mut sum, Reduction::Sum).unwrap();
    let right = ranks * (ranks + 1) / 2;
    assert!(sum.iter().all(|it| *it == right));
}

/// Checks that all ranks report the same reason, with this text.
fn all_say(heard: &[String], part: &str) {
    assert!(heard.iter().all(|it| *it == heard[0]), "{heard:#?}");
    assert!(heard[0].contains(part), "{}", heard[0]);
}

/// Collectives that no switch supports are refused before ranks meet.
#[test]
fn products_are_refused_with_the_reason() {
    let heard = each(&[on("a"); 2], |_, hosts| {
        let (_, mut communicator) = join(hosts, small(), 0).unwrap();
        communicator.set_choice(Some(NVLS));
        let mut product = vec![2_i32; 100];
        let refused = communicator.all_reduce(&mut product, Reduction::Product);
        summed(&mut communicator, 2);
        refused.unwrap_err().to_string()
    });
    all_say(&heard, "switches do not reduce prod of i32");
}

#[test]
fn without_p2p_it_is_refused_with_the_reason() {
    let places = [
        on("a"),
        on("a"),
        Place {
            p2p: false,
            ..on("a")
        },
    ];
    let heard = each(&places, |rank, hosts| {
        let options = LaunchOptions {
            p2p: places[rank as usize].p2p,
            ..small()
        };
        let (_, mut communicator) = join(hosts, options, 0).unwrap();
        refused(&mut communicator, 3)
    });
    all_say(&heard, "ranks 0 and 2: rank 2 cannot: NCCL_P2P_DISABLE");
}

#[test]
fn between_hosts_without_a_fabric_it_is_refused_with_the_reason() {
    let heard = each(&[on("a"), on("b")], |_, hosts| {
        let (_, mut communicator) = join(hosts, small(), 0).unwrap();
        refused(&mut communicator, 2)
    });
    all_say(&heard, "cannot be opened from other hosts");
}

#[test]
fn a_device_without_multicast_is_named() {
    let heard = each(&[on("a"); 3], |rank, hosts| {
        let most = if rank == 1 { 0 } else { u64::MAX };
        let emulator = Emulator::new(0, Bug::None).with_multicast_bytes(most);
        let (_, mut communicator) = join_on(emulator, hosts, small()).unwrap();
        refused(&mut communicator, 3)
    });
    all_say(&heard, "rank 1: the emulated device has no multicast");
}

/// If one rank has no memory for a longer window, all refuse alike and name it, and shorter
/// messages still work.
#[test]
fn a_rank_without_memory_is_named_by_all() {
    for (short_of, most) in [(0, 64 << 10), (2, 64 << 10)] {
        let heard = each(&[on("a"); 3], |rank, hosts| {
            let most = if rank == short_of { most } else { u64::MAX };
            let emulator = Emulator::new(5, Bug::None).with_multicast_bytes(most);
            let (_, mut communicator) = join_on(emulator, hosts, small()).unwrap();
            communicator.set_choice(Some(NVLS));
            summed(&mut communicator, 3);
            let first = refused(&mut communicator, 3);
            communicator.set_choice(Some(NVLS));
            summed(&mut communicator, 3);
            assert_eq!(refused(&mut communicator, 3), first);
            first
        });
        let named = format!("rank {short_of} cannot join a multicast (NVLS) of 131072 bytes");
        all_say(&heard, &named);
        all_say(&heard, "memory for 65536 bytes, not for 131072");
    }
}

/// A wait ends if a rank leaves while a window is made.
#[test]
fn a_rank_that_leaves_meanwhile_is_named() {
    let gone = std::sync::Barrier::new(3);
    let heard = each(&[on("a"); 3], |rank, hosts| {
        let (_, mut communicator) = join(hosts, small(), 0).unwrap();
        communicator.set_choice(Some(NVLS));
        summed(&mut communicator, 3);
        gone.wait();
        if rank == 1 {
            return None;
        }
        let mut long = vec![rank; 40_000];
        let failed = communicator.all_reduce(&mut long, Reduction::Sum);
        Some(failed.unwrap_err().to_string())
    });
    for what in heard.into_iter().flatten() {
        assert!(what.contains("rank 1"), "{what}");
    }
}
