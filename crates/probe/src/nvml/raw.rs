//! NVML calls that nvml-wrapper lacks: fields of a link, the other end of an NVLink, the fabric.

#![allow(unsafe_code)]

use std::ffi::c_char;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    field_id, nvmlFieldValue_t, nvmlGpuFabricInfo_t, nvmlPciInfo_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE as DOUBLE,
    nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT as SIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG as SIGNED_LONG_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG as UNSIGNED_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
};

use super::answers::FabricInfo;

/// Field: whether an NVLink is up.
pub const NVLINK_STATE: u32 = field_id::NVML_FI_DEV_NVLINK_GET_STATE;

/// Field: number of C2C links of a GPU.
pub const C2C_COUNT: u32 = field_id::NVML_FI_DEV_C2C_LINK_COUNT;

/// Field: whether a C2C link is up.
pub const C2C_STATUS: u32 = field_id::NVML_FI_DEV_C2C_LINK_GET_STATUS;

/// Field: bandwidth of a C2C link, MB/s.
pub const C2C_MAX_BANDWIDTH: u32 = field_id::NVML_FI_DEV_C2C_LINK_GET_MAX_BW;

/// Reads a field of a link.
pub fn field(nvml: &Nvml, device: &Device<'_>, field: u32, link: u32) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetFieldValues.as_ref())?;
    // SAFETY: all members are integers or a union of numbers, for which zero is valid.
    let mut value: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
    value.fieldId = field;
    value.scopeId = link;
    // SAFETY: `device` borrows the initialized library; one value is announced and given.
    unsafe { nvml_try(call(device.handle(), 1, &mut value))? };
    nvml_try(value.nvmlReturn)?;
    // SAFETY: the reported type says which member of the union was written; the rest is zero.
    let number = unsafe {
        match value.valueType {
            DOUBLE => value.value.dVal as u64,
            UNSIGNED_INT => u64::from(value.value.uiVal),
            UNSIGNED_LONG => value.value.ulVal,
            UNSIGNED_LONG_LONG => value.value.ullVal,
            SIGNED_INT => u64::try_from(value.value.siVal).unwrap_or(0),
            SIGNED_LONG_LONG => u64::try_from(value.value.sllVal).unwrap_or(0),
            _ => return Err(NvmlError::NotSupported),
        }
    };
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The bus id at the other end of an NVLink in NVML's short form: `0000:CF:00.0`.
pub fn nvlink_remote(nvml: &Nvml, device: &Device<'_>, link: u32) -> Result<String, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetNvLinkRemotePciInfo_v2.as_ref())?;
    // SAFETY: all members are integers or arrays of integers, for which zero is valid.
    let mut pci: nvmlPciInfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `device` borrows the initialized library, and `pci` outlives the call.
    unsafe { nvml_try(call(device.handle(), link, &mut pci))? };
    Ok(text(&pci.busIdLegacy))
}

/// NVLink fabric membership.
pub fn fabric(nvml: &Nvml, device: &Device<'_>) -> Result<FabricInfo, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetGpuFabricInfo.as_ref())?;
    // SAFETY: all members are integers or arrays of integers, for which zero is valid.
    let mut info: nvmlGpuFabricInfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `device` borrows the initialized library, and `info` outlives the call.
    unsafe { nvml_try(call(device.handle(), &mut info))? };
    let state = match info.state {
        0 => "NotSupported",
        1 => "NotStarted",
        2 => "InProgress",
        3 => "Completed",
        _ => "Unknown",
    };
    let digits: String = info
        .clusterUuid
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    Ok(FabricInfo {
        state: state.to_owned(),
        cluster: parts.join("-"),
        clique: info.cliqueId,
    })
}

/// The text of a NUL-terminated array.
fn text(letters: &[c_char]) -> String {
    let bytes: Vec<u8> = letters
        .iter()
        .map(|letter| *letter as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
