//! The descriptors by which a bell wakes threads that wait for sockets too.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SendFlags;

/// What is written to when a bell rings whose owner sleeps. None of it blocks.
#[derive(Debug, Clone)]
pub enum Alarms {
    /// `eventfd`s, one for each thread.
    Events(Arc<[OwnedFd]>),
    /// A socket on whose other end a thread sleeps, of another process whose `eventfd` cannot be had.
    Socket(Arc<TcpStream>),
}

impl Alarms {
    /// Wakes all.
    pub(crate) fn sound(&self) {
        let one = 1_u64.to_ne_bytes();
        match self {
            Self::Events(events) => {
                for event in events.iter() {
                    // One that cannot count further is readable anyway.
                    let _ = rustix::io::write(event, &one);
                }
            }
            Self::Socket(socket) => {
                // One that takes no more is readable anyway, and one that is closed wakes nobody.
                let _ = rustix::net::send(&**socket, &one, SendFlags::NOSIGNAL);
            }
        }
    }

    /// Whether it wakes one thread only.
    pub(crate) fn is_one(&self) -> bool {
        match self {
            Self::Events(events) => events.len() == 1,
            Self::Socket(_) => true,
        }
    }
}
