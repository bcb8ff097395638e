//! Ranks that are processes of this host. A test starts itself again for each rank.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use device_runtime::LaunchOptions;
use executor::{Reduction, Transport};
use net::{Hosts, Options};

use super::{every_choice, join, run, small, transports};

/// The environment of a process: its rank, and the number of ranks.
const RANK: &str = "TOPO_TEST_RANK";
const RANKS: &str = "TOPO_TEST_RANKS";
const ID: &str = "TOPO_TEST_ID";

/// Processes that end with this one.
pub(super) struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Children {
    /// Starts this test again for each rank. The root's listener is rank 0's standard input.
    pub(super) fn start(test: &str, ranks: u32) -> Self {
        let (id, root) = net::loopback_id().unwrap();
        let mut root = Some(Stdio::from(OwnedFd::from(root)));
        let children = (0..ranks).map(|rank| {
            Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture", "--test-threads=1"])
                // Also where the test is a deep one.
                .arg("--include-ignored")
                .env(RANK, rank.to_string())
                .env(RANKS, ranks.to_string())
                .env(ID, id.to_string())
                .stdin(root.take().unwrap_or_else(Stdio::null))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        });
        Self(children.collect())
    }

    /// The output of each process, and whether it succeeded.
    pub(super) fn end(mut self) -> Vec<(bool, String)> {
        let ended = self.0.drain(..).map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (
                output.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        });
        ended.collect()
    }
}

/// The bootstrap of this process, if it is a rank.
pub(super) fn rank() -> Option<Box<Hosts>> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let (rank, ranks) = (number(RANK)?, number(RANKS)?);
    let id = std::env::var(ID).unwrap().parse().unwrap();
    let root = (rank == 0).then(|| std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let options = Options {
        roots: root
            .map(|it| (0, TcpListener::from(it)))
            .into_iter()
            .collect(),
        ..Options::loopback(rank, ranks, &id)
    };
    Some(Box::new(Hosts::join(options).unwrap()))
}

/// Runs every `one_of`-th choice on ranks that are processes. `transport`: how all of them reach
/// each other.
fn choices_by(test: &str, ranks: u32, options: LaunchOptions, transport: Transport, one_of: usize) {
    let Some(hosts) = rank() else {
        let children = Children::start(test, ranks);
        for (well, text) in children.end() {
            assert!(well, "{text}");
        }
        return;
    };
    let (process_ranks, mut communicator) = join(hosts, options, 3).unwrap();
    let (found, why) = transports(&process_ranks);
    assert!(found.iter().all(|it| *it == transport), "{found:?} {why:?}");
    assert_eq!(why.is_empty(), transport == Transport::P2p, "{why:?}");
    let all = every_choice(ranks, transport == Transport::P2p).into_iter();
    let cases: Vec<_> = all.step_by(one_of).collect();
    assert!(cases.len() > 10, "{}", cases.len());
    run(&mut communicator, &cases).unwrap();
}

#[test]
fn processes_access_each_others_memory() {
    let test = "processes::processes_access_each_others_memory";
    choices_by(test, 3, small(), Transport::P2p, 8);
}

#[test]
fn two_processes_with_slots_of_nccls_size() {
    let test = "processes::two_processes_with_slots_of_nccls_size";
    let Some(hosts) = rank() else {
        let children = Children::start(test, 2);
        for (well, text) in children.end() {
            assert!(well, "{text}");
        }
        return;
    };
    let (_, mut communicator) = join(hosts, LaunchOptions::nccl(), 0).unwrap();
    let mut cases = every_choice(2, true);
    cases.retain(|case| case.choice.channels == 1 && case.choice.piece_bytes == 0);
    cases.truncate(20);
    run(&mut communicator, &cases).unwrap();
}

fn without_p2p() -> LaunchOptions {
    LaunchOptions {
        p2p: false,
        ..small()
    }
}

#[test]
fn processes_share_memory_of_the_host_without_p2p() {
    let test = "processes::processes_share_memory_of_the_host_without_p2p";
    choices_by(test, 3, without_p2p(), Transport::Shm, 8);
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn processes_access_each_others_memory() {
        let test = "processes::deep::processes_access_each_others_memory";
        choices_by(test, 3, small(), Transport::P2p, 1);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn processes_share_memory_of_the_host_without_p2p() {
        let test = "processes::deep::processes_share_memory_of_the_host_without_p2p";
        choices_by(test, 3, without_p2p(), Transport::Shm, 1);
    }
}

/// Direct transfers are refused without P2P, on all ranks alike, and the communicator stays usable.
#[test]
fn without_p2p_and_shm_nothing_leads_to_a_process() {
    let test = "processes::without_p2p_and_shm_nothing_leads_to_a_process";
    let Some(hosts) = rank() else {
        let children = Children::start(test, 2);
        for (well, text) in children.end() {
            assert!(well, "{text}");
        }
        return;
    };
    let options = LaunchOptions {
        p2p: false,
        shm: false,
        ..small()
    };
    let refused = join(hosts, options, 0).err().unwrap();
    let refused = refused.to_string();
    assert!(
        refused.contains("NCCL_P2P_DISABLE") && refused.contains("NCCL_SHM_DISABLE"),
        "{refused}"
    );
}

/// If a process is killed while the others wait for it in their kernels, they end with an error
/// that names it.
#[test]
fn a_process_that_is_killed_is_named() {
    let test = "processes::a_process_that_is_killed_is_named";
    let Some(hosts) = rank() else {
        let mut children = Children::start(test, 3);
        let victim = children.0.remove(1);
        let output = victim.wait_with_output().unwrap();
        assert!(!output.status.success());
        for (well, text) in children.end() {
            assert!(well, "{text}");
            assert!(text.contains("says: ") && text.contains("rank 1"), "{text}");
        }
        return;
    };
    let (_, mut communicator) = join(hosts, small(), 5).unwrap();
    let mut sum = [communicator.rank(); 3000];
    let first = communicator.all_reduce(&mut sum, Reduction::Sum);
    if communicator.rank() == 1 {
        assert_eq!((first.is_ok(), sum), (true, [3; 3000]));
        // As by a signal: without a message to anybody.
        std::process::abort();
    }
    // Some may still run the first one.
    let failed = first.and_then(|()| communicator.all_reduce(&mut sum, Reduction::Sum));
    println!("says: {}", failed.unwrap_err());
}
