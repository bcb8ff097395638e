//! Runs launches at once, or, if they wait for other processes, on a thread of the emulator while
//! the caller watches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use device_runtime::driver::Start;
use device_runtime::layout::{Launch, LaunchPart, MOST_PARTS};
use device_runtime::{Kernel, Running};

use crate::{Bug, native};

/// Longest time of one poll of a launch.
const LOOK: Duration = Duration::from_micros(200);

/// A launch that owns the memory that its kernels read.
#[derive(Debug)]
pub struct Work {
    pub kernel: Kernel,
    /// The bug, and whether memory is weak.
    pub variant: (Bug, bool),
    pub parts: Vec<LaunchPart>,
    pub blocks: u32,
    pub threads: u32,
    /// One seed per run.
    pub seeds: Vec<u64>,
    pub remote: bool,
    pub abort: Arc<AtomicU32>,
}

impl Work {
    pub fn of(
        start: &Start<'_>,
        variant: (Bug, bool),
        seeds: Vec<u64>,
        abort: &Arc<AtomicU32>,
    ) -> Self {
        Self {
            kernel: start.kernel,
            variant,
            parts: start.parts.to_vec(),
            blocks: start.blocks(),
            threads: start.threads,
            seeds,
            remote: start.remote,
            abort: Arc::clone(abort),
        }
    }

    pub fn run(&self) -> Result<(), String> {
        let mut launch = Launch {
            abort: self.abort.as_ptr().expose_provenance() as u64,
            count: u32::try_from(self.parts.len()).unwrap_or(u32::MAX),
            ..Launch::default()
        };
        if self.parts.len() > MOST_PARTS {
            launch.more = self.parts.as_ptr().expose_provenance() as u64;
        } else {
            launch.parts[..self.parts.len()].copy_from_slice(&self.parts);
        }
        for seed in &self.seeds {
            native::emulate(
                self.kernel,
                self.variant,
                &launch,
                self.blocks,
                self.threads,
                *seed,
                self.remote,
            )?;
        }
        Ok(())
    }
}

/// A job of the thread, and the sender for its outcome.
type Job = (Vec<Work>, Sender<Result<(), String>>);

/// The thread for launches that wait for other processes. It ends with its emulator.
#[derive(Debug, Default)]
pub struct Worker(Mutex<Option<Sender<Job>>>);

impl Worker {
    pub fn start(&self, work: Vec<Work>, abort: Arc<AtomicU32>) -> Result<Emulated, String> {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, outcome) = channel();
        let jobs = match &mut *worker {
            Some(jobs) => jobs,
            none => {
                let (jobs, todo) = channel::<Job>();
                let thread = std::thread::Builder::new().name("emulator".to_owned());
                let started = thread.spawn(move || {
                    for (work, told) in todo {
                        let done = work.iter().try_for_each(Work::run);
                        // The caller may be gone.
                        let _ = told.send(done);
                    }
                });
                started.map_err(|error| format!("the emulator's thread: {error}"))?;
                none.insert(jobs)
            }
        };
        jobs.send((work, told))
            .map_err(|_| "the emulator's thread has ended".to_owned())?;
        Ok(Emulated {
            progress: LaunchProgress::Running(outcome),
            abort,
        })
    }
}

/// The progress of a launch.
#[derive(Debug)]
enum LaunchProgress {
    /// Receives the outcome.
    Running(Receiver<Result<(), String>>),
    Ended(Result<(), String>),
}

/// A running or ended launch.
#[derive(Debug)]
pub struct Emulated {
    progress: LaunchProgress,
    /// Not 0: its kernels must end.
    abort: Arc<AtomicU32>,
}

impl Emulated {
    /// A launch that has ended successfully.
    pub fn ended(abort: Arc<AtomicU32>) -> Self {
        Self {
            progress: LaunchProgress::Ended(Ok(())),
            abort,
        }
    }

    fn wait(&mut self, longest: Option<Duration>) {
        let LaunchProgress::Running(outcome) = &self.progress else {
            return;
        };
        let gone = || Err("the emulator's thread has ended".to_owned());
        self.progress = LaunchProgress::Ended(match longest {
            Some(longest) => match outcome.recv_timeout(longest) {
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => gone(),
                Ok(ended) => ended,
            },
            None => outcome.recv().unwrap_or_else(|_| gone()),
        });
    }
}

impl Running for Emulated {
    fn poll(&mut self) -> Result<bool, String> {
        self.wait(Some(LOOK));
        match &self.progress {
            LaunchProgress::Ended(outcome) => outcome.clone().map(|()| true),
            LaunchProgress::Running(_) => Ok(false),
        }
    }

    fn abort(&mut self) {
        self.abort.store(1, Ordering::Release);
    }

    fn without_graph(&mut self) -> Option<String> {
        None
    }

    fn time_us(&mut self) -> Option<f64> {
        None
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // The kernels use handed-over memory until this is dropped.
        if matches!(self.progress, LaunchProgress::Running(_)) {
            self.abort();
            self.wait(None);
        }
    }
}
