//! Sockets under the state machines.
//!
//! [`service`] is a thread that drives one rank's [`Member`](crate::Member), and the roots that are in its process.
//! [`blocking`] opens single connections with the same proofs, for whoever then uses them in another way. [`accept`] lets
//! them in, at every listener.

pub mod accept;
pub mod blocking;
mod connection;
mod drive;
pub mod service;
mod thread;

pub use accept::Acceptor;
pub use service::{Config, Service};

use std::io;
use std::net::{SocketAddr, TcpListener};

/// Listens at an address; port 0 takes a free one.
///
/// # Errors
/// The address is not this host's, or the port is taken. The message names it.
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
    // A job that follows at once may take the port of one whose connections the kernel still remembers.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(fail)?;
    rustix::net::bind(&socket, &address).map_err(fail)?;
    // The kernel bounds it by its own limit.
    rustix::net::listen(&socket, 4096).map_err(fail)?;
    Ok(TcpListener::from(socket))
}
