//! Initialization, errors, versions and devices.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{
    CUdevice_P2PAttribute as P2p, CUdevice_attribute_enum as Attribute, CUresult,
};
use phantom_machine::{Fabric, Gpu, Machine};

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::driver;
use crate::errors;
use crate::start;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Attributes whose value is 1: what every GPU since Volta has on Linux.
const ALWAYS: [Attribute; 14] = [
    Attribute::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,
    Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
    Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
];

/// The numbers of a GPU; 0 for attributes that a phantom does not have.
fn value(machine: &Machine, number: usize, gpu: &Gpu, attribute: u32) -> i32 {
    let bus = gpu.bus_id.0;
    let part = |shift: u32, mask: u64| (bus >> shift & mask) as i32;
    let numbers = [
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
        (Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
            65_536,
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
            49_152,
        ),
        (Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1_000_000),
        (Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1_000_000),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            gpu.multiprocessors as i32,
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            (gpu.sm / 10) as i32,
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            (gpu.sm % 10) as i32,
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
            part(20, u64::MAX >> 20),
        ),
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, part(12, 0xff)),
        (Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, part(4, 0xff)),
        (Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu.numa),
        (Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
            i32::from(gpu.rdma),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
            i32::from(gpu.rdma),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
            i32::from(machine.setup.dma_buf),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT,
            if gpu.sm >= 90 { 4 } else { 1 },
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MPS_ENABLED,
            i32::from(machine.setup.mps),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
            i32::from(machine.has_multicast(number)),
        ),
        (
            Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
            i32::from(machine.setup.fabric != Fabric::None),
        ),
    ];
    let found = numbers.iter().find(|(it, _)| *it as u32 == attribute);
    let always = ALWAYS.iter().any(|it| *it as u32 == attribute);
    found.map_or(i32::from(always), |(_, value)| *value)
}

/// Writes a text that ends with a 0 into `room` bytes, cut off if it is longer.
fn write_text(text: &str, place: Out<c_char>, room: i32) -> Answer {
    let room = usize::try_from(room).unwrap_or_default();
    ensure(
        room > 0,
        INVALID,
        Section::Device,
        "there is no room for the text",
    )?;
    let bytes = text.bytes().take(room - 1).chain([0]);
    for (at, byte) in bytes.enumerate() {
        place.at(at).put(byte as c_char, Section::Device)?;
    }
    Ok(())
}

fn words(
    error: u32,
    place: Out<*const c_char>,
    pick: fn((&'static CStr, &'static CStr)) -> &'static CStr,
) -> Answer {
    let Some(found) = errors::words(error) else {
        place.put_if_wanted(std::ptr::null());
        return refuse(
            INVALID,
            Section::Initialization,
            format!("there is no error {error}"),
        );
    };
    place.put(pick(found).as_ptr(), Section::Initialization)
}

entry_points! {
    /// Initializes the driver.
    fn cuInit(flags: u32) {
        ensure(flags == 0, INVALID, Section::Initialization, "flags must be 0")?;
        let no_device = CUresult::CUDA_ERROR_NO_DEVICE;
        match start::machine() {
            Err(why) => refuse(no_device, Section::Machine, why),
            Ok(machine) if machine.gpus.is_empty() => {
                refuse(no_device, Section::Machine, "the topology has no GPU")
            }
            Ok(_) => {
                start::initialise();
                Ok(())
            }
        }
    }

    /// The version of the driver.
    fn cuDriverGetVersion(version: Out<i32>) {
        let driver = start::machine().map_or(0, |it| it.setup.driver);
        version.put(driver as i32, Section::Initialization)
    }

    /// The name of an error.
    fn cuGetErrorName(error: u32, text: Out<*const c_char>) {
        words(error, text, |(name, _)| name)
    }

    /// The meaning of an error.
    fn cuGetErrorString(error: u32, text: Out<*const c_char>) {
        words(error, text, |(_, meaning)| meaning)
    }

    /// A handle of a device.
    fn cuDeviceGet(device: Out<i32>, number: i32) {
        driver()?.device(number)?;
        device.put(number, Section::Device)
    }

    /// The number of devices.
    fn cuDeviceGetCount(count: Out<i32>) {
        count.put(driver()?.machine.gpus.len() as i32, Section::Device)
    }

    /// The name of a device.
    fn cuDeviceGetName(name: Out<c_char>, room: i32, device: i32) {
        write_text(&driver()?.device(device)?.1.name, name, room)
    }

    /// The bus id of a device.
    fn cuDeviceGetPCIBusId(text: Out<c_char>, room: i32, device: i32) {
        let id = driver()?.device(device)?.1.bus_id.to_string().to_uppercase();
        write_text(&id, text, room)
    }

    /// An attribute of a device.
    fn cuDeviceGetAttribute(result: Out<i32>, attribute: u32, device: i32) {
        let driver = driver()?;
        let (number, gpu) = driver.device(device)?;
        let known = 1..Attribute::CU_DEVICE_ATTRIBUTE_MAX as u32;
        ensure(known.contains(&attribute), INVALID, Section::Device, "there is no such attribute")?;
        result.put(value(driver.machine, number, gpu, attribute), Section::Device)
    }

    /// The memory of a device, bytes.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        bytes.put(driver()?.device(device)?.1.memory_bytes as usize, Section::Device)
    }

    /// The UUID of a device.
    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) {
        uuid.put(driver()?.device(device)?.1.uuid, Section::Device)
    }

    /// Whether a device can access the memory of another one.
    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        let driver = driver()?;
        let (one, other) = (driver.device(device)?.0, driver.device(peer)?.0);
        can.put(i32::from(driver.machine.reaches(one, other)), Section::Peer)
    }

    /// An attribute of the link between two devices.
    fn cuDeviceGetP2PAttribute(result: Out<i32>, attribute: u32, device: i32, peer: i32) {
        let driver = driver()?;
        let (one, other) = (driver.device(device)?.0, driver.device(peer)?.0);
        let different = CUresult::CUDA_ERROR_INVALID_DEVICE;
        ensure(one != other, different, Section::Peer, "both devices are the same")?;
        let reaches = driver.machine.reaches(one, other);
        let by_nvlink = reaches && driver.machine.has_nvlink(one, other);
        let found = match attribute {
            it if it == P2p::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK as u32 => i32::from(!by_nvlink),
            it if it == P2p::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED as u32 => i32::from(reaches),
            it if it == P2p::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED as u32 => i32::from(by_nvlink),
            _ => return refuse(INVALID, Section::Peer, "there is no such attribute"),
        };
        result.put(found, Section::Peer)
    }
}
