//! Runs the kernels of a phantom driver on the emulator: the library that a machine file names
//! (`emulator PATH`), with the interface of [`phantom::machine::emulation`].

use std::ffi::{CStr, c_char, c_int, c_void};

use device_runtime::layout::{Launch, LaunchPart};
use kernel_emulator::checked::{self, ARGUMENT_BYTES, Checks, RunEnd};
use phantom::machine::emulation::{Outcome, Range, Run};

/// A kernel of a caller, for tests of what runs beside collectives: each number is multiplied and
/// something is added.
const AFFINE: &str = "topo_phantom_affine";

/// The argument of [`AFFINE`].
#[repr(C)]
#[derive(Clone, Copy)]
struct Affine {
    /// Address of the numbers, 32-bit integers.
    numbers: u64,
    /// How many.
    count: u64,
    factor: u32,
    added: u32,
}

/// Runs [`AFFINE`].
fn affine(run: &Run) -> Outcome {
    // SAFETY: the driver copied as many bytes as `topo_phantom_parameters` said. Every bit pattern
    // is an argument. It may not be aligned.
    let Affine {
        numbers,
        count,
        factor,
        added,
    } = unsafe { run.argument.cast::<Affine>().read_unaligned() };
    let mut found = Range::default();
    let bytes = count.saturating_mul(4);
    if bytes > 0 && (run.access)(run.user, numbers, bytes, 1, &raw mut found) == 0 {
        return Outcome::IllegalAddress;
    }
    for at in 0..count {
        let number: *mut u32 = std::ptr::with_exposed_provenance_mut((numbers + 4 * at) as usize);
        // SAFETY: the driver says that the GPU may store there, and callers order kernels that use
        // the same memory. It may not be aligned.
        unsafe {
            let value = number.read_unaligned();
            number.write_unaligned(value.wrapping_mul(factor).wrapping_add(added));
        }
    }
    Outcome::Ended
}

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
        Some(AFFINE) => size_of::<Affine>(),
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

/// Most bytes of an output that are inverted: an element of any type.
const SPOILED: u64 = 16;

/// Inverts the first bytes of each part's output.
fn spoil(run: &Run, launch: &Launch) {
    let parts: &[LaunchPart] = match launch.more {
        0 => &launch.parts[..launch.count as usize],
        // SAFETY: the kernel has read as many parts there.
        more => unsafe {
            std::slice::from_raw_parts(
                std::ptr::with_exposed_provenance(more as usize),
                launch.count as usize,
            )
        },
    };
    for part in parts {
        let output = part.buffers[1];
        let mut found = Range::default();
        if output == 0 || (run.access)(run.user, output, 1, 1, &raw mut found) == 0 {
            continue;
        }
        for address in output..found.end.min(output + SPOILED) {
            let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: the driver says that the GPU may store there, and the launch has ended.
            unsafe { byte.write(!byte.read()) };
        }
    }
}

/// Runs a kernel. Returns the number of an [`Outcome`]; -1: there is no such kernel.
#[unsafe(no_mangle)]
extern "C" fn topo_phantom_run(run: *const Run) -> c_int {
    // SAFETY: the driver passes a run that lives during the call.
    let own = unsafe { &*run };
    let Some(name) = text(own.name) else {
        return -1;
    };
    if name == AFFINE {
        return affine(own).code();
    }
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
    if own.spoil != 0 && ended == Some(RunEnd::Whole) {
        spoil(own, &launch);
    }
    ended.map_or(-1, |ended| {
        let outcome = match ended {
            RunEnd::Whole => Outcome::Ended,
            RunEnd::Refused => Outcome::IllegalAddress,
            RunEnd::Cancelled => Outcome::Cancelled,
            RunEnd::NoMemory => Outcome::OutOfMemory,
        };
        outcome.code()
    })
}
