//! The descriptors by which a bell wakes threads that wait for sockets too: those of the own process, and those of others
//! that work for it.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::SendFlags;

/// What is written to when a bell rings whose owner sleeps.
#[derive(Debug)]
pub struct Alarms {
    /// `eventfd`s of threads of this process.
    own: Arc<[OwnedFd]>,
    /// Sockets on which threads of other processes sleep.
    others: Mutex<Vec<TcpStream>>,
}

impl Alarms {
    /// Those of this process.
    pub fn new(own: Arc<[OwnedFd]>) -> Self {
        Self {
            own,
            others: Mutex::default(),
        }
    }

    fn others(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a socket on which a thread of another process sleeps. That thread must not announce any sleep before this has
    /// returned. The socket does not block.
    pub fn add(&self, socket: TcpStream) {
        self.others().push(socket);
    }

    /// Wakes all.
    pub(crate) fn sound(&self) {
        let one = 1_u64.to_ne_bytes();
        for alarm in self.own.iter() {
            // One that cannot count further is readable anyway.
            let _ = rustix::io::write(alarm, &one);
        }
        for socket in self.others().iter() {
            // One that takes no more is readable anyway, and one that is closed wakes nobody.
            let _ = rustix::net::send(socket, &one, SendFlags::NOSIGNAL);
        }
    }

    /// Does something if there is only one to wake, and stays so meanwhile.
    pub(crate) fn if_only_one(&self, then: impl FnOnce()) {
        let others = self.others();
        if self.own.len() == 1 && others.is_empty() {
            then();
        }
    }
}
