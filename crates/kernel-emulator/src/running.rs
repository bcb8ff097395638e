//! Runs launches at once, or, if they wait for other processes, on a thread of the emulator while
//! the caller watches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use device_runtime::driver::Start;
use device_runtime::layout::{Launch, LaunchPart, MOST_PARTS};
use device_runtime::{Kernel, Running};

use crate::counts::AccessCounter;
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
    /// The device of each block.
    pub devices: Vec<u32>,
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
            devices: vec![start.device; start.blocks() as usize],
            threads: start.threads,
            seeds,
            remote: start.remote,
            abort: Arc::clone(abort),
        }
    }

    /// Adds the blocks of another device's kernel, which waits for this one. Returns it if they do
    /// not fit together.
    pub fn join(&mut self, other: Self) -> Result<(), Self> {
        if (self.kernel, self.threads) != (other.kernel, other.threads)
            || self.remote
            || other.remote
        {
            return Err(other);
        }
        self.parts.extend(other.parts);
        self.devices.extend(other.devices);
        Ok(())
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    /// Number of kernels that it emulates: one per device.
    fn kernels(&self) -> u64 {
        let mut devices = self.devices.clone();
        devices.sort_unstable();
        devices.dedup();
        devices.len() as u64
    }

    pub fn run(&self, counting: Option<&AccessCounter>) -> Result<(), String> {
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
            if let Some(counting) = counting {
                let devices = self.devices.iter().max().map_or(0, |most| most + 1);
                let homes = counting.homes(devices);
                let kernels = (self.kernels(), u64::from(self.blocks()));
                counting.add(kernels, devices, |counts| {
                    native::emulate_counted(
                        self.kernel,
                        &launch,
                        (&self.devices, self.threads),
                        *seed,
                        (&homes, counting.cache_bytes),
                        counts,
                    )
                })?;
                continue;
            }
            native::emulate(
                self.kernel,
                self.variant,
                &launch,
                self.blocks(),
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
    pub fn start(&self, work: Vec<Work>, abort: Arc<AtomicU32>) -> Result<EmulatedLaunch, String> {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, outcome) = channel();
        let jobs = match &mut *worker {
            Some(jobs) => jobs,
            none => {
                let (jobs, todo) = channel::<Job>();
                let thread = std::thread::Builder::new().name("emulator".to_owned());
                let started = thread.spawn(move || {
                    for (work, told) in todo {
                        let done = work.iter().try_for_each(|work| work.run(None));
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
        Ok(EmulatedLaunch {
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
pub struct EmulatedLaunch {
    progress: LaunchProgress,
    /// Not 0: its kernels must end.
    abort: Arc<AtomicU32>,
}

impl EmulatedLaunch {
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

impl Running for EmulatedLaunch {
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

impl Drop for EmulatedLaunch {
    fn drop(&mut self) {
        // The kernels use handed-over memory until this is dropped.
        if matches!(self.progress, LaunchProgress::Running(_)) {
            self.abort();
            self.wait(None);
        }
    }
}
