//! Work of streams: how it is submitted, what waits for it, and what a capture forbids.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Refusal, Section, ensure, refuse};
use crate::driver::Driver;
use crate::report;
use crate::stream::{Capture, Item, Limits, Stream, Work};
use crate::table::Found;

/// The legacy stream's other name, `CU_STREAM_LEGACY`.
const LEGACY: u64 = 1;

/// The modes of captures and of threads, `CUstreamCaptureMode`.
const GLOBAL: u32 = 0;
pub const RELAXED: u32 = 2;

thread_local! {
    /// This thread's mode.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Sets this thread's mode. Returns the mode before.
pub fn exchange_mode(mode: u32) -> u32 {
    MODE.replace(mode)
}

impl Driver {
    /// Blocks while a launch that waits for room holds the context's lock.
    pub fn pass(&self, device: usize) {
        if self.machine.setup.launch_lock {
            drop(self.hold(device));
        }
    }

    fn hold(&self, device: usize) -> MutexGuard<'_, ()> {
        let lock = &self.contexts[device].lock;
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails after a wait for a device with the error that sticks to its context, also with one
    /// that only a wait finds.
    ///
    /// # Errors
    /// A kernel failed.
    pub fn waited(&self, device: usize) -> Answer {
        let late = self.contexts[device].late.swap(0, Ordering::AcqRel);
        if late != 0 {
            let fault = &self.contexts[device].fault;
            let _ = fault.compare_exchange(0, late, Ordering::AcqRel, Ordering::Acquire);
            report::note(format!("fault GPU {device}: error {late} shows late"));
        }
        self.sound(device)
    }

    /// Waits for all work of a device.
    pub fn wait_for_all(&self, device: usize) {
        let streams: Vec<_> = {
            let objects = self.objects();
            let own = objects.streams.all().filter(|(_, it)| it.device == device);
            own.map(|(_, it)| Arc::clone(it)).collect()
        };
        let legacy = &self.contexts[device].legacy;
        for stream in streams.iter().chain([legacy]) {
            stream.wait_for(stream.submitted());
        }
    }

    /// Waits for all work of a device, if the machine file says that such calls do.
    pub fn settle(&self, device: usize) {
        if self.machine.setup.calls_wait {
            self.wait_for_all(device);
        }
    }

    /// As [`Self::settle`], of all devices: for calls that belong to no context.
    pub fn settle_all(&self) {
        for device in 0..self.contexts.len() {
            self.settle(device);
        }
    }

    /// A stream of the current context by its handle.
    ///
    /// # Errors
    /// It is no stream, was destroyed, or is of another context.
    pub fn stream(&self, device: usize, handle: u64) -> Answer<Arc<Stream>> {
        let invalid =
            |rule: &str| refuse(CUresult::CUDA_ERROR_INVALID_HANDLE, Section::Stream, rule);
        if handle == 0 || handle == LEGACY {
            return Ok(Arc::clone(&self.contexts[device].legacy));
        }
        match self.objects().streams.find(handle) {
            Found::Live(stream) if stream.device == device => Ok(Arc::clone(stream)),
            Found::Live(_) => invalid("the stream is of another context than the current one"),
            Found::Dead => invalid("the stream was destroyed"),
            Found::Unknown => invalid("the handle is no stream"),
        }
    }

    /// Whether a stream is a legacy stream.
    pub fn is_legacy(&self, stream: &Arc<Stream>) -> bool {
        Arc::ptr_eq(stream, &self.contexts[stream.device].legacy)
    }

    /// Submits work to a stream. Blocking streams and the legacy stream wait for each other.
    ///
    /// # Errors
    /// The host can start no thread.
    pub fn submit(
        &self,
        stream: &Arc<Stream>,
        work: Work,
        is_launch: bool,
        bytes: usize,
    ) -> Answer<u64> {
        let legacy = &self.contexts[stream.device].legacy;
        let after: Vec<(Arc<Stream>, u64)> = if self.is_legacy(stream) {
            let objects = self.objects();
            let others = objects.streams.all().map(|(_, it)| it);
            let others = others.filter(|it| it.device == stream.device && it.blocking);
            others.map(|it| (Arc::clone(it), it.submitted())).collect()
        } else if stream.blocking {
            vec![(Arc::clone(legacy), legacy.submitted())]
        } else {
            Vec::new()
        };
        let item = Item {
            work,
            after,
            is_launch,
            bytes,
        };
        let setup = &self.machine.setup;
        let limits = Limits {
            launches: setup.queue,
            bytes: setup.queue_bytes,
        };
        let hold = || setup.launch_lock.then(|| self.hold(stream.device));
        let submitted = stream.submit(item, limits, hold);
        submitted.map_err(|error| Refusal {
            error: CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32,
            section: Section::Machine,
            rule: error.to_string(),
        })
    }

    /// Fails if a capture forbids a call that is not safe beside it, and makes that capture
    /// invalid. Such calls wait, ask whether work has ended, allocate, or use the legacy stream
    /// implicitly.
    ///
    /// # Errors
    /// This thread's mode is not `RELAXED`, and a capture forbids the call: this thread's, unless
    /// its mode is `RELAXED`; or another thread's, if both modes are `GLOBAL`.
    pub fn not_while_capturing(&self) -> Answer {
        let (own, mode) = (std::thread::current().id(), MODE.get());
        if mode == RELAXED {
            return Ok(());
        }
        let objects = self.objects();
        let mut broken = false;
        for (_, stream) in objects.streams.all() {
            stream.with_capture(|capture| {
                let forbids = match capture.thread == own {
                    true => capture.mode != RELAXED,
                    false => capture.mode == GLOBAL && mode == GLOBAL,
                };
                capture.invalid |= forbids;
                broken |= forbids;
            });
        }
        ensure(
            !broken,
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            Section::Stream,
            "a capture forbids this thread calls that are not safe beside it",
        )
    }

    /// Fails if a blocking stream of a device captures, because work of the legacy stream would
    /// have to wait for it, and makes that capture invalid.
    ///
    /// # Errors
    /// One does.
    pub fn no_blocking_capture(&self, device: usize) -> Answer {
        self.without_blocking_capture(device, |capture| capture.invalid = true)
    }

    /// Fails as [`Self::no_blocking_capture`], and leaves the capture as it is.
    ///
    /// # Errors
    /// A blocking stream of the device captures.
    pub fn can_ask_legacy(&self, device: usize) -> Answer {
        self.without_blocking_capture(device, |_| ())
    }

    fn without_blocking_capture(&self, device: usize, found: impl Fn(&mut Capture)) -> Answer {
        let objects = self.objects();
        let mut broken = false;
        for (_, stream) in objects.streams.all() {
            if stream.device == device && stream.blocking {
                broken |= stream.with_capture(&found).is_some();
            }
        }
        ensure(
            !broken,
            CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            Section::Stream,
            "the legacy stream is used while a blocking stream captures",
        )
    }
}
