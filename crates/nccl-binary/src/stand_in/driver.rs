//! The driver's functions that NCCL asks the CUDA runtime for.
//!
//! Numbers are those of cuda.h.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::context::{
    self, Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, SUCCESS,
};
use super::devices::{self, DRIVER_VERSION};
use super::memory::{self, Kind};
use super::virtual_memory;
use super::{Presented, presented};

/// Compute capability × 10 from which GPUs multicast.
const MULTICAST: u32 = 90;

/// Multiprocessors of every GPU, those of an H100. NCCL's decisions do not depend on them.
const MULTIPROCESSORS: i32 = 132;

/// Handles of streams, events and graphs: numbers that no address has, 16 apart.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1_0000);

/// Writes a result.
///
/// # Safety
/// `out` is null, or a `T` can be written there, as CUDA asks of its caller.
pub(super) unsafe fn put<T>(out: *mut T, value: T) -> Code {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller says so.
    unsafe { out.write(value) };
    SUCCESS
}

/// A new handle of something that has no state.
///
/// # Safety
/// As [`put`].
pub(super) unsafe fn new_handle(out: *mut *mut c_void) -> Code {
    let number = NEXT_HANDLE.fetch_add(16, Ordering::Relaxed);
    // SAFETY: the caller says so.
    unsafe { put(out, std::ptr::without_provenance_mut(number)) }
}

pub(super) extern "C" fn done() -> Code {
    SUCCESS
}

extern "C" fn initialize(_: u32) -> Code {
    SUCCESS
}

pub(super) unsafe extern "C" fn version(out: *mut i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, DRIVER_VERSION) }
}

pub(super) unsafe extern "C" fn device_count(out: *mut i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, devices::devices().gpus.len() as i32) }
}

unsafe extern "C" fn device(out: *mut i32, number: i32) -> Code {
    match devices::gpu(number) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(_) => unsafe { put(out, number) },
        None => INVALID_DEVICE,
    }
}

/// The value of an attribute of a GPU; 0 for those that nothing depends on.
fn attribute(number: i32, gpu: &phantom_machine::Gpu) -> i32 {
    let bus = gpu.bus_id.0;
    match number {
        1..=3 => 1024,     // most threads of a block, x, y
        4 => 64,           // most threads of a block, z
        5 => i32::MAX,     // blocks of a grid, x
        6 | 7 => 65_535,   // blocks of a grid, y and z
        8 => 49_152,       // shared memory of a block
        9 => 65_536,       // constant memory
        10 => 32,          // threads of a warp
        12 | 82 => 65_536, // registers of a block, of a multiprocessor
        13 => 1_980_000,   // clock, kHz
        16 => MULTIPROCESSORS,
        33 => (bus >> 12 & 0xff) as i32, // PCI bus
        34 => (bus >> 4 & 0xff) as i32,  // PCI device
        50 => (bus >> 20) as i32,        // PCI domain
        36 => 2_619_000,                 // clock of the memory, kHz
        37 => 5120,                      // width of the memory's bus
        38 => 50 << 20,                  // second-level cache, bytes
        39 => 2048,                      // threads of a multiprocessor
        40 => 3,                         // copy engines
        75 => (gpu.sm / 10) as i32,
        76 => (gpu.sm % 10) as i32,
        81 => 233_472,   // shared memory of a multiprocessor
        97 => 232_448,   // most shared memory of a block on request
        106 => 32,       // blocks of a multiprocessor
        111 => 1024,     // shared memory of a block that the driver takes
        134 => gpu.numa, // NUMA node of its host memory
        // Overlap, mapped host memory, concurrent kernels, unified addresses, priorities of
        // streams, caches, managed memory, preemption, cooperative launches, registered memory,
        // virtual memory, descriptors, pools, GPUDirect RDMA, clusters, memory operations.
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 83 | 89 | 90 | 91 | 95 | 99 | 102 | 103 | 115 | 116
        | 117 | 120 | 122 | 123 | 125 | 126 | 129 => 1,
        128 => i32::from(devices::devices().nvlink_domain), // fabric handles
        132 => i32::from(gpu.sm >= MULTICAST),
        _ => 0,
    }
}

pub(super) unsafe extern "C" fn device_attribute(out: *mut i32, number: i32, gpu: i32) -> Code {
    match devices::gpu(gpu) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(gpu) => unsafe { put(out, attribute(number, gpu)) },
        None => INVALID_DEVICE,
    }
}

/// Copies a text with its zero, cut to the room.
///
/// # Safety
/// `room` bytes can be written at `out`.
pub(super) unsafe fn put_text(out: *mut c_char, room: usize, text: &str) {
    let bytes = text.as_bytes();
    let length = bytes.len().min(room.saturating_sub(1));
    if out.is_null() || room == 0 {
        return;
    }
    // SAFETY: the text and its zero have room, as the caller says.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), length);
        out.add(length).write(0);
    }
}

unsafe extern "C" fn device_name(out: *mut c_char, room: i32, gpu: i32) -> Code {
    let Some(gpu) = devices::gpu(gpu) else {
        return INVALID_DEVICE;
    };
    // SAFETY: CUDA's caller gives this much room.
    unsafe { put_text(out, room.max(0) as usize, &gpu.name) };
    SUCCESS
}

unsafe extern "C" fn device_uuid(out: *mut [u8; 16], gpu: i32) -> Code {
    match devices::gpu(gpu) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(gpu) => unsafe { put(out, gpu.uuid) },
        None => INVALID_DEVICE,
    }
}

pub(super) unsafe extern "C" fn bus_id(out: *mut c_char, room: i32, gpu: i32) -> Code {
    let Some(gpu) = devices::gpu(gpu) else {
        return INVALID_DEVICE;
    };
    let text = gpu.bus_id.to_string().to_uppercase();
    // SAFETY: CUDA's caller gives this much room.
    unsafe { put_text(out, room.max(0) as usize, &text) };
    SUCCESS
}

pub(super) unsafe extern "C" fn device_by_bus_id(out: *mut i32, text: *const c_char) -> Code {
    if text.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: CUDA's caller gives a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    match devices::by_bus_id(&text) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(gpu) => unsafe { put(out, gpu) },
        None => INVALID_DEVICE,
    }
}

pub(super) unsafe extern "C" fn can_access_peer(out: *mut i32, one: i32, other: i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, i32::from(one != other)) }
}

unsafe extern "C" fn peer_attribute(out: *mut i32, kind: i32, _: i32, _: i32) -> Code {
    // The first one is a rank, not a property.
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, i32::from(kind != 1)) }
}

unsafe extern "C" fn retain_primary(out: *mut *mut c_void, gpu: i32) -> Code {
    match devices::gpu(gpu) {
        // SAFETY: CUDA's caller gives an address for the result.
        Some(_) => unsafe { put(out, context::context_of(gpu)) },
        None => INVALID_DEVICE,
    }
}

unsafe extern "C" fn create_context(out: *mut *mut c_void, _: u32, gpu: i32) -> Code {
    // SAFETY: as the caller of this function.
    match unsafe { retain_primary(out, gpu) } {
        SUCCESS => context::set_device(gpu),
        code => code,
    }
}

unsafe extern "C" fn current_context(out: *mut *mut c_void) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, context::current()) }
}

extern "C" fn set_context(context: *mut c_void) -> Code {
    context::set_current(context)
}

unsafe extern "C" fn context_device(out: *mut i32) -> Code {
    if context::current().is_null() {
        return INVALID_CONTEXT;
    }
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, context::device()) }
}

unsafe extern "C" fn error_text(_: Code, out: *mut *const c_char) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, c"an error of the stand-in for CUDA".as_ptr()) }
}

pub(super) unsafe extern "C" fn allocate(out: *mut *mut c_void, bytes: usize) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { memory::allocate(out, bytes, Kind::Device) }
}

pub(super) extern "C" fn free(address: *mut c_void) -> Code {
    memory::free(address)
}

unsafe extern "C" fn address_range(out: *mut usize, bytes: *mut usize, address: usize) -> Code {
    let Some(range) = memory::find(address) else {
        return NOT_FOUND;
    };
    // SAFETY: CUDA's caller gives addresses for the results, or null for what it does not want.
    unsafe {
        put(out, range.begin);
        put(bytes, range.bytes);
    }
    SUCCESS
}

unsafe extern "C" fn pointer_attribute(out: *mut c_void, kind: i32, address: usize) -> Code {
    let Some(range) = memory::find(address) else {
        return INVALID_VALUE;
    };
    let is_host = range.kind.is_host();
    // SAFETY: CUDA's caller gives room for the attribute, whose type its number tells.
    unsafe {
        match kind {
            1 => put(out.cast(), context::context_of(range.device)),
            2 => put(out.cast::<u32>(), if is_host { 1 } else { 2 }),
            4 if !is_host => INVALID_VALUE,
            3 | 4 => put(out.cast::<usize>(), address),
            6 | 8 => put(out.cast::<i32>(), 0), // synchronous operations, managed memory
            7 => put(out.cast::<u64>(), range.id),
            9 => put(out.cast::<i32>(), range.device),
            10 => put(out.cast::<i32>(), i32::from(range.kind == Kind::Device)),
            11 => put(out.cast::<usize>(), range.begin),
            12 => put(out.cast::<usize>(), range.bytes),
            13 => put(out.cast::<i32>(), 1),   // mapped
            14 => put(out.cast::<u64>(), 1),   // handles: descriptors
            17 => put(out.cast::<usize>(), 0), // pool
            _ => NOT_SUPPORTED,
        }
    }
}

extern "C" fn not_exported(_: *mut c_void, _: usize, _: usize, _: i32, _: u64) -> Code {
    NOT_SUPPORTED
}

unsafe extern "C" fn memset8(to: *mut c_void, value: u8, bytes: usize) -> Code {
    // SAFETY: CUDA's caller gives memory of this length.
    unsafe { memory::set(to, value, bytes) }
}

pub(super) unsafe extern "C" fn stream_id(stream: *mut c_void, out: *mut u64) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, stream.addr() as u64) }
}

unsafe extern "C" fn stream_context(_: *mut c_void, out: *mut *mut c_void) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, context::current()) }
}

unsafe extern "C" fn new_stream(out: *mut *mut c_void, _: u32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { new_handle(out) }
}

unsafe extern "C" fn write_value(_: *mut c_void, to: *mut u32, value: u32, _: u32) -> Code {
    // SAFETY: CUDA's caller gives memory of a GPU, which is memory of this process.
    unsafe { put(to, value) }
}

/// The driver's functions, under the names that the runtime is asked for.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "cuInit" => initialize,
        "cuDriverGetVersion" => version,
        "cuDeviceGetCount" => device_count,
        "cuDeviceGet" => device,
        "cuDeviceGetName" => device_name,
        "cuDeviceGetUuid" => device_uuid,
        "cuDeviceGetAttribute" => device_attribute,
        "cuDeviceGetPCIBusId" => bus_id,
        "cuDeviceGetByPCIBusId" => device_by_bus_id,
        "cuDeviceCanAccessPeer" => can_access_peer,
        "cuDeviceGetP2PAttribute" => peer_attribute,
        "cuDevicePrimaryCtxRetain" => retain_primary,
        "cuDevicePrimaryCtxRelease" => done,
        "cuCtxCreate" => create_context,
        "cuCtxDestroy" => done,
        "cuCtxGetCurrent" => current_context,
        "cuCtxSetCurrent" => set_context,
        "cuCtxGetDevice" => context_device,
        "cuCtxEnablePeerAccess" => done,
        "cuCtxSynchronize" => done,
        "cuGetErrorString" => error_text,
        "cuGetErrorName" => error_text,
        "cuMemAlloc" => allocate,
        "cuMemFree" => free,
        "cuMemGetAddressRange" => address_range,
        "cuPointerGetAttribute" => pointer_attribute,
        "cuMemGetAllocationGranularity" => virtual_memory::granularity,
        "cuMemCreate" => virtual_memory::create,
        "cuMemRelease" => virtual_memory::release,
        "cuMemAddressReserve" => virtual_memory::reserve,
        "cuMemAddressFree" => virtual_memory::free_range,
        "cuMemMap" => virtual_memory::map,
        "cuMemUnmap" => virtual_memory::unmap,
        "cuMemSetAccess" => virtual_memory::set_access,
        "cuMemGetAccess" => virtual_memory::access,
        "cuMemRetainAllocationHandle" => virtual_memory::retain_handle,
        "cuMemGetAllocationPropertiesFromHandle" => virtual_memory::properties,
        "cuMemExportToShareableHandle" => virtual_memory::export,
        "cuMemImportFromShareableHandle" => virtual_memory::import,
        "cuMemGetHandleForAddressRange" => not_exported,
        "cuMulticastCreate" => virtual_memory::multicast,
        "cuMulticastGetGranularity" => virtual_memory::granularity,
        "cuMulticastAddDevice" => done,
        "cuMulticastBindMem" => done,
        "cuMulticastBindAddr" => done,
        "cuMulticastUnbind" => done,
        "cuMemsetD8" => memset8,
        "cuStreamCreate" => new_stream,
        "cuStreamDestroy" => done,
        "cuStreamSynchronize" => done,
        "cuStreamGetId" => stream_id,
        "cuStreamGetCtx" => stream_context,
        "cuStreamWriteValue32" => write_value,
        "cuStreamWaitValue32" => done,
        "cuStreamBatchMemOp" => done,
        "cuLaunchKernel" => done,
        "cuLaunchKernelEx" => done,
        "cuFuncGetAttribute" => not_exported,
        "cuFuncSetAttribute" => done,
    }
}
