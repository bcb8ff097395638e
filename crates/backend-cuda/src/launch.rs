//! A running launch: its timing events and its abort word.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cudarc::driver::{result, sys};
use device_runtime::Running;

use crate::device::Device;
use crate::error::{Driver, Error, is_pending, words};
use crate::feeder::{Feeders, MARKS, Ready};
use crate::handles::lock;
use crate::memory::Plain;
use crate::presence;

/// How long kernels may take to end after they were told to.
const ABORTING: Duration = Duration::from_secs(5);

/// Sleep between two questions whether they have.
const NAP: Duration = Duration::from_micros(50);

/// Abort words and events for reuse, because creating them takes longer than a launch.
#[derive(Default)]
pub(crate) struct Spare {
    pub(crate) words: Mutex<Vec<AbortWord>>,
    pub(crate) events: Mutex<Vec<LaunchEvents>>,
}

/// Events of a launch on one device.
pub(crate) struct LaunchEvents {
    pub(crate) device: Arc<Device>,
    /// Whether `begin` and `end` tell times.
    pub(crate) timed: bool,
    pub(crate) begin: sys::CUevent,
    pub(crate) end: sys::CUevent,
    /// Recorded between launches, without times.
    pub(crate) marks: [sys::CUevent; MARKS],
}

// SAFETY: events are handles that the driver lets any thread use.
unsafe impl Send for LaunchEvents {}

impl Drop for LaunchEvents {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            let all = [self.begin, self.end].into_iter().chain(self.marks);
            for event in all.filter(|event| !event.is_null()) {
                // SAFETY: created by `Cuda::timed`, destroyed once.
                let _ = unsafe { result::event::destroy(event) };
            }
        }
    }
}

/// A 32-bit word in host memory that kernels poll.
pub(crate) struct AbortWord {
    pub(crate) word: *mut u32,
    _page: Arc<Page>,
}

// SAFETY: it is only written and read as a whole, by a volatile access.
unsafe impl Send for AbortWord {}

/// Pinned memory for words.
struct Page(*mut u8);

// SAFETY: it is only used through its words.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// Bytes of a page, and of a word in it, which is alone on its cache line.
const PAGE_BYTES: usize = 4096;
const WORD_BYTES: usize = 64;

impl AbortWord {
    /// As many words as a page has: allocating one may wait for kernels that run.
    pub(crate) fn page() -> Result<Vec<Self>, Error> {
        let what = || "allocating pinned memory".to_owned();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current; the memory is freed by `drop`.
        let page = unsafe { result::malloc_host(PAGE_BYTES, flags) }.to(what)?;
        let page = Arc::new(Page(page.cast()));
        let word = |at: usize| {
            let word: *mut u32 = page.0.wrapping_add(at).cast();
            // SAFETY: it is in the page, which was allocated just now and is aligned.
            unsafe { word.write_volatile(0) };
            Self {
                word,
                _page: Arc::clone(&page),
            }
        };
        Ok((0..PAGE_BYTES).step_by(WORD_BYTES).map(word).collect())
    }

    /// Whether the host or a kernel has set it.
    pub(crate) fn is_set(&self) -> bool {
        // SAFETY: as in `set`.
        unsafe { self.word.read_volatile() != 0 }
    }

    pub(crate) fn set(&self) {
        // SAFETY: it is there until this is dropped.
        unsafe { self.word.write_volatile(1) };
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: allocated by `page`, freed once, after the kernels that look at it have ended.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

/// A running launch.
pub struct RunningLaunch {
    pub(crate) spare: Arc<Spare>,
    pub(crate) abort: Option<AbortWord>,
    pub(crate) aborted: bool,
    pub(crate) timed: Vec<LaunchEvents>,
    /// Parts that do not fit into the arguments, in device memory.
    pub(crate) more: Vec<Plain>,
    /// The submitted launches, with their graphs.
    pub(crate) submitted: Vec<Ready>,
    /// Threads that still submit launches.
    pub(crate) feeders: Feeders,
    /// Why no graph was used although one was requested.
    pub(crate) without_graph: Option<String>,
    /// Whether everything was submitted in the order of other streams, and later launches may
    /// follow it.
    pub(crate) in_order: bool,
}

impl Running for RunningLaunch {
    fn poll(&mut self) -> Result<bool, String> {
        match self.feeders.look(&mut self.submitted) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                // Kernels of other GPUs wait for the missing ones.
                self.abort();
                return Err(why);
            }
        }
        // All GPUs are asked, because one that waits for a failed one never ends.
        let mut ended = true;
        for LaunchEvents { device, end, .. } in &self.timed {
            if let Err(why) = device.enter() {
                self.abort();
                return Err(why);
            }
            // SAFETY: the event was recorded, and lives until this is dropped.
            match unsafe { result::event::query(*end) } {
                Ok(()) => {}
                Err(error) if is_pending(error) => ended = false,
                Err(error) => {
                    let why = format!("GPU {}: a kernel failed: {}", device.number, words(error));
                    // Kernels of other GPUs wait for this one.
                    self.abort();
                    return Err(why);
                }
            }
        }
        Ok(ended)
    }

    fn has_begun(&mut self) -> bool {
        let begun = |LaunchEvents { device, begin, .. }: &LaunchEvents| {
            // SAFETY: the event was recorded, and lives until this is dropped.
            let asked = device
                .enter()
                .map(|()| unsafe { result::event::query(*begin) });
            // A GPU that reports an error runs nothing any more.
            !matches!(asked, Ok(Err(error)) if is_pending(error))
        };
        !self.in_order || self.timed.iter().all(begun)
    }

    fn progress(&self) -> u64 {
        self.feeders.progress()
    }

    fn abort(&mut self) {
        self.aborted = true;
        self.feeders.stop();
        if let Some(abort) = &self.abort {
            abort.set();
        }
    }

    fn without_graph(&mut self) -> Option<String> {
        self.without_graph.take()
    }

    fn time_us(&mut self) -> Option<f64> {
        let mut longest: Option<f64> = None;
        for timed in &self.timed {
            let LaunchEvents {
                device, begin, end, ..
            } = timed;
            device.enter().ok()?;
            // Both were recorded on one stream and have come.
            let time = f64::from(presence::elapsed_ms(*begin, *end).ok()?) * 1e3;
            longest = Some(longest.map_or(time, |longest| longest.max(time)));
        }
        longest
    }
}

impl RunningLaunch {
    /// Whether all kernels have ended or failed, and no thread submits any more.
    fn has_ended(&mut self) -> bool {
        let submitted = loop {
            match self.feeders.look(&mut self.submitted) {
                Ok(all) => break all,
                // Those of the other GPUs are asked next.
                Err(_) => self.abort(),
            }
        };
        let ended = |LaunchEvents { device, end, .. }: &LaunchEvents| {
            if device.enter().is_err() {
                return false;
            }
            // After an abort, the last event may not have been recorded.
            let asked = match self.aborted && !self.in_order {
                true => device.query(),
                // SAFETY: the event is there until this is dropped.
                false => unsafe { result::event::query(*end) },
            };
            // A GPU that reports an error runs nothing any more.
            !asked.is_err_and(is_pending)
        };
        submitted && self.timed.iter().all(ended)
    }

    /// Leaves kernels that do not end, although they were told to. Their GPUs, and all memory that
    /// they may use, stay as they are until the process ends.
    fn give_up(&mut self) {
        for LaunchEvents { device, .. } in &self.timed {
            device.give_up();
            // Its module, stream and context stay, too.
            std::mem::forget(Arc::clone(device));
        }
        std::mem::forget(self.abort.take());
        std::mem::forget(std::mem::take(&mut self.timed));
        std::mem::forget(std::mem::take(&mut self.more));
        std::mem::forget(std::mem::take(&mut self.submitted));
    }
}

impl Drop for RunningLaunch {
    fn drop(&mut self) {
        // Kernels use the memory of this launch, and poll the abort word until they end.
        if !self.has_ended() {
            self.abort();
            let began = Instant::now();
            while !self.has_ended() {
                if began.elapsed() > ABORTING {
                    return self.give_up();
                }
                std::thread::sleep(NAP);
            }
        }
        if !self.aborted {
            lock(&self.spare.words).extend(self.abort.take());
            lock(&self.spare.events).append(&mut self.timed);
        }
    }
}
