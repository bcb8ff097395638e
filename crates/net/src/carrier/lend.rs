//! The sender's side: what it handed over.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bootstrap::machine::Ending;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Key, Kind};
use rustix::net::SendFlags;
use shared_memory::Alarms;

use super::request::{Reply, Request};

/// What a rank handed over to others.
pub(crate) struct Lender {
    key: Key,
    /// Where it is told of those that sleep until something is posted.
    alarms: Arc<Alarms>,
    lent: Vec<TcpStream>,
}

impl Lender {
    pub const fn new(key: Key, alarms: Arc<Alarms>) -> Self {
        Self {
            key,
            alarms,
            lent: Vec::new(),
        }
    }

    /// Hands a connection over to the rank whose door that is.
    ///
    /// # Errors
    /// Nobody is there, or it ended before it answered.
    pub fn lend(
        &mut self,
        door: SocketAddr,
        request: &Request,
        longest: Duration,
    ) -> Result<Reply, Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        let mut connection = Connection::open(door, &self.key, Kind::Net, longest)?;
        connection.send(&postcard::to_allocvec(request).unwrap_or_default())?;
        let reply = connection.receive(longest)?;
        let reply =
            postcard::from_bytes(&reply).map_err(|error| Ending::Broken(error.to_string()))?;
        if reply == Reply::Taken {
            let control = connection.into_stream();
            control.set_nonblocking(true).map_err(broken)?;
            let alarm = control.try_clone().map_err(broken)?;
            self.alarms.add(alarm);
            // From now on the other side may sleep. Should it be gone, all hear of it otherwise.
            let _ = rustix::net::send(&control, &1_u64.to_ne_bytes(), SendFlags::NOSIGNAL);
            self.lent.push(control);
        }
        Ok(reply)
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
        for mut control in self.lent.drain(..) {
            let left = until.saturating_duration_since(Instant::now());
            let ready = control.set_nonblocking(false).is_ok()
                && control
                    .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                    .is_ok();
            if ready {
                // Nothing is ever said here: the end comes, or the time is over.
                let _ = control.read(&mut [0; 8]);
            }
        }
    }
}
