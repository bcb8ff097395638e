//! The thread of a NIC.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bootstrap::socket::accept::{Acceptor, Until};
use bootstrap::{Failure, Kind};
use executor::Route;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shared_memory::Bell;
use shared_memory::fifo::relay::{Inflow, Outflow};

use super::carry::Outgoing;
use super::inline_progress::NicProgress;
use super::queue::{Common, Early, Sent, Shared};
use super::worker::{Awaited, Worker};
use crate::ended::NEWS_LOOK;
use crate::forwarding::Served;
use crate::tcp::connect::{self, words};
use crate::tcp::pipe::Pipe;

/// Looks without success before the thread sleeps, if there are cores to spare.
const LOOKS: u32 = 200;

/// The longest sleep. Nothing depends on it but the notice that the end has come.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// After how long without it the thread carries again what the engine carried.
const HELD_SLEEP: Duration = Duration::from_millis(1);

/// A NIC's thread.
pub struct Proxy {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts the thread of a NIC that listens there.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(common: &Common, nic: usize, listener: TcpListener) -> io::Result<Self> {
        let acceptor = Acceptor::new(listener, &common.key, &[Kind::Net], Until::Heard)?;
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
            serving: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            helped: AtomicU32::new(0),
        });
        let worker = Arc::new(Mutex::new(Worker {
            shared: Arc::clone(&shared),
            own_bell: common.own_bell.clone(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            receiving: BTreeMap::new(),
            early: Vec::new(),
            over: Vec::new(),
            began: Instant::now(),
        }));
        let mut driver = Driver {
            shared: Arc::clone(&shared),
            worker: Arc::clone(&worker),
            acceptor,
            bell: common.bell.clone(),
            looks: if common.spare_cores { LOOKS } else { 0 },
        };
        let thread = std::thread::Builder::new()
            .name(format!("proxy of NIC {nic}"))
            .spawn(move || driver.run())?;
        Ok(Self {
            shared,
            worker,
            thread: Some(thread),
        })
    }

    /// From now on carries what is posted to a FIFO.
    ///
    /// # Errors
    /// The other host cannot be connected to; the text says why.
    pub fn send(
        &self,
        route: &Route,
        slots: Box<dyn Outflow>,
        options: &ConnectOptions,
    ) -> Result<(), Failure> {
        // The inbox of a rank that still works takes everything.
        self.hand().send(route, slots, None, options).map(|_| ())
    }

    /// By which other threads give it work.
    pub(crate) fn hand(&self) -> Hand {
        Hand(Arc::clone(&self.shared))
    }

    /// Whether it carries for other ranks.
    pub fn serves(&self) -> bool {
        self.shared.serving.load(Ordering::Acquire) > 0
    }

    /// By which the engine carries in its place.
    pub(crate) fn nic_progress(&self) -> NicProgress {
        NicProgress::new(Arc::clone(&self.shared), Arc::clone(&self.worker))
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
        // An engine may still make progress inline.
        self.worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .close();
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
        options: &ConnectOptions,
    ) -> Result<bool, Failure> {
        let shared = &self.0;
        let streams = connect::connect(
            route,
            options.to,
            &shared.key,
            options.sockets,
            options.longest,
        );
        let streams = streams.map_err(|ending| {
            let place = &shared.places[route.to as usize];
            let what = format!("{place}: {} to {} {ending}", words(route), options.to);
            Failure::new(route.to, what)
        })?;
        let pipes = streams
            .into_iter()
            .map(|it| Box::new(Arc::new(it)) as Box<dyn Pipe>);
        let pace = shared.timing.beat;
        let outgoing = Outgoing::new(slots, pipes.collect(), options.checks, pace);
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
pub struct ConnectOptions {
    /// Where the receiver listens.
    pub to: SocketAddr,
    /// Sockets.
    pub sockets: u16,
    /// Whether slots carry checksums.
    pub checks: bool,
    /// How long connecting may take.
    pub longest: Duration,
}

/// What the thread does.
struct Driver {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
    acceptor: Acceptor,
    bell: Bell,
    looks: u32,
}

impl Driver {
    fn run(&mut self) {
        let mut looks = 0;
        let mut helped = self.shared.helped.load(Ordering::Relaxed);
        let own = Arc::clone(&self.worker);
        loop {
            let mut worker = own.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(ending) = worker.take_inbox() else {
                return;
            };
            if self.shared.held.load(Ordering::Acquire) && !ending {
                let now = self.shared.helped.load(Ordering::Relaxed);
                if now != helped {
                    helped = now;
                    self.sleep_while_held(worker);
                    continue;
                }
                // The engine does something else now.
                self.shared.held.store(false, Ordering::Release);
            }
            if worker.go_on() {
                looks = 0;
                continue;
            }
            if ending && worker.is_drained() {
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
            self.bell
                .announce_sleep(worker.served().filter_map(Served::bell));
            if worker.go_on() {
                looks = 0;
            } else {
                let awaited = worker.awaited();
                let longest = match worker.awaits_news() {
                    true => NEWS_LOOK,
                    false => LONGEST_SLEEP,
                };
                // Whoever takes the worker from now on wakes this thread.
                drop(worker);
                self.sleep(&awaited, longest);
                let worker = &mut own.lock().unwrap_or_else(PoisonError::into_inner);
                worker.look_at_served();
            }
            self.bell.announce_waking();
        }
    }

    /// The engine carries what is this rank's own. Other ranks wake this thread.
    fn sleep_while_held(&mut self, mut worker: MutexGuard<'_, Worker>) {
        let serves = worker.serves();
        if serves {
            for bell in worker.served().filter_map(Served::bell) {
                bell.announce_sleep(std::iter::empty());
            }
            if worker.go_on() {
                return;
            }
        }
        let awaited = match serves {
            true => worker.awaited_for_served(),
            false => Awaited::default(),
        };
        drop(worker);
        self.sleep(&awaited, HELD_SLEEP);
        if serves {
            let worker = &mut self.worker.lock().unwrap_or_else(PoisonError::into_inner);
            worker.look_at_served();
        }
    }

    fn sleep(&mut self, awaited: &Awaited, longest: Duration) {
        let alarm = &self.shared.alarms[self.shared.own];
        let mut fds = vec![
            PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN),
            PollFd::new(&self.acceptor, PollFlags::IN),
        ];
        for (sockets, flags) in [
            (&awaited.readable, PollFlags::IN),
            (&awaited.writable, PollFlags::OUT),
        ] {
            let sockets = sockets.iter();
            fds.extend(sockets.map(|it| PollFd::from_borrowed_fd(it.as_fd(), flags)));
        }
        let due = self.acceptor.next_deadline();
        let left = due.map(|it| it.saturating_duration_since(Instant::now()));
        let longest = left.map_or(longest, |it| it.min(longest));
        let timeout = Timespec::try_from(longest).ok();
        // A signal only ends the sleep early.
        let _ = poll(&mut fds, timeout.as_ref());
        let called = !fds[0].revents().is_empty();
        let knocked = !fds[1].revents().is_empty();
        if called {
            let _ = rustix::io::read(alarm, &mut [0; 8]);
        }
        if knocked || due.is_some_and(|it| Instant::now() >= it) {
            self.accept();
        }
    }

    /// Whoever connects and proves that it belongs to the job says which FIFO it is about.
    fn accept(&mut self) {
        for arrived in self.acceptor.accept() {
            // One that says something else is dropped, and its sender says so.
            let Ok((hello, stream)) = connect::accepted(arrived) else {
                continue;
            };
            if let Some(route) = hello.route(self.shared.rank) {
                self.shared.inbox().early.push(Early {
                    route,
                    socket: hello.socket,
                    sockets: hello.sockets,
                    stream,
                });
            }
        }
    }
}
