//! The proxy threads of a rank.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shared_memory::{Bell, Yielder};

use super::inline_progress::{InlineProgress, ThreadProgress};
use super::queue::{Common, ProxyQueues, ProxyState};
use super::readiness::Readiness;
use super::worker::{Pass, Worker, lock};
use crate::ended::NEWS_LOOK;
use crate::forwarding::ForwardedFifo;
use crate::nic::{Nic, Nics, Waits};

/// Most proxy threads of a rank; with more NICs each drives several.
pub(crate) const MOST_THREADS: usize = 16;

/// Polls without progress before the core may do something else, if there are cores to spare.
const LOOKS: u32 = 200;

/// Polls after that, each with a yield, before the thread naps: for NICs that are polled.
const YIELDS: u32 = 50;

/// The first nap; each is twice as long as the one before.
const SHORTEST_NAP: Duration = Duration::from_micros(20);

/// The longest nap while connections are polled.
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// The longest sleep. Only noticing the end depends on it.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// After how long without inline progress the thread makes progress again. An engine that waits
/// makes progress much more often. One that computes has sent everything.
const HELD_SLEEP: Duration = Duration::from_millis(100);

/// The proxy threads of a rank.
pub(crate) struct Proxies {
    queues: ProxyQueues,
    inline: Option<Arc<InlineProgress>>,
    /// They end when this is dropped.
    _threads: Vec<Proxy>,
}

impl Proxies {
    /// Starts them.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(common: &Common) -> io::Result<Self> {
        let mut nics = common.nics.iter();
        let inline = nics.all(|nic| nic.properties().inline_progress);
        let readiness = match inline {
            true => Some(Arc::new(Readiness::new()?)),
            false => None,
        };
        let threads: io::Result<Vec<Proxy>> = (0..common.alarms.len())
            .map(|own| Proxy::start(common, own, readiness.as_ref()))
            .collect();
        let threads = threads?;
        Ok(Self {
            queues: ProxyQueues {
                nics: Arc::clone(&common.nics),
                threads: threads.iter().map(|it| Arc::clone(&it.shared)).collect(),
            },
            inline: readiness.map(|readiness| {
                Arc::new(InlineProgress {
                    threads: threads.iter().map(Proxy::thread_progress).collect(),
                    readiness,
                    many: AtomicBool::new(false),
                    spare_cores: common.spare_cores,
                    crowded: common.crowded,
                })
            }),
            _threads: threads,
        })
    }

    /// Their queues.
    pub(crate) const fn queues(&self) -> &ProxyQueues {
        &self.queues
    }

    /// Inline progress on all NICs, if they allow it.
    pub(crate) fn inline(&self) -> Option<Arc<InlineProgress>> {
        self.inline.clone()
    }
}

/// A proxy thread.
struct Proxy {
    shared: Arc<ProxyState>,
    worker: Arc<Mutex<Worker>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    fn start(common: &Common, own: usize, readiness: Option<&Arc<Readiness>>) -> io::Result<Self> {
        let own_bell = common.own_bell.clone();
        let own_bell = match readiness {
            Some(readiness) => own_bell.with_alarms(readiness.alarms()),
            None => own_bell,
        };
        let shared = Arc::new(ProxyState {
            inbox: Mutex::default(),
            pending: AtomicBool::new(false),
            alarms: Arc::clone(&common.alarms),
            own,
            drained: AtomicBool::new(false),
            forwarding: AtomicUsize::new(0),
            held: AtomicBool::new(false),
            helped: AtomicU32::new(0),
        });
        let worker = Arc::new(Mutex::new(Worker {
            shared: Arc::clone(&shared),
            nics: Arc::clone(&common.nics),
            rank: common.rank,
            places: Arc::clone(&common.places),
            alarm: common.alarm.clone(),
            own_bell: own_bell.clone(),
            readiness: readiness.cloned(),
            next: 0,
            unwatched: false,
            looked: Duration::ZERO,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            unclosed_outgoing: Vec::new(),
            unclosed_incoming: Vec::new(),
            ended: Vec::new(),
            ending: false,
            began: Instant::now(),
        }));
        let mut driver = Driver {
            shared: Arc::clone(&shared),
            worker: Arc::clone(&worker),
            nics: Arc::clone(&common.nics),
            accept_at: None,
            bell: common.bell.clone(),
            own_bell,
            looks: if common.spare_cores { LOOKS } else { 0 },
            yielder: Yielder::default(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("proxy {own}"))
            .spawn(move || driver.run())?;
        Ok(Self {
            shared,
            worker,
            thread: Some(thread),
        })
    }

    fn thread_progress(&self) -> ThreadProgress {
        ThreadProgress::new(Arc::clone(&self.shared), Arc::clone(&self.worker))
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
        lock(&self.worker).close();
    }
}

/// The work of a proxy thread.
struct Driver {
    shared: Arc<ProxyState>,
    worker: Arc<Mutex<Worker>>,
    nics: Nics,
    /// When peers are to be accepted although none has connected.
    accept_at: Option<Instant>,
    bell: Bell,
    own_bell: Bell,
    looks: u32,
    yielder: Yielder,
}

impl Driver {
    fn run(&mut self) {
        let (mut looks, mut nap) = (0, SHORTEST_NAP);
        let mut helped = (self.shared.helped.load(Ordering::Relaxed), Instant::now());
        let own = Arc::clone(&self.worker);
        let yields = match self.nics().any(|nic| nic.properties().polled) {
            true => YIELDS,
            false => 0,
        };
        loop {
            let mut worker = lock(&own);
            if !worker.take_inbox() {
                break;
            }
            if self.shared.held.load(Ordering::Acquire) && !worker.ending {
                let (count, now) = (self.shared.helped.load(Ordering::Relaxed), Instant::now());
                if count != helped.0 {
                    helped = (count, now);
                }
                if now < helped.1 + HELD_SLEEP {
                    self.sleep_while_held(worker);
                    continue;
                }
                // The engine does something else now.
                self.shared.held.store(false, Ordering::Release);
            }
            if worker.progress(Pass::All) {
                self.own_bell.ring();
                (looks, nap) = (0, SHORTEST_NAP);
                continue;
            }
            if worker.ending && worker.is_drained() {
                self.shared.drained.store(true, Ordering::Release);
            }
            if looks < self.looks {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            if looks < self.looks + yields && self.yielder.try_yield(Instant::now()).is_some() {
                looks += 1;
                continue;
            }
            let forwarded = worker.forwarded().filter_map(ForwardedFifo::bell);
            self.bell.announce_sleep(forwarded);
            if worker.progress(Pass::All) {
                self.own_bell.ring();
                (looks, nap) = (0, SHORTEST_NAP);
            } else {
                let awaited = worker.awaited();
                let longest = if awaited.polled {
                    let next = (nap * 2).min(LONGEST_NAP);
                    std::mem::replace(&mut nap, next)
                } else if worker.awaits_news() {
                    NEWS_LOOK
                } else {
                    LONGEST_SLEEP
                };
                // From now on, an engine that makes progress inline wakes this thread.
                drop(worker);
                self.sleep(&awaited, longest);
                lock(&own).look_at_forwarded();
            }
            self.bell.announce_waking();
        }
        let mut worker = lock(&own);
        if worker.ending {
            worker.await_ends();
        }
    }

    /// The engine drives this rank's own connections. Other ranks wake this thread.
    fn sleep_while_held(&mut self, mut worker: MutexGuard<'_, Worker>) {
        let forwards = worker.forwards();
        if forwards {
            for bell in worker.forwarded().filter_map(ForwardedFifo::bell) {
                bell.announce_sleep(std::iter::empty());
            }
            if worker.progress(Pass::Forwarded) {
                return;
            }
        }
        let awaited = match forwards {
            true => worker.awaited_for_forwarded(),
            false => Waits::default(),
        };
        drop(worker);
        self.sleep(&awaited, HELD_SLEEP);
        if forwards {
            lock(&self.worker).look_at_forwarded();
        }
    }

    /// The NICs that this thread drives.
    fn nics(&self) -> impl Iterator<Item = &dyn Nic> {
        let nics = self.nics.iter().skip(self.shared.own);
        nics.step_by(self.shared.alarms.len()).map(|it| &**it)
    }

    fn sleep(&mut self, awaited: &Waits, longest: Duration) {
        let alarm = &self.shared.alarms[self.shared.own];
        let mut fds = vec![PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN)];
        let arrivals = self.nics().filter_map(|nic| nic.arrivals());
        fds.extend(arrivals.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)));
        let acceptors = fds.len();
        for (sockets, flags) in [
            (&awaited.readable, PollFlags::IN),
            (&awaited.writable, PollFlags::OUT),
        ] {
            let sockets = sockets.iter();
            fds.extend(sockets.map(|it| PollFd::from_borrowed_fd(it.as_fd(), flags)));
        }
        let due = self.accept_at;
        let left = due.map(|it| it.saturating_duration_since(Instant::now()));
        let longest = left.map_or(longest, |it| it.min(longest));
        let timeout = Timespec::try_from(longest).ok();
        // A signal only ends the sleep early.
        let _ = poll(&mut fds, timeout.as_ref());
        let is_ready = |it: &PollFd<'_>| !it.revents().is_empty();
        let woken = is_ready(&fds[0]);
        let connected = fds[1..acceptors].iter().any(is_ready);
        if woken {
            let _ = rustix::io::read(alarm, &mut [0; 8]);
        }
        if connected || due.is_some_and(|it| Instant::now() >= it) {
            self.accept_at = self.nics().filter_map(Nic::accept).min();
            // An engine that sleeps on the sockets does not know the new ones.
            self.own_bell.ring();
        }
    }
}
