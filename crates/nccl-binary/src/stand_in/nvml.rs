//! The functions of NVML that NCCL looks up.
//!
//! Layouts and numbers are those of nvml.h. A device is its number and 1.

use std::ffi::{CStr, c_char, c_void};

use super::driver::put_text;
use super::{Presented, devices, presented};

const SUCCESS: i32 = 0;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;

/// `NVML_GPU_FABRIC_STATE_COMPLETED`.
const FABRIC_COMPLETED: u8 = 3;

/// The cluster of all GPUs of an NVLink domain.
const CLUSTER: [u8; 16] = *b"topo nccl check\0";

/// Bytes of `nvmlFieldValue_t`, and where it has its result.
const FIELD_BYTES: usize = 40;
const FIELD_RESULT: usize = 28;

/// Bytes of `nvmlPciInfo_t`, and where its bus id begins.
const PCI_BYTES: usize = 68;
const PCI_BUS_ID: usize = 36;

type Device = *mut c_void;

extern "C" fn done() -> i32 {
    SUCCESS
}

extern "C" fn not_supported() -> i32 {
    NOT_SUPPORTED
}

/// Writes a result.
///
/// # Safety
/// `out` is null, or a `T` can be written there, as NVML asks of its caller.
unsafe fn put<T>(out: *mut T, value: T) -> i32 {
    if out.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller says so.
    unsafe { out.write(value) };
    SUCCESS
}

fn handle(number: i32) -> Device {
    std::ptr::without_provenance_mut(number as usize + 1)
}

fn gpu(device: Device) -> Option<(i32, &'static phantom_machine::Gpu)> {
    let number = i32::try_from(device.addr().checked_sub(1)?).ok()?;
    Some((number, devices::gpu(number)?))
}

unsafe extern "C" fn count(out: *mut u32) -> i32 {
    // SAFETY: NVML's caller gives an address for the result.
    unsafe { put(out, devices::devices().gpus.len() as u32) }
}

unsafe extern "C" fn by_index(number: u32, out: *mut Device) -> i32 {
    match i32::try_from(number)
        .ok()
        .filter(|it| devices::gpu(*it).is_some())
    {
        // SAFETY: NVML's caller gives an address for the result.
        Some(number) => unsafe { put(out, handle(number)) },
        None => INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn by_bus_id(text: *const c_char, out: *mut Device) -> i32 {
    if text.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: NVML's caller gives a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    match devices::by_bus_id(&text) {
        // SAFETY: NVML's caller gives an address for the result.
        Some(number) => unsafe { put(out, handle(number)) },
        None => NOT_FOUND,
    }
}

unsafe extern "C" fn index(device: Device, out: *mut u32) -> i32 {
    match gpu(device) {
        // SAFETY: NVML's caller gives an address for the result.
        Some((number, _)) => unsafe { put(out, number as u32) },
        None => INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn compute_capability(device: Device, major: *mut i32, minor: *mut i32) -> i32 {
    let Some((_, gpu)) = gpu(device) else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: NVML's caller gives addresses for the results.
    unsafe {
        put(major, (gpu.sm / 10) as i32);
        put(minor, (gpu.sm % 10) as i32)
    }
}

/// Peer access is there.
unsafe extern "C" fn peer_status(_: Device, _: Device, _: i32, out: *mut i32) -> i32 {
    // SAFETY: NVML's caller gives an address for the result.
    unsafe { put(out, 0) }
}

/// No field is known; each says so.
unsafe extern "C" fn fields(_: Device, count: i32, values: *mut c_void) -> i32 {
    for number in 0..usize::try_from(count).unwrap_or(0) {
        let at = number * FIELD_BYTES + FIELD_RESULT;
        // SAFETY: NVML's caller gives that many values.
        unsafe { values.byte_add(at).cast::<i32>().write(NOT_SUPPORTED) };
    }
    SUCCESS
}

unsafe extern "C" fn pci(device: Device, out: *mut c_void) -> i32 {
    let Some((_, gpu)) = gpu(device) else {
        return INVALID_ARGUMENT;
    };
    let bus = gpu.bus_id.0;
    let numbers = [bus >> 20, bus >> 12 & 0xff, bus >> 4 & 0xff].map(|it| it as u32);
    let text = gpu.bus_id.to_string();
    // SAFETY: NVML's caller gives room for the properties.
    unsafe {
        std::ptr::write_bytes(out.cast::<u8>(), 0, PCI_BYTES);
        put_text(out.cast(), 16, &text);
        out.byte_add(16).cast::<[u32; 3]>().write(numbers);
        put_text(
            out.byte_add(PCI_BUS_ID).cast(),
            PCI_BYTES - PCI_BUS_ID,
            &text,
        );
    }
    SUCCESS
}

/// The first fields of `nvmlGpuFabricInfoV_t`.
#[repr(C)]
struct FabricInfo {
    version: u32,
    cluster: [u8; 16],
    status: i32,
    clique: u32,
    state: u8,
    health: u32,
}

unsafe extern "C" fn fabric(_: Device, out: *mut FabricInfo) -> i32 {
    if !devices::devices().nvlink_domain {
        return NOT_SUPPORTED;
    }
    // SAFETY: NVML's caller gives a structure with its version.
    let Some(out) = (unsafe { out.as_mut() }) else {
        return INVALID_ARGUMENT;
    };
    *out = FabricInfo {
        version: out.version,
        cluster: CLUSTER,
        status: SUCCESS,
        clique: 0,
        state: FABRIC_COMPLETED,
        health: 0,
    };
    SUCCESS
}

/// Confidential computing is off.
unsafe extern "C" fn confidential(out: *mut [u32; 5]) -> i32 {
    // A version, the environment, the feature, the mode of tools, the mode of several GPUs.
    // SAFETY: NVML's caller gives a structure with its version.
    let Some(out) = (unsafe { out.as_mut() }) else {
        return INVALID_ARGUMENT;
    };
    out[2] = 0;
    out[4] = 0;
    SUCCESS
}

unsafe extern "C" fn driver_version(out: *mut c_char, room: u32) -> i32 {
    // SAFETY: NVML's caller gives this much room.
    unsafe { put_text(out, room as usize, "575.57.08") };
    SUCCESS
}

extern "C" fn error_text(_: i32) -> *const c_char {
    c"an error of the stand-in for NVML".as_ptr()
}

/// The functions that are presented.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "nvmlInit" => done,
        "nvmlInit_v2" => done,
        "nvmlShutdown" => done,
        "nvmlDeviceGetCount" => count,
        "nvmlDeviceGetCount_v2" => count,
        "nvmlDeviceGetHandleByIndex" => by_index,
        "nvmlDeviceGetHandleByIndex_v2" => by_index,
        "nvmlDeviceGetHandleByPciBusId" => by_bus_id,
        "nvmlDeviceGetHandleByPciBusId_v2" => by_bus_id,
        "nvmlDeviceGetIndex" => index,
        "nvmlDeviceGetCudaComputeCapability" => compute_capability,
        "nvmlDeviceGetP2PStatus" => peer_status,
        "nvmlDeviceGetNvLinkState" => not_supported,
        "nvmlDeviceGetNvLinkRemotePciInfo" => not_supported,
        "nvmlDeviceGetNvLinkRemotePciInfo_v2" => not_supported,
        "nvmlDeviceGetNvLinkCapability" => not_supported,
        "nvmlDeviceGetFieldValues" => fields,
        "nvmlDeviceGetPciInfo_v3" => pci,
        "nvmlDeviceGetGpuFabricInfoV" => fabric,
        "nvmlSystemGetConfComputeSettings" => confidential,
        "nvmlSystemGetDriverVersion" => driver_version,
        "nvmlErrorString" => error_text,
    }
}
