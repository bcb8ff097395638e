//! Ranks as processes that are killed at the end of the test.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::program::{LONG, Running, Said, clean};

/// The processes of a job.
pub(crate) struct Ranks(pub Vec<Running>);

impl Ranks {
    /// Starts each command.
    pub(crate) fn start(commands: impl IntoIterator<Item = Command>) -> Self {
        let start = |mut command| Running::start(&mut command);
        Self(commands.into_iter().map(start).collect())
    }

    /// Waits for all of them.
    pub(crate) fn finish(self) -> Vec<Said> {
        self.0.into_iter().map(|it| it.within(LONG)).collect()
    }
}

/// [`clean`] `topo`, with pages of a fixed width.
pub(crate) fn topo() -> Command {
    let mut command = clean(Path::new(env!("CARGO_BIN_EXE_topo")));
    command.env("COLUMNS", "200");
    command
}

/// A rank. Two ranks share a host.
pub(crate) fn rank(rank: u32, world: u32) -> Command {
    let mut command = topo();
    command.env("NCCL_HOSTID", format!("host{}", rank / 2));
    command.args([
        "run",
        "--rank",
        &rank.to_string(),
        "--world",
        &world.to_string(),
    ]);
    command
}

/// A loopback address and a port that no other test uses now.
pub(crate) fn address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let process = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::Relaxed) as u8;
    let (high, low) = (1 + process / 200 % 200, 1 + process % 200);
    SocketAddr::from(([127, high as u8, low as u8, next], 29_400))
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}: waited in vain");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The id of a job whose root listens at this address.
pub(crate) fn id(root: SocketAddr) -> String {
    let made = topo()
        .args(["run", "--new-id", &root.to_string()])
        .output()
        .unwrap();
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// A TCP socket of a process.
#[derive(Debug)]
pub(crate) struct Socket {
    pub descriptor: RawFd,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub listens: bool,
}

/// The TCP sockets of a process, as the kernel lists them.
pub(crate) fn sockets(process: u32) -> Vec<Socket> {
    let mut descriptors: Vec<(RawFd, String)> = Vec::new();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    for entry in entries.flatten() {
        // The descriptor may be closed meanwhile.
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        let link = link.to_string_lossy().into_owned();
        if let Some(inode) = link.strip_prefix("socket:[") {
            let number = entry.file_name().to_string_lossy().parse().unwrap();
            descriptors.push((number, inode.trim_end_matches(']').to_owned()));
        }
    }
    let address = |text: &str| {
        let (address, port) = text.split_once(':').unwrap();
        let address = u32::from_str_radix(address, 16).unwrap().to_ne_bytes();
        SocketAddr::from((address, u16::from_str_radix(port, 16).unwrap()))
    };
    let mut all = Vec::new();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, _, _, inode, ..] = words[..] else {
            continue;
        };
        let own = descriptors.iter().filter(|(_, it)| it == inode);
        all.extend(own.map(|(descriptor, _)| Socket {
            descriptor: *descriptor,
            local: address(local),
            remote: address(remote),
            // TCP_LISTEN.
            listens: state == "0A",
        }));
    }
    all
}

/// The addresses at which a process listens.
pub(crate) fn listens(process: u32) -> Vec<SocketAddr> {
    let sockets = sockets(process).into_iter().filter(|it| it.listens);
    let mut all: Vec<SocketAddr> = sockets.map(|it| it.local).collect();
    all.sort_unstable();
    all.dedup();
    all
}
