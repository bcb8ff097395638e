//! Descriptors on which a bell wakes threads that also wait for sockets.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SendFlags;

/// The descriptors that a bell writes to when its owner sleeps. They do not block.
#[derive(Debug, Clone)]
pub enum Alarms {
    /// `eventfd`s, one for each thread.
    Events(Arc<[OwnedFd]>),
    /// A socket whose other end wakes a thread of another process.
    Socket(Arc<TcpStream>),
}

impl Alarms {
    /// Wakes all.
    pub(crate) fn sound(&self) {
        let one = 1_u64.to_ne_bytes();
        match self {
            Self::Events(events) => {
                for event in events.iter() {
                    // A full counter is readable anyway.
                    let _ = rustix::io::write(event, &one);
                }
            }
            Self::Socket(socket) => {
                // A full socket is readable anyway, and a closed one wakes nobody.
                let _ = rustix::net::send(&**socket, &one, SendFlags::NOSIGNAL);
            }
        }
    }

    /// Whether it wakes only one thread.
    pub(crate) fn is_one(&self) -> bool {
        match self {
            Self::Events(events) => events.len() == 1,
            Self::Socket(_) => true,
        }
    }
}
