//! What a NIC's thread shares with those who give it work, and with the engine that may do it in its place.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bootstrap::socket::service::Alarm;
use bootstrap::{Key, Timing};
use executor::Route;
use rustix::event::{EventfdFlags, eventfd};
use shared_memory::fifo::relay::Inflow;
use shared_memory::{Alarms, Bell, Item, Segment};

use super::carry::Outgoing;
use crate::forwarding::Served;

/// A socket that came and whose FIFO, or whose other sockets, did not yet.
pub(super) struct Early {
    pub(super) route: Route,
    pub(super) socket: u16,
    pub(super) sockets: u16,
    pub(super) stream: TcpStream,
}

/// What is sent.
pub(super) struct Sent {
    pub(super) route: Route,
    pub(super) outgoing: Outgoing,
    /// Of another rank of the host, which handed it over.
    pub(super) served: Option<Served>,
}

/// What was given to it and it did not take yet.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) outgoing: Vec<Sent>,
    pub(super) receiving: Vec<(Route, Box<dyn Inflow>)>,
    pub(super) early: Vec<Early>,
    pub(super) ending: bool,
    pub(super) stopping: bool,
}

/// What a NIC's thread shares with those who give it work.
pub(super) struct Shared {
    pub(super) inbox: Mutex<Inbox>,
    pub(super) alarms: Arc<[OwnedFd]>,
    pub(super) own: usize,
    pub(super) key: Key,
    pub(super) rank: u32,
    /// By rank: where it is, in words.
    pub(super) places: Arc<[String]>,
    pub(super) alarm: Alarm,
    pub(super) timing: Timing,
    pub(super) drained: Mutex<bool>,
    /// Connections of other ranks that are carried.
    pub(super) serving: AtomicUsize,
    /// Whether the engine carries.
    pub(super) held: AtomicBool,
    /// How often it did.
    pub(super) helped: AtomicU32,
}

impl Shared {
    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // One that cannot count further is readable anyway.
        let _ = rustix::io::write(&self.alarms[self.own], &1_u64.to_ne_bytes());
    }
}

/// What all NICs' threads of a process have in common.
pub struct Common {
    /// What ranks know.
    pub key: Key,
    /// The own rank.
    pub rank: u32,
    /// By rank: where it is, in words.
    pub places: Arc<[String]>,
    /// Whom to tell of failures.
    pub alarm: Alarm,
    /// Between two beats of a connection, and without one.
    pub timing: Timing,
    /// The bell that is rung when something is to be sent.
    pub bell: Bell,
    /// The rank's own bell.
    pub own_bell: Bell,
    /// Descriptors by which the threads are woken; one each.
    pub alarms: Arc<[OwnedFd]>,
    /// Whether there are cores to spare for looking without pause.
    pub spare_cores: bool,
}

/// The bell of the threads of so many NICs, and their descriptors.
///
/// # Errors
/// There is no memory, or no descriptor.
pub fn bell(nics: usize) -> io::Result<(Bell, Arc<[OwnedFd]>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let alarms: Result<Vec<OwnedFd>, _> = (0..nics).map(|_| eventfd(0, flags)).collect();
    let alarms: Arc<[OwnedFd]> = alarms?.into();
    let other = |error: shared_memory::Error| io::Error::other(error.to_string());
    let segment = Segment::private("bell of the proxies", &[Item::Bell]).map_err(other)?;
    let bell = segment.bell(0).map_err(other)?;
    let waking = Alarms::Events(Arc::clone(&alarms));
    Ok((bell.with_alarms(waking), alarms))
}
