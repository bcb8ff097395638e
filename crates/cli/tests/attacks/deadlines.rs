//! The time in which ranks end after a failure.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::ranks::{Ranks, address, id, rank, sockets, until};

/// The time that a busy machine may add. The delays that these tests look for are 2 s and more.
const SLACK: Duration = Duration::from_secs(2);

/// One of three attempts must be in time, because a busy machine may delay one.
fn in_time(longest: Duration, mut took: impl FnMut() -> Duration) {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(took());
        if all.last().unwrap() < &(longest + SLACK) {
            return;
        }
    }
    panic!("it took {all:?} instead of {longest:?}");
}

pub(crate) fn a_rank_that_does_not_come_is_named_when_it_should_have_come() {
    // Rank 0 holds the root; rank 1 finds none.
    for number in [0, 1] {
        in_time(Duration::from_secs(2), || {
            let mut command = rank(number, 2);
            command
                .env("TOPO_ID", id(address()))
                .args(["--join-timeout", "2"]);
            command.args(["all-reduce", "-b", "8", "-e", "8"]);
            let began = Instant::now();
            let said = Ranks::start([command]).finish();
            let took = began.elapsed();
            let named = said[0].err.contains("within 2 s");
            assert!(said[0].status == Some(2) && named, "{}", said[0].err);
            assert!(took > Duration::from_secs(2), "{took:?}");
            took
        });
    }
}

/// A descriptor of `rank` that is connected with the NIC of `peer`. A rank opens its own listener
/// before that of its NIC, and duplicates it at times.
fn data_connection(rank: &Child, peer: &Child) -> Option<RawFd> {
    let theirs = sockets(peer.id());
    let mut first: BTreeMap<SocketAddr, RawFd> = BTreeMap::new();
    for it in theirs.iter().filter(|it| it.listens) {
        let known = first.entry(it.local).or_insert(it.descriptor);
        *known = it.descriptor.min(*known);
    }
    if first.len() < 2 {
        return None;
    }
    let (nic, _) = first
        .into_iter()
        .max_by_key(|(_, descriptor)| *descriptor)?;
    let own = sockets(rank.id());
    let data = own.iter().find(|it| !it.listens && it.remote == nic);
    data.map(|it| it.descriptor)
}

pub(crate) fn a_data_connection_that_is_cut_is_named_at_once() {
    in_time(Duration::ZERO, || {
        let id = id(address());
        let start = |number: u32| {
            let mut command = rank(number, 2);
            command
                .env("NCCL_HOSTID", format!("host{number}"))
                .env("TOPO_ID", &id);
            command.args(["all-reduce", "-b", "64K", "-e", "64K", "--time", "60000"]);
            command
        };
        let all = Ranks::start((0..2).map(start));
        let mut descriptor = None;
        until("data is sent", || {
            descriptor = data_connection(&all.0[0].child, &all.0[1].child);
            descriptor.is_some()
        });
        // Time to send some data. A connection that is cut before is named as well.
        thread::sleep(Duration::from_millis(500));
        let process = pidfd_open(Pid::from_child(&all.0[0].child), PidfdFlags::empty()).unwrap();
        let socket = pidfd_getfd(process, descriptor.unwrap(), PidfdGetfdFlags::empty());
        TcpStream::from(socket.unwrap())
            .shutdown(Shutdown::Both)
            .unwrap();
        let began = Instant::now();
        let said = all.finish();
        let took = began.elapsed();
        for it in said {
            let named = it
                .err
                .contains("the connection from rank 0 to rank 1 (channel 0, ");
            assert!(it.status == Some(2) && named, "{}", it.err);
        }
        took
    });
}
