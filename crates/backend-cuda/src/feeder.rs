//! Submits the launches of a GPU. If several GPUs launch several times each, every GPU has a thread
//! for it, a *feeder*.
//!
//! A stream takes about 1,000 pending launches; the next one blocks until a kernel has ended. A
//! thread that submitted all launches of one GPU before those of the next would block for ever,
//! because kernels of the first wait for those of the next, and nobody could abort them. Feeders
//! also begin together, so that the time of a GPU does not contain the launches of others.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use cudarc::driver::{DriverError, result, sys};
use device_runtime::Repeats;
use device_runtime::layout::Launch;

use crate::device::Device;
use crate::error::words;
use crate::graph::Graph;

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
    pub graph: Option<Graph>,
}

// SAFETY: functions and events are handles that the driver lets any thread use.
unsafe impl Send for Ready {}

impl Ready {
    /// Submits the kernel to the GPU's stream once.
    pub fn launch(&mut self) -> Result<(), DriverError> {
        let mut arguments = [(&raw mut *self.launch).cast::<c_void>()];
        // SAFETY: the function takes one `Launch` by value. Its addresses are of memory that the
        // ranks keep until the launch has ended. The driver refuses a cooperative launch unless all
        // blocks can be resident at once.
        unsafe {
            result::launch_cooperative_kernel(
                self.function,
                (self.blocks, 1, 1),
                (self.threads, 1, 1),
                0,
                self.device.stream(),
                &mut arguments,
            )
        }
    }

    /// Submits all launches between the events. Ends early once `stops` returns `true`.
    ///
    /// # Errors
    /// The driver refuses a launch.
    pub fn submit_all(&mut self, repeats: Repeats, stops: impl Fn() -> bool) -> Result<(), String> {
        self.device.enter()?;
        let (blocks, number) = (self.blocks, self.device.number);
        let failed = |error| format!("starting {blocks} blocks on GPU {number}: {}", words(error));
        let together = repeats.graph.min(repeats.count).max(1);
        let runs = self.graph.as_ref().map_or(0, |_| repeats.count / together);
        let left = repeats.count - runs * together;
        let stream = self.device.stream();
        // SAFETY: the events were created with the device's context, and the stream is its own.
        unsafe { result::event::record(self.begin, stream) }.map_err(failed)?;
        if let Some(graph) = &self.graph {
            let mut runs = (0..runs).take_while(|_| !stops());
            runs.try_for_each(|_| graph.launch()).map_err(failed)?;
        }
        let mut launches = (0..left).take_while(|_| !stops());
        launches.try_for_each(|_| self.launch()).map_err(failed)?;
        // SAFETY: as above.
        unsafe { result::event::record(self.end, stream) }.map_err(failed)
    }
}

/// Whether feeders may begin.
#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    /// Whether feeders must end early.
    stopped: AtomicBool,
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
                gate.wait();
                let stops = || gate.stopped.load(Ordering::Relaxed);
                let submitted = ready.submit_all(repeats, stops);
                (ready, submitted)
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
