//! Ranks that act as several hosts over the loopback interface: threads, each with its own emulator
//! and network.

use std::sync::Arc;

use device_runtime::LaunchOptions;
use executor::suite::Case;
use executor::{Choice, Error, Reduction, Transport};
use kernel_emulator::{Bug, Emulator};
use net::{Host, Hosts};
use program::Protocol;
use program::{Schedule, Transfer};

use super::{every_choice, join, join_on, run, small, transports};

/// A rank's host and transports.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub host: &'static str,
    pub p2p: bool,
    pub shm: bool,
}

pub(super) fn on(host: &'static str) -> Place {
    Place {
        host,
        p2p: true,
        shm: true,
    }
}

/// Runs `work` on ranks at these places.
pub(super) fn each<T: Send>(
    places: &[Place],
    work: impl Fn(u32, Box<Hosts>) -> T + Sync,
) -> Vec<T> {
    each_by(places, &|options| options, work)
}

/// Runs `work` on ranks at these places, which join with changed options.
pub(super) fn each_by<T: Send>(
    places: &[Place],
    with: &(impl Fn(net::Options) -> net::Options + Sync),
    work: impl Fn(u32, Box<Hosts>) -> T + Sync,
) -> Vec<T> {
    let (id, root) = net::loopback_id().unwrap();
    let mut root = Some((0, root));
    let ranks = places.len() as u32;
    let (work, mut rank) = (&work, 0..ranks);
    std::thread::scope(|scope| {
        let threads: Vec<_> = places
            .iter()
            .map(|place| {
                let rank = rank.next().unwrap_or(ranks);
                let options = net::Options {
                    roots: root.take().into_iter().collect(),
                    host: Host::this(Some(place.host)),
                    share_memory: place.shm,
                    checks: true,
                    ..net::Options::loopback(rank, ranks, &id)
                };
                scope.spawn(move || work(rank, Box::new(Hosts::join(with(options)).unwrap())))
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// Runs every `one_of`-th choice between these ranks, beginning with choice `from`. `wanted`: rank
/// 0's transports to the others.
fn choices_between(places: &[Place], (from, one_of): (usize, usize), wanted: &[Transport]) {
    let ranks = places.len() as u32;
    let results = each(places, |rank, hosts| {
        let options = LaunchOptions {
            p2p: places[rank as usize].p2p,
            ..small()
        };
        let (process_ranks, mut communicator) = join(hosts, options, 7).unwrap();
        if rank == 0 {
            let (found, why) = transports(&process_ranks);
            assert_eq!(found, wanted, "{why:?}");
        }
        let all = every_choice(ranks, false).into_iter();
        let cases: Vec<Case> = all.skip(from).step_by(one_of).collect();
        assert!(cases.len() * one_of > 80, "{}", cases.len());
        run(&mut communicator, &cases)
    });
    for result in results {
        result.unwrap();
    }
}

#[test]
fn two_hosts() {
    choices_between(&[on("a"), on("b")], (0, 2), &[Transport::Net]);
}

/// `from` and `one_of` as in [`choices_between`].
fn on_two_hosts(from: usize, one_of: usize) {
    let wanted = [Transport::P2p, Transport::Net, Transport::Net];
    let places = [on("a"), on("a"), on("b"), on("b")];
    choices_between(&places, (from, one_of), &wanted);
}

#[test]
fn two_hosts_with_two_ranks_each() {
    on_two_hosts(1, 12);
}

/// On one host P2P between two ranks, SHM to one without P2P, and the network to another host.
fn by_all_transports(from: usize, one_of: usize) {
    let places = [
        on("a"),
        on("a"),
        Place {
            p2p: false,
            ..on("a")
        },
        on("b"),
    ];
    let wanted = [Transport::P2p, Transport::Shm, Transport::Net];
    choices_between(&places, (from, one_of), &wanted);
}

#[test]
fn all_transports_in_one_job() {
    by_all_transports(3, 12);
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn two_hosts_with_two_ranks_each() {
        on_two_hosts(1, 4);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn all_transports_in_one_job() {
        by_all_transports(3, 4);
    }
}

/// On one host without P2P and shared memory, the network is used.
#[test]
fn neither_p2p_nor_shm() {
    let place = Place {
        p2p: false,
        shm: false,
        ..on("a")
    };
    choices_between(&[place; 2], (2, 4), &[Transport::Net]);
}

/// P2P needs no shared memory of the host.
#[test]
fn p2p_without_shm() {
    let place = Place {
        shm: false,
        ..on("a")
    };
    choices_between(&[place; 2], (0, 4), &[Transport::P2p]);
}

/// The low halves of step numbers wrap around, with lines that were written one round before.
#[test]
fn step_numbers_come_round_over_the_network() {
    for (first_step, stale_flag) in [(0x7fff_ffec, 0x8000_0002), (0xffff_ffec, 0x0000_0003)] {
        let options = LaunchOptions {
            first_step,
            stale_flag,
            ..small()
        };
        let places = [on("a"), on("b")];
        let results = each(&places, |_, hosts| {
            let (_, mut communicator) = join(hosts, options.clone(), 5).unwrap();
            let mut cases = every_choice(2, false);
            cases.retain(|case| case.choice.protocol == Protocol::Ll && case.count > 400);
            run(&mut communicator, &cases)
        });
        for result in results {
            result.unwrap();
        }
    }
}

/// Choices that need P2P between all ranks are refused on all ranks alike, with the reason, and the
/// communicator stays usable.
#[test]
fn direct_transfers_are_refused_with_the_reason() {
    let places = [
        Place {
            p2p: false,
            ..on("a")
        },
        on("a"),
    ];
    each(&places, |rank, hosts| {
        let options = LaunchOptions {
            p2p: places[rank as usize].p2p,
            ..small()
        };
        let (_, mut communicator) = join(hosts, options, 0).unwrap();
        communicator.set_choice(Some(Choice {
            schedule: Schedule::Mesh,
            transfer: Transfer::Direct,
            protocol: Protocol::Simple,
            channels: 1,
            piece_bytes: 0,
        }));
        let refused = communicator.all_reduce(&mut [1_i32], Reduction::Sum);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        assert!(
            refused.to_string().contains("NCCL_P2P_DISABLE"),
            "{refused}"
        );
        communicator.set_choice(None);
        let mut sum = vec![rank + 1; 100_000];
        communicator.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert!(sum.iter().all(|it| *it == 3));
    });
}

/// Kernels end if a rank that they wait for has left.
#[test]
fn a_rank_that_leaves_is_named() {
    let places = [on("a"), on("b"), on("c")];
    let gone = Arc::new(std::sync::Barrier::new(3));
    let heard = each(&places, |rank, hosts| {
        let (_, mut communicator) = join(hosts, small(), 9).unwrap();
        let mut sum = vec![rank; 2000];
        communicator.all_reduce(&mut sum, Reduction::Sum).unwrap();
        gone.wait();
        if rank == 1 {
            return None;
        }
        let failed = communicator.all_reduce(&mut sum, Reduction::Sum);
        Some(failed.unwrap_err().to_string())
    });
    for what in heard.into_iter().flatten() {
        assert!(what.contains("rank 1"), "{what}");
    }
}

/// Hosts access each other's memory if a fabric connects it.
#[test]
fn p2p_between_hosts_that_a_fabric_joins() {
    let results = each(&[on("a"), on("b")], |rank, hosts| {
        let emulator = Emulator::new(11 + u64::from(rank), Bug::None).with_fabric();
        let (process_ranks, mut communicator) = join_on(emulator, hosts, small()).unwrap();
        assert_eq!(
            transports(&process_ranks),
            (vec![Transport::P2p], Vec::new())
        );
        let all = every_choice(2, true).into_iter();
        let direct = |case: &Case| case.choice.transfer == Transfer::Direct;
        let (direct, others): (Vec<Case>, Vec<Case>) = all.partition(direct);
        assert!(direct.len() > 10, "{}", direct.len());
        let others = others.into_iter().skip(1).step_by(4);
        let cases: Vec<Case> = others.chain(direct).collect();
        run(&mut communicator, &cases)
    });
    for result in results {
        result.unwrap();
    }
}

/// Threads of one process without P2P use host memory.
#[test]
fn threads_without_p2p() {
    let options = LaunchOptions {
        p2p: false,
        ..small()
    };
    let settings = executor::Settings {
        buffer_bytes: Some(1 << 20),
        ..executor::Settings::default()
    };
    let emulator = Emulator::new(13, Bug::None);
    let ranks = kernel_emulator::communicators(3, &settings, emulator, options).unwrap();
    let all = every_choice(3, false).into_iter();
    let cases: Vec<Case> = all.step_by(3).collect();
    executor::suite::run(ranks, &cases).unwrap();
}
