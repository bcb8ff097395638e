//! Strangers that connect to every port of a rank, and hold their connections without proving that they belong to the job.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::ranks::{self, Ranks, Said, address, listens, until};

/// Connections to each port.
const STRANGERS: usize = 5000;

/// How much later a job may be done because of them.
const DELAY: Duration = Duration::from_secs(2);

/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(2);

/// These tests need most of the descriptors that a process may have, and each compares times.
static ALONE: Mutex<()> = Mutex::new(());

/// As many descriptors as the kernel allows.
fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).unwrap();
    most.current.unwrap_or(u64::MAX)
}

/// Begins to connect to each of these ports, and keeps the connections. Each second one says what a rank says first.
fn hold(ports: &[SocketAddr]) -> Vec<OwnedFd> {
    let room = descriptors() as usize / (ports.len() + 1);
    assert!(
        room > STRANGERS / 2,
        "the kernel allows too few descriptors: {room} for a port"
    );
    let mut hello = b"topo\0bs\x01".to_vec();
    hello.extend(2_u32.to_le_bytes());
    hello.resize(48, 0);
    let mut held = Vec::new();
    for port in ports {
        let first = held.len();
        for _ in 0..STRANGERS.min(room) {
            let (family, flags) = (AddressFamily::INET, SocketFlags::NONBLOCK);
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
            let socket = socket.unwrap();
            // The kernel connects; no answer is needed.
            let _ = rustix::net::connect(&socket, port);
            held.push(socket);
        }
        for socket in held[first..].iter().step_by(2) {
            // One that is turned away already cannot say it.
            let _ = rustix::io::write(socket, &hello);
        }
    }
    held
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

/// An id of a job whose root listens at this address.
fn id(root: SocketAddr) -> String {
    let made = ranks::topo()
        .args(["id", &root.to_string()])
        .output()
        .unwrap();
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

fn spawn(rank: u32, id: &str) -> Child {
    let mut command = ranks::rank(rank, 2);
    command
        .env("NCCL_HOSTID", format!("host{rank}"))
        .env("TOPO_ID", id);
    command.args(["all-reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "2"]);
    command.spawn().unwrap()
}

/// How long a job takes from the moment when its last rank comes; `before` happens just before that.
fn job(before: impl FnOnce(&Child) -> Vec<OwnedFd>) -> Duration {
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

#[test]
fn strangers_at_every_port_of_rank_0_do_not_keep_others_out() {
    let _alone = ALONE.lock();
    let usual = job(|_| Vec::new());
    let took = job(|rank| hold(&listens(rank.id())));
    assert!(
        took < 2 * usual + DELAY + SLACK,
        "{took:?} with strangers, {usual:?} without"
    );
}

/// Time that a process has used, in user and kernel mode.
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

#[test]
fn strangers_use_up_neither_the_descriptors_nor_the_processor() {
    let _alone = ALONE.lock();
    let usual = job(|_| Vec::new());
    let took = job(|rank| {
        let few = Rlimit {
            current: Some(128),
            maximum: Some(128),
        };
        prlimit(
            Some(Pid::from_raw(rank.id() as i32).unwrap()),
            Resource::Nofile,
            few,
        )
        .unwrap();
        let held = hold(&listens(rank.id()));
        // Nothing happens any more, so nothing is to be done.
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
    assert!(
        took < 2 * usual + DELAY + SLACK,
        "{took:?} with strangers, {usual:?} without"
    );
}

/// Four ranks, of which one is killed, and those that are left; gives how long they take after that.
fn survivors(strangers: bool) -> Duration {
    let id = id(address());
    let start = |rank: u32| {
        let mut command: Command = ranks::rank(rank, 4);
        command
            .env("TOPO_ID", &id)
            .args(["all-reduce", "-b", "64K", "-e", "64K"]);
        command
            .args(["--time", "1500", "--survive"])
            .spawn()
            .unwrap()
    };
    let mut all = Ranks(vec![start(0)]);
    let root = 29_400;
    let has_root = |rank: &Child| listens(rank.id()).iter().any(|it| it.port() == root);
    until("rank 0 holds the root", || has_root(&all.0[0]));
    all.0.extend((1..4).map(start));
    // The root ends when all have met.
    until("all have met", || !has_root(&all.0[0]));
    let held = if strangers {
        hold(&listens(all.0[0].id()))
    } else {
        Vec::new()
    };
    rustix::process::kill_process(
        Pid::from_raw(all.0[3].id() as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
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

#[test]
fn strangers_do_not_keep_survivors_apart() {
    let _alone = ALONE.lock();
    let usual = survivors(false);
    let took = survivors(true);
    assert!(
        took < 2 * usual + DELAY + SLACK,
        "{took:?} with strangers, {usual:?} without"
    );
}
