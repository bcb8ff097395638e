//! The thread of a NIC.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bootstrap::socket::service::Alarm;
use bootstrap::{Failure, Key, Timing};
use executor::Route;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use shared_memory::fifo::relay::{Inflow, Outflow};
use shared_memory::{Alarms, Bell, Item, Segment};

use super::carry::{CarryError, Incoming, Outgoing};
use super::connect::{self, words};
use super::pipe::Pipe;
use crate::carrier::Served;

/// Looks without success before the thread sleeps, if there are cores to spare.
const LOOKS: u32 = 200;

/// The longest sleep. Nothing depends on it but the notice that the end has come.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Most connections that are being proved at a time, each by a thread. Further ones are not accepted meanwhile.
const MOST_UNPROVED: usize = 256;

/// How long the news that a rank is done, or that the job failed, may take.
const NEWS_TIME: Duration = Duration::from_secs(2);

/// A socket that came and whose FIFO, or whose other sockets, did not yet.
struct Early {
    route: Route,
    socket: u16,
    sockets: u16,
    stream: TcpStream,
}

/// What is sent.
struct Sent {
    route: Route,
    outgoing: Outgoing,
    /// Of another rank of the host, which handed it over.
    served: Option<Served>,
}

#[derive(Default)]
struct Inbox {
    outgoing: Vec<Sent>,
    receiving: Vec<(Route, Box<dyn Inflow>)>,
    early: Vec<Early>,
    ending: bool,
    stopping: bool,
}

/// What a NIC's thread shares with those who give it work.
struct Shared {
    inbox: Mutex<Inbox>,
    alarms: Arc<[OwnedFd]>,
    own: usize,
    key: Key,
    rank: u32,
    /// By rank: where it is, in words.
    places: Arc<[String]>,
    alarm: Alarm,
    timing: Timing,
    drained: Mutex<bool>,
    /// Connections that came and are being proved.
    proving: AtomicUsize,
    /// Connections of other ranks that are carried.
    serving: AtomicUsize,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // One that cannot count further is readable anyway.
        let _ = rustix::io::write(&self.alarms[self.own], &1_u64.to_ne_bytes());
    }
}

/// A connection that is being proved. Its end wakes the NIC's thread.
struct Proving(Arc<Shared>);

impl Proving {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.proving.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Proving {
    fn drop(&mut self) {
        self.0.proving.fetch_sub(1, Ordering::Relaxed);
        self.0.wake();
    }
}

/// A NIC's thread.
pub struct Proxy {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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

impl Proxy {
    /// Starts the thread of a NIC that listens there.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(common: &Common, nic: usize, listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            alarms: Arc::clone(&common.alarms),
            own: nic,
            key: common.key.clone(),
            rank: common.rank,
            places: Arc::clone(&common.places),
            alarm: common.alarm.clone(),
            timing: common.timing,
            drained: Mutex::new(false),
            proving: AtomicUsize::new(0),
            serving: AtomicUsize::new(0),
        });
        let mut worker = Worker {
            shared: Arc::clone(&shared),
            listener,
            bell: common.bell.clone(),
            own_bell: common.own_bell.clone(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            receiving: BTreeMap::new(),
            early: Vec::new(),
            over: Vec::new(),
            began: Instant::now(),
            looks: if common.spare_cores { LOOKS } else { 0 },
        };
        let thread = std::thread::Builder::new()
            .name(format!("proxy of NIC {nic}"))
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be connected to; the text says why.
    pub fn send(&self, route: &Route, slots: Box<dyn Outflow>, way: &Way) -> Result<(), Failure> {
        // The inbox of a rank that still works takes everything.
        self.hand().send(route, slots, None, way).map(|_| ())
    }

    /// By which other threads give it work.
    pub(crate) fn hand(&self) -> Hand {
        Hand(Arc::clone(&self.shared))
    }

    /// Whether it carries for other ranks.
    pub fn serves(&self) -> bool {
        self.shared.serving.load(Ordering::Acquire) > 0
    }

    /// From now on posts to a FIFO what comes by a route.
    pub fn receive(&self, route: &Route, slots: Box<dyn Inflow>) {
        self.shared.inbox().receiving.push((*route, slots));
        self.shared.wake();
    }

    /// Sends everything that was posted, within some time.
    pub fn drain(&self, until: Instant) {
        self.shared.inbox().ending = true;
        self.shared.wake();
        let drained = || {
            *self
                .shared
                .drained
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        while !drained() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.inbox().stopping = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// By which work is given to a NIC's thread.
#[derive(Clone)]
pub(crate) struct Hand(Arc<Shared>);

impl Hand {
    /// From now on carries what is posted to a FIFO, of this rank or for another one; answers no if the thread is about to
    /// end.
    ///
    /// # Errors
    /// The other host cannot be connected to; the text says why.
    pub fn send(
        &self,
        route: &Route,
        slots: Box<dyn Outflow>,
        served: Option<Served>,
        way: &Way,
    ) -> Result<bool, Failure> {
        let shared = &self.0;
        let streams = connect::connect(route, way.to, &shared.key, way.sockets, way.longest);
        let streams = streams.map_err(|ending| {
            let place = &shared.places[route.to as usize];
            let what = format!("{place}: {} to {} {ending}", words(route), way.to);
            Failure::new(route.to, what)
        })?;
        let pipes = streams.into_iter().map(|it| Box::new(it) as Box<dyn Pipe>);
        let pace = shared.timing.beat;
        let outgoing = Outgoing::new(slots, pipes.collect(), way.checks, pace);
        let mut inbox = shared.inbox();
        if inbox.stopping {
            return Ok(false);
        }
        if served.is_some() {
            shared.serving.fetch_add(1, Ordering::AcqRel);
        }
        inbox.outgoing.push(Sent {
            route: *route,
            outgoing,
            served,
        });
        drop(inbox);
        shared.wake();
        Ok(true)
    }
}

/// How a connection is made.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Where the receiver listens.
    pub to: SocketAddr,
    /// Sockets.
    pub sockets: u16,
    /// Whether slots carry checksums.
    pub checks: bool,
    /// How long connecting may take.
    pub longest: Duration,
}

struct Worker {
    shared: Arc<Shared>,
    listener: TcpListener,
    bell: Bell,
    own_bell: Bell,
    outgoing: Vec<Sent>,
    incoming: Vec<(Route, Incoming)>,
    receiving: BTreeMap<Route, Box<dyn Inflow>>,
    early: Vec<Early>,
    /// Connections that are over for no reason of their own: the rank at their other end, how, and when.
    over: Vec<(Route, u32, CarryError, Instant)>,
    began: Instant,
    looks: u32,
}

impl Sent {
    /// Whether anything can still come: the rank that handed it over is there, or left something.
    fn is_awaited(&mut self) -> bool {
        let ended = self.served.as_ref().is_some_and(Served::has_ended);
        !(ended && self.outgoing.is_empty())
    }

    fn go_on(&mut self, now: Duration) -> Result<usize, CarryError> {
        let Some(served) = &mut self.served else {
            return self.outgoing.go_on(now);
        };
        if !served.has_begun() {
            return Ok(0);
        }
        let slots = self.outgoing.go_on(now)?;
        if slots > 0 {
            served.ring();
        }
        Ok(slots)
    }
}

impl Worker {
    fn run(&mut self) {
        let mut looks = 0;
        loop {
            let ending = self.take_inbox();
            let Some(ending) = ending else { return };
            if self.go_on() {
                looks = 0;
                continue;
            }
            if ending && self.outgoing.iter_mut().all(|it| it.outgoing.is_empty()) {
                *self
                    .shared
                    .drained
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = true;
            }
            if looks < self.looks {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            let served = self.outgoing.iter().filter_map(|it| it.served.as_ref());
            self.bell.announce_sleep(served.filter_map(Served::bell));
            if self.go_on() {
                looks = 0;
            } else {
                self.sleep();
            }
            self.bell.announce_waking();
        }
    }

    /// Takes new work; answers whether everything is to be sent now, or nothing if it is the end.
    fn take_inbox(&mut self) -> Option<bool> {
        let mut inbox = self.shared.inbox();
        if inbox.stopping {
            return None;
        }
        let new = !inbox.receiving.is_empty() || !inbox.early.is_empty();
        self.outgoing.append(&mut inbox.outgoing);
        self.receiving.extend(inbox.receiving.drain(..));
        self.early.append(&mut inbox.early);
        let ending = inbox.ending;
        drop(inbox);
        if new {
            self.match_early();
        }
        Some(ending)
    }

    /// Joins sockets that came with the FIFOs that they are about.
    fn match_early(&mut self) {
        let routes: Vec<Route> = self.receiving.keys().copied().collect();
        for route in routes {
            let of = |it: &&Early| it.route == route;
            let Some(sockets) = self.early.iter().find(of).map(|it| it.sockets) else {
                continue;
            };
            if self.early.iter().filter(of).count() < usize::from(sockets) {
                continue;
            }
            let (mut own, others): (Vec<Early>, Vec<Early>) = std::mem::take(&mut self.early)
                .into_iter()
                .partition(|it| it.route == route);
            self.early = others;
            own.sort_by_key(|it| it.socket);
            let pipes = own
                .into_iter()
                .map(|it| Box::new(it.stream) as Box<dyn Pipe>);
            if let Some(slots) = self.receiving.remove(&route) {
                let silence = self.shared.timing.silence;
                let incoming = Incoming::new(slots, pipes.collect(), silence);
                self.incoming.push((route, incoming));
            }
        }
    }

    /// Everything goes on as far as it can; answers whether anything did.
    fn go_on(&mut self) -> bool {
        let mut went = false;
        let mut over: Vec<(Route, u32, CarryError)> = Vec::new();
        let mut on = |route: Route, peer: u32, result: Result<usize, CarryError>| {
            let error = match result {
                Ok(slots) => {
                    went |= slots > 0;
                    return true;
                }
                Err(error) => error,
            };
            over.push((route, peer, error));
            false
        };
        let now = self.began.elapsed();
        let serving = &self.shared.serving;
        self.outgoing.retain_mut(|it| {
            let stays = it.is_awaited() && on(it.route, it.route.to, it.go_on(now));
            if !stays && it.served.is_some() {
                serving.fetch_sub(1, Ordering::AcqRel);
            }
            stays
        });
        self.incoming
            .retain_mut(|(route, it)| on(*route, route.from, it.go_on(now)));
        if went {
            self.own_bell.ring();
        }
        for (route, peer, error) in over {
            if matches!(error, CarryError::Altered(_) | CarryError::Oversized { .. }) {
                self.tell(&route, peer, &error);
            } else {
                // A rank closes its connections when it is done, and when it gave up because of another. The news of
                // either may come a little later than the end of the connections. One that is stopped is silent in the
                // ring too, which tells more.
                self.over.push((route, peer, error, Instant::now()));
            }
        }
        let late = |it: &mut (_, _, _, Instant)| it.3.elapsed() >= NEWS_TIME;
        let untold: Vec<_> = self.over.extract_if(.., late).collect();
        for (route, peer, error, _) in untold {
            self.tell(&route, peer, &error);
        }
        went
    }

    /// Makes the job fail, unless the other rank was to end anyway.
    fn tell(&self, route: &Route, peer: u32, error: &CarryError) {
        if self.shared.alarm.is_expected(peer) {
            return;
        }
        let place = &self.shared.places[peer as usize];
        let own = &self.shared.places[self.shared.rank as usize];
        let carried = match route.from == self.shared.rank || route.to == self.shared.rank {
            true => format!("with {own}"),
            false => format!("which {own} carries"),
        };
        let what = format!("{place}: {} {carried} {error}", words(route));
        self.shared.alarm.fail(Failure::new(peer, what));
        self.own_bell.ring();
    }

    fn sleep(&mut self) {
        let knocks = if self.may_accept() {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.shared.alarms[self.shared.own].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), knocks),
        ];
        let speaking = |it: &&Served| !it.has_ended();
        let served = self.outgoing.iter().filter_map(|it| it.served.as_ref());
        for served in served.filter(speaking) {
            let control = served.control().as_fd();
            fds.push(PollFd::from_borrowed_fd(control, PollFlags::IN));
        }
        for Sent { outgoing, .. } in &self.outgoing {
            for (pipe, full) in outgoing.pipes().iter().zip(&outgoing.full) {
                if let Some(socket) = pipe.socket().filter(|_| *full) {
                    fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT));
                }
            }
        }
        for (_, incoming) in &self.incoming {
            for (pipe, wanted) in incoming.pipes().iter().zip(&incoming.wanted) {
                if let Some(socket) = pipe.socket().filter(|_| *wanted) {
                    fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
                }
            }
        }
        let timeout = Timespec::try_from(LONGEST_SLEEP).ok();
        // A signal only ends the sleep early.
        let _ = poll(&mut fds, timeout.as_ref());
        let called = !fds[0].revents().is_empty();
        let knocked = !fds[1].revents().is_empty();
        // They stay readable until what was said is taken.
        let said: Vec<bool> = fds[2..].iter().map(|it| !it.revents().is_empty()).collect();
        let served = self.outgoing.iter_mut().filter_map(|it| it.served.as_mut());
        let served = served.filter(|it| !it.has_ended());
        for (served, _) in served.zip(said).filter(|(_, said)| *said) {
            served.look();
        }
        if called {
            let _ = rustix::io::read(&self.shared.alarms[self.shared.own], &mut [0; 8]);
        }
        if knocked {
            self.accept();
        }
    }

    fn may_accept(&self) -> bool {
        self.shared.proving.load(Ordering::Relaxed) < MOST_UNPROVED
    }

    /// Whoever connects proves itself on a thread of its own, so that a stranger holds nobody up.
    fn accept(&self) {
        while self.may_accept()
            && let Ok((stream, _)) = self.listener.accept()
        {
            let proving = Proving::new(&self.shared);
            let thread = std::thread::Builder::new().name("proof of a connection".to_owned());
            // Without a thread the connection is dropped, and its sender says so.
            let _ = thread.spawn(move || {
                let shared = &proving.0;
                let Ok((hello, stream)) = connect::accept(stream, &shared.key) else {
                    return;
                };
                if let Some(route) = hello.route(shared.rank) {
                    shared.inbox().early.push(Early {
                        route,
                        socket: hello.socket,
                        sockets: hello.sockets,
                        stream,
                    });
                }
            });
        }
    }
}
