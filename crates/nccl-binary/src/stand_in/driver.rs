//! The driver's functions that NCCL asks the CUDA runtime for: those of a phantom, and in place of
//! streams, kernels and multicast objects functions that do nothing.
//!
//! Numbers are those of cuda.h.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use phantom::arguments::{AllocationProperties, In, Location, MulticastProperties, Out};
use phantom::calls::context::{
    cuCtxGetCurrent, cuCtxGetDevice, cuCtxSetCurrent, cuDevicePrimaryCtxRetain,
};
use phantom::calls::device::{
    cuDeviceCanAccessPeer, cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetByPCIBusId,
    cuDeviceGetCount, cuDeviceGetName, cuDeviceGetP2PAttribute, cuDeviceGetPCIBusId,
    cuDeviceGetUuid_v2, cuDriverGetVersion, cuGetErrorName, cuInit,
};
use phantom::calls::memory::cuMemGetAddressRange_v2;
use phantom::calls::pointer::cuPointerGetAttribute;
use phantom::calls::sharing::{cuMemExportToShareableHandle, cuMemImportFromShareableHandle};
use phantom::calls::virtual_memory::{
    GRANULARITY, OF_HOST_NUMA, PINNED, cuMemAddressFree, cuMemAddressReserve, cuMemCreate,
    cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle, cuMemMap, cuMemRelease,
    cuMemRetainAllocationHandle, cuMemUnmap,
};

use super::context::{self, Code, INVALID_VALUE, NOT_SUPPORTED, SUCCESS, put};
use super::{Presented, devices, memory, presented};

/// Compute capability × 10 from which GPUs multicast.
const MULTICAST: u32 = 90;

/// Memory can be read and written (`CU_MEM_ACCESS_FLAGS_PROT_READWRITE`).
const READ_AND_WRITE: u64 = 3;

/// Handles of streams, events and graphs: numbers that no address has, 16 apart.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1_0000);

/// Multicast objects that this process made.
pub(super) static MULTICAST_OBJECTS: AtomicU32 = AtomicU32::new(0);

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

/// Attributes of a GPU. NCCL takes from the topology file which GPUs NICs and multicast reach.
pub(super) unsafe extern "C" fn device_attribute(out: *mut i32, number: u32, gpu: i32) -> Code {
    let found = match number {
        // Pools, GPUDirect RDMA and its flush, memory operations of streams.
        115..=117 | 122 | 123 => Some(1),
        132 => devices::gpu(gpu).map(|gpu| i32::from(gpu.sm >= MULTICAST)),
        _ => None,
    };
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe {
        match found {
            Some(value) => put(out, value),
            None => cuDeviceGetAttribute(Out::from(out), number, gpu),
        }
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

/// A context of its own is the primary one.
unsafe extern "C" fn create_context(out: *mut u64, _: u32, gpu: i32) -> Code {
    let mut made = 0;
    match context::enter(gpu, &mut made) {
        // SAFETY: CUDA's caller gives an address for the result.
        SUCCESS => unsafe { put(out, made) },
        code => code,
    }
}

unsafe extern "C" fn allocate(out: *mut u64, bytes: usize) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { memory::allocate(out, bytes, false) }
}

/// Numbers and meanings of errors are those of the runtime.
unsafe extern "C" fn error_string(error: Code, out: *mut *const c_char) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, context::error_text(error)) }
}

extern "C" fn free(address: u64) -> Code {
    memory::free(address)
}

extern "C" fn not_supported() -> Code {
    NOT_SUPPORTED
}

unsafe extern "C" fn memset8(to: *mut c_void, value: u8, bytes: usize) -> Code {
    // SAFETY: CUDA's caller gives memory of this length.
    unsafe { memory::set(to, value, bytes) }
}

unsafe extern "C" fn granularity(out: *mut usize, _: *const c_void, _: i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, GRANULARITY as usize) }
}

/// A multicast object is memory of the host that nothing is bound to.
unsafe extern "C" fn create_multicast(
    out: *mut u64,
    properties: *const MulticastProperties,
) -> Code {
    // SAFETY: CUDA's caller gives properties, or null.
    let Some(properties) = (unsafe { properties.as_ref() }) else {
        return INVALID_VALUE;
    };
    let memory = AllocationProperties {
        kind: PINNED,
        handle_types: properties.handle_types as u32,
        location: Location {
            kind: OF_HOST_NUMA,
            id: 0,
        },
        windows: std::ptr::null_mut(),
        flags: [0; 8],
    };
    MULTICAST_OBJECTS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe {
        cuMemCreate(
            Out::from(out),
            properties.size,
            In::from(&raw const memory),
            0,
        )
    }
}

unsafe extern "C" fn access(out: *mut u64, _: *const c_void, _: u64) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, READ_AND_WRITE) }
}

pub(super) unsafe extern "C" fn stream_id(stream: *mut c_void, out: *mut u64) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, stream.addr() as u64) }
}

unsafe extern "C" fn stream_context(_: *mut c_void, out: *mut u64) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { cuCtxGetCurrent(Out::from(out)) }
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
        "cuInit" => cuInit,
        "cuDriverGetVersion" => cuDriverGetVersion,
        "cuDeviceGetCount" => cuDeviceGetCount,
        "cuDeviceGet" => cuDeviceGet,
        "cuDeviceGetName" => cuDeviceGetName,
        "cuDeviceGetUuid" => cuDeviceGetUuid_v2,
        "cuDeviceGetAttribute" => device_attribute,
        "cuDeviceGetPCIBusId" => cuDeviceGetPCIBusId,
        "cuDeviceGetByPCIBusId" => cuDeviceGetByPCIBusId,
        "cuDeviceCanAccessPeer" => cuDeviceCanAccessPeer,
        "cuDeviceGetP2PAttribute" => cuDeviceGetP2PAttribute,
        "cuDevicePrimaryCtxRetain" => cuDevicePrimaryCtxRetain,
        "cuDevicePrimaryCtxRelease" => done,
        "cuCtxCreate" => create_context,
        "cuCtxDestroy" => done,
        "cuCtxGetCurrent" => cuCtxGetCurrent,
        "cuCtxSetCurrent" => cuCtxSetCurrent,
        "cuCtxGetDevice" => cuCtxGetDevice,
        "cuCtxEnablePeerAccess" => done,
        "cuCtxSynchronize" => done,
        "cuGetErrorString" => error_string,
        "cuGetErrorName" => cuGetErrorName,
        "cuMemAlloc" => allocate,
        "cuMemFree" => free,
        "cuMemGetAddressRange" => cuMemGetAddressRange_v2,
        "cuPointerGetAttribute" => cuPointerGetAttribute,
        "cuMemGetAllocationGranularity" => cuMemGetAllocationGranularity,
        "cuMemCreate" => cuMemCreate,
        "cuMemRelease" => cuMemRelease,
        "cuMemAddressReserve" => cuMemAddressReserve,
        "cuMemAddressFree" => cuMemAddressFree,
        "cuMemMap" => cuMemMap,
        "cuMemUnmap" => cuMemUnmap,
        "cuMemSetAccess" => done,
        "cuMemGetAccess" => access,
        "cuMemRetainAllocationHandle" => cuMemRetainAllocationHandle,
        "cuMemGetAllocationPropertiesFromHandle" => cuMemGetAllocationPropertiesFromHandle,
        "cuMemExportToShareableHandle" => cuMemExportToShareableHandle,
        "cuMemImportFromShareableHandle" => cuMemImportFromShareableHandle,
        "cuMemGetHandleForAddressRange" => not_supported,
        "cuMulticastCreate" => create_multicast,
        "cuMulticastGetGranularity" => granularity,
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
        "cuFuncGetAttribute" => not_supported,
        "cuFuncSetAttribute" => done,
    }
}
