//! The requests to a proxy thread, and the state that it shares with the engine.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bootstrap::Failure;
use bootstrap::socket::service::Alarm;
use executor::Route;
use rustix::event::{EventfdFlags, eventfd};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::{Alarms, Bell, Item, Segment};

use super::readiness::Watch;
use crate::forwarding::ForwardedFifo;
use crate::nic::{Incoming, Nics, Outgoing};

/// A connection that sends.
pub(super) struct SendingConnection {
    pub(super) route: Route,
    /// The number of its NIC.
    pub(super) nic: usize,
    pub(super) outgoing: Box<dyn Outgoing>,
    /// Set if another rank of the host handed it over.
    pub(super) forwarded: Option<ForwardedFifo>,
    pub(super) watch: Watch,
}

/// A connection that receives.
pub(super) struct ReceivingConnection {
    pub(super) route: Route,
    /// The number of its NIC.
    pub(super) nic: usize,
    pub(super) incoming: Box<dyn Incoming>,
    pub(super) watch: Watch,
}

/// Requests that the thread has not taken yet.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) outgoing: Vec<SendingConnection>,
    pub(super) incoming: Vec<ReceivingConnection>,
    pub(super) ending: bool,
    pub(super) stopping: bool,
}

/// The state that a proxy thread shares with those who give it work.
pub(super) struct ProxyState {
    pub(super) inbox: Mutex<Inbox>,
    /// Whether there are connections in it.
    pub(super) pending: AtomicBool,
    pub(super) alarms: Arc<[OwnedFd]>,
    /// The number of the thread.
    pub(super) own: usize,
    pub(super) drained: AtomicBool,
    /// Connections of other ranks that it forwards.
    pub(super) forwarding: AtomicUsize,
    /// Whether the engine makes progress inline.
    pub(super) held: AtomicBool,
    /// How often it did.
    pub(super) helped: AtomicU32,
}

impl ProxyState {
    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // An eventfd that cannot count further is readable anyway.
        let _ = rustix::io::write(&self.alarms[self.own], &1_u64.to_ne_bytes());
    }
}

/// The NICs of a rank, and the queues of the proxy threads that drive them in turn. Any thread may
/// use them.
#[derive(Clone)]
pub(crate) struct ProxyQueues {
    pub(super) nics: Nics,
    pub(super) threads: Vec<Arc<ProxyState>>,
}

impl ProxyQueues {
    fn thread(&self, nic: usize) -> &ProxyState {
        &self.threads[nic % self.threads.len()]
    }

    /// Sends from now on what is posted to a FIFO, of this rank or `forwarded` for another one, to
    /// the receiver at `to`. Returns `false` if the threads are about to end.
    ///
    /// # Errors
    /// The receiver cannot be reached, or the NIC cannot read the slots.
    pub(crate) fn send(
        &self,
        nic: usize,
        route: &Route,
        to: SocketAddr,
        slots: SlotsOut,
        forwarded: Option<ForwardedFifo>,
    ) -> Result<bool, Failure> {
        let outgoing = self.nics[nic].connect(route, to, slots)?;
        let shared = self.thread(nic);
        let mut inbox = shared.inbox();
        if inbox.stopping {
            return Ok(false);
        }
        if forwarded.is_some() {
            shared.forwarding.fetch_add(1, Ordering::AcqRel);
        }
        inbox.outgoing.push(SendingConnection {
            route: *route,
            nic,
            outgoing,
            forwarded,
            watch: Watch::default(),
        });
        shared.pending.store(true, Ordering::Release);
        drop(inbox);
        shared.wake();
        Ok(true)
    }

    /// Posts from now on to a FIFO what arrives by a route.
    ///
    /// # Errors
    /// Nothing can connect, or the NIC cannot write the slots; the text says why.
    pub(crate) fn receive(&self, nic: usize, route: &Route, slots: SlotsIn) -> Result<(), String> {
        let incoming = self.nics[nic].receive(route, slots)?;
        let shared = self.thread(nic);
        let mut inbox = shared.inbox();
        inbox.incoming.push(ReceivingConnection {
            route: *route,
            nic,
            incoming,
            watch: Watch::default(),
        });
        shared.pending.store(true, Ordering::Release);
        drop(inbox);
        shared.wake();
        Ok(())
    }

    /// Whether anything is forwarded for other ranks.
    pub(crate) fn forwards(&self) -> bool {
        let forwards = |it: &Arc<ProxyState>| it.forwarding.load(Ordering::Acquire) > 0;
        self.threads.iter().any(forwards)
    }

    /// Sends everything that was posted, until that moment at most.
    pub(crate) fn drain(&self, until: Instant) {
        for shared in &self.threads {
            shared.inbox().ending = true;
            shared.wake();
            while !shared.drained.load(Ordering::Acquire) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The common state of a rank's proxy threads.
pub(crate) struct Common {
    /// The own rank.
    pub rank: u32,
    /// By rank: where it is, in words.
    pub places: Arc<[String]>,
    /// Reports failures.
    pub alarm: Alarm,
    /// The bell that is rung when something was posted to be sent.
    pub bell: Bell,
    /// The rank's own bell.
    pub own_bell: Bell,
    /// Descriptors that wake the threads; one each.
    pub alarms: Arc<[OwnedFd]>,
    /// Whether there are cores to spare for polling without pause.
    pub spare_cores: bool,
    /// Whether there are so many ranks on a core that a waiting one should sleep at once.
    pub crowded: bool,
    /// The NICs of this rank.
    pub nics: Nics,
}

/// The bell of `threads` proxy threads, and their descriptors.
///
/// # Errors
/// There is no memory, or no descriptor.
pub(crate) fn bell(threads: usize) -> io::Result<(Bell, Arc<[OwnedFd]>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let alarms: Result<Vec<OwnedFd>, _> = (0..threads).map(|_| eventfd(0, flags)).collect();
    let alarms: Arc<[OwnedFd]> = alarms?.into();
    let other = |error: shared_memory::Error| io::Error::other(error.to_string());
    let segment = Segment::private("bell of the proxies", &[Item::Bell]).map_err(other)?;
    let bell = segment.bell(0).map_err(other)?;
    let waking = Alarms::Events(Arc::clone(&alarms));
    Ok((bell.with_alarms(waking), alarms))
}
