//! Copies and fills. Those that take a stream do not wait. Others within a device may return before
//! they are done, and here they do.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::bytes as read_bytes;
use crate::call::entry_points;
use crate::driver::{Driver, current};
use crate::memory_file::{copy, fill};
use crate::report;
use crate::stream::Work;

const SECTION: Section = Section::Memory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Checks that a range is memory that copies of a device may access.
fn check(driver: &Driver, device: usize, address: u64, bytes: u64, store: bool) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    let checked = driver.space().check(device, address, bytes, store);
    checked
        .map(|_| ())
        .or_else(|why| refuse(INVALID, SECTION, why))
}

/// Checks again when the work is done. Memory that was freed since is an illegal address.
fn still(driver: &Driver, device: usize, address: u64, bytes: u64, store: bool) -> bool {
    if bytes == 0
        || driver.contexts[device]
            .fault
            .load(std::sync::atomic::Ordering::Acquire)
            != 0
    {
        return false;
    }
    let checked = driver.space().check(device, address, bytes, store);
    checked
        .map_err(|why| driver.fail(device, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &why))
        .is_ok()
}

/// A copy between devices' memories, checked, as work.
fn copying(driver: &'static Driver, device: usize, to: u64, from: u64, bytes: u64) -> Answer<Work> {
    check(driver, device, from, bytes, false)?;
    check(driver, device, to, bytes, true)?;
    report::copied(bytes);
    Ok(Arc::new(move || {
        if still(driver, device, from, bytes, false) && still(driver, device, to, bytes, true) {
            copy(to, from, bytes);
        }
    }))
}

/// Sets bytes of a device, checked, as work.
fn filling(driver: &'static Driver, device: usize, to: u64, value: u8, bytes: u64) -> Answer<Work> {
    check(driver, device, to, bytes, true)?;
    Ok(Arc::new(move || {
        if still(driver, device, to, bytes, true) {
            fill(to, value, bytes);
        }
    }))
}

/// A copy from the host, checked, as work. The host's bytes are read at once.
fn uploading(
    driver: &'static Driver,
    device: usize,
    to: u64,
    from: *const c_void,
    bytes: usize,
) -> Answer<Work> {
    check_host(driver, from.expose_provenance() as u64)?;
    check(driver, device, to, bytes as u64, true)?;
    let read = read_bytes(from, bytes, SECTION)?;
    Ok(Arc::new(move || {
        if still(driver, device, to, read.len() as u64, true) {
            copy(
                to,
                read.as_ptr().expose_provenance() as u64,
                read.len() as u64,
            );
        }
    }))
}

/// A copy to the host, checked, as work.
fn downloading(
    driver: &'static Driver,
    device: usize,
    to: *mut c_void,
    from: u64,
    bytes: u64,
) -> Answer<Work> {
    let place = to.expose_provenance() as u64;
    ensure(place != 0, INVALID, SECTION, "a pointer is null")?;
    check_host(driver, place)?;
    check(driver, device, from, bytes, false)?;
    Ok(Arc::new(move || {
        if still(driver, device, from, bytes, false) {
            copy(place, from, bytes);
        }
    }))
}

/// Checks that a host address is no memory of a device.
fn check_host(driver: &Driver, address: u64) -> Answer {
    let space = driver.space();
    let of_device = space.mapping(address).is_some()
        || space.block(address).is_some_and(|(_, it)| {
            matches!(
                it.kind,
                crate::space::Kind::Device(_) | crate::space::Kind::Imported(_)
            )
        });
    ensure(
        !of_device,
        INVALID,
        SECTION,
        "the host's address is of a device",
    )
}

/// The frame of a call that uses the legacy stream and may wait.
fn legacy() -> Answer<(&'static Driver, usize)> {
    let (driver, device) = current()?;
    driver.not_while_capturing()?;
    driver.no_blocking_capture(device)?;
    Ok((driver, device))
}

fn submit(driver: &Driver, device: usize, work: Work) -> Answer<u64> {
    let stream = Arc::clone(&driver.contexts[device].legacy);
    driver.submit(&stream, work, false, 0)
}

/// Submits work to a stream, or captures it.
fn in_stream(driver: &Driver, device: usize, stream: u64, work: Work) -> Answer {
    let stream = driver.stream(device, stream)?;
    if driver.is_legacy(&stream) {
        driver.no_blocking_capture(device)?;
    }
    if !stream.capture(&work, 0) {
        driver.submit(&stream, work, false, 0)?;
    }
    Ok(())
}

entry_points! {
    /// Sets bytes of a device, in the legacy stream.
    fn cuMemsetD8_v2(to: u64, value: u8, bytes: usize) {
        let (driver, device) = legacy()?;
        driver.settle(device);
        submit(driver, device, filling(driver, device, to, value, bytes as u64)?)?;
        Ok(())
    }

    /// Copies from the host, in the legacy stream. It may return before the copy is done, once the
    /// host's bytes were read.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        let (driver, device) = legacy()?;
        if bytes == 0 {
            return Ok(());
        }
        submit(driver, device, uploading(driver, device, to, from, bytes)?)?;
        Ok(())
    }

    /// Copies to the host, in the legacy stream, and waits.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        let (driver, device) = legacy()?;
        if bytes == 0 {
            return Ok(());
        }
        let work = downloading(driver, device, to, from, bytes as u64)?;
        let number = submit(driver, device, work)?;
        driver.contexts[device].legacy.wait_for(number);
        driver.waited(device)
    }

    /// Copies between devices' memories, in the legacy stream, without waiting.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        let (driver, device) = legacy()?;
        submit(driver, device, copying(driver, device, to, from, bytes as u64)?)?;
        Ok(())
    }

    /// Sets bytes of a device, in a stream.
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: u64) {
        let (driver, device) = current()?;
        let work = filling(driver, device, to, value, bytes as u64)?;
        in_stream(driver, device, stream, work)
    }

    /// Copies from the host, in a stream. The host's bytes are read before it returns, as of
    /// memory that is not pinned.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64) {
        let (driver, device) = current()?;
        let work = uploading(driver, device, to, from, bytes)?;
        in_stream(driver, device, stream, work)
    }

    /// Copies to the host, in a stream. It returns before the copy is done, as to pinned memory.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64) {
        let (driver, device) = current()?;
        let work = downloading(driver, device, to, from, bytes as u64)?;
        in_stream(driver, device, stream, work)
    }

    /// Copies between devices' memories, in a stream.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) {
        let (driver, device) = current()?;
        let work = copying(driver, device, to, from, bytes as u64)?;
        in_stream(driver, device, stream, work)
    }
}
