//! NVLinks, C2C links, peer access and the NVLink fabric.

use std::ffi::{c_int, c_uint};

use crate::machine::{Fabric, Gpu};
use nvml_wrapper_sys::bindings::{
    field_id, nvmlDevice_t, nvmlEnableState_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_NVLINK as BY_NVLINK,
    nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED as NO_ACCESS,
    nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_OK as ACCESS, nvmlGpuP2PStatus_t,
    nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_P2P_SUPPORTED as P2P, nvmlNvLinkCapability_t,
    nvmlPciInfo_t, nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
};

use crate::nvml::device::letters;
use crate::nvml::library::{Answer, Out, functions, gpu, machine, place};

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

/// The NVLink domain of a GPU: those with fabric handles are in one, unless IMEX does not run.
fn fabric(device: nvmlDevice_t) -> Answer<nvmlGpuFabricInfo_t> {
    gpu(device)?;
    // The numbers of NVML_GPU_FABRIC_STATE_*: not started, completed.
    let state = match machine()?.setup.fabric {
        Fabric::None => return Err(NOT_SUPPORTED),
        Fabric::Refused => 1,
        Fabric::Half | Fabric::Whole => 3,
    };
    Ok(nvmlGpuFabricInfo_t {
        clusterUuid: *b"topo phantom dom",
        status: SUCCESS,
        cliqueId: 0,
        state,
    })
}

functions! {
    /// What NVLinks can do: all carry traffic between GPUs, and nothing else is known of them.
    fn nvmlDeviceGetNvLinkCapability(
        device: nvmlDevice_t,
        link: c_uint,
        capability: nvmlNvLinkCapability_t,
        result: Out<c_uint>,
    ) {
        remote(gpu(device)?, link)?;
        result.put(c_uint::from(capability == P2P))
    }

    /// Whether an NVLink is up: all are.
    fn nvmlDeviceGetNvLinkState(device: nvmlDevice_t, link: c_uint, active: Out<nvmlEnableState_t>) {
        remote(gpu(device)?, link)?;
        active.put(1)
    }

    /// The other end of an NVLink, of which only the bus id is known.
    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: nvmlDevice_t, link: c_uint, info: Out<nvmlPciInfo_t>) {
        let bus_id = remote(gpu(device)?, link)?;
        info.put(nvmlPciInfo_t {
            busIdLegacy: letters(bus_id),
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: letters(&format!("0000{bus_id}")),
        })
    }

    /// Values of fields. Each has an error of its own.
    fn nvmlDeviceGetFieldValues(device: nvmlDevice_t, count: c_int, values: Out<nvmlFieldValue_t>) {
        let gpu = gpu(device)?;
        let count = usize::try_from(count).ok().filter(|it| *it > 0);
        for value in values.values(count.ok_or(INVALID_ARGUMENT)?)? {
            let answer = field(gpu, value.fieldId, value.scopeId);
            value.nvmlReturn = answer.err().unwrap_or(SUCCESS);
            value.valueType = UNSIGNED_INT;
            value.value = nvmlValue_t { uiVal: answer.unwrap_or(0) };
        }
        Ok(())
    }

    /// Whether a GPU accesses the memory of another one. Nothing is known of GPUs that the topology
    /// file lacks.
    fn nvmlDeviceGetP2PStatus(
        device: nvmlDevice_t,
        other: nvmlDevice_t,
        what: nvmlGpuP2PCapsIndex_t,
        status: Out<nvmlGpuP2PStatus_t>,
    ) {
        let machine = machine()?;
        let access = match (place(device)?, place(other)?) {
            (Some(one), Some(other)) => match what {
                BY_NVLINK => machine.has_nvlink(one, other),
                _ => one == other || machine.reaches(one, other),
            },
            _ => false,
        };
        status.put(if access { ACCESS } else { NO_ACCESS })
    }

    /// The NVLink domain.
    fn nvmlDeviceGetGpuFabricInfo(device: nvmlDevice_t, info: Out<nvmlGpuFabricInfo_t>) {
        info.put(fabric(device)?)
    }

    /// The NVLink domain: the fields that all versions of the structure have.
    fn nvmlDeviceGetGpuFabricInfoV(device: nvmlDevice_t, info: Out<nvmlGpuFabricInfo_v2_t>) {
        let (found, info) = (fabric(device)?, info.value()?);
        *info = nvmlGpuFabricInfo_v2_t {
            version: info.version,
            clusterUuid: found.clusterUuid,
            status: found.status,
            cliqueId: found.cliqueId,
            state: found.state,
            healthMask: 0,
        };
        Ok(())
    }
}
