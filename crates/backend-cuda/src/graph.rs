//! Launches that a GPU is asked for together: captured once as a graph, then run again and again.

use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::device::Device;
use crate::error::words;

/// A graph that is ready to be launched.
#[derive(Debug)]
pub(crate) struct Graph {
    device: Arc<Device>,
    graph: sys::CUgraph,
    ready: Option<sys::CUgraphExec>,
}

// SAFETY: graphs are handles that the driver lets any thread use, one at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures what `launch` puts on the GPU's stream, and gets it ready. Nothing runs yet.
    ///
    /// # Errors
    /// The driver does not capture it. The stream is as it was before.
    pub(crate) fn capture(
        device: &Arc<Device>,
        launch: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<Self, String> {
        let failed = |error| {
            format!(
                "capturing a graph on GPU {}: {}",
                device.number,
                words(error)
            )
        };
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is the device's; nothing else uses it until this returns.
        unsafe { sys::cuStreamBeginCapture_v2(device.stream, mode) }
            .result()
            .map_err(failed)?;
        let launched = launch();
        let mut graph = std::ptr::null_mut();
        // Also when nothing was captured, for only this gives the stream back.
        // SAFETY: the capture was begun above; the driver writes the graph, or null.
        let ended = unsafe { sys::cuStreamEndCapture(device.stream, &raw mut graph) }.result();
        let mut captured = Self {
            device: Arc::clone(device),
            graph,
            ready: None,
        };
        launched.and(ended).map_err(failed)?;
        let mut ready = std::ptr::null_mut();
        // SAFETY: the graph was captured above; the driver writes a handle.
        unsafe { sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0) }
            .result()
            .map_err(failed)?;
        captured.ready = Some(ready);
        // SAFETY: both are valid. What it needs on the device is there before any kernel waits for another.
        unsafe {
            sys::cuGraphUpload(ready, device.stream)
                .result()
                .map_err(failed)?;
            result::stream::synchronize(device.stream).map_err(failed)?;
        }
        Ok(captured)
    }

    /// Puts it on the stream.
    pub(crate) fn launch(&self) -> Result<(), DriverError> {
        let Some(ready) = self.ready else {
            return Ok(());
        };
        // SAFETY: it was instantiated and lives; the stream is the device's.
        unsafe { sys::cuGraphLaunch(ready, self.device.stream) }.result()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        // SAFETY: each was made once and is destroyed once; its launches were waited for.
        unsafe {
            if let Some(ready) = self.ready {
                let _ = sys::cuGraphExecDestroy(ready);
            }
            if !self.graph.is_null() {
                let _ = sys::cuGraphDestroy(self.graph);
            }
        }
    }
}
