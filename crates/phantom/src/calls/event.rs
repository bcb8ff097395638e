//! Events.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Refusal, Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::{Driver, current, driver};
use crate::event::Event;
use crate::stream::Work;
use crate::table::Found;

const SECTION: Section = Section::Event;
const INVALID_HANDLE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

/// `CU_EVENT_DISABLE_TIMING`; the other flags are blocking waits (1) and use by processes (4).
const DISABLE_TIMING: u32 = 2;
const ALL_FLAGS: u32 = 7;

/// What a record or a wait counts against the limit of bytes of a queue.
pub const EVENT_BYTES: usize = 64;

/// An event by its handle.
///
/// # Errors
/// It is none, or was destroyed.
pub fn event(driver: &Driver, handle: u64) -> Answer<Arc<Event>> {
    match driver.objects().events.find(handle) {
        Found::Live(found) => Ok(Arc::clone(found)),
        Found::Dead => refuse(INVALID_HANDLE, SECTION, "the event was destroyed"),
        Found::Unknown => refuse(INVALID_HANDLE, SECTION, "the handle is no event"),
    }
}

/// # Errors
/// The event was last recorded in a capture.
pub fn not_captured(event: &Event) -> Answer {
    let error = CUresult::CUDA_ERROR_CAPTURED_EVENT;
    ensure(
        !event.is_captured(),
        error,
        SECTION,
        "the event was last recorded in a capture",
    )
}

fn elapsed(milliseconds: Out<f32>, begin: u64, end: u64) -> Answer {
    let driver = driver()?;
    let (begin, end) = (event(driver, begin)?, event(driver, end)?);
    for event in [&begin, &end] {
        let timed = !event.untimed && event.was_recorded();
        ensure(
            timed,
            INVALID_HANDLE,
            SECTION,
            "an event has no timing or was never recorded",
        )?;
        not_captured(event)?;
        driver.sound(event.device)?;
        ensure(
            event.is_reached(),
            CUresult::CUDA_ERROR_NOT_READY,
            SECTION,
            "",
        )?;
    }
    ensure(
        begin.device == end.device,
        INVALID_HANDLE,
        SECTION,
        "the events are of different contexts",
    )?;
    let (Some(first), Some(last)) = (begin.time(), end.time()) else {
        return refuse(INVALID_HANDLE, SECTION, "an event was never recorded");
    };
    let forth = last.saturating_duration_since(first).as_secs_f32();
    let back = first.saturating_duration_since(last).as_secs_f32();
    milliseconds.put((forth - back) * 1e3, SECTION)
}

entry_points! {
    /// Makes an event.
    fn cuEventCreate(result: Out<u64>, flags: u32) {
        let (driver, device) = current()?;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        ensure(flags & !ALL_FLAGS == 0, invalid, SECTION, "there is no such flag")?;
        let made = Event::new(device, flags & DISABLE_TIMING != 0);
        let number = driver.objects().events.insert(Arc::new(made));
        result.put(number, SECTION)
    }

    /// Destroys an event.
    fn cuEventDestroy_v2(handle: u64) {
        let (driver, _) = current()?;
        event(driver, handle)?;
        driver.objects().events.remove(handle);
        Ok(())
    }

    /// Records an event in a stream.
    fn cuEventRecord(handle: u64, stream: u64) {
        let (driver, device) = current()?;
        let event = event(driver, handle)?;
        let stream = driver.stream(device, stream)?;
        let same = event.device == stream.device;
        ensure(same, INVALID_HANDLE, SECTION, "event and stream are of different contexts")?;
        if stream.captures() {
            event.capture();
            return Ok(());
        }
        if driver.is_legacy(&stream) {
            driver.no_blocking_capture(device)?;
        }
        let number = event.record();
        let work: Work = Arc::new(move || event.reach(number));
        driver.submit(&stream, work, false, EVENT_BYTES)?;
        Ok(())
    }

    /// Whether an event was reached.
    fn cuEventQuery(handle: u64) {
        let driver = driver()?;
        let event = event(driver, handle)?;
        not_captured(&event)?;
        driver.not_while_capturing()?;
        driver.pass(event.device);
        driver.sound(event.device)?;
        let reached = event.query();
        let not_ready = CUresult::CUDA_ERROR_NOT_READY as u32;
        match reached {
            true => Ok(()),
            false => Err(Refusal { error: not_ready, section: SECTION, rule: String::new() }),
        }
    }

    /// Waits for an event.
    fn cuEventSynchronize(handle: u64) {
        let driver = driver()?;
        let event = event(driver, handle)?;
        not_captured(&event)?;
        driver.not_while_capturing()?;
        driver.pass(event.device);
        event.wait_for(event.last());
        driver.waited(event.device)
    }

    /// Milliseconds between two events.
    fn cuEventElapsedTime(milliseconds: Out<f32>, begin: u64, end: u64) {
        elapsed(milliseconds, begin, end)
    }

    /// Milliseconds between two events.
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, begin: u64, end: u64) {
        elapsed(milliseconds, begin, end)
    }
}
