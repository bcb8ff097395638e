//! Communicators over TCP: ranks of one process that act as several hosts.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use backend_cpu::{Cpu, Profile};
use executor::{Choice, Communicator, Error, Reduction, Settings, Transport};
use net::{Host, Hosts, Options};
use program::Protocol;
use program::{Schedule, Transfer};

use support::{Counting, Neighbours, sweep};

/// The options of each rank; `host` names the host of a rank.
fn options(ranks: u32, host: impl Fn(u32) -> String) -> Vec<Options> {
    let (id, root) = net::loopback_id().unwrap();
    let mut root = Some((0, root));
    (0..ranks)
        .map(|rank| Options {
            roots: root.take().into_iter().collect(),
            host: Host::this(Some(&host(rank))),
            sockets: 2,
            checks: true,
            ..Options::loopback(rank, ranks, &id)
        })
        .collect()
}

/// Elements of the messages.
const COUNTS: [usize; 4] = [0, 1, 1023, 200_000];

fn settings() -> Settings {
    Settings {
        longest_wait: Duration::from_secs(120),
        buffer_bytes: Some(16 << 20),
        ..Settings::default()
    }
}

fn each<T: Send>(
    all: Vec<Options>,
    work: impl Fn(u32, Result<Hosts, Error>) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .map(|options| scope.spawn(move || work(options.rank, Hosts::join(options))))
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_that_is_alone_does_not_wait() {
    let began = Instant::now();
    for hosts in each(options(1, |_| String::new()), |_, hosts| hosts.unwrap()) {
        assert_eq!(hosts.reached().hosts.len(), 1);
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn every_algorithm_is_right_between_hosts_of_several_ranks() {
    every_algorithm_is_right(&[(4, |rank| (rank / 2).to_string())]);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_every_algorithm_is_right_between_hosts() {
    every_algorithm_is_right(&[(2, |rank| rank.to_string()), (3, |rank| rank.to_string())]);
}

/// The number of ranks, and the host of each.
type Placement = (u32, fn(u32) -> String);

/// Runs every algorithm with these numbers of ranks, on the hosts that the function names.
fn every_algorithm_is_right(jobs: &[Placement]) {
    for &(ranks, host) in jobs {
        let launched = each(options(ranks, host), |rank, hosts| {
            let hosts = hosts.unwrap();
            let reached = hosts.reached().clone();
            assert_eq!(reached.fallen_back, []);
            assert_eq!(reached.shared + reached.remote + 1, ranks);
            if ranks == 4 {
                assert_eq!(reached.shared, 1, "rank {rank}");
            }
            let backend = Cpu::new(Arc::new(Profile::default()));
            let mut communicator =
                Communicator::join(backend, Box::new(hosts), &settings()).unwrap();
            assert!(communicator.shape().hosts > 1);
            sweep(&mut communicator, &COUNTS).unwrap()
        });
        assert!(launched.iter().all(|it| *it >= 100), "{launched:?}");
    }
}

/// NCCL's PXN: the proxy of another rank of the host forwards what a rank sends to other hosts.
#[test]
fn ranks_forward_for_each_other_where_the_plan_says_so() {
    let mut all = options(4, |rank| (rank / 2).to_string());
    for options in &mut all {
        options.ports = Some(Arc::new(Neighbours));
    }
    let handed = Arc::new(AtomicUsize::new(0));
    let launched = each(all, |_, hosts| {
        let counting = Counting::new(hosts.unwrap(), Arc::clone(&handed));
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator =
            Communicator::join(backend, Box::new(counting), &settings()).unwrap();
        sweep(&mut communicator, &COUNTS).unwrap()
    });
    assert!(launched.iter().all(|it| *it >= 100), "{launched:?}");
    let handed = handed.load(Ordering::Relaxed);
    assert!(handed >= 40, "only {handed} connections were handed over");
}

/// A rank that is done leaves after the time to meet, although it forwards for one that works.
#[test]
fn a_rank_that_forwards_leaves_in_time() {
    let mut all = options(4, |rank| (rank / 2).to_string());
    for options in &mut all {
        options.ports = Some(Arc::new(Neighbours));
        options.timing.join = Duration::from_secs(6);
    }
    let handed = Arc::new(AtomicUsize::new(0));
    let left = Barrier::new(4);
    each(all, |rank, hosts| {
        let counting = Counting::new(hosts.unwrap(), Arc::clone(&handed));
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator =
            Communicator::join(backend, Box::new(counting), &settings()).unwrap();
        let mut told = [rank];
        match rank {
            // Rank 1 forwards.
            0 => communicator.send(&told, 2).unwrap(),
            2 => communicator.receive(&mut told, 0).unwrap(),
            _ => {}
        }
        if rank == 1 {
            // Rank 0 has its connection by rank 1 then.
            while handed.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let began = Instant::now();
            drop(communicator);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(18), "{took:?}");
            left.wait();
            return;
        }
        left.wait();
        assert_eq!(told, [if rank == 2 { 0 } else { rank }]);
    });
}

/// The rank that would forward is done and has left before another one needs it.
#[test]
fn a_rank_whose_pxn_proxy_has_left_uses_its_own() {
    let mut all = options(4, |rank| (rank / 2).to_string());
    for options in &mut all {
        options.ports = Some(Arc::new(Neighbours));
    }
    let handed = Arc::new(AtomicUsize::new(0));
    let joined = Barrier::new(4);
    each(all, |rank, hosts| {
        let counting = Counting::new(hosts.unwrap(), Arc::clone(&handed)).after(1);
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator =
            Communicator::join(backend, Box::new(counting), &settings()).unwrap();
        // A rank that leaves while others still join makes their joins fail.
        joined.wait();
        if rank == 1 {
            return;
        }
        let mut told = [f32::from(rank as u8)];
        match rank {
            0 => communicator.send(&told, 2).unwrap(),
            2 => communicator.receive(&mut told, 0).unwrap(),
            _ => {}
        }
        assert_eq!(told, [f32::from(rank as u8 / 3 * 3)]);
    });
    assert_eq!(handed.load(Ordering::Relaxed), 0);
}

#[test]
fn ranks_that_cannot_share_memory_fall_back_to_the_network_and_say_why() {
    let mut all = options(3, |_| "one".to_owned());
    all[1].share_memory = false;
    each(all, |rank, hosts| {
        use executor::bootstrap::Bootstrap;
        let hosts = hosts.unwrap();
        let transports: Vec<Transport> = (0..3).map(|peer| hosts.transport(peer)).collect();
        let (net, shm) = (Transport::Net, Transport::Shm);
        let fallen_back = &hosts.reached().fallen_back;
        if rank == 1 {
            assert_eq!(transports, [net, Transport::P2p, net]);
            assert_eq!(fallen_back.len(), 2);
        } else {
            assert_eq!(transports[1], net);
            assert_eq!(transports[2 - rank as usize], shm);
            assert_eq!(fallen_back.len(), 1);
        }
        assert!(
            fallen_back[0].1.contains("NCCL_SHM_DISABLE"),
            "{fallen_back:?}"
        );
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator = Communicator::join(backend, Box::new(hosts), &settings()).unwrap();
        let mut sum = [rank];
        communicator.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert_eq!(sum, [3]);
    });
}

#[test]
fn a_direct_transfer_between_hosts_is_refused() {
    each(options(2, |rank| rank.to_string()), |_, hosts| {
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator =
            Communicator::join(backend, Box::new(hosts.unwrap()), &settings()).unwrap();
        communicator.set_choice(Some(Choice {
            schedule: Schedule::Mesh,
            transfer: Transfer::Direct,
            protocol: Protocol::Simple,
            channels: 1,
            piece_bytes: 0,
        }));
        let refused = communicator.all_reduce(&mut [1_i32], Reduction::Sum);
        assert!(refused.unwrap_err().to_string().contains("on other hosts"));
        communicator.set_choice(None);
        let mut one = [1_i32];
        communicator.all_reduce(&mut one, Reduction::Sum).unwrap();
        assert_eq!(one, [2]);
    });
}

#[test]
fn a_rank_that_leaves_early_is_named() {
    let heard = each(options(3, |rank| rank.to_string()), |rank, hosts| {
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut communicator =
            Communicator::join(backend, Box::new(hosts.unwrap()), &settings()).unwrap();
        if rank == 1 {
            return None;
        }
        let failed = communicator.all_reduce(&mut [1_i32], Reduction::Sum);
        Some(failed.unwrap_err().to_string())
    });
    for what in heard.into_iter().flatten() {
        assert!(what.contains("rank 1"), "{what}");
    }
}

#[test]
fn a_communicator_splits_by_colour_in_the_order_asked_for() {
    let host = |rank: u32| (rank / 3).to_string();
    each(options(5, host), |rank, hosts| {
        let mut hosts = hosts.unwrap();
        // Odd and even ranks apart, backwards; rank 4 stays out.
        let colour = if rank == 4 { -1 } else { (rank % 2) as i32 };
        let part = hosts.split(colour, -(rank as i32)).unwrap();
        let part = part.map(|part| {
            let backend = Cpu::new(Arc::new(Profile::default()));
            let mut part = Communicator::join(backend, Box::new(part), &settings()).unwrap();
            let mut all = vec![0; 2];
            part.all_gather((&[rank], &mut all)).unwrap();
            all
        });
        let right = [
            Some(vec![2, 0]),
            Some(vec![3, 1]),
            Some(vec![2, 0]),
            Some(vec![3, 1]),
            None,
        ];
        assert_eq!(part, right[rank as usize]);
        // The communicator still works beside its parts.
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut whole = Communicator::join(backend, Box::new(hosts), &settings()).unwrap();
        let mut sum = [rank];
        whole.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert_eq!(sum, [10]);
    });
}

#[test]
fn a_rank_that_comes_too_late_hears_that_the_others_continued() {
    let barrier = Barrier::new(3);
    each(options(3, |rank| rank.to_string()), |rank, hosts| {
        let hosts = hosts.unwrap();
        let survivor = hosts.survivor().unwrap();
        barrier.wait();
        drop(hosts);
        if rank == 2 {
            // Until the others have gathered.
            barrier.wait();
            let refused = survivor.regroup(0).err().unwrap().to_string();
            assert!(refused.contains("continued without this one"), "{refused}");
            barrier.wait();
            return;
        }
        let (hosts, members) = survivor.regroup(2).unwrap();
        assert_eq!(members, [0, 1]);
        let survivor = hosts.survivor().unwrap();
        barrier.wait();
        barrier.wait();
        let backend = Cpu::new(Arc::new(Profile::default()));
        let mut left = Communicator::join(backend, Box::new(hosts), &settings()).unwrap();
        let mut sum = [rank + 1];
        left.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert_eq!(sum, [3]);
        drop(survivor);
    });
}
