//! Where other ranks of the host hand over what this rank shall carry.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bootstrap::machine::Ending;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Failure, Key, Kind};
use executor::{HandedOver, Route, TakenOver};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::request::{Reply, Request};
use super::served::Served;
use crate::proxy::connect::{PROOF_TIME, words};

/// Most who are being heard at a time, each by a thread. Further ones wait.
const MOST_HEARD: usize = 64;

/// How long until it is looked again whether one more can be heard.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(2);

/// What was handed over.
pub(crate) struct Taken {
    pub route: Route,
    pub slots: shared_memory::fifo::relay::SlotsOut,
    pub served: Served,
}

/// Why it is not carried.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The threads that carry are about to end.
    Done,
    /// The receiver cannot be reached.
    Failed(Failure),
}

/// What takes what is handed over. It may wait for the receiver.
pub(crate) type Take = dyn Fn(&Request, Taken) -> Result<Woken, Refusal> + Send + Sync;

/// The number of the descriptor by which the thread that carries is woken.
pub(crate) type Woken = std::os::fd::RawFd;

struct Inside {
    key: Key,
    /// Ranks that may hand something over.
    near: Vec<u32>,
    /// Ranks of the communicator.
    ranks: u32,
    take: Box<Take>,
    heard: AtomicUsize,
}

/// A thread that lets them in.
pub(crate) struct Door {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Opens it for the ranks `near` of so many.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub fn open(
        listener: TcpListener,
        key: Key,
        near: Vec<u32>,
        ranks: u32,
        take: Box<Take>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let seen = Arc::clone(&stop);
        let inside = Arc::new(Inside {
            key,
            near,
            ranks,
            take,
            heard: AtomicUsize::new(0),
        });
        let thread = std::thread::Builder::new()
            .name("door of the proxies".to_owned())
            .spawn(move || keep(&listener, &inside, &seen))?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // It counts from nothing, so it can count one further.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(listener: &TcpListener, inside: &Arc<Inside>, stop: &OwnedFd) {
    loop {
        let crowded = inside.heard.load(Ordering::Relaxed) >= MOST_HEARD;
        let knocks = if crowded {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut fds = [
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), knocks),
        ];
        let timeout = Timespec::try_from(AGAIN).ok().filter(|_| crowded);
        // A signal only makes it look once more.
        let _ = poll(&mut fds, timeout.as_ref());
        if !fds[0].revents().is_empty() {
            return;
        }
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        inside.heard.fetch_add(1, Ordering::Relaxed);
        let here = Arc::clone(inside);
        let thread = std::thread::Builder::new().name("handing over".to_owned());
        let started = thread.spawn(move || {
            // A stranger hears nothing, and one that is gone need not.
            let _ = here.hear(stream);
            here.heard.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            inside.heard.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Inside {
    fn hear(&self, stream: TcpStream) -> Result<(), Ending> {
        let broken = |error: io::Error| Ending::Broken(error.to_string());
        let mut connection = Connection::accept(stream, &self.key, PROOF_TIME)?;
        let request = connection.receive(PROOF_TIME)?;
        let request: Request =
            postcard::from_bytes(&request).map_err(|error| Ending::Broken(error.to_string()))?;
        let sensible = |it: &Route| self.near.contains(&it.from) && it.to < self.ranks;
        let known = request.route().filter(sensible);
        let (Some(route), Kind::Net) = (known, connection.kind()) else {
            return Err(Ending::Broken("no rank of this host asks so".to_owned()));
        };
        let control = connection.stream().try_clone().map_err(broken)?;
        let reply = match self.take(&request, route, control) {
            Ok(event) => Reply::Taken { event },
            Err(Refusal::Done) => Reply::Done,
            Err(Refusal::Failed(failure)) => Reply::Failed {
                rank: failure.rank,
                what: failure.what,
            },
        };
        connection.send(&postcard::to_allocvec(&reply).unwrap_or_default())
    }

    fn take(&self, request: &Request, route: Route, control: TcpStream) -> Result<Woken, Refusal> {
        let failed = |why: String| {
            let what = format!("{} cannot be carried for its sender: {why}", words(&route));
            Refusal::Failed(Failure::new(route.from, what))
        };
        let handed = HandedOver {
            base: request.base.clone(),
            fifo: request.fifo.clone(),
        };
        let opened = TakenOver::open(&handed, route.protocol);
        let taken = opened
            .map_err(|error| failed(error.to_string()))?
            .ok_or_else(|| {
                failed("its memory has a form that this version does not know".into())
            })?;
        control
            .set_nonblocking(true)
            .map_err(|error| failed(error.to_string()))?;
        let served = Served::new(control, taken.sender, taken.carrier);
        let slots = taken.slots;
        (self.take)(
            request,
            Taken {
                route,
                slots,
                served,
            },
        )
    }
}
