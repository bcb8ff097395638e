//! Strangers connect to every port of a rank, and hold their connections without proving that they
//! belong to the job.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::program::{Running, Said};
use super::ranks::{self, Ranks, address, id, listens, until};

/// Connections to each port.
const STRANGERS: usize = 5000;

/// How much longer a job may take because of them.
const DELAY: Duration = Duration::from_secs(2);

/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(2);

/// These tests need most descriptors of the process, and each compares times.
static ALONE: Mutex<()> = Mutex::new(());

fn hold(ports: &[SocketAddr]) -> Vec<OwnedFd> {
    testkit::network::strangers::hold(ports, STRANGERS).unwrap()
}

fn all_right(said: &[Said]) {
    for (rank, it) in said.iter().enumerate() {
        assert_eq!(it.status, Some(0), "rank {rank}: {}", it.err);
    }
    assert!(
        said[0].out.contains("every element is right"),
        "{}",
        said[0].out
    );
}

fn spawn(rank: u32, id: &str) -> Running {
    let mut command = ranks::rank(rank, 2);
    command
        .env("NCCL_HOSTID", format!("host{rank}"))
        .env("TOPO_ID", id);
    command.args(["all-reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "2"]);
    Running::start(&mut command)
}

fn in_time(took: Duration, usual: Duration) {
    assert!(
        took < 2 * usual + DELAY + SLACK,
        "{took:?} with strangers, {usual:?} without"
    );
}

/// How long a job takes after its last rank started; `before` runs just before that.
fn job(before: impl FnOnce(&Running) -> Vec<OwnedFd>) -> Duration {
    let id = id(address());
    let mut all = Ranks(vec![spawn(0, &id)]);
    // The root, the rank itself, and its NIC.
    until("rank 0 listens", || listens(all.0[0].id()).len() == 3);
    let held = before(&all.0[0]);
    let began = Instant::now();
    all.0.push(spawn(1, &id));
    all_right(&all.finish());
    drop(held);
    began.elapsed()
}

pub(crate) fn strangers_at_every_port_of_rank_0_do_not_keep_others_out() {
    let _alone = ALONE.lock();
    let usual = job(|_| Vec::new());
    let took = job(|rank| hold(&listens(rank.id())));
    in_time(took, usual);
}

/// The processor time of a process, in user and kernel mode.
fn processor_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // The kernel's USER_HZ is 100.
    Duration::from_millis(ticks * 10)
}

pub(crate) fn strangers_use_up_neither_the_descriptors_nor_the_processor() {
    let _alone = ALONE.lock();
    let usual = job(|_| Vec::new());
    let took = job(|rank| {
        let few = Rlimit {
            current: Some(128),
            maximum: Some(128),
        };
        prlimit(Some(Pid::from_child(&rank.child)), Resource::Nofile, few).unwrap();
        let held = hold(&listens(rank.id()));
        // The rank is idle, so it must not use the processor. There is no event for that; a busy
        // machine only gives it less of the processor.
        thread::sleep(Duration::from_millis(1500));
        let before = processor_time(rank.id());
        thread::sleep(Duration::from_secs(1));
        let used = processor_time(rank.id()) - before;
        assert!(
            used < Duration::from_millis(500),
            "it used {used:?} of a second"
        );
        held
    });
    in_time(took, usual);
}

/// Kills one of four ranks. Returns how long the survivors take after that.
fn survivors(strangers: bool) -> Duration {
    let id = id(address());
    let start = |rank: u32| {
        let mut command: Command = ranks::rank(rank, 4);
        command
            .env("TOPO_ID", &id)
            .args(["all-reduce", "-b", "64K", "-e", "64K"]);
        Running::start(command.args(["--time", "800", "--survive"]))
    };
    let mut all = Ranks(vec![start(0)]);
    let root = 29_400;
    let has_root = |rank: &Running| listens(rank.id()).iter().any(|it| it.port() == root);
    until("rank 0 holds the root", || has_root(&all.0[0]));
    all.0.extend((1..4).map(start));
    // The root ends when all have met.
    until("all have met", || !has_root(&all.0[0]));
    let held = if strangers {
        hold(&listens(all.0[0].id()))
    } else {
        Vec::new()
    };
    kill_process(Pid::from_child(&all.0[3].child), Signal::KILL).unwrap();
    let began = Instant::now();
    let said = all.finish();
    drop(held);
    all_right(&said[..3]);
    assert!(
        said[0].out.contains("all-reduce of 3 processes"),
        "{}",
        said[0].out
    );
    began.elapsed()
}

pub(crate) fn strangers_do_not_keep_survivors_apart() {
    let _alone = ALONE.lock();
    let usual = survivors(false);
    let took = survivors(true);
    in_time(took, usual);
}
