//! Device memory and pinned host memory: pages of this process that cost nothing until they are
//! written.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context::{Code, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, device};
use crate::message::Taken;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Zeros from which on pages are given back instead of written.
const MANY_ZEROS: usize = 16 * PAGE;

/// What a range of addresses is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Memory of a GPU.
    Device,
    /// Pinned host memory.
    Host,
    /// Host memory of the caller that was pinned.
    Registered,
    /// A mapping of the memory with this handle.
    Mapped(u64),
}

impl Kind {
    /// Whether a host owns the memory.
    pub(crate) const fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Registered)
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub begin: usize,
    pub bytes: usize,
    pub kind: Kind,
    pub device: i32,
    /// Its number, unique in the process.
    pub id: u64,
}

static RANGES: Mutex<Ranges> = Mutex::new(Ranges {
    next: 1,
    by_begin: BTreeMap::new(),
});

struct Ranges {
    next: u64,
    by_begin: BTreeMap<usize, Range>,
}

fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a range.
pub(crate) fn add(begin: usize, bytes: usize, kind: Kind, device: i32) {
    let mut ranges = ranges();
    let id = ranges.next;
    ranges.next += 1;
    let range = Range {
        begin,
        bytes,
        kind,
        device,
        id,
    };
    ranges.by_begin.insert(begin, range);
}

/// The range around an address.
pub(crate) fn find(address: usize) -> Option<Range> {
    let ranges = ranges();
    let (_, range) = ranges.by_begin.range(..=address).next_back()?;
    (address - range.begin < range.bytes).then_some(*range)
}

/// Forgets the range that begins at an address, if it is of a kind that is wanted.
pub(crate) fn take(begin: usize, wanted: impl Fn(Kind) -> bool) -> Option<Range> {
    let mut ranges = ranges();
    let range = *ranges.by_begin.get(&begin)?;
    wanted(range.kind).then(|| {
        ranges.by_begin.remove(&begin);
        range
    })
}

/// Adds the memory that is allocated without handles.
pub(super) fn count(taken: &mut Taken) {
    for range in ranges().by_begin.values() {
        match range.kind {
            Kind::Device => taken.add(range.device, range.bytes),
            Kind::Host => taken.host += range.bytes as u64,
            Kind::Registered | Kind::Mapped(_) => {}
        }
    }
}

/// Rounds up to whole pages.
pub(crate) const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE) * PAGE
}

/// Allocates memory of the current GPU, or of the host, and writes its address.
///
/// # Safety
/// `out` is null, or one address can be written there.
pub(crate) unsafe fn allocate(out: *mut *mut c_void, bytes: usize, kind: Kind) -> Code {
    if out.is_null() {
        return INVALID_VALUE;
    }
    if bytes == 0 {
        // SAFETY: the caller says that `out` can be written.
        unsafe { out.write(ptr::null_mut()) };
        return SUCCESS;
    }
    let bytes = pages(bytes);
    // SAFETY: a new private mapping at an address that the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return OUT_OF_MEMORY;
    }
    add(memory.addr(), bytes, kind, device());
    // SAFETY: as above.
    unsafe { out.write(memory) };
    SUCCESS
}

/// Frees what [`allocate`] allocated.
pub(crate) fn free(memory: *mut c_void) -> Code {
    if memory.is_null() {
        return SUCCESS;
    }
    match take(memory.addr(), |kind| {
        matches!(kind, Kind::Device | Kind::Host)
    }) {
        Some(range) => {
            // SAFETY: the range is a mapping of `allocate`, and the caller of CUDA gives it up.
            unsafe { libc::munmap(memory, range.bytes) };
            SUCCESS
        }
        None => INVALID_VALUE,
    }
}

/// Copies bytes.
///
/// # Safety
/// The bytes can be read and written, as CUDA asks of its caller.
pub(crate) unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> Code {
    // SAFETY: the caller says so.
    unsafe { ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    SUCCESS
}

/// Sets bytes. Many zeros give pages back, so that large buffers stay empty.
///
/// # Safety
/// The bytes can be written, as CUDA asks of its caller.
pub(crate) unsafe fn set(to: *mut c_void, value: u8, bytes: usize) -> Code {
    let give_back = match find(to.addr()).map(|it| it.kind) {
        Some(Kind::Device | Kind::Host) => libc::MADV_DONTNEED,
        _ => libc::MADV_REMOVE,
    };
    // SAFETY: the caller says so; memory of `allocate` is private and without a file.
    unsafe { set_or_give_back(to, value, bytes, give_back) };
    SUCCESS
}

/// Sets bytes of any memory. Many zeros in a shared mapping of a file without a name give pages
/// back.
///
/// # Safety
/// The bytes can be written.
pub(crate) unsafe fn set_any(to: *mut c_void, value: u8, bytes: usize) {
    // SAFETY: the caller says so; other mappings refuse to give pages back this way.
    unsafe { set_or_give_back(to, value, bytes, libc::MADV_REMOVE) };
}

/// # Safety
/// The bytes can be written, and pages that are given back this way are zeros afterwards.
unsafe fn set_or_give_back(to: *mut c_void, value: u8, bytes: usize, give_back: i32) {
    let first = pages(to.addr());
    let last = (to.addr() + bytes) / PAGE * PAGE;
    let to = to.cast::<u8>();
    if value == 0 && bytes >= MANY_ZEROS && last > first {
        let (before, inside) = (first - to.addr(), last - first);
        // SAFETY: all three parts are within the bytes.
        unsafe {
            if libc::madvise(to.add(before).cast(), inside, give_back) == 0 {
                ptr::write_bytes(to, 0, before);
                ptr::write_bytes(to.add(before + inside), 0, bytes - before - inside);
                return;
            }
        }
    }
    // SAFETY: the caller says so.
    unsafe { ptr::write_bytes(to, value, bytes) };
}
