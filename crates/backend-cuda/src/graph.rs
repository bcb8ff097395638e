//! CUDA graphs: launches that are captured once and submitted together.

use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::device::Device;
use crate::error::words;

/// A graph, captured and instantiated.
#[derive(Debug)]
pub(crate) struct Graph {
    device: Arc<Device>,
    graph: sys::CUgraph,
    ready: Option<sys::CUgraphExec>,
}

// SAFETY: graphs are handles that the driver lets any thread use, one at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures the launches that `launch` submits to the GPU's stream. Nothing runs yet.
    ///
    /// # Errors
    /// The driver cannot capture them. The stream is usable as before.
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
        unsafe { sys::cuStreamBeginCapture_v2(device.stream(), mode) }
            .result()
            .map_err(failed)?;
        let launched = launch();
        let mut graph = std::ptr::null_mut();
        // Needed after errors too: only this ends the capture.
        // SAFETY: the capture was begun above; the driver writes the graph, or null.
        let ended = unsafe { sys::cuStreamEndCapture(device.stream(), &raw mut graph) }.result();
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
        // SAFETY: both are valid. The upload must end before any kernel waits for another one.
        unsafe {
            sys::cuGraphUpload(ready, device.stream())
                .result()
                .map_err(failed)?;
            result::stream::synchronize(device.stream()).map_err(failed)?;
        }
        Ok(captured)
    }

    /// Submits the graph to the stream.
    pub(crate) fn launch(&self) -> Result<(), DriverError> {
        let Some(ready) = self.ready else {
            return Ok(());
        };
        // SAFETY: it was instantiated and lives; the stream is the device's.
        unsafe { sys::cuGraphLaunch(ready, self.device.stream()) }.result()
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
