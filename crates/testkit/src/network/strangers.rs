//! Connections to the ports of a job by processes that do not belong to it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Starts `count` connections to each of these IPv4 ports and keeps them. Every second one sends
/// the hello of a rank and then nothing.
///
/// # Errors
/// The kernel allows too few descriptors.
pub fn hold(ports: &[SocketAddr], count: usize) -> io::Result<Vec<OwnedFd>> {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most)?;
    // Magic, version, kind, and 32 bytes that should be random.
    let mut hello = b"topo\0bs\x01".to_vec();
    hello.extend(2_u32.to_le_bytes());
    hello.resize(48, 0);
    let mut held = Vec::new();
    for port in ports {
        let first = held.len();
        for _ in 0..count {
            let (family, flags) = (AddressFamily::INET, SocketFlags::NONBLOCK);
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
            // The kernel connects; no answer is needed.
            let _ = rustix::net::connect(&socket, port);
            held.push(socket);
        }
        for socket in held[first..].iter().step_by(2) {
            // A connection that was already refused cannot send.
            let _ = rustix::io::write(socket, &hello);
        }
    }
    Ok(held)
}
