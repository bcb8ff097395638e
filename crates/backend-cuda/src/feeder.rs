//! Submits the launches of a GPU. If it launches several times, a GPU has a thread for it, a
//! *feeder*.
//!
//! The driver's queue of a stream is bounded, and a launch that finds it full blocks until a kernel
//! has ended, perhaps with a lock that other calls need. The thread that polls a launch must not
//! block so: it moves network data for which the kernels wait, and aborts them when a peer fails.
//! Feeders submit few launches ahead and never fill a queue. They also begin together, so that the
//! time of a GPU does not contain the launches of others.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use device_runtime::driver::Start;
use device_runtime::layout::Launch;
use device_runtime::{DeviceCopy, Repeats};

use crate::callers_context::CallersContext;
use crate::device::Device;
use crate::error::{is_pending, words};
use crate::graph::Graph;
use crate::handles::caller;

/// Events between launches, *marks*, that tell how far a GPU is.
pub(crate) const MARKS: usize = 4;

/// Most submissions between two marks. [`MARKS`] times as many are pending.
const MOST_BETWEEN: u32 = 16;

/// Most submissions of a feeder that have not ended.
pub(crate) const MOST_AHEAD: u32 = MARKS as u32 * MOST_BETWEEN;

/// Submissions that take longer than this have a mark each.
const SLOW: Duration = Duration::from_millis(1);

/// Polls of a mark before a feeder sleeps between two of them.
const SPINS: u32 = 100;

/// That sleep.
const NAP: Duration = Duration::from_micros(20);

/// No flags of a wait for an event.
const WAIT: sys::CUevent_wait_flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;

/// A launch on one GPU, prepared.
pub(crate) struct Ready {
    pub device: Arc<Device>,
    pub launch: Box<Launch>,
    pub function: sys::CUfunction,
    pub blocks: u32,
    pub threads: u32,
    /// Recorded before and after the launches; the running launch owns them.
    pub begin: sys::CUevent,
    pub end: sys::CUevent,
    pub marks: [sys::CUevent; MARKS],
    pub graph: Option<Graph>,
}

// SAFETY: functions and events are handles that the driver lets any thread use.
unsafe impl Send for Ready {}

/// Submits a kernel with these blocks and threads to a stream once; `remote`: in the remote memory
/// synchronization domain.
///
/// # Safety
/// The function takes one [`Launch`] by value, and is of the stream's context, which is current.
/// The addresses in it are of memory that lives until the kernel has ended.
pub(crate) unsafe fn launch(
    function: sys::CUfunction,
    (blocks, threads): (u32, u32),
    argument: &mut Launch,
    stream: sys::CUstream,
    remote: bool,
) -> Result<(), DriverError> {
    let mut arguments = [(&raw mut *argument).cast::<c_void>()];
    let mut domain = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue {
            memSyncDomain: sys::CUlaunchMemSyncDomain::CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE,
        },
    };
    let config = sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream,
        attrs: &raw mut domain,
        numAttrs: u32::from(remote),
    };
    // SAFETY: the caller's promise.
    unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function,
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    }
    .result()
}

impl Ready {
    /// Submits the kernel to the GPU's stream once: in the remote memory synchronization domain, so
    /// that its fences for other GPUs do not wait for stores of other kernels.
    ///
    /// Its blocks wait for each other, so all must be resident at once, which [`Cuda::start_all`]
    /// has checked. A cooperative launch would promise it, but is slower and need not overlap with
    /// those of other communicators.
    ///
    /// [`Cuda::start_all`]: crate::Cuda::start_all
    pub fn launch(&mut self) -> Result<(), DriverError> {
        self.launch_on(self.device.stream())
    }

    fn launch_on(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        let remote = self.device.has_domains;
        let size = (self.blocks, self.threads);
        // SAFETY: the function takes one `Launch` by value. Its addresses are of memory that the
        // ranks keep until the launch has ended.
        unsafe { launch(self.function, size, &mut self.launch, stream, remote) }
    }

    /// Submits one launch between the events. In the order of other streams, it and its copies wait
    /// for their work, and they for it. It has a stream of its own, because a launch on one that is
    /// full would block, and records and waits of events do not.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn submit(&mut self, start: &Start<'_>) -> Result<(), String> {
        self.device.enter()?;
        let (device, [come, ..]) = (Arc::clone(&self.device), self.marks);
        let submitted = device.submit_among(start.streams, come, |own| {
            self.submit_between(start, own, come)
        });
        submitted.map_err(|error| self.failed(error))
    }

    fn submit_between(
        &mut self,
        start: &Start<'_>,
        own: sys::CUstream,
        come: sys::CUevent,
    ) -> Result<(), DriverError> {
        let copy = |it: &DeviceCopy| {
            // SAFETY: the caller lends the buffers until work of its streams that comes later, and
            // staging memory is there as long as the ranks.
            unsafe { result::memcpy_dtod_async(it.to, it.from, it.bytes as usize, own) }
        };
        for stream in start.streams {
            let stream = caller(*stream);
            // A wait is for the record before it, so one event serves all.
            // SAFETY: the caller gives a stream of this device; the event is of its context.
            unsafe {
                result::event::record(come, stream)?;
                result::stream::wait_event(own, come, WAIT)?;
            }
        }
        // SAFETY: the events are of the context of the stream.
        let record = |event| unsafe { result::event::record(event, own) };
        record(self.begin)?;
        start.before.iter().try_for_each(copy)?;
        // Ranks may only copy within their own memory.
        if self.blocks > 0 {
            self.launch_on(own)?;
        }
        start.after.iter().try_for_each(copy)?;
        record(self.end)?;
        for stream in start.streams {
            // SAFETY: as above.
            unsafe { result::stream::wait_event(caller(*stream), self.end, WAIT) }?;
        }
        Ok(())
    }

    /// Submits all launches between the events, few ahead of those that have ended. Returns when
    /// all have ended, or early once the gate is stopped.
    ///
    /// # Errors
    /// The driver refuses a launch, or a kernel failed.
    fn feed(&mut self, repeats: Repeats, gate: &Gate) -> Result<(), String> {
        self.device.enter()?;
        self.feed_marked(repeats, gate)
            .map_err(|error| self.failed(error))
    }

    fn feed_marked(&mut self, repeats: Repeats, gate: &Gate) -> Result<(), DriverError> {
        let together = repeats.graph.min(repeats.count).max(1);
        let mut graphs = self.graph.as_ref().map_or(0, |_| repeats.count / together);
        let mut launches = repeats.count - graphs * together;
        let (mut marked, mut ended, mut between) = (0, 0, 1);
        self.record(self.begin)?;
        loop {
            let began = Instant::now();
            while marked - ended < MARKS && graphs + launches > 0 && !gate.is_stopped() {
                for _ in 0..between {
                    if graphs > 0 {
                        self.graph.as_ref().map_or(Ok(()), Graph::launch)?;
                        graphs -= 1;
                    } else if launches > 0 {
                        self.launch()?;
                        launches -= 1;
                    }
                }
                let all = graphs + launches == 0;
                let mark = if all {
                    self.end
                } else {
                    self.marks[marked % MARKS]
                };
                self.record(mark)?;
                marked += 1;
                gate.advance();
            }
            if gate.is_stopped() {
                // The event tells when kernels have ended, and by now they are told to.
                return self.record(self.end);
            }
            if ended == marked {
                return Ok(());
            }
            let last = ended + 1 == marked && graphs + launches == 0;
            let mark = if last {
                self.end
            } else {
                self.marks[ended % MARKS]
            };
            if !self.wait(mark, gate)? {
                continue;
            }
            ended += 1;
            gate.advance();
            between = match began.elapsed() > SLOW * between {
                true => 1,
                false => (2 * between).min(MOST_BETWEEN),
            };
        }
    }

    /// Waits until an event was reached. Returns `false` if the gate is stopped before.
    fn wait(&self, event: sys::CUevent, gate: &Gate) -> Result<bool, DriverError> {
        for looks in 0_u32.. {
            // SAFETY: the event was recorded, and lives as long as the launch.
            match unsafe { result::event::query(event) } {
                Ok(()) => return Ok(true),
                Err(error) if !is_pending(error) => return Err(error),
                Err(_) if gate.is_stopped() => return Ok(false),
                Err(_) if looks < SPINS => std::thread::yield_now(),
                Err(_) => std::thread::sleep(NAP),
            }
        }
        Ok(false)
    }

    fn record(&self, event: sys::CUevent) -> Result<(), DriverError> {
        // SAFETY: the event was created with the device's context, and the stream is its own.
        unsafe { result::event::record(event, self.device.stream()) }
    }

    fn failed(&self, error: DriverError) -> String {
        let (blocks, number) = (self.blocks, self.device.number);
        format!("running {blocks} blocks on GPU {number}: {}", words(error))
    }
}

/// Whether feeders may begin, and how far they are.
#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    /// Whether feeders must end early.
    stopped: AtomicBool,
    /// Changes when launches are submitted or have ended.
    progress: AtomicU64,
}

impl Gate {
    fn wait(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self
                .changed
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// The threads that submit the launches of GPUs, one each.
#[derive(Default)]
pub(crate) struct Feeders {
    threads: Vec<JoinHandle<(Ready, Result<(), String>)>>,
    gate: Arc<Gate>,
}

impl Feeders {
    /// Starts a feeder for each launch. They begin together.
    ///
    /// # Errors
    /// The host can start no thread; then nothing was launched.
    pub fn start(all: Vec<Ready>, repeats: Repeats) -> Result<Self, String> {
        let mut feeders = Self::default();
        for mut ready in all {
            let gate = Arc::clone(&feeders.gate);
            let thread = std::thread::Builder::new().name("feeder".to_owned());
            let started = thread.spawn(move || {
                let _context = CallersContext::keep();
                gate.wait();
                let fed = ready.feed(repeats, &gate);
                (ready, fed)
            });
            match started {
                Ok(thread) => feeders.threads.push(thread),
                Err(error) => {
                    feeders.stop();
                    feeders.join_all(&mut Vec::new());
                    return Err(format!("a thread that launches kernels: {error}"));
                }
            }
        }
        feeders.gate.open();
        Ok(feeders)
    }

    /// A number that changes when launches are submitted or have ended.
    pub fn progress(&self) -> u64 {
        self.gate.progress.load(Ordering::Relaxed)
    }

    /// Lets feeders end early.
    pub fn stop(&self) {
        self.gate.stopped.store(true, Ordering::Relaxed);
        self.gate.open();
    }

    /// Adds to `submitted` the launches of feeders that have ended. Returns `true` once all have.
    ///
    /// # Errors
    /// The driver refused a launch.
    pub fn look(&mut self, submitted: &mut Vec<Ready>) -> Result<bool, String> {
        let ended = self.threads.extract_if(.., |it| it.is_finished());
        let mut outcome = Ok(());
        for thread in ended.collect::<Vec<_>>() {
            outcome = outcome.and(join(thread, submitted));
        }
        outcome.map(|()| self.threads.is_empty())
    }

    /// Waits for all feeders.
    pub fn join_all(&mut self, submitted: &mut Vec<Ready>) {
        for thread in self.threads.drain(..) {
            // What a feeder could not launch is no longer wanted.
            let _ = join(thread, submitted);
        }
    }
}

fn join(
    thread: JoinHandle<(Ready, Result<(), String>)>,
    submitted: &mut Vec<Ready>,
) -> Result<(), String> {
    match thread.join() {
        Ok((ready, outcome)) => {
            submitted.push(ready);
            outcome
        }
        Err(_) => Err("a thread that launches kernels panicked".to_owned()),
    }
}
