//! NVLinks, C2C links, peer access and the NVLink fabric.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    field_id, nvmlDevice_t, nvmlEnableState_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t,
    nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_NVLINK as BY_NVLINK, nvmlGpuP2PCapsIndex_t,
    nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED as NO_ACCESS,
    nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_OK as ACCESS, nvmlGpuP2PStatus_t,
    nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_P2P_SUPPORTED as P2P, nvmlNvLinkCapability_t,
    nvmlPciInfo_t, nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
};
use phantom_machine::{Fabric, Gpu};

use crate::device::letters;
use crate::library::{Answer, finish, gpu, index, machine, put};

/// Most NVLinks of a GPU (`NVML_NVLINK_MAX_LINKS`).
const MOST_LINKS: c_uint = 18;

/// The bus id at the other end of an NVLink.
fn remote(gpu: &Gpu, link: c_uint) -> Answer<&str> {
    if link >= MOST_LINKS {
        return Err(INVALID_ARGUMENT);
    }
    let found = gpu.attachment.nvlinks.get(link as usize);
    found.map(String::as_str).ok_or(NOT_SUPPORTED)
}

/// `nvmlDeviceGetNvLinkCapability`: all NVLinks carry traffic between GPUs, and nothing else is
/// known of them.
///
/// # Safety
/// `result` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkCapability(
    device: nvmlDevice_t,
    link: c_uint,
    capability: nvmlNvLinkCapability_t,
    result: *mut c_uint,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|gpu| {
        remote(gpu, link)?;
        // SAFETY: as the caller promises.
        unsafe { put(result, c_uint::from(capability == P2P)) }
    }))
}

/// `nvmlDeviceGetNvLinkState`: all NVLinks are up.
///
/// # Safety
/// `active` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: nvmlDevice_t,
    link: c_uint,
    active: *mut nvmlEnableState_t,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|gpu| {
        remote(gpu, link)?;
        // SAFETY: as the caller promises.
        unsafe { put(active, 1) }
    }))
}

/// `nvmlDeviceGetNvLinkRemotePciInfo_v2`: only the bus id is known.
///
/// # Safety
/// `info` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nvmlDevice_t,
    link: c_uint,
    info: *mut nvmlPciInfo_t,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|gpu| {
        let bus_id = remote(gpu, link)?;
        let pci = nvmlPciInfo_t {
            busIdLegacy: letters(bus_id),
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: letters(&format!("0000{bus_id}")),
        };
        // SAFETY: as the caller promises.
        unsafe { put(info, pci) }
    }))
}

/// The value of a field of a GPU or of one of its links.
fn field(gpu: &Gpu, field: u32, link: u32) -> Answer<u32> {
    let c2c = &gpu.attachment.c2c_mbps;
    let c2c_link = || c2c.get(link as usize).copied().ok_or(NOT_SUPPORTED);
    match field {
        field_id::NVML_FI_DEV_NVLINK_GET_STATE => remote(gpu, link).map(|_| 1),
        field_id::NVML_FI_DEV_C2C_LINK_COUNT => Ok(c2c.len() as u32),
        field_id::NVML_FI_DEV_C2C_LINK_GET_STATUS => c2c_link().map(|_| 1),
        field_id::NVML_FI_DEV_C2C_LINK_GET_MAX_BW => c2c_link(),
        _ => Err(NOT_SUPPORTED),
    }
}

/// `nvmlDeviceGetFieldValues`. Each value has an error of its own.
///
/// # Safety
/// `values` is null or valid for reading and writing so many values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|gpu| {
        let count = usize::try_from(count).unwrap_or(0);
        if values.is_null() || count == 0 {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: so many values are there, as the caller promises.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
        for value in values {
            let answer = field(gpu, value.fieldId, value.scopeId);
            value.nvmlReturn = answer.err().unwrap_or(SUCCESS);
            value.valueType = UNSIGNED_INT;
            value.value = nvmlValue_t {
                uiVal: answer.unwrap_or(0),
            };
        }
        Ok(())
    }))
}

/// `nvmlDeviceGetP2PStatus`.
///
/// # Safety
/// `status` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    device: nvmlDevice_t,
    other: nvmlDevice_t,
    what: nvmlGpuP2PCapsIndex_t,
    status: *mut nvmlGpuP2PStatus_t,
) -> nvmlReturn_t {
    let access = || -> Answer<bool> {
        let (machine, one, other) = (machine()?, index(device)?, index(other)?);
        Ok(match what {
            BY_NVLINK => machine.has_nvlink(one, other),
            _ => one == other || machine.reaches(one, other),
        })
    };
    finish(access().and_then(|access| {
        let found = if access { ACCESS } else { NO_ACCESS };
        // SAFETY: as the caller promises.
        unsafe { put(status, found) }
    }))
}

/// `nvmlDeviceGetGpuFabricInfo`: GPUs with fabric handles are members of one NVLink domain, unless
/// IMEX does not run.
///
/// # Safety
/// `info` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfo(
    device: nvmlDevice_t,
    info: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t {
    finish(gpu(device).and_then(|_| {
        // The numbers of NVML_GPU_FABRIC_STATE_*: not started, completed.
        let state = match machine()?.setup.fabric {
            Fabric::None => return Err(NOT_SUPPORTED),
            Fabric::Refused => 1,
            Fabric::Half | Fabric::Whole => 3,
        };
        let found = nvmlGpuFabricInfo_t {
            clusterUuid: *b"topo phantom dom",
            status: SUCCESS,
            cliqueId: 0,
            state,
        };
        // SAFETY: as the caller promises.
        unsafe { put(info, found) }
    }))
}
