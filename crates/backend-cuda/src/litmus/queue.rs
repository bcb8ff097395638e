//! The launch queue: how many launches of a stream return while a kernel holds it, and which calls
//! of other threads return meanwhile.
//!
//! The kernel is released at the end of each stage, also after an error. The process must have a
//! deadline, because a driver could block the thread that releases it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use device_runtime::driver::Start;
use device_runtime::layout::{Launch, LaunchPart};
use device_runtime::{DeviceCopy, Kernel, LitmusKernel, MOST_IN_FLIGHT};

use crate::error::words;
use crate::feeder::{MOST_AHEAD, Ready};
use crate::launch::{AbortWord, LaunchEvents};
use crate::memory::Plain;

use super::{BLOCKS, Litmus, THREADS};

/// A call that has not returned after this time blocks.
const BLOCKS_AFTER: Duration = Duration::from_secs(2);

/// The same once a call blocks: the next ones may wait for a lock that it holds.
const NEXT_BLOCKS_AFTER: Duration = Duration::from_millis(250);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Threads of a warp.
const WARP: u32 = 32;

/// Bytes of a copy.
const COPY: u64 = 256;

/// A call of another thread while a kernel holds a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTime {
    /// The function.
    pub call: &'static str,
    /// When it returned, µs; `None`: it blocks.
    pub returned_us: Option<f64>,
}

/// Submissions while a kernel holds the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStage {
    /// Submissions that returned.
    pub submitted: u32,
    /// Whether the next one blocks; else no more were tried.
    pub is_full: bool,
    /// Calls of other threads meanwhile, in order.
    pub calls: Vec<CallTime>,
}

/// The launch queue of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// The collectives that [`MOST_IN_FLIGHT`] allows, each with its events and copies.
    pub in_flight: QueueStage,
    /// Launches until one blocks.
    pub full: QueueStage,
    /// Collectives and launches that the code submits without waiting.
    pub relied_on: (u32, u32),
}

/// A handle that threads may use.
#[derive(Clone, Copy)]
struct Shared<T>(T);

// SAFETY: handles of streams and events, which the driver lets any thread use.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

/// Ends the kernel that holds the stream when this is dropped.
struct Release<'a> {
    abort: &'a AbortWord,
    stop: &'a AtomicBool,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.abort.set();
    }
}

/// What a call made, to be destroyed once the kernel has ended.
enum Made {
    Nothing,
    Event(sys::CUevent),
    Memory(sys::CUdeviceptr),
    Host(*mut std::ffi::c_void),
}

// SAFETY: handles and addresses of the driver, which any thread may destroy.
unsafe impl Send for Made {}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: each was made once, in the context that is current, and nothing uses it.
        let _ = unsafe {
            match self {
                Self::Nothing => Ok(()),
                Self::Event(event) => result::event::destroy(*event),
                Self::Memory(address) => result::free_sync(*address),
                Self::Host(address) => result::free_host(*address),
            }
        };
    }
}

/// What the calls of other threads use.
struct Handles {
    /// Recorded behind the kernel that holds the stream.
    pending: sys::CUevent,
    /// For the other stream.
    other: sys::CUevent,
    stream: sys::CUstream,
    from: u64,
    to: u64,
}

/// A call; the last ones may wait for all kernels, with locks that others need.
type Call = (
    &'static str,
    fn(&Litmus<'_>, &Handles) -> Result<Made, DriverError>,
);

/// The calls, in the order in which they are tried.
const CALLS: [Call; 8] = [
    ("cuEventQuery", |_, it| {
        // SAFETY: the event lives as long as the stage.
        ready(unsafe { result::event::query(it.pending) })
    }),
    ("cuStreamQuery of another stream", |_, it| {
        // SAFETY: the stream lives as long as the stage.
        ready(unsafe { sys::cuStreamQuery(it.stream) }.result())
    }),
    ("cuEventRecord on another stream", |_, it| {
        // SAFETY: event and stream live as long as the stage.
        unsafe { result::event::record(it.other, it.stream) }.map(|()| Made::Nothing)
    }),
    ("cuLaunchKernelEx on another stream", |litmus, it| {
        let remote = litmus.device.has_domains;
        litmus
            .launch_empty(it.stream, remote)
            .map(|()| Made::Nothing)
    }),
    ("cuMemcpyDtoDAsync on another stream", |_, it| {
        // SAFETY: both places have `COPY` bytes, and live as long as the stage.
        let copied = unsafe { result::memcpy_dtod_async(it.to, it.from, COPY as usize, it.stream) };
        copied.map(|()| Made::Nothing)
    }),
    ("cuEventCreate", |_, _| {
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING;
        result::event::create(flags).map(Made::Event)
    }),
    ("cuMemAlloc", |_, _| {
        // SAFETY: a context is current.
        unsafe { result::malloc_sync(1 << 20) }.map(Made::Memory)
    }),
    ("cuMemHostAlloc", |_, _| {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current.
        unsafe { result::malloc_host(1 << 20, flags) }.map(Made::Host)
    }),
];

/// What is not ready yet is an answer, too.
fn ready(asked: Result<(), DriverError>) -> Result<Made, DriverError> {
    match asked {
        Err(error) if error.0 != sys::CUresult::CUDA_ERROR_NOT_READY => Err(error),
        _ => Ok(Made::Nothing),
    }
}

impl Litmus<'_> {
    /// Fills the queue of a stream that a kernel holds: with the collectives that may be in flight,
    /// and then with at most `most` launches.
    ///
    /// # Errors
    /// A call failed, or the kernel that holds the stream does not begin.
    pub fn queue(&self, most: u32) -> Result<Queue, String> {
        Ok(Queue {
            in_flight: self.in_flight()?,
            full: self.full(most)?,
            relied_on: (MOST_IN_FLIGHT, MOST_AHEAD),
        })
    }

    /// Submits collectives as a communicator does.
    fn in_flight(&self) -> Result<QueueStage, String> {
        let memory = Plain::new(&self.device, 2 * COPY)?;
        let copies = [DeviceCopy {
            from: memory.address,
            to: memory.address + COPY,
            bytes: COPY,
        }];
        let streams = [self.streams[0].handle().expose_provenance() as u64];
        let start = Start {
            device: 0,
            kernel: Kernel::Move,
            parts: &[],
            threads: THREADS,
            remote: false,
            streams: &streams,
            before: &copies,
            after: &copies,
        };
        let mut events = Vec::new();
        let mut all = Vec::new();
        for _ in 0..MOST_IN_FLIGHT {
            events.push(self.cuda.events(&self.device, true)?);
            all.extend(events.last().map(|it| self.ready(it)).transpose()?);
        }
        let mut next = all.iter_mut();
        self.stage(MOST_IN_FLIGHT, || match next.next() {
            Some(ready) => ready.submit(&start),
            None => Ok(()),
        })
    }

    /// Submits launches until one blocks.
    fn full(&self, most: u32) -> Result<QueueStage, String> {
        let events = self.cuda.events(&self.device, true)?;
        // As few threads as possible: a queue has as much room for launches of more.
        let mut ready = Ready {
            blocks: 1,
            threads: WARP,
            ..self.ready(&events)?
        };
        let failed = self.failed("launching");
        self.stage(most, || ready.launch().map_err(&failed))
    }

    /// A launch of the kernel of collectives that ends at once.
    fn ready(&self, events: &LaunchEvents) -> Result<Ready, String> {
        let function = self.device.module.function(Kernel::Move);
        Ok(Ready {
            device: Arc::clone(&self.device),
            launch: Box::new(Launch::default()),
            function: function.ok_or("there is no kernel that moves")?,
            blocks: BLOCKS,
            threads: THREADS,
            begin: events.begin,
            end: events.end,
            marks: events.marks,
            graph: None,
        })
    }

    /// Submits `most` times from a thread of its own while a kernel holds the device's stream, and
    /// then lets other threads call the driver.
    fn stage(
        &self,
        most: u32,
        mut submit: impl FnMut() -> Result<(), String> + Send,
    ) -> Result<QueueStage, String> {
        // All of it is made before the kernel begins.
        let memory = Plain::new(&self.device, 2 * COPY)?;
        let events = self.cuda.events(&self.device, true)?;
        let handles = Shared(Handles {
            pending: events.begin,
            other: events.end,
            stream: self.streams[1].handle(),
            from: memory.address,
            to: memory.address + COPY,
        });
        // Drivers load kernels when they are launched first.
        self.launch_empty(self.device.stream(), self.device.has_domains)
            .and_then(|()| self.launch_empty(self.streams[1].handle(), self.device.has_domains))
            .map_err(self.failed("launching"))?;
        self.wait_for_all()?;
        let mut words = AbortWord::page()?;
        let (abort, begun) = words.pop().zip(words.pop()).ok_or("a page has no words")?;
        let (stop, submitted) = (AtomicBool::new(false), AtomicU32::new(0));
        let ended = thread::scope(|scope| {
            let release = Release {
                abort: &abort,
                stop: &stop,
            };
            self.hold(&abort, &begun)?;
            // SAFETY: the event was made with the device's context, and the stream is its own.
            unsafe { result::event::record(handles.0.pending, self.device.stream()) }
                .map_err(self.failed("recording an event"))?;
            let feeder = scope.spawn(|| {
                self.device.enter()?;
                while submitted.load(Ordering::Acquire) < most && !stop.load(Ordering::Acquire) {
                    submit()?;
                    submitted.fetch_add(1, Ordering::Release);
                }
                Ok::<(), String>(())
            });
            let (mut count, mut since) = (0, Instant::now());
            while !feeder.is_finished() && since.elapsed() < BLOCKS_AFTER {
                thread::sleep(LOOK);
                let now = submitted.load(Ordering::Acquire);
                if now != count {
                    (count, since) = (now, Instant::now());
                }
            }
            let is_full = !feeder.is_finished();
            let count = submitted.load(Ordering::Acquire);
            let mut patience = BLOCKS_AFTER;
            let asked = CALLS.map(|call| {
                let (time, thread) = self.ask(scope, call, patience, &handles);
                if time.as_ref().is_ok_and(|it| it.returned_us.is_none()) {
                    patience = NEXT_BLOCKS_AFTER;
                }
                (time, thread)
            });
            drop(release);
            let fed = feeder.join();
            fed.map_err(|_| "a thread that launches panicked".to_owned())??;
            let mut calls = Vec::with_capacity(asked.len());
            for (time, thread) in asked {
                // It destroys what it made in this thread.
                drop(thread.join());
                calls.push(time?);
            }
            Ok(QueueStage {
                submitted: count,
                is_full,
                calls,
            })
        });
        // The memory of the stage is in use until then.
        self.wait_for_all()?;
        ended
    }

    /// Lets a thread call the driver. Waits until it returns, at most `patience`.
    /// The thread returns what the call made, because to destroy it could wait for the kernel.
    fn ask<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        (call, function): Call,
        patience: Duration,
        handles: &'env Shared<Handles>,
    ) -> (
        Result<CallTime, String>,
        ScopedJoinHandle<'scope, Option<Made>>,
    ) {
        let (tell, told) = mpsc::channel();
        let thread = scope.spawn(move || {
            let began = Instant::now();
            let entered = self.device.enter();
            let made = entered.and_then(|()| function(self, &handles.0).map_err(words));
            let took = began.elapsed();
            // Nobody waits for a call that blocked.
            let _ = tell.send(made.as_ref().map(|_| took).map_err(String::clone));
            made.ok()
        });
        let returned_us = match told.recv_timeout(patience) {
            Ok(Ok(took)) => Ok(Some(took.as_secs_f64() * 1e6)),
            Ok(Err(why)) => Err(format!("{call}: {why}")),
            Err(_) => Ok(None),
        };
        let time = returned_us.map(|returned_us| CallTime { call, returned_us });
        (time, thread)
    }

    /// Launches the kernel that holds the device's stream. Returns when it has begun.
    fn hold(&self, abort: &AbortWord, begun: &AbortWord) -> Result<(), String> {
        let part = LaunchPart {
            buffers: [0, 0, begun.word.expose_provenance() as u64],
            ..LaunchPart::default()
        };
        self.launch(
            LitmusKernel::Hold,
            (1, 1),
            part,
            self.device.stream(),
            abort,
        )?;
        let launched = Instant::now();
        while !begun.is_set() {
            if launched.elapsed() > self.patience {
                let patience = self.patience.as_secs_f64();
                return Err(format!(
                    "a kernel did not begin within {patience:.0} s of its launch"
                ));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn wait_for_all(&self) -> Result<(), String> {
        let own = [self.device.stream()];
        let others = self.streams.each_ref().map(|it| it.handle());
        own.into_iter()
            .chain(others)
            .try_for_each(|stream| self.wait(stream))
    }
}
