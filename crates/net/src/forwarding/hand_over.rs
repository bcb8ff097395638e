//! Handing a FIFO over: the sender's side.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::machine::Ending;
use bootstrap::message::read_whole;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Failure, Key, Kind};
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use shared_memory::Alarms;

use super::request::{Reply, Request};

/// The FIFOs that a rank handed over.
pub(crate) struct HandOvers {
    key: Key,
    controls: Vec<Arc<TcpStream>>,
}

/// How the other rank answered.
pub(crate) enum HandOver {
    /// It forwards the FIFO; this wakes its proxy.
    Taken(Alarms),
    /// It is done with its own work, and does not forward.
    Done,
    /// It cannot forward it.
    Failed(Failure),
}

impl HandOvers {
    pub(crate) const fn new(key: Key) -> Self {
        Self {
            key,
            controls: Vec::new(),
        }
    }

    /// Hands a FIFO over to the rank with this handover socket and process id.
    ///
    /// # Errors
    /// It does not listen, or ended before it answered.
    pub(crate) fn hand_over(
        &mut self,
        socket: SocketAddr,
        process: u32,
        request: &Request,
        longest: Duration,
    ) -> Result<HandOver, Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        let mut connection = Connection::open(socket, &self.key, Kind::Net, longest)?;
        connection.send(&postcard::to_allocvec(request).unwrap_or_default())?;
        let reply = connection.receive(longest)?;
        let reply = read_whole(&reply).map_err(|error| Ending::Broken(error.to_string()))?;
        let event = match reply {
            Reply::Taken { event } => event,
            Reply::Done => return Ok(HandOver::Done),
            Reply::Failed { rank, what } => return Ok(HandOver::Failed(Failure::new(rank, what))),
        };
        let control = connection.into_stream();
        control.set_nonblocking(true).map_err(broken)?;
        // From now on the proxy may sleep. If it is gone, the bootstrap ring reports that.
        let _ = rustix::net::send(&control, &1_u64.to_ne_bytes(), SendFlags::NOSIGNAL);
        let control = Arc::new(control);
        self.controls.push(Arc::clone(&control));
        Ok(HandOver::Taken(match event_of(process, event) {
            Some(event) => Alarms::Events([event].into()),
            None => Alarms::Socket(control),
        }))
    }

    /// Says that nothing more will be posted.
    pub(crate) fn end(&self) {
        for control in &self.controls {
            // One that is gone need not be told.
            let _ = control.shutdown(Shutdown::Write);
        }
    }

    /// Waits until everything is sent, or that moment.
    pub(crate) fn await_sent(&mut self, until: Instant) {
        for control in self.controls.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let ready = control.set_nonblocking(false).is_ok()
                && control
                    .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                    .is_ok();
            if ready {
                // The proxy writes nothing; it closes the connection when everything is sent.
                let _ = (&*control).read(&mut [0; 8]);
            }
        }
    }
}

/// An eventfd of another process, or `None` if the kernel refuses it or a later process has the id.
/// Writing to it is faster than to a socket.
pub(crate) fn event_of(process: u32, event: RawFd) -> Option<OwnedFd> {
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    let event = pidfd_getfd(process, event, PidfdGetfdFlags::empty()).ok()?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd())).ok()?;
    (name.as_os_str() == "anon_inode:[eventfd]").then_some(event)
}
