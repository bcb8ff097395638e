//! Streams and captures.

use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUresult;

use super::event::{self, EVENT_BYTES};
use crate::answer::{Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::{Graph, current, driver};
use crate::stream::{Stream, Work};
use crate::submission::{RELAXED, exchange_mode};
use crate::table::Found;

const SECTION: Section = Section::Stream;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const CAPTURES: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

/// `CU_EVENT_WAIT_EXTERNAL`
const WAIT_EXTERNAL: u32 = 1;

/// Priorities of streams: the documentation names the default, 0, and that less is higher.
const LOWEST: i32 = 0;
const HIGHEST: i32 = -5;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;

entry_points! {
    /// Makes a stream.
    fn cuStreamCreate(stream: Out<u64>, flags: u32) {
        let (driver, device) = current()?;
        driver.not_while_capturing()?;
        ensure(flags <= NON_BLOCKING, INVALID, SECTION, "there is no such flag")?;
        let made = Stream::new(device, flags & NON_BLOCKING == 0);
        let number = driver.objects().streams.insert(made);
        stream.put(number, SECTION)
    }

    /// Makes a stream with a priority, the nearest that there is.
    fn cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, priority: i32) {
        let (driver, device) = current()?;
        driver.not_while_capturing()?;
        ensure(flags <= NON_BLOCKING, INVALID, SECTION, "there is no such flag")?;
        let priority = priority.clamp(HIGHEST, LOWEST);
        let made = Stream::with_priority(device, flags & NON_BLOCKING == 0, priority);
        let number = driver.objects().streams.insert(made);
        stream.put(number, SECTION)
    }

    /// The priority of a stream.
    fn cuStreamGetPriority(stream: u64, priority: Out<i32>) {
        let (driver, device) = current()?;
        priority.put(driver.stream(device, stream)?.priority, SECTION)
    }

    /// The lowest and the highest priority of streams.
    fn cuCtxGetStreamPriorityRange(lowest: Out<i32>, highest: Out<i32>) {
        current()?;
        // Either may be null.
        lowest.put_if_wanted(LOWEST);
        highest.put_if_wanted(HIGHEST);
        Ok(())
    }

    /// Destroys a stream. Its pending work is still done.
    fn cuStreamDestroy_v2(stream: u64) {
        let (driver, _) = current()?;
        match driver.objects().streams.remove(stream) {
            Found::Live(stream) => {
                stream.end();
                Ok(())
            }
            Found::Dead => refuse(CUresult::CUDA_ERROR_INVALID_HANDLE, SECTION, "the stream was destroyed before"),
            Found::Unknown => refuse(CUresult::CUDA_ERROR_INVALID_HANDLE, SECTION, "the handle is no stream"),
        }
    }

    /// Waits for a stream.
    fn cuStreamSynchronize(stream: u64) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        if stream.with_capture(|capture| capture.invalid = true).is_some() {
            return refuse(CAPTURES, SECTION, "the stream captures");
        }
        driver.not_while_capturing()?;
        if driver.is_legacy(&stream) {
            driver.no_blocking_capture(device)?;
        }
        stream.wait_for(stream.submitted());
        driver.waited(device)
    }

    /// Lets later work of a stream wait for the last record of an event, of any GPU.
    fn cuStreamWaitEvent(stream: u64, event: u64, flags: u32) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        let event = event::event(driver, event)?;
        ensure(flags <= WAIT_EXTERNAL, INVALID, SECTION, "there is no such flag")?;
        event::not_captured(&event)?;
        let isolation = CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        ensure(!stream.captures(), isolation, SECTION, "the stream captures, and the event was not recorded in that capture")?;
        if driver.is_legacy(&stream) {
            driver.no_blocking_capture(device)?;
        }
        let number = event.last();
        let work: Work = Arc::new(move || event.wait_for(number));
        driver.submit(&stream, work, false, EVENT_BYTES)?;
        Ok(())
    }

    /// Whether a stream is idle.
    fn cuStreamQuery(stream: u64) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        if stream.with_capture(|capture| capture.invalid = true).is_some() {
            return refuse(CAPTURES, SECTION, "the stream captures");
        }
        driver.not_while_capturing()?;
        let not_ready = CUresult::CUDA_ERROR_NOT_READY;
        ensure(stream.is_idle(), not_ready, SECTION, "")
    }

    /// Begins a capture.
    fn cuStreamBeginCapture_v2(stream: u64, mode: u32) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        ensure(!driver.is_legacy(&stream), CAPTURES, SECTION, "the legacy stream cannot capture")?;
        ensure(mode <= RELAXED, INVALID, SECTION, "there is no such mode")?;
        let begun = stream.begin_capture(mode);
        ensure(begun, CUresult::CUDA_ERROR_ILLEGAL_STATE, SECTION, "the stream captures already")
    }

    /// Ends a capture.
    fn cuStreamEndCapture(stream: u64, graph: Out<u64>) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        let own = std::thread::current().id();
        let wrong = stream.with_capture(|it| it.mode != RELAXED && it.thread != own);
        let Some(wrong) = wrong else {
            let error = CUresult::CUDA_ERROR_ILLEGAL_STATE;
            return refuse(error, SECTION, "the stream does not capture");
        };
        let error = CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        ensure(!wrong, error, SECTION, "another thread began the capture")?;
        let Some(capture) = stream.end_capture() else {
            return Ok(());
        };
        if capture.invalid {
            graph.put_if_wanted(0);
            let error = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            return refuse(error, SECTION, "an earlier call made the capture invalid");
        }
        let made = Graph { device, nodes: capture.nodes, bytes: capture.bytes, last: Mutex::default() };
        let number = driver.objects().graphs.insert(Arc::new(made));
        graph.put(number, SECTION)
    }

    /// Sets this thread's mode, and writes the mode before in its place.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        driver()?;
        let new = mode.get(SECTION)?;
        ensure(new <= RELAXED, INVALID, SECTION, "there is no such mode")?;
        mode.put(exchange_mode(new), SECTION)
    }

    /// Whether a stream captures.
    fn cuStreamIsCapturing(stream: u64, status: Out<u32>) {
        let (driver, device) = current()?;
        let stream = driver.stream(device, stream)?;
        if driver.is_legacy(&stream) {
            driver.can_ask_legacy(device)?;
        }
        // None, active, invalidated.
        let state = stream.with_capture(|it| if it.invalid { 2 } else { 1 });
        status.put(state.unwrap_or(0), SECTION)
    }
}
