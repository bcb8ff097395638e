//! The context and capture mode of a thread of the program, kept around calls of the driver.

use std::marker::PhantomData;

use cudarc::driver::{result, sys};

/// The calling thread's context and capture mode, which are as before when this is dropped. Until
/// then calls of the driver by this thread disturb no capture of a CUDA graph by the program, and
/// no capture forbids them: in CUDA's default mode, a question about an event makes captures of
/// other threads invalid.
#[derive(Debug)]
pub struct CallersContext {
    context: sys::CUcontext,
    /// `None`: the driver was not initialized, so nobody captures.
    mode: Option<sys::CUstreamCaptureMode>,
    /// It is for this thread.
    of_thread: PhantomData<*const ()>,
}

impl CallersContext {
    /// Notes the context that is current. The driver's library was found before
    /// ([`Cuda::open`](crate::driver::Cuda::open)).
    pub fn keep() -> Self {
        let current = result::ctx::get_current();
        Self {
            context: current.ok().flatten().unwrap_or(std::ptr::null_mut()),
            mode: exchange_mode(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED),
            of_thread: PhantomData,
        }
    }
}

impl Drop for CallersContext {
    fn drop(&mut self) {
        // A context that has ended meanwhile stays as it is.
        // SAFETY: the driver gave it, or it is null, which means none.
        let _ = unsafe { sys::cuCtxSetCurrent(self.context) };
        self.mode.and_then(exchange_mode);
    }
}

/// Sets the thread's capture mode. Returns the mode before.
fn exchange_mode(mut mode: sys::CUstreamCaptureMode) -> Option<sys::CUstreamCaptureMode> {
    // SAFETY: the driver reads a mode, and writes one.
    let exchanged = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    exchanged.result().ok().map(|()| mode)
}
