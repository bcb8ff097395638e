//! The sender's side: what it handed over.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::machine::Ending;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Failure, Key, Kind};
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use shared_memory::Alarms;

use super::request::{Reply, Request};

/// What a rank handed over to others.
pub(crate) struct Lender {
    key: Key,
    lent: Vec<Arc<TcpStream>>,
}

/// What came of handing something over.
pub(crate) enum Lent {
    /// It is carried, by who is woken so.
    Taken(Alarms),
    /// It is not: the rank is done with its own work.
    Done,
    /// It cannot be carried.
    Failed(Failure),
}

impl Lender {
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            lent: Vec::new(),
        }
    }

    /// Hands a connection over to the rank of this handover socket, and whose process has this number.
    ///
    /// # Errors
    /// Nobody is there, or it ended before it answered.
    pub fn lend(
        &mut self,
        socket: SocketAddr,
        process: u32,
        request: &Request,
        longest: Duration,
    ) -> Result<Lent, Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        let mut connection = Connection::open(socket, &self.key, Kind::Net, longest)?;
        connection.send(&postcard::to_allocvec(request).unwrap_or_default())?;
        let reply = connection.receive(longest)?;
        let reply =
            postcard::from_bytes(&reply).map_err(|error| Ending::Broken(error.to_string()))?;
        let event = match reply {
            Reply::Taken { event } => event,
            Reply::Done => return Ok(Lent::Done),
            Reply::Failed { rank, what } => return Ok(Lent::Failed(Failure::new(rank, what))),
        };
        let control = connection.into_stream();
        control.set_nonblocking(true).map_err(broken)?;
        // From now on the other side may sleep. Should it be gone, all hear of it otherwise.
        let _ = rustix::net::send(&control, &1_u64.to_ne_bytes(), SendFlags::NOSIGNAL);
        let control = Arc::new(control);
        self.lent.push(Arc::clone(&control));
        Ok(Lent::Taken(match event_of(process, event) {
            Some(event) => Alarms::Events([event].into()),
            None => Alarms::Socket(control),
        }))
    }

    /// Says that nothing more will be posted.
    pub fn end(&self) {
        for control in &self.lent {
            // One that is gone need not hear it.
            let _ = control.shutdown(Shutdown::Write);
        }
    }

    /// Waits until everything was sent, within some time.
    pub fn await_sent(&mut self, until: Instant) {
        for control in self.lent.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let ready = control.set_nonblocking(false).is_ok()
                && control
                    .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                    .is_ok();
            if ready {
                // Nothing is ever said here: the end comes, or the time is over.
                let _ = (&*control).read(&mut [0; 8]);
            }
        }
    }
}

/// A descriptor of another process, which writing to is quicker than to a socket; nothing if the kernel refuses it.
fn event_of(process: u32, event: RawFd) -> Option<OwnedFd> {
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, event, PidfdGetfdFlags::empty()).ok()
}
