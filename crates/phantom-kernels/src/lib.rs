//! Runs the kernels of a phantom driver on the emulator: the library that a machine file names
//! (`emulator PATH`), with the interface of [`phantom_machine::emulation`].

use std::ffi::{CStr, c_char, c_int, c_void};

use device_runtime::layout::Launch;
use kernel_emulator::checked::{self, ARGUMENT_BYTES, Checks, Ended};
use phantom_machine::emulation::{Outcome, Range, Run};

/// The name behind a pointer.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the driver passes names that end with a 0 and live during the call.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Bytes of a kernel's argument; 0: there is no such kernel.
#[unsafe(no_mangle)]
extern "C" fn topo_phantom_parameters(name: *const c_char) -> usize {
    match text(name) {
        Some(name) if checked::has(name) => ARGUMENT_BYTES,
        _ => 0,
    }
}

/// Asks the driver about an access.
extern "C" fn access(
    user: *mut c_void,
    address: u64,
    bytes: u64,
    store: c_int,
    range: *mut checked::Range,
) -> c_int {
    // SAFETY: `user` is the run below, which lives until its threads have ended.
    let run = unsafe { &*user.cast::<Run>() };
    let mut found = Range::default();
    if (run.access)(run.user, address, bytes, store, &raw mut found) == 0 {
        return 0;
    }
    // SAFETY: the emulator passes a place for a range.
    unsafe { range.write([found.begin, found.end]) };
    1
}

/// Asks the driver about a multicast address.
extern "C" fn members(user: *mut c_void, address: u64, places: *mut u64, room: usize) -> usize {
    // SAFETY: as in `access`.
    let run = unsafe { &*user.cast::<Run>() };
    (run.members)(run.user, address, places, room)
}

/// Runs a kernel. Returns the number of an [`Outcome`]; -1: there is no such kernel.
#[unsafe(no_mangle)]
extern "C" fn topo_phantom_run(run: *const Run) -> c_int {
    // SAFETY: the driver passes a run that lives during the call.
    let own = unsafe { &*run };
    let Some(name) = text(own.name) else {
        return -1;
    };
    // SAFETY: the driver copied as many bytes as `topo_phantom_parameters` said, and every bit
    // pattern is a launch. It may not be aligned.
    let launch = unsafe { own.argument.cast::<Launch>().read_unaligned() };
    // SAFETY: the driver passes a place of this length, which nothing else uses.
    let report =
        unsafe { std::slice::from_raw_parts_mut(own.report.cast::<u8>(), own.report_bytes) };
    let checks = Checks {
        user: run.cast_mut().cast(),
        access,
        members,
        cancelled: own.cancelled,
        changes: own.changes,
    };
    let size = (own.blocks, own.threads);
    let ended = checked::run(name, &launch, size, own.seed, &checks, report);
    ended.map_or(-1, |ended| {
        let outcome = match ended {
            Ended::Whole => Outcome::Ended,
            Ended::Refused => Outcome::IllegalAddress,
            Ended::Cancelled => Outcome::Cancelled,
            Ended::NoMemory => Outcome::OutOfMemory,
        };
        outcome.code()
    })
}
