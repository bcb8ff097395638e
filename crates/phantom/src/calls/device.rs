//! Initialization, errors, versions and devices.

use std::ffi::{CStr, c_char};

use crate::machine::{Gpu, Machine};
use cudarc::driver::sys::{
    CUdevice_P2PAttribute as P2p, CUdevice_attribute_enum as Attribute, CUresult,
};

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{Out, text};
use crate::call::entry_points;
use crate::driver::driver;
use crate::errors;
use crate::start;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The value of an attribute of a GPU by cuda.h's number; 0 for those that a phantom does not have.
fn value(machine: &Machine, number: usize, gpu: &Gpu, attribute: u32) -> i32 {
    let bus = gpu.bus_id.0;
    match attribute {
        1..=3 => 1024,        // most threads of a block, x, y
        4 => 64,              // most threads of a block, z
        5 => i32::MAX,        // blocks of a grid, x
        6 | 7 => 65_535,      // blocks of a grid, y and z
        8 => 49_152,          // shared memory of a block
        9 => 65_536,          // constant memory
        10 => 32,             // threads of a warp
        12 | 82 => 65_536,    // registers of a block, of a multiprocessor
        13 | 36 => 1_000_000, // clocks of multiprocessors and memory, kHz
        16 => gpu.multiprocessors as i32,
        33 => (bus >> 12 & 0xff) as i32, // PCI bus
        34 => (bus >> 4 & 0xff) as i32,  // PCI device
        37 => 5120,                      // width of the memory's bus
        38 => 50 << 20,                  // second-level cache, bytes
        39 => 2048,                      // threads of a multiprocessor
        40 => 2,                         // copy engines
        50 => (bus >> 20) as i32,        // PCI domain
        75 => (gpu.sm / 10) as i32,
        76 => (gpu.sm % 10) as i32,
        81 => 233_472,                    // shared memory of a multiprocessor
        97 => 232_448,                    // most shared memory of a block on request
        106 => 32,                        // blocks of a multiprocessor
        110 | 116 => i32::from(gpu.rdma), // GPUDirect RDMA, also with virtual memory
        111 => 1024,                      // shared memory of a block that the driver takes
        124 => i32::from(machine.setup.dma_buf),
        126 => 1 + 3 * i32::from(gpu.sm >= 90), // domains of memory
        128 => i32::from(machine.reports_fabric()),
        132 => i32::from(machine.has_multicast(number)),
        133 => i32::from(machine.setup.mps),
        134 => gpu.numa,
        // What every GPU since Volta has on Linux: overlap, mapped host memory, concurrent kernels,
        // unified addresses, priorities of streams, managed memory, preemption, cooperative
        // launches, registered memory, virtual memory, descriptors, events between processes.
        15 | 19 | 31 | 41 | 78 | 83 | 89 | 90 | 91 | 95 | 99 | 102 | 103 | 125 => 1,
        _ => 0,
    }
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

    /// The device with a bus id.
    fn cuDeviceGetByPCIBusId(device: Out<i32>, id: *const c_char) {
        let (driver, id) = (driver()?, text(id, Section::Device)?);
        match driver.machine.by_bus_id(&id) {
            Some(number) => device.put(number as i32, Section::Device),
            None => refuse(CUresult::CUDA_ERROR_INVALID_DEVICE, Section::Device, format!("no device is at {id}")),
        }
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
