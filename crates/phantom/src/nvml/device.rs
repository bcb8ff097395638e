//! A GPU: name, UUID, PCI function and its link.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlBrandType_enum_NVML_BRAND_GEFORCE as GEFORCE, nvmlBrandType_enum_NVML_BRAND_TESLA as TESLA,
    nvmlBrandType_t, nvmlDevice_t, nvmlPciInfo_t, nvmlPstates_t,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
};

use crate::nvml::library::{Answer, Out, functions, gpu, machine, place};

/// The letters of a text and zeros.
pub(crate) fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    for (letter, byte) in letters[..N - 1].iter_mut().zip(text.bytes()) {
        *letter = byte as c_char;
    }
    letters
}

/// The generation of a GPU's link.
fn generation(device: nvmlDevice_t) -> Answer<c_uint> {
    gpu(device)?.attachment.generation.ok_or(NOT_SUPPORTED)
}

functions! {
    /// The name.
    fn nvmlDeviceGetName(device: nvmlDevice_t, name: Out<c_char>, length: c_uint) {
        name.put_text(length, &gpu(device)?.name)
    }

    /// The UUID.
    fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: Out<c_char>, length: c_uint) {
        let digits: String = gpu(device)?.uuid.iter().map(|it| format!("{it:02x}")).collect();
        let part = |from, to| digits.get(from..to).unwrap_or_default();
        let [a, b, c] = [part(0, 8), part(8, 12), part(12, 16)];
        let text = format!("GPU-{a}-{b}-{c}-{}-{}", part(16, 20), part(20, 32));
        uuid.put_text(length, &text)
    }

    /// The brand: a Tesla, unless NICs cannot access its memory.
    fn nvmlDeviceGetBrand(device: nvmlDevice_t, brand: Out<nvmlBrandType_t>) {
        brand.put(if gpu(device)?.rdma { TESLA } else { GEFORCE })
    }

    /// The PCI function.
    fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, info: Out<nvmlPciInfo_t>) {
        let gpu = gpu(device)?;
        let (bus, text) = (gpu.bus_id.0, gpu.bus_id.to_string().to_uppercase());
        info.put(nvmlPciInfo_t {
            busIdLegacy: letters(&text),
            domain: (bus >> 20) as c_uint,
            bus: (bus >> 12 & 0xff) as c_uint,
            device: (bus >> 4 & 0xff) as c_uint,
            pciDeviceId: gpu.attachment.device,
            pciSubSystemId: gpu.attachment.subsystem,
            busId: letters(&format!("0000{text}")),
        })
    }

    /// The compute capability: of a GPU that the topology file lacks, that of the first one.
    fn nvmlDeviceGetCudaComputeCapability(device: nvmlDevice_t, major: Out<c_int>, minor: Out<c_int>) {
        let gpu = machine()?.gpus.get(place(device)?.unwrap_or(0)).ok_or(NOT_SUPPORTED)?;
        let sm = gpu.sm as c_int;
        major.put(sm / 10)?;
        minor.put(sm % 10)
    }

    /// The generation of the PCI Express link.
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: nvmlDevice_t, found: Out<c_uint>) {
        found.put(generation(device)?)
    }

    /// The same: links are as fast as they can be.
    fn nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, found: Out<c_uint>) {
        found.put(generation(device)?)
    }

    /// The lanes of the PCI Express link.
    fn nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, width: Out<c_uint>) {
        width.put(gpu(device)?.attachment.width)
    }

    /// The same: links are as wide as they can be.
    fn nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, width: Out<c_uint>) {
        width.put(gpu(device)?.attachment.width)
    }

    /// The performance state: full speed.
    fn nvmlDeviceGetPerformanceState(device: nvmlDevice_t, state: Out<nvmlPstates_t>) {
        gpu(device)?;
        state.put(0)
    }

    /// Whether the GPU is partitioned: none is.
    fn nvmlDeviceGetMigMode(device: nvmlDevice_t, current: Out<c_uint>, pending: Out<c_uint>) {
        gpu(device)?;
        current.put(0)?;
        pending.put(0)
    }
}
