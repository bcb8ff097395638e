//! Captures of CUDA graphs by a program, while another thread asks for an event.

use std::thread;

use cudarc::driver::{DriverError, result, sys};

use super::Litmus;
use crate::callers_context::CallersContext;
use crate::error::words;

use sys::CUstreamCaptureMode_enum as Mode;

/// The modes of captures.
const MODES: [(&str, Mode); 3] = [
    ("global", Mode::CU_STREAM_CAPTURE_MODE_GLOBAL),
    ("thread-local", Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
    ("relaxed", Mode::CU_STREAM_CAPTURE_MODE_RELAXED),
];

/// Captures of a mode, and how many of them ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captures {
    /// The mode.
    pub mode: &'static str,
    /// How many there were.
    pub all: u32,
    /// Those that ended well while a thread of a communicator asked.
    pub beside_own: u32,
    /// Those that ended well while a thread in the driver's default mode asked.
    pub beside_other: u32,
}

impl Litmus<'_> {
    /// Captures nothing on a stream, `count` times in each mode and beside each kind of thread.
    ///
    /// # Errors
    /// The driver refuses a capture, or does not answer a communicator's thread.
    pub fn captures(&self, count: u32) -> Result<Vec<Captures>, String> {
        let mut found = Vec::with_capacity(MODES.len());
        for (name, mode) in MODES {
            let mut captures = Captures {
                mode: name,
                all: count,
                beside_own: 0,
                beside_other: 0,
            };
            for _ in 0..count {
                captures.beside_own += u32::from(self.capture_beside(mode, true)?);
                captures.beside_other += u32::from(self.capture_beside(mode, false)?);
            }
            found.push(captures);
        }
        Ok(found)
    }

    /// Whether a capture ends well although another thread asked for an event meanwhile.
    fn capture_beside(&self, mode: Mode, is_own: bool) -> Result<bool, String> {
        let failed = self.failed("capturing");
        let events = self.cuda.events(&self.device, true)?;
        let (event, stream) = (events.begin.expose_provenance(), self.streams[0].handle());
        // SAFETY: the stream is of the device's context, and nothing else uses it.
        unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }
            .result()
            .map_err(&failed)?;
        let asked = thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let _context = is_own.then(CallersContext::keep);
                self.device.enter()?;
                let event = std::ptr::with_exposed_provenance_mut(event);
                // SAFETY: the event lives until this function ends.
                unsafe { result::event::query(event) }.map_err(words)
            });
            asking.join()
        });
        let mut graph = std::ptr::null_mut();
        // SAFETY: the capture was begun above; the driver writes a graph, or null.
        let ended = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) }.result();
        if !graph.is_null() {
            // SAFETY: it was made just now, and is destroyed once.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
        let asked = asked.map_err(|_| "a thread that asks for an event panicked".to_owned())?;
        if is_own {
            asked?;
        }
        match ended {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}
