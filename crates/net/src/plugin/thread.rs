//! The thread of a NIC of a net plug-in. Plug-ins have nothing to sleep on, so it looks again and again: at once while
//! something goes on, then more and more rarely.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bootstrap::Failure;
use bootstrap::socket::service::Alarm;
use executor::Route;
use net_plugin::{Listening, Plugin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::{Bell, Yielder};

use super::carry::CarryError;
use super::ends::{Coming, In, Leaving, Out, Sent};
use crate::ended::Ended;
use crate::forwarding::Served;
use crate::proxy::Common;
use crate::tcp::connect::words;

/// Looks without success before others may have the core, if there are cores to spare.
const LOOKS: u32 = 200;

/// Looks after that before the thread naps.
const YIELDS: u32 = 50;

/// The first nap; each is twice as long as the one before.
const SHORTEST_NAP: Duration = Duration::from_micros(20);

/// The longest nap while something may come.
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// The longest sleep when nothing can come.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How long the end of a connection may take to come.
const END_TIME: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Inbox {
    leaving: Vec<Leaving>,
    coming: Vec<Coming>,
    ending: bool,
    stopping: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    drained: Mutex<bool>,
    alarms: Arc<[OwnedFd]>,
    own: usize,
    /// Connections of other ranks that are carried.
    serving: AtomicUsize,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drained(&self) -> MutexGuard<'_, bool> {
        self.drained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // One that cannot count further is readable anyway.
        let _ = rustix::io::write(&self.alarms[self.own], &1_u64.to_ne_bytes());
    }
}

/// A NIC's thread.
pub struct Driver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts the thread that has this number; `checks` says whether what it sends carries checksums.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(common: &Common, own: usize, plugin: &Plugin, checks: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            drained: Mutex::new(false),
            alarms: Arc::clone(&common.alarms),
            own,
            serving: AtomicUsize::new(0),
        });
        let mut worker = Worker {
            shared: Arc::clone(&shared),
            plugin: plugin.clone(),
            rank: common.rank,
            places: Arc::clone(&common.places),
            alarm: common.alarm.clone(),
            bell: common.bell.clone(),
            own_bell: common.own_bell.clone(),
            checks,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            broken: (Vec::new(), Vec::new()),
            late: Vec::new(),
            ending: false,
            looks: if common.spare_cores { LOOKS } else { 0 },
            yielder: Yielder::default(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("net plug-in {own}"))
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// From now on carries what is posted to a FIFO, of this rank or for another one, to whoever answers the question;
    /// answers no if the thread is about to end.
    pub(crate) fn send(
        &self,
        route: &Route,
        device: u32,
        slots: SlotsOut,
        ticket: u32,
        served: Option<Served>,
    ) -> bool {
        let mut inbox = self.shared.inbox();
        if inbox.stopping {
            return false;
        }
        if served.is_some() {
            self.shared.serving.fetch_add(1, Ordering::AcqRel);
        }
        inbox.leaving.push(Leaving {
            route: *route,
            device,
            slots,
            ticket,
            served,
        });
        drop(inbox);
        self.shared.wake();
        true
    }

    /// Whether it carries for other ranks.
    pub fn serves(&self) -> bool {
        self.shared.serving.load(Ordering::Acquire) > 0
    }

    /// From now on posts to a FIFO what comes by a route.
    pub fn receive(&self, route: &Route, device: u32, slots: SlotsIn, listening: Listening) {
        self.shared.inbox().coming.push(Coming {
            route: *route,
            device,
            slots,
            listening,
        });
        self.shared.wake();
    }

    /// Sends everything that was posted, and the end, within some time.
    pub fn drain(&self, until: Instant) {
        self.shared.inbox().ending = true;
        self.shared.wake();
        while !*self.shared.drained() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.inbox().stopping = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    plugin: Plugin,
    rank: u32,
    places: Arc<[String]>,
    alarm: Alarm,
    bell: Bell,
    own_bell: Bell,
    checks: bool,
    outgoing: Vec<Sent>,
    incoming: Vec<(Route, u32, In)>,
    /// Those that failed. They are closed with all others, so that the other side hears of the failure before it finds
    /// its connection closed.
    broken: (Vec<Out>, Vec<In>),
    /// Failures that are blamed on the other side: what made it fail may still be told.
    late: Vec<Ended<(Route, u32, CarryError)>>,
    ending: bool,
    looks: u32,
    yielder: Yielder,
}

impl Worker {
    fn run(&mut self) {
        let mut looks = 0;
        let mut nap = SHORTEST_NAP;
        while self.take_inbox() {
            if self.go_on() {
                (looks, nap) = (0, SHORTEST_NAP);
                continue;
            }
            if self.ending && self.outgoing.iter_mut().all(|it| it.out.is_drained()) {
                *self.shared.drained() = true;
            }
            looks += 1;
            if looks <= self.looks {
                std::hint::spin_loop();
                continue;
            }
            if looks <= self.looks + YIELDS
                && self.may_go_on()
                && self.yielder.try_yield(Instant::now()).is_some()
            {
                continue;
            }
            let served = self.outgoing.iter().filter_map(|it| it.served.as_ref());
            self.bell.announce_sleep(served.filter_map(Served::bell));
            if self.go_on() {
                (looks, nap) = (0, SHORTEST_NAP);
            } else if self.may_go_on() {
                self.sleep(nap);
                nap = (nap * 2).min(LONGEST_NAP);
            } else {
                self.sleep(LONGEST_SLEEP);
            }
            self.bell.announce_waking();
        }
        if self.ending {
            self.await_ends();
        }
    }

    /// Takes new work; answers no if it is to stop.
    fn take_inbox(&mut self) -> bool {
        let mut inbox = self.shared.inbox();
        self.ending = inbox.ending;
        for mut it in inbox.leaving.drain(..) {
            self.outgoing.push(Sent {
                route: it.route,
                device: it.device,
                served: it.served.take(),
                out: Out::Asked(Some(it)),
            });
        }
        for it in inbox.coming.drain(..) {
            self.incoming
                .push((it.route, it.device, In::Listening(Some(it))));
        }
        !inbox.stopping
    }

    /// Whether something may come without anybody ringing.
    fn may_go_on(&self) -> bool {
        !self.incoming.is_empty()
            || !self.late.is_empty()
            || self.outgoing.iter().any(|it| match &it.out {
                Out::Open(outgoing) => outgoing.is_busy(),
                Out::Asked(_) | Out::Connecting(..) => true,
            })
    }

    /// Everything goes on as far as it can; answers whether anything did.
    fn go_on(&mut self) -> bool {
        let mut went = false;
        let mut over: Vec<(Route, u32, CarryError)> = Vec::new();
        let (ending, checks) = (self.ending, self.checks);
        let (plugin, alarm) = (&self.plugin, &self.alarm);
        let serving = &self.shared.serving;
        let sent = self.outgoing.extract_if(.., |it| {
            let (route, device) = (it.route, it.device);
            let gone = it.go_on(plugin, alarm, ending, checks);
            let broken = is_over(gone, &mut went, |error| over.push((route, device, error)));
            let gone = broken || it.is_sent();
            if gone && it.served.take().is_some() {
                serving.fetch_sub(1, Ordering::AcqRel);
            }
            gone
        });
        self.broken.0.extend(sent.map(|it| it.out));
        let received = self.incoming.extract_if(.., |(route, device, it)| {
            is_over(it.go_on(plugin), &mut went, |error| {
                over.push((*route, *device, error));
            })
        });
        self.broken.1.extend(received.map(|it| it.2));
        if went {
            self.own_bell.ring();
        }
        let remote = |error: &CarryError| matches!(error, CarryError::Plugin(it) if it.is_remote());
        for (route, device, error) in over {
            if remote(&error) {
                let peer = self.peer(&route);
                let over = Ended::new((route, device, error), peer, &self.alarm);
                self.late.push(over);
            } else {
                self.tell(&route, device, &error);
            }
        }
        let alarm = &self.alarm;
        let due = self.late.extract_if(.., |it| it.is_due(alarm));
        for (route, device, error) in due.map(|it| it.what).collect::<Vec<_>>() {
            self.tell(&route, device, &error);
        }
        went
    }

    /// The rank at the other end.
    const fn peer(&self, route: &Route) -> u32 {
        if route.to == self.rank {
            route.from
        } else {
            route.to
        }
    }

    /// Makes the job fail, unless the other rank was to end anyway.
    fn tell(&self, route: &Route, device: u32, error: &CarryError) {
        let peer = self.peer(route);
        if self.alarm.is_expected(peer) {
            return;
        }
        let (culprit, other) = match error {
            CarryError::Plugin(error) if !error.is_remote() => (self.rank, peer),
            CarryError::Announced(_) => (route.from, route.to),
            _ => (peer, self.rank),
        };
        let device = &self.plugin.devices()[device as usize].name;
        let what = format!(
            "{}: {} with {} over {device} {error}",
            self.places[culprit as usize],
            words(route),
            self.places[other as usize],
        );
        self.alarm.fail(Failure::new(culprit, what));
        self.own_bell.ring();
    }

    fn sleep(&mut self, longest: Duration) {
        let alarm = &self.shared.alarms[self.shared.own];
        let mut fds = vec![PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN)];
        let served = self.outgoing.iter().filter_map(|it| it.served.as_ref());
        let speaking = served.filter(|it| !it.has_ended());
        let controls: Vec<_> = speaking.map(Served::control).collect();
        let controls = controls.iter();
        fds.extend(controls.map(|it| PollFd::from_borrowed_fd(it.as_fd(), PollFlags::IN)));
        let timeout = Timespec::try_from(longest).ok();
        // A signal only ends the sleep early.
        let _ = poll(&mut fds, timeout.as_ref());
        let said: Vec<bool> = fds.iter().map(|it| !it.revents().is_empty()).collect();
        if said[0] {
            let _ = rustix::io::read(alarm, &mut [0; 8]);
        }
        let served = self.outgoing.iter_mut().filter_map(|it| it.served.as_mut());
        let served = served.filter(|it| !it.has_ended());
        for (served, _) in served.zip(&said[1..]).filter(|(_, said)| **said) {
            served.look();
        }
    }

    /// The others have said that they are done, so their ends are here or about to come.
    fn await_ends(&mut self) {
        let until = Instant::now() + END_TIME;
        let open = |it: &In| matches!(it, In::Open(incoming) if !incoming.is_over());
        while self.incoming.iter().any(|(_, _, it)| open(it)) && Instant::now() < until {
            if !self.go_on() {
                std::thread::sleep(SHORTEST_NAP);
            }
        }
    }
}

/// Notes whether a connection went on; answers whether it is over.
fn is_over(gone: Result<bool, CarryError>, went: &mut bool, over: impl FnOnce(CarryError)) -> bool {
    match gone {
        Ok(some) => {
            *went |= some;
            false
        }
        Err(error) => {
            over(error);
            true
        }
    }
}
