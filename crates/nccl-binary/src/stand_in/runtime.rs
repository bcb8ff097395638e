//! The functions of the CUDA runtime that NCCL calls.
//!
//! Layouts and numbers are those of cuda_runtime_api.h.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

use phantom::arguments::{Handle64, Out};
use phantom::calls::device::{
    cuDeviceCanAccessPeer, cuDeviceGetByPCIBusId, cuDeviceGetCount, cuDeviceGetPCIBusId,
    cuDriverGetVersion,
};
use phantom::calls::host::{cuMemHostRegister_v2, cuMemHostUnregister};
use phantom::calls::ipc::{cuIpcCloseMemHandle, cuIpcGetMemHandle, cuIpcOpenMemHandle_v2};
use phantom::calls::pointer::cuPointerGetAttribute;

use super::context::{self, Code, INVALID_DEVICE, INVALID_VALUE, SUCCESS, put};
use super::devices;
use super::driver::{self, done, new_handle, put_text};
use super::memory;
use super::{Presented, find, presented};
use crate::plant;

/// `cudaMemoryTypeUnregistered` and `cudaMemoryTypeDevice`; 1: of the host, as for the driver.
const UNREGISTERED: i32 = 0;
const OF_DEVICE: i32 = 2;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and `_DEVICE_ORDINAL`.
const MEMORY_TYPE: u32 = 2;
const ORDINAL: u32 = 9;

/// The device of memory that CUDA does not know (`cudaInvalidDeviceId`).
const NO_DEVICE: i32 = -2;

/// Bytes of `cudaFuncAttributes` that are written.
const FUNCTION_ATTRIBUTE_BYTES: usize = 52;

/// The runtime's version as CUDA's number: 12.9.
const RUNTIME_VERSION: i32 = 12_090;

/// Registers of a thread that every kernel says it needs.
const REGISTERS: i32 = 96;

/// Most dynamic shared memory of a kernel, bytes, from compute capability 9.0 on.
const SHARED_BYTES: i32 = 232_448;

/// Bytes of `cudaDeviceProp` with the name and the UUID.
const DEVICE_NAME_BYTES: usize = 256;

/// Where `cudaDeviceProp` has the memory of a GPU (`totalGlobalMem`), and how much it says, bytes.
/// Windows reserve as many addresses for each GPU.
const MEMORY_BYTES_AT: usize = 288;
const MEMORY_BYTES: usize = 80 << 30;

thread_local! {
    static CAPTURE_MODE: Cell<i32> = const { Cell::new(0) };
}

extern "C" fn set_device(number: i32) -> Code {
    context::keep(context::set_device(number))
}

unsafe extern "C" fn device(out: *mut i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, context::device()) }
}

unsafe extern "C" fn runtime_version(out: *mut i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, RUNTIME_VERSION) }
}

extern "C" fn last_error() -> Code {
    context::take_last_error()
}

extern "C" fn peek_last_error() -> Code {
    context::last_error()
}

unsafe extern "C" fn allocate(out: *mut u64, bytes: usize) -> Code {
    // SAFETY: as the caller of this function.
    context::keep(unsafe { memory::allocate(out, bytes, false) })
}

unsafe extern "C" fn allocate_host(out: *mut u64, bytes: usize, _: u32) -> Code {
    // SAFETY: as the caller of this function.
    context::keep(unsafe { memory::allocate(out, bytes, true) })
}

extern "C" fn free(address: u64) -> Code {
    context::keep(memory::free(address))
}

unsafe extern "C" fn register_host(address: *mut c_void, bytes: usize, flags: u32) -> Code {
    context::device();
    // SAFETY: as the caller of this function.
    context::keep(unsafe { cuMemHostRegister_v2(address, bytes, flags) })
}

unsafe extern "C" fn unregister_host(address: *mut c_void) -> Code {
    context::device();
    // SAFETY: as the caller of this function.
    context::keep(unsafe { cuMemHostUnregister(address) })
}

unsafe extern "C" fn ipc_handle(out: *mut Handle64, address: u64) -> Code {
    context::device();
    // SAFETY: as the caller of this function.
    context::keep(unsafe { cuIpcGetMemHandle(Out::from(out), address) })
}

unsafe extern "C" fn open_ipc_handle(out: *mut u64, handle: Handle64, flags: u32) -> Code {
    context::device();
    // SAFETY: as the caller of this function.
    context::keep(unsafe { cuIpcOpenMemHandle_v2(Out::from(out), handle, flags) })
}

unsafe extern "C" fn close_ipc_handle(address: u64) -> Code {
    context::device();
    // SAFETY: as the caller of this function.
    context::keep(unsafe { cuIpcCloseMemHandle(address) })
}

unsafe extern "C" fn host_device_pointer(
    out: *mut *mut c_void,
    address: *mut c_void,
    _: u32,
) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, address) }
}

unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, bytes: usize, _: i32) -> Code {
    // SAFETY: CUDA's caller gives memory of this length.
    unsafe { memory::copy(to, from, bytes) }
}

unsafe extern "C" fn set(to: *mut c_void, value: i32, bytes: usize) -> Code {
    // SAFETY: CUDA's caller gives memory of this length.
    unsafe { memory::set(to, value as u8, bytes) }
}

/// The first fields of `cudaPointerAttributes`.
#[repr(C)]
struct PointerAttributes {
    kind: i32,
    device: i32,
    device_pointer: usize,
    host_pointer: usize,
}

unsafe extern "C" fn pointer_attributes(out: *mut PointerAttributes, address: usize) -> Code {
    let (mut kind, mut device) = (UNREGISTERED, NO_DEVICE);
    // SAFETY: the attributes are written to variables of their size.
    unsafe {
        cuPointerGetAttribute((&raw mut kind).cast(), MEMORY_TYPE, address as u64);
        cuPointerGetAttribute((&raw mut device).cast(), ORDINAL, address as u64);
    }
    let pointer = |is_there| if is_there { address } else { 0 };
    let attributes = PointerAttributes {
        kind,
        device,
        device_pointer: pointer(kind != UNREGISTERED),
        host_pointer: pointer(kind != OF_DEVICE),
    };
    // SAFETY: CUDA's caller gives room for the attributes.
    unsafe { put(out, attributes) }
}

unsafe extern "C" fn new_object(out: *mut *mut c_void) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { new_handle(out) }
}

/// Not captured, for all versions of this function, whose first arguments are equal.
unsafe extern "C" fn capture_status(_: *mut c_void, status: *mut i32, id: *mut u64) -> Code {
    // SAFETY: CUDA's caller gives addresses for the results, or null.
    unsafe {
        if !id.is_null() {
            put(id, 0);
        }
        put(status, 0)
    }
}

/// Not captured.
unsafe extern "C" fn is_capturing(_: *mut c_void, status: *mut i32) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(status, 0) }
}

unsafe extern "C" fn exchange_capture_mode(mode: *mut i32) -> Code {
    if mode.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: CUDA's caller gives a mode, which is exchanged.
    unsafe { mode.write(CAPTURE_MODE.replace(mode.read())) };
    SUCCESS
}

unsafe extern "C" fn launch_host(
    _: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> Code {
    if let Some(function) = function {
        // SAFETY: CUDA's caller gives a function and its argument; streams are always empty.
        unsafe { function(argument) };
    }
    SUCCESS
}

unsafe extern "C" fn function_of(out: *mut *const c_void, symbol: *const c_void) -> Code {
    // SAFETY: CUDA's caller gives an address for the result.
    unsafe { put(out, symbol) }
}

unsafe extern "C" fn function_attributes(out: *mut c_void, _: *const c_void) -> Code {
    let Some(gpu) = devices::gpu(context::device()) else {
        return context::keep(INVALID_DEVICE);
    };
    if out.is_null() {
        return context::keep(INVALID_VALUE);
    }
    let version = gpu.sm as i32;
    // Most threads, registers, versions of PTX and code, cache, shared memory, its share.
    let numbers = [1024, REGISTERS, version, version, 0, SHARED_BYTES, -1];
    // SAFETY: CUDA's caller gives room for the attributes: three sizes, then these numbers.
    unsafe {
        std::ptr::write_bytes(out.cast::<u8>(), 0, FUNCTION_ATTRIBUTE_BYTES);
        out.byte_add(24).cast::<[i32; 7]>().write(numbers);
    }
    SUCCESS
}

unsafe extern "C" fn device_properties(out: *mut c_void, number: i32) -> Code {
    let Some(gpu) = devices::gpu(number) else {
        return context::keep(INVALID_DEVICE);
    };
    // SAFETY: CUDA's caller gives room for the properties, which begin with name and UUID.
    unsafe {
        put_text(out.cast(), DEVICE_NAME_BYTES, &gpu.name);
        put(out.byte_add(MEMORY_BYTES_AT).cast(), MEMORY_BYTES);
        put(out.byte_add(DEVICE_NAME_BYTES).cast(), gpu.uuid)
    }
}

unsafe extern "C" fn entry_point_of_version(
    name: *const c_char,
    out: *mut usize,
    _: u32,
    _: u64,
    status: *mut i32,
) -> Code {
    if name.is_null() {
        return context::keep(INVALID_VALUE);
    }
    // SAFETY: CUDA's caller gives a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let found = find(&driver::functions(), &name).map(|it| plant::of(&name, it));
    if found.is_none() {
        super::keep_missing(&name);
    }
    // SAFETY: CUDA's caller gives addresses for the results, or null.
    unsafe {
        if !status.is_null() {
            status.write(if found.is_some() { 0 } else { 1 });
        }
        put(out, found.unwrap_or(0))
    }
}

unsafe extern "C" fn entry_point(
    name: *const c_char,
    out: *mut usize,
    flags: u64,
    status: *mut i32,
) -> Code {
    // SAFETY: as the caller of this function.
    unsafe { entry_point_of_version(name, out, RUNTIME_VERSION as u32, flags, status) }
}

/// The runtime's functions that are presented.
pub(crate) fn functions() -> Vec<Presented> {
    presented! {
        "cudaGetDeviceCount" => cuDeviceGetCount,
        "cudaSetDevice" => set_device,
        "cudaGetDevice" => device,
        "cudaDriverGetVersion" => cuDriverGetVersion,
        "cudaRuntimeGetVersion" => runtime_version,
        "cudaDeviceGetAttribute" => driver::device_attribute,
        "cudaDeviceGetPCIBusId" => cuDeviceGetPCIBusId,
        "cudaDeviceGetByPCIBusId" => cuDeviceGetByPCIBusId,
        "cudaDeviceCanAccessPeer" => cuDeviceCanAccessPeer,
        "cudaDeviceEnablePeerAccess" => done,
        "cudaDeviceSetLimit" => done,
        "cudaDeviceSynchronize" => done,
        "cudaGetDeviceProperties" => device_properties,
        "cudaGetDeviceProperties_v2" => device_properties,
        "cudaGetLastError" => last_error,
        "cudaPeekAtLastError" => peek_last_error,
        "cudaGetErrorName" => context::error_text,
        "cudaMalloc" => allocate,
        "cudaMallocAsync" => allocate,
        "cudaMallocFromPoolAsync" => allocate,
        "cudaFree" => free,
        "cudaFreeAsync" => free,
        "cudaHostAlloc" => allocate_host,
        "cudaMallocHost" => allocate_host,
        "cudaFreeHost" => free,
        "cudaHostRegister" => register_host,
        "cudaHostUnregister" => unregister_host,
        "cudaIpcGetMemHandle" => ipc_handle,
        "cudaIpcOpenMemHandle" => open_ipc_handle,
        "cudaIpcCloseMemHandle" => close_ipc_handle,
        "cudaHostGetDevicePointer" => host_device_pointer,
        "cudaMemcpy" => copy,
        "cudaMemcpyAsync" => copy,
        // Messages, which nobody reads.
        "cudaMemcpyBatchAsync" => done,
        "cudaMemset" => set,
        "cudaMemsetAsync" => set,
        "cudaMemPoolCreate" => new_object,
        "cudaMemPoolDestroy" => done,
        "cudaMemPoolSetAttribute" => done,
        "cudaMemPoolTrimTo" => done,
        "cudaPointerGetAttributes" => pointer_attributes,
        "cudaStreamCreate" => new_object,
        "cudaStreamCreateWithFlags" => new_object,
        "cudaStreamCreateWithPriority" => new_object,
        "cudaStreamDestroy" => done,
        "cudaStreamSynchronize" => done,
        "cudaStreamQuery" => done,
        "cudaStreamWaitEvent" => done,
        "cudaStreamIsCapturing" => is_capturing,
        "cudaStreamGetCaptureInfo" => capture_status,
        "cudaStreamGetCaptureInfo_v2" => capture_status,
        "cudaStreamGetCaptureInfo_v3" => capture_status,
        "cudaStreamGetId" => driver::stream_id,
        "cudaEventCreate" => new_object,
        "cudaEventCreateWithFlags" => new_object,
        "cudaEventDestroy" => done,
        "cudaEventRecord" => done,
        "cudaEventQuery" => done,
        "cudaEventSynchronize" => done,
        "cudaThreadExchangeStreamCaptureMode" => exchange_capture_mode,
        "cudaLaunchHostFunc" => launch_host,
        "cudaLaunchKernel" => done,
        "cudaLaunchKernelExC" => done,
        "cudaGetFuncBySymbol" => function_of,
        "cudaFuncGetAttributes" => function_attributes,
        "cudaFuncSetAttribute" => done,
        "cudaGetDriverEntryPoint" => entry_point,
        "cudaGetDriverEntryPointByVersion" => entry_point_of_version,
        "cudaUserObjectCreate" => new_object,
    }
}
