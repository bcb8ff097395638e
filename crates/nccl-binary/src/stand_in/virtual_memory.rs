//! Memory with handles (`cuMemCreate`): files without a name, which other processes can map.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::{Code, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS};
use super::memory::{self, Kind};
use crate::message::Taken;

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const LOCATION_DEVICE: i32 = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: i32 = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: i32 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`.
const FABRIC: i32 = 8;
/// Bytes of a fabric handle.
const FABRIC_BYTES: usize = 64;
/// Granularity of allocations and multicast objects, bytes.
const GRANULARITY: usize = 2 << 20;
/// Memory can be read and written (`CU_MEM_ACCESS_FLAGS_PROT_READWRITE`).
const READ_AND_WRITE: u64 = 3;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Properties {
    kind: i32,
    handle_types: i32,
    location: i32,
    location_id: i32,
    metadata: usize,
    flags: u64,
}

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MulticastProperties {
    devices: u32,
    bytes: usize,
    handle_types: u64,
    flags: u64,
}

#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    properties: Properties,
    origin: Origin,
}

/// The origin of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This process allocated so many bytes.
    Allocated(usize),
    /// This process made a multicast object.
    Multicast,
    /// Another process, or another rank of this one, exported it.
    Imported,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles {
    next: 1,
    open: BTreeMap::new(),
});

struct Handles {
    next: u64,
    /// By number: the memory, and how often the handle was retained.
    open: BTreeMap<u64, (Arc<Memory>, u32)>,
}

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(memory: Memory) -> u64 {
    let mut handles = handles();
    let number = handles.next;
    handles.next += 1;
    handles.open.insert(number, (Arc::new(memory), 1));
    number
}

fn of(handle: u64) -> Option<Arc<Memory>> {
    handles()
        .open
        .get(&handle)
        .map(|(memory, _)| memory.clone())
}

fn new_file(bytes: usize) -> Option<OwnedFd> {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"topo-nccl".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return None;
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let length = i64::try_from(bytes).ok()?;
    // SAFETY: a file without a name is given a length.
    (unsafe { libc::ftruncate(file.as_raw_fd(), length) } == 0).then_some(file)
}

unsafe fn put<T>(out: *mut T, value: T) -> Code {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller says that `out` can be written.
    unsafe { out.write(value) };
    SUCCESS
}

pub(super) unsafe extern "C" fn granularity(out: *mut usize, _: *const c_void, _: i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, GRANULARITY) }
}

fn create_memory(bytes: usize, properties: Properties, origin: Origin) -> Result<u64, Code> {
    let file = new_file(bytes).ok_or(OUT_OF_MEMORY)?;
    Ok(keep(Memory {
        file,
        properties,
        origin,
    }))
}

/// Adds the memory that is allocated with handles, and the multicast objects.
pub(super) fn count(taken: &mut Taken) {
    for (memory, _) in handles().open.values() {
        match (memory.origin, memory.properties.location) {
            (Origin::Allocated(bytes), LOCATION_DEVICE) => {
                taken.add(memory.properties.location_id, bytes);
            }
            (Origin::Allocated(bytes), _) => taken.host += bytes as u64,
            (Origin::Multicast, _) => taken.multicast_objects += 1,
            (Origin::Imported, _) => {}
        }
    }
}

pub(super) unsafe extern "C" fn create(
    out: *mut u64,
    bytes: usize,
    properties: *const Properties,
    _: u64,
) -> Code {
    // SAFETY: CUDA's caller gives properties, or null.
    let Some(properties) = (unsafe { properties.as_ref() }) else {
        return INVALID_VALUE;
    };
    match create_memory(bytes, *properties, Origin::Allocated(bytes)) {
        // SAFETY: CUDA's caller gives an address for the result.
        Ok(handle) => unsafe { put(out, handle) },
        Err(code) => code,
    }
}

pub(super) extern "C" fn release(handle: u64) -> Code {
    let mut handles = handles();
    match handles.open.get_mut(&handle) {
        None => INVALID_VALUE,
        Some((_, uses)) => {
            *uses -= 1;
            if *uses == 0 {
                handles.open.remove(&handle);
            }
            SUCCESS
        }
    }
}

fn retain(handle: u64) -> bool {
    let mut handles = handles();
    let found = handles.open.get_mut(&handle);
    found.map(|(_, uses)| *uses += 1).is_some()
}

/// Reserves addresses without memory.
fn reserve_range(bytes: usize, alignment: usize) -> Option<*mut c_void> {
    let alignment = alignment.max(GRANULARITY);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let all = bytes.checked_add(alignment)?;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory = unsafe { libc::mmap(ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let before = memory.addr().next_multiple_of(alignment) - memory.addr();
    let begin = memory.wrapping_byte_add(before);
    let behind = begin.wrapping_byte_add(memory::pages(bytes));
    // SAFETY: both parts are of the mapping that was just made.
    unsafe {
        if before > 0 {
            libc::munmap(memory, before);
        }
        libc::munmap(behind, all - before - memory::pages(bytes));
    }
    Some(begin)
}

pub(super) unsafe extern "C" fn reserve(
    out: *mut usize,
    bytes: usize,
    alignment: usize,
    _: usize,
    _: u64,
) -> Code {
    match reserve_range(bytes, alignment) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(begin) => unsafe { put(out, begin.addr()) },
        None => OUT_OF_MEMORY,
    }
}

pub(super) unsafe extern "C" fn free_range(address: *mut c_void, bytes: usize) -> Code {
    // SAFETY: the caller gives up addresses that it reserved.
    unsafe { libc::munmap(address, bytes) };
    SUCCESS
}

pub(super) unsafe extern "C" fn map(
    address: *mut c_void,
    bytes: usize,
    offset: usize,
    handle: u64,
    _: u64,
) -> Code {
    let Some(memory) = of(handle) else {
        return INVALID_VALUE;
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    // SAFETY: the caller reserved these addresses and gives them for the mapping.
    let mapped = unsafe {
        libc::mmap(
            address,
            bytes,
            protection,
            flags,
            memory.file.as_raw_fd(),
            offset,
        )
    };
    if mapped == libc::MAP_FAILED || !retain(handle) {
        return INVALID_VALUE;
    }
    let device = match memory.properties.location {
        LOCATION_DEVICE => memory.properties.location_id,
        _ => 0,
    };
    memory::add(address.addr(), bytes, Kind::Mapped(handle), device);
    SUCCESS
}

pub(super) unsafe extern "C" fn unmap(address: *mut c_void, bytes: usize) -> Code {
    let range = memory::take(address.addr(), |kind| matches!(kind, Kind::Mapped(_)));
    let Some(Kind::Mapped(handle)) = range.map(|it| it.kind) else {
        return INVALID_VALUE;
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range was mapped by `map`; its addresses stay reserved.
    unsafe { libc::mmap(address, bytes, libc::PROT_NONE, flags, -1, 0) };
    release(handle)
}

pub(super) extern "C" fn set_access(_: usize, _: usize, _: *const c_void, _: usize) -> Code {
    SUCCESS
}

pub(super) unsafe extern "C" fn access(out: *mut u64, _: *const c_void, _: usize) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, READ_AND_WRITE) }
}

pub(super) unsafe extern "C" fn retain_handle(out: *mut u64, address: usize) -> Code {
    match memory::find(address).map(|it| it.kind) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(Kind::Mapped(handle)) if retain(handle) => unsafe { put(out, handle) },
        _ => INVALID_VALUE,
    }
}

pub(super) unsafe extern "C" fn properties(out: *mut Properties, handle: u64) -> Code {
    match of(handle) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(memory) => unsafe { put(out, memory.properties) },
        None => INVALID_VALUE,
    }
}

/// Where another process opens a file of this one.
fn path_of(memory: &Memory) -> [u8; FABRIC_BYTES] {
    let (process, file) = (std::process::id(), memory.file.as_raw_fd());
    let mut path = [0; FABRIC_BYTES];
    let text = format!("/proc/{process}/fd/{file}");
    path[..text.len()].copy_from_slice(text.as_bytes());
    path
}

pub(super) unsafe extern "C" fn export(out: *mut c_void, handle: u64, kind: i32, _: u64) -> Code {
    let Some(memory) = of(handle) else {
        return INVALID_VALUE;
    };
    match kind {
        DESCRIPTOR => {
            // SAFETY: the descriptor is open while the memory is.
            let copy = unsafe { libc::dup(memory.file.as_raw_fd()) };
            // SAFETY: CUDA's caller gives an address for a descriptor.
            unsafe { put(out.cast::<i32>(), copy) }
        }
        // SAFETY: CUDA's caller gives an address for a fabric handle.
        FABRIC => unsafe { put(out.cast(), path_of(&memory)) },
        _ => NOT_SUPPORTED,
    }
}

pub(super) unsafe extern "C" fn import(out: *mut u64, from: *mut c_void, kind: i32) -> Code {
    let file = match kind {
        // SAFETY: the caller gives a descriptor in place of an address.
        DESCRIPTOR => unsafe { libc::dup(from.addr() as i32) },
        FABRIC => {
            // SAFETY: CUDA's caller gives a fabric handle.
            let mut path = unsafe { from.cast::<[u8; FABRIC_BYTES]>().read() };
            path[FABRIC_BYTES - 1] = 0;
            // SAFETY: the path ends with a zero.
            unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) }
        }
        _ => return NOT_SUPPORTED,
    };
    if file < 0 {
        return INVALID_VALUE;
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let memory = Memory {
        file,
        properties: Properties {
            kind: PINNED,
            handle_types: kind,
            location: LOCATION_DEVICE,
            location_id: 0,
            metadata: 0,
            flags: 0,
        },
        origin: Origin::Imported,
    };
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, keep(memory)) }
}

pub(super) unsafe extern "C" fn multicast(
    out: *mut u64,
    properties: *const MulticastProperties,
) -> Code {
    // SAFETY: CUDA's caller gives properties, or null.
    let Some(properties) = (unsafe { properties.as_ref() }) else {
        return INVALID_VALUE;
    };
    let made = create_memory(
        properties.bytes,
        Properties {
            kind: PINNED,
            handle_types: properties.handle_types as i32,
            location: LOCATION_DEVICE,
            location_id: 0,
            metadata: 0,
            flags: 0,
        },
        Origin::Multicast,
    );
    match made {
        // SAFETY: CUDA's caller gives an address for the result.
        Ok(handle) => unsafe { put(out, handle) },
        Err(code) => code,
    }
}
