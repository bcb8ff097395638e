//! The functions of NVML that NCCL looks up: those of a phantom, and a version as NVIDIA writes it.

use std::ffi::{c_char, c_uint};

use phantom::nvml::{device, library, links};

use super::driver::put_text;
use super::{Presented, presented};

unsafe extern "C" fn driver_version(out: *mut c_char, room: c_uint) -> c_uint {
    // SAFETY: NVML's caller gives this much room.
    unsafe { put_text(out, room as usize, "575.57.08") };
    0
}

/// The functions that are presented.
pub(super) fn functions() -> Vec<Presented> {
    presented! {
        "nvmlInit" => library::nvmlInit_v2,
        "nvmlInit_v2" => library::nvmlInit_v2,
        "nvmlShutdown" => library::nvmlShutdown,
        "nvmlDeviceGetCount" => library::nvmlDeviceGetCount_v2,
        "nvmlDeviceGetCount_v2" => library::nvmlDeviceGetCount_v2,
        "nvmlDeviceGetHandleByIndex" => library::nvmlDeviceGetHandleByIndex_v2,
        "nvmlDeviceGetHandleByIndex_v2" => library::nvmlDeviceGetHandleByIndex_v2,
        "nvmlDeviceGetHandleByPciBusId" => library::nvmlDeviceGetHandleByPciBusId_v2,
        "nvmlDeviceGetHandleByPciBusId_v2" => library::nvmlDeviceGetHandleByPciBusId_v2,
        "nvmlDeviceGetIndex" => library::nvmlDeviceGetIndex,
        "nvmlDeviceGetCudaComputeCapability" => device::nvmlDeviceGetCudaComputeCapability,
        "nvmlDeviceGetP2PStatus" => links::nvmlDeviceGetP2PStatus,
        "nvmlDeviceGetNvLinkState" => links::nvmlDeviceGetNvLinkState,
        "nvmlDeviceGetNvLinkRemotePciInfo" => links::nvmlDeviceGetNvLinkRemotePciInfo_v2,
        "nvmlDeviceGetNvLinkRemotePciInfo_v2" => links::nvmlDeviceGetNvLinkRemotePciInfo_v2,
        "nvmlDeviceGetNvLinkCapability" => links::nvmlDeviceGetNvLinkCapability,
        "nvmlDeviceGetFieldValues" => links::nvmlDeviceGetFieldValues,
        "nvmlDeviceGetPciInfo_v3" => device::nvmlDeviceGetPciInfo_v3,
        "nvmlDeviceGetGpuFabricInfoV" => links::nvmlDeviceGetGpuFabricInfoV,
        "nvmlSystemGetConfComputeSettings" => library::nvmlSystemGetConfComputeSettings,
        "nvmlSystemGetDriverVersion" => driver_version,
        "nvmlErrorString" => library::nvmlErrorString,
    }
}
