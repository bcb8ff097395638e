//! The sockets on which an engine sleeps.
//!
//! An engine would have to look at all its sockets after each message. The kernel keeps a list of
//! those that became ready instead (`epoll`, edge-triggered), and each is looked at until it has no
//! more.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use shared_memory::Alarms;

/// Most events that one call returns.
const MOST_EVENTS: usize = 64;

/// The number of the event that ends a sleep.
const ALARM: u64 = u64::MAX;

/// Bits of a number that are the connection's, below those of its thread.
const CONNECTION_BITS: u32 = 48;

/// A connection, by the numbers of its proxy thread and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) thread: usize,
    pub(super) connection: u64,
}

/// A connection that is ready.
pub(super) struct Ready {
    pub(super) place: Place,
    /// Whether the peer closed it, or it broke. Then only a read tells.
    pub(super) hung: bool,
}

/// The sockets of a rank.
pub(super) struct Readiness {
    epoll: OwnedFd,
    /// Ends a sleep.
    alarm: Arc<[OwnedFd]>,
}

impl Readiness {
    /// With no sockets yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (epoll, alarm) = (epoll::create(CreateFlags::CLOEXEC)?, eventfd(0, flags)?);
        // Edge-triggered, so that nobody has to read it.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), flags)?;
        Ok(Self {
            epoll,
            alarm: [alarm].into(),
        })
    }

    /// Ends a sleep.
    pub(super) fn alarms(&self) -> Alarms {
        Alarms::Events(Arc::clone(&self.alarm))
    }

    /// The descriptor that ends a sleep when it is written to.
    pub(super) fn alarm(&self) -> RawFd {
        self.alarm[0].as_raw_fd()
    }

    /// Adds the sockets of a connection, to be read or written. Returns `false` if the system has
    /// no room for them.
    pub(super) fn add(&self, place: Place, sockets: &[Arc<TcpStream>], reads: bool) -> bool {
        let number = (place.thread as u64) << CONNECTION_BITS | place.connection;
        let flags = EventFlags::ET
            | match reads {
                true => EventFlags::IN | EventFlags::RDHUP,
                false => EventFlags::OUT,
            };
        let add = |it: &Arc<TcpStream>| {
            epoll::add(&self.epoll, it.as_fd(), EventData::new_u64(number), flags).is_ok()
        };
        sockets.iter().all(add)
    }

    /// Sleeps until a connection is ready, for at most `longest`, and calls `each` for those that
    /// are.
    pub(super) fn wait(&self, longest: Duration, mut each: impl FnMut(Ready)) {
        let mut events: Vec<Event> = Vec::with_capacity(MOST_EVENTS);
        let timeout = Timespec::try_from(longest).ok();
        // A signal only ends the sleep early.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
        for Event { flags, data, .. } in events {
            let number = data.u64();
            if number == ALARM {
                continue;
            }
            let place = Place {
                thread: (number >> CONNECTION_BITS) as usize,
                connection: number & ((1 << CONNECTION_BITS) - 1),
            };
            let hangs = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            let hung = flags.intersects(hangs);
            each(Ready { place, hung });
        }
    }
}

/// The sockets of a connection.
pub(super) type Sockets = Vec<Arc<TcpStream>>;

/// The knowledge of an engine about a connection's sockets.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The number of the connection among those of its thread.
    pub(super) number: u64,
    /// Whether the kernel tells when they are ready.
    registered: bool,
    /// Whether they are not ready, and the kernel will tell when they are.
    pub(super) blocked: bool,
    /// Whether the peer closed them.
    pub(super) hung: bool,
}

impl Watch {
    /// Notes whether a connection is blocked after it was driven, if the engine drives it. Returns
    /// `false` if the kernel cannot tell when that changes.
    pub(super) fn update(
        &mut self,
        thread: usize,
        blocked: bool,
        sockets: &dyn Fn() -> Sockets,
        reads: bool,
        readiness: Option<&Readiness>,
    ) -> bool {
        self.blocked = false;
        let Some(readiness) = readiness.filter(|_| blocked && !self.hung) else {
            return true;
        };
        let place = Place {
            thread,
            connection: self.number,
        };
        self.registered = self.registered || readiness.add(place, &sockets(), reads);
        self.blocked = self.registered;
        self.registered
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn ready(readiness: &Readiness, longest: Duration) -> Vec<(Place, bool)> {
        let mut all = Vec::new();
        readiness.wait(longest, |it| all.push((it.place, it.hung)));
        all
    }

    #[test]
    fn a_socket_is_ready_once_for_what_arrives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let receiver = Arc::new(receiver);
        let readiness = Readiness::new().unwrap();
        let place = Place {
            thread: 3,
            connection: 70_000,
        };
        assert!(readiness.add(place, &[Arc::clone(&receiver)], true));
        assert_eq!(ready(&readiness, Duration::ZERO), []);
        sender.write_all(&[1]).unwrap();
        assert_eq!(ready(&readiness, LONG), [(place, false)]);
        assert_eq!(ready(&readiness, Duration::ZERO), []);
    }

    #[test]
    fn the_end_of_a_stream_is_told_from_data() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let receiver = Arc::new(receiver);
        let readiness = Readiness::new().unwrap();
        let place = Place {
            thread: 0,
            connection: 0,
        };
        assert!(readiness.add(place, &[Arc::clone(&receiver)], true));
        sender.write_all(&[1]).unwrap();
        drop(sender);
        let began = Instant::now();
        // They may arrive one after the other.
        while ready(&readiness, LONG) != [(place, true)] {
            assert!(began.elapsed() < LONG, "the end was not told");
        }
    }

    #[test]
    fn an_alarm_ends_a_sleep_at_once() {
        let readiness = Readiness::new().unwrap();
        let Alarms::Events(events) = readiness.alarms() else {
            panic!("no events");
        };
        for _ in 0..3 {
            rustix::io::write(&events[0], &1_u64.to_ne_bytes()).unwrap();
            readiness.wait(LONG, |_| panic!("a connection"));
        }
    }
}
