//! A GPU: name, UUID, PCI function and its link.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlBrandType_enum_NVML_BRAND_GEFORCE as GEFORCE, nvmlBrandType_enum_NVML_BRAND_TESLA as TESLA,
    nvmlBrandType_t, nvmlDevice_t, nvmlPciInfo_t, nvmlPstates_t,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};
use phantom_machine::Gpu;

use crate::library::{Answer, finish, gpu, put, put_text};

/// Writes what a function finds out about a GPU.
///
/// # Safety
/// `place` is null or valid for writing.
unsafe fn tell<T>(
    device: nvmlDevice_t,
    place: *mut T,
    what: impl FnOnce(&Gpu) -> Answer<T>,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(what).and_then(|value| {
        // SAFETY: as the caller promises.
        unsafe { put(place, value) }
    }))
}

/// `nvmlDeviceGetName`.
///
/// # Safety
/// `name` is null or valid for writing `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: nvmlDevice_t,
    name: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    finish(gpu(device).and_then(|gpu| unsafe { put_text(name, length, &gpu.name) }))
}

/// `nvmlDeviceGetUUID`.
///
/// # Safety
/// `uuid` is null or valid for writing `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: nvmlDevice_t,
    uuid: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|gpu| {
        let digits: String = gpu.uuid.iter().map(|it| format!("{it:02x}")).collect();
        let [a, b, c, d] = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
        ];
        let text = format!("GPU-{a}-{b}-{c}-{d}-{}", &digits[20..]);
        // SAFETY: as the caller promises.
        unsafe { put_text(uuid, length, &text) }
    }))
}

/// `nvmlDeviceGetBrand`: a Tesla, unless NICs cannot access its memory.
///
/// # Safety
/// `brand` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetBrand(
    device: nvmlDevice_t,
    brand: *mut nvmlBrandType_t,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe {
        tell(device, brand, |gpu| {
            Ok(if gpu.rdma { TESLA } else { GEFORCE })
        })
    }
}

/// The letters of a text and zeros.
pub(crate) fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    for (letter, byte) in letters[..N - 1].iter_mut().zip(text.bytes()) {
        *letter = byte as c_char;
    }
    letters
}

/// `nvmlDeviceGetPciInfo_v3`.
///
/// # Safety
/// `info` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(
    device: nvmlDevice_t,
    info: *mut nvmlPciInfo_t,
) -> nvmlReturn_t {
    let pci = |gpu: &Gpu| {
        let text = gpu.bus_id.to_string();
        let (domain, rest) = text.split_once(':').unwrap_or(("0", &text));
        let (bus, rest) = rest.split_once(':').unwrap_or(("0", rest));
        let number = |text: &str| c_uint::from_str_radix(text, 16).unwrap_or(0);
        let slot = rest.split_once('.').map_or(rest, |(slot, _)| slot);
        let upper = text.to_uppercase();
        Ok(nvmlPciInfo_t {
            busIdLegacy: letters(&upper),
            domain: number(domain),
            bus: number(bus),
            device: number(slot),
            pciDeviceId: gpu.attachment.device,
            pciSubSystemId: gpu.attachment.subsystem,
            busId: letters(&format!("0000{upper}")),
        })
    };
    // SAFETY: as the caller promises.
    unsafe { tell(device, info, pci) }
}

/// `nvmlDeviceGetCudaComputeCapability`.
///
/// # Safety
/// `major` and `minor` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    let sm = |gpu: &Gpu| i32::try_from(gpu.sm).unwrap_or(0);
    // SAFETY: as the caller promises.
    unsafe {
        match tell(device, major, |gpu| Ok(sm(gpu) / 10)) {
            0 => tell(device, minor, |gpu| Ok(sm(gpu) % 10)),
            error => error,
        }
    }
}

fn generation(gpu: &Gpu) -> Answer<c_uint> {
    gpu.attachment.generation.ok_or(NOT_SUPPORTED)
}

/// `nvmlDeviceGetCurrPcieLinkGeneration`.
///
/// # Safety
/// `found` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(
    device: nvmlDevice_t,
    found: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe { tell(device, found, generation) }
}

/// `nvmlDeviceGetMaxPcieLinkGeneration`: links are as fast as they can be.
///
/// # Safety
/// `found` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(
    device: nvmlDevice_t,
    found: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe { tell(device, found, generation) }
}

/// `nvmlDeviceGetCurrPcieLinkWidth`.
///
/// # Safety
/// `width` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(
    device: nvmlDevice_t,
    width: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe { tell(device, width, |gpu| Ok(gpu.attachment.width)) }
}

/// `nvmlDeviceGetMaxPcieLinkWidth`: links are as wide as they can be.
///
/// # Safety
/// `width` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(
    device: nvmlDevice_t,
    width: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe { tell(device, width, |gpu| Ok(gpu.attachment.width)) }
}

/// `nvmlDeviceGetPerformanceState`: full speed.
///
/// # Safety
/// `state` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPerformanceState(
    device: nvmlDevice_t,
    state: *mut nvmlPstates_t,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe { tell(device, state, |_| Ok(0)) }
}

/// `nvmlDeviceGetMigMode`: no GPU is partitioned.
///
/// # Safety
/// `current` and `pending` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as the caller promises.
    unsafe {
        match tell(device, current, |_| Ok(0)) {
            0 => tell(device, pending, |_| Ok(0)),
            error => error,
        }
    }
}
