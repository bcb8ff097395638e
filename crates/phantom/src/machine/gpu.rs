//! One GPU.

use topology::BusId;

use crate::machine::attachment::Attachment;
use crate::machine::setup::Sizes;

/// A GPU that a phantom driver presents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, which says that it is a phantom.
    pub name: String,
    /// Its number in the topology file (`dev`): NVML's on the whole machine.
    pub number: i32,
    /// Its bus id.
    pub bus_id: BusId,
    /// Compute capability × 10, such as 90.
    pub sm: u32,
    /// Its UUID, unique on its machine.
    pub uuid: [u8; 16],
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// NUMA node of its host memory.
    pub numa: i32,
    /// Whether NICs can access its memory (GPUDirect RDMA).
    pub rdma: bool,
    /// What joins it to the machine.
    pub attachment: Attachment,
}

/// Memory in MiB and multiprocessors of the best-known GPU of a compute capability, from NVIDIA's
/// data sheets: V100, T4, A100, A10, L40S, H100, B200, RTX PRO 6000.
const fn usual(sm: u32) -> (u64, u32) {
    match sm {
        ..=72 => (32 << 10, 80),
        73..=79 => (16 << 10, 40),
        80 => (80 << 10, 108),
        81..=88 => (24 << 10, 72),
        89 => (48 << 10, 142),
        90..=99 => (80 << 10, 132),
        100..=119 => (180 << 10, 148),
        _ => (96 << 10, 188),
    }
}

impl Gpu {
    /// A GPU of a topology with these sizes.
    pub(crate) fn new(
        gpu: &topology::Gpu,
        numa: i32,
        sizes: Sizes,
        attachment: Attachment,
    ) -> Self {
        let (bus_id, sm) = (gpu.bus_id, u32::try_from(gpu.sm).unwrap_or(0));
        let (mib, multiprocessors) = usual(sm);
        let mut uuid = *b"topo phm\0\0\0\0\0\0\0\0";
        uuid[8..].copy_from_slice(&bus_id.0.to_be_bytes());
        let mut name = format!("topo phantom sm_{sm}");
        if let Some(part) = gpu.mlopart {
            // NCCL reads the part off the name (`fillInfo`).
            name.push_str(&format!(" MLOPart {part}"));
            uuid[7] = (part as u8).wrapping_add(1);
        }
        Self {
            name,
            number: gpu.dev,
            bus_id,
            sm,
            uuid,
            memory_bytes: sizes.memory_mib.unwrap_or(mib) << 20,
            multiprocessors: sizes.multiprocessors.unwrap_or(multiprocessors),
            numa,
            rdma: gpu.gdr,
            attachment,
        }
    }
}
