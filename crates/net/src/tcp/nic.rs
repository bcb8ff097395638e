//! An interface of this host, over which FIFOs use TCP.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bootstrap::socket::accept::{Acceptor, Until};
use bootstrap::{Failure, Key, Kind, Timing};
use executor::Route;
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};

use super::arrivals::{ArrivedSockets, pipe};
use super::connect::{accepted, connect, words};
use super::sockets::{SocketsIn, SocketsOut};
use crate::framing::{FramedIn, FramedOut};
use crate::nic::{Incoming, Nic, Outgoing, Properties};

/// How an interface makes connections.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The own rank.
    pub rank: u32,
    /// By rank: where it is, in words.
    pub places: Arc<[String]>,
    /// The key of the communicator.
    pub key: Key,
    /// Sockets of each connection.
    pub sockets: u16,
    /// Whether slots carry checksums.
    pub checks: bool,
    /// How long connecting may take, and connections may be silent.
    pub timing: Timing,
}

/// An interface.
pub(crate) struct TcpNic {
    settings: Settings,
    acceptor: Mutex<Acceptor>,
    /// The descriptor of the acceptor.
    readable: OwnedFd,
    arrived: ArrivedSockets,
}

/// Why sockets do not send or receive slots in place.
fn in_place(route: &Route) -> String {
    format!(
        "{} lies where only NICs of a net plug-in reach it, and there is none; run the same backend on all ranks",
        words(route)
    )
}

impl TcpNic {
    /// The interface of this listener.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub(crate) fn new(listener: TcpListener, settings: &Settings) -> io::Result<Self> {
        let acceptor = Acceptor::new(listener, &settings.key, &[Kind::Net], Until::Heard)?;
        Ok(Self {
            settings: settings.clone(),
            readable: acceptor.as_fd().try_clone_to_owned()?,
            acceptor: Mutex::new(acceptor),
            arrived: ArrivedSockets::default(),
        })
    }
}

impl Nic for TcpNic {
    fn properties(&self) -> Properties {
        Properties {
            reaches_devices: false,
            inline_progress: true,
            polled: false,
            closes_late: false,
        }
    }

    fn connect(
        &self,
        route: &Route,
        to: SocketAddr,
        slots: SlotsOut,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        let Settings {
            key,
            sockets,
            checks,
            timing,
            ..
        } = &self.settings;
        let SlotsOut::Copied(slots) = slots else {
            return Err(Failure::new(route.from, in_place(route)));
        };
        let streams = connect(route, to, key, *sockets, timing.silence);
        let streams = streams.map_err(|ending| {
            let place = &self.settings.places[route.to as usize];
            let what = format!("{place}: {} to {to} {ending}", words(route));
            Failure::new(route.to, what)
        })?;
        let sockets = SocketsOut::new(streams.into_iter().map(pipe).collect(), timing.beat);
        Ok(Box::new(FramedOut::new(sockets, slots, *checks)))
    }

    fn receive(&self, route: &Route, slots: SlotsIn) -> Result<Box<dyn Incoming>, String> {
        let SlotsIn::Copied(slots) = slots else {
            return Err(in_place(route));
        };
        let arrivals = self.arrived.of(route);
        let sockets = SocketsIn::of(arrivals, self.settings.timing.silence);
        Ok(Box::new(FramedIn::new(sockets, slots)))
    }

    fn arrivals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.readable.as_fd())
    }

    fn accept(&self) -> Option<Instant> {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        for arrived in acceptor.accept() {
            // A peer that sends something else is closed, and its sender reports it.
            let Ok((hello, stream)) = accepted(arrived) else {
                continue;
            };
            if let Some(route) = hello.route(self.settings.rank) {
                self.arrived.add(route, &hello, stream);
            }
        }
        acceptor.next_deadline()
    }
}
