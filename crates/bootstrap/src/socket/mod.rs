//! Sockets for the state machines.
//!
//! [`service`] runs a thread that drives one rank's [`Member`](crate::Member) and the roots in its
//! process. [`blocking`] opens single connections with the same proofs, for callers that then use
//! the socket themselves. [`accept`] accepts both at every listener.

pub mod accept;
pub mod blocking;
mod connection;
mod drive;
mod process_exchange;
pub mod service;
mod thread;

pub use accept::Acceptor;
pub use service::{Config, Service};

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Listens at an address; port 0 selects a free port.
///
/// # Errors
/// The address is not this host's, or the port is taken. The message contains the address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
    let fail = |error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
    };
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(fail)?;
    // The next job may use a port whose last connections the kernel still remembers.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(fail)?;
    rustix::net::bind(&socket, &address).map_err(fail)?;
    // The kernel lowers it to its own limit.
    rustix::net::listen(&socket, 4096).map_err(fail)?;
    Ok(TcpListener::from(socket))
}
