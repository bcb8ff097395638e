//! The C++ side: kernels and the scheduler of fibers.

use std::ffi::{CStr, c_char, c_int, c_void};

use device_runtime::Kernel;
use device_runtime::layout::Launch;

use crate::Bug;
use crate::counts::{Counts, Home};

/// Bytes of a report.
const REPORT: usize = 8192;

/// A range of addresses: the first, and the one behind the last.
pub type Range = [u64; 2];

/// Whether a kernel may access `bytes` bytes at an address: returns 1 and writes the accessible
/// range around them, or 0.
pub type Access = extern "C" fn(
    user: *mut c_void,
    address: u64,
    bytes: u64,
    store: c_int,
    range: *mut Range,
) -> c_int;

/// Writes the addresses of the memories behind a multicast address. Returns their number; 0: it is
/// none.
pub type Members =
    extern "C" fn(user: *mut c_void, address: u64, places: *mut u64, room: usize) -> usize;

/// The checks of a run. `host/emulator.h` has the same structure.
#[repr(C)]
#[derive(Debug)]
pub struct Checks {
    /// The first argument of the functions.
    pub user: *mut c_void,
    /// Asked before accesses whose range is not known yet.
    pub access: Access,
    /// Asked before accesses to multicast addresses.
    pub members: Members,
    /// Not 0: the run must end.
    pub cancelled: *const u32,
    /// Increases when memory may no longer be accessed.
    pub changes: *const u64,
}

/// The counters of a run. `host/counts.h` has the same structure.
#[repr(C)]
struct CountingRequest {
    homes: *const Home,
    home_count: usize,
    devices: *const u32,
    device_count: u64,
    cache_bytes: u64,
    counts: *mut Counts,
}

/// Runs a kernel that counts its accesses until all its threads have ended. `devices`: of each
/// block. Adds to the counts of each device.
pub fn emulate_counted(
    kernel: Kernel,
    launch: &Launch,
    (devices, threads): (&[u32], u32),
    seed: u64,
    (homes, cache_bytes): (&[Home], u64),
    counts: &mut [Counts],
) -> Result<(), String> {
    let suffix = kernel.suffix();
    let found = COUNTED.iter().find(|(it, _)| *it == suffix);
    let (_, entry) = found.ok_or_else(|| {
        let kernels: Vec<&str> = COUNTED.iter().map(|(it, _)| *it).collect();
        format!(
            "{kernel:?} was not compiled to count accesses; expected one of {}",
            kernels.join(", ")
        )
    })?;
    let blocks = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    let counting = CountingRequest {
        homes: homes.as_ptr(),
        home_count: homes.len(),
        devices: devices.as_ptr(),
        device_count: counts.len() as u64,
        cache_bytes,
        counts: counts.as_mut_ptr(),
    };
    let mut report = vec![0_u8; REPORT];
    // SAFETY: as in `emulate`; the counting's slices live until the call returns, every device of a
    // block or home is an index into the counts.
    let result = unsafe {
        topo_emulate_counted(
            *entry,
            launch,
            blocks,
            threads,
            seed,
            &raw const counting,
            report.as_mut_ptr().cast(),
            report.len(),
        )
    };
    outcome(result, &report, seed, (blocks, threads))
}

type Entry = unsafe extern "C" fn(*const Launch);

include!(concat!(env!("OUT_DIR"), "/entries.rs"));

// SAFETY: host/emulator.cpp and multicast.cpp define them with these types.
unsafe extern "C" {
    pub fn topo_multicast_new(addresses: *const u64, count: usize, bytes: u64) -> u64;
    pub fn topo_multicast_free(base: u64);
    fn topo_emulate_checked(
        kernel: Entry,
        launch: *const Launch,
        launch_bytes: usize,
        blocks: u32,
        threads: u32,
        seed: u64,
        checks: *const Checks,
        report: *mut c_char,
        report_bytes: usize,
    ) -> c_int;
    fn topo_emulate_counted(
        kernel: Entry,
        launch: *const Launch,
        blocks: u32,
        threads: u32,
        seed: u64,
        counting: *const CountingRequest,
        report: *mut c_char,
        report_bytes: usize,
    ) -> c_int;
    fn topo_emulate(
        kernel: Entry,
        launch: *const Launch,
        blocks: u32,
        threads: u32,
        seed: u64,
        remote: *const u32,
        report: *mut c_char,
        report_bytes: usize,
    ) -> c_int;
}

/// The kernel of an entry's name that was compiled with checks.
fn checked_entry(name: &str) -> Option<Entry> {
    let found = CHECKED.iter().find(|(it, _)| *it == name);
    found.map(|(_, entry)| *entry)
}

/// Whether there is a kernel with checks of an entry's name.
pub fn has_checked(name: &str) -> bool {
    checked_entry(name).is_some()
}

/// Runs a kernel with checks; writes a report. Returns the number of the outcome; `None`: there is
/// no such kernel.
pub fn emulate_checked(
    name: &str,
    launch: &Launch,
    (blocks, threads): (u32, u32),
    seed: u64,
    checks: &Checks,
    report: &mut [u8],
) -> Option<c_int> {
    let entry = checked_entry(name)?;
    // SAFETY: the kernel asks the checks before it accesses memory; the launch, the checks and the
    // report live until the call returns.
    Some(unsafe {
        topo_emulate_checked(
            entry,
            launch,
            size_of::<Launch>(),
            blocks,
            threads,
            seed,
            checks,
            report.as_mut_ptr().cast(),
            report.len(),
        )
    })
}

/// The entry of a compiled kernel (`build.rs`).
fn entry(kernel: Kernel, bug: Bug, weak: bool) -> Option<Entry> {
    let wanted = (bug, weak, kernel.suffix());
    let mut entries = ENTRIES.iter();
    let found = entries.find(|(bug, weak, suffix, _)| (*bug, *weak, *suffix) == wanted);
    found.map(|(.., entry)| *entry)
}

/// Runs a kernel until all its threads have ended.
pub fn emulate(
    kernel: Kernel,
    (bug, weak): (Bug, bool),
    launch: &Launch,
    blocks: u32,
    threads: u32,
    seed: u64,
    remote: bool,
) -> Result<(), String> {
    let entry = entry(kernel, bug, weak).ok_or_else(|| {
        let memory = if weak { "weak" } else { "the processor's" };
        format!(
            "{kernel:?} with {bug:?} was not compiled for {memory} memory; bugs are planted only in kernels of i32, and only \
             i32 and u8 are compiled for weak memory"
        )
    })?;
    let mut report = vec![0_u8; REPORT];
    // SAFETY: the launch's addresses are in memory that its ranks hold until it has ended:
    // handed-over buffers, and blocks of this device. The report has the given length and ends with
    // a 0.
    let result = unsafe {
        topo_emulate(
            entry,
            launch,
            blocks,
            threads,
            seed,
            if remote {
                std::ptr::with_exposed_provenance(launch.abort as usize)
            } else {
                std::ptr::null()
            },
            report.as_mut_ptr().cast(),
            report.len(),
        )
    };
    outcome(result, &report, seed, (blocks, threads))
}

/// The outcome of a run, by its number.
fn outcome(
    result: c_int,
    report: &[u8],
    seed: u64,
    (blocks, threads): (u32, u32),
) -> Result<(), String> {
    match result {
        0 => Ok(()),
        1 => {
            let text = CStr::from_bytes_until_nul(report).unwrap_or_default();
            Err(format!(
                "no thread of any block makes progress (seed {seed}):\n{}",
                text.to_string_lossy()
            ))
        }
        _ => Err(format!(
            "there is no memory for {blocks} blocks of {threads} threads"
        )),
    }
}

/// Writes to an address of an existing block.
pub fn write(address: u64, bytes: &[u8]) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: callers write to blocks that they hold, before kernels see them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Reads from an address of an existing block.
pub fn read(address: u64, bytes: &mut [u8]) {
    let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: callers read blocks that they hold, when no kernel runs.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
}

/// Copies between places that do not overlap.
pub fn copy(from: u64, to: u64, bytes: usize) {
    let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
    if bytes > 0 {
        // SAFETY: one place is memory that is handed over for a launch, the other a part of a block
        // with room for it, and no kernel uses either now.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use device_runtime::layout::{
        DeviceBufferTable, DeviceEnd, DevicePeer, FlatLane, FlatOperand, FlatStep, Launch,
        LaunchPart,
    };

    // SAFETY: host/layout.cpp defines it with this type.
    unsafe extern "C" {
        fn topo_layout(numbers: *mut usize, room: usize) -> usize;
    }

    macro_rules! layout {
        ($($type:ident: $($field:ident)*;)*) => {
            [$(size_of::<$type>(), $(offset_of!($type, $field),)*)*]
        };
    }

    #[test]
    fn structures_are_as_the_other_compiler_has_them() {
        let own = layout! {
            DeviceEnd: slots stride theirs mine step seen lengths;
            DeviceBufferTable: launch buffers;
            DevicePeer: table regions;
            FlatOperand: kind buffer peer place offset stride;
            FlatStep: bytes source_count destination_count wait_count notify_count finish pre_multiply reaches operands
                waits notifies;
            FlatLane: first prologue body epilogue peer_count end_count registered needed turns peers ends;
            LaunchPart: lanes steps buffers buffer_table launch scalar profile origins lane_count protocol operation divisor shares;
            Launch: more abort count parts;
        };
        let mut theirs = [0; 128];
        // SAFETY: there is room for the given number of numbers.
        let count = unsafe { topo_layout(theirs.as_mut_ptr(), theirs.len()) };
        assert_eq!(own[..], theirs[..count]);
    }
}
