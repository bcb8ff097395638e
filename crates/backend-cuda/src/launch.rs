//! A running launch: its timing events and its abort word.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result, sys};
use device_runtime::Running;

use crate::device::Device;
use crate::error::{Driver, Error, words};
use crate::graph::Graph;
use crate::memory::Plain;

/// Abort words and events for reuse, because creating them takes longer than a launch.
#[derive(Default)]
pub(crate) struct Spare {
    pub(crate) words: Mutex<Vec<AbortWord>>,
    pub(crate) events: Mutex<Vec<Timed>>,
}

/// Begin and end events of a launch on one device.
pub(crate) struct Timed {
    pub(crate) device: Arc<Device>,
    pub(crate) begin: sys::CUevent,
    pub(crate) end: sys::CUevent,
}

// SAFETY: events are handles that the driver lets any thread use.
unsafe impl Send for Timed {}

impl Drop for Timed {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            for event in [self.begin, self.end] {
                // SAFETY: created by `Cuda::timed`, destroyed once.
                let _ = unsafe { result::event::destroy(event) };
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A 32-bit word in host memory that kernels poll.
#[derive(Debug)]
pub(crate) struct AbortWord(pub(crate) *mut u32);

// SAFETY: it is only written and read as a whole, by a volatile access.
unsafe impl Send for AbortWord {}

impl AbortWord {
    pub(crate) fn new() -> Result<Self, Error> {
        let what = || "allocating pinned memory".to_owned();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current; the memory is freed by `drop`.
        let word = unsafe { result::malloc_host(size_of::<u32>(), flags) }.to(what)?;
        let word: *mut u32 = word.cast();
        // SAFETY: it was allocated just now, and pages are aligned.
        unsafe { word.write_volatile(0) };
        Ok(Self(word))
    }

    fn set(&self) {
        // SAFETY: it is there until this is dropped.
        unsafe { self.0.write_volatile(1) };
    }
}

impl Drop for AbortWord {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once, after the kernels that look at it have ended.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

/// A running launch.
pub struct Launched {
    pub(crate) spare: Arc<Spare>,
    pub(crate) abort: Option<AbortWord>,
    pub(crate) aborted: bool,
    pub(crate) timed: Vec<Timed>,
    /// Parts that do not fit into the arguments, in device memory.
    pub(crate) more: Vec<Plain>,
    /// The graphs of the launch.
    pub(crate) graphs: Vec<Graph>,
    /// Why no graph was used although one was requested.
    pub(crate) without_graph: Option<String>,
}

impl Running for Launched {
    fn poll(&mut self) -> Result<bool, String> {
        for Timed { device, end, .. } in &self.timed {
            device.enter()?;
            // SAFETY: the event was recorded, and lives until this is dropped.
            match unsafe { result::event::query(*end) } {
                Ok(()) => {}
                Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => return Ok(false),
                Err(error) => {
                    return Err(format!(
                        "GPU {}: a kernel failed: {}",
                        device.number,
                        words(error)
                    ));
                }
            }
        }
        Ok(true)
    }

    fn abort(&mut self) {
        self.aborted = true;
        if let Some(abort) = &self.abort {
            abort.set();
        }
    }

    fn without_graph(&mut self) -> Option<String> {
        self.without_graph.take()
    }

    fn time_us(&mut self) -> Option<f64> {
        let mut longest: Option<f64> = None;
        for Timed { device, begin, end } in &self.timed {
            device.enter().ok()?;
            // SAFETY: both were recorded on one stream and have come.
            let time = unsafe { result::event::elapsed(*begin, *end) }.ok()?;
            let time = f64::from(time) * 1e3;
            longest = Some(longest.map_or(time, |longest| longest.max(time)));
        }
        longest
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let mut ended = true;
        for Timed { device, end, .. } in &self.timed {
            // Kernels poll the abort word until they end; only then can it be reused.
            // SAFETY: the event was recorded.
            ended &= device.enter().is_ok() && unsafe { result::event::synchronize(*end) }.is_ok();
        }
        if ended && !self.aborted {
            lock(&self.spare.words).extend(self.abort.take());
            lock(&self.spare.events).append(&mut self.timed);
        }
    }
}
