//! Multicast of NVSwitches (NVLS): memory of several GPUs that one address stands for.
//!
//! A multicast object is made for as many GPUs as take part, each is added to it, and memory of each is bound to it. Each
//! GPU maps its own memory and the object: what its kernels store at the object's address (`multimem.st`) the switch stores
//! in all memories, and what they load there (`multimem.ld_reduce`) it reduces over all.

use std::sync::Arc;

use cudarc::driver::sys;
use kernel_bundle::Everywhere;
use sys::CUdevice_attribute_enum as Attribute;

use crate::device::Device;
use crate::error::Driver;
use crate::presence;

/// Functions of the driver that only this needs; in drivers since 12.1.
const SYMBOLS: [&str; 13] = [
    "cuMulticastGetGranularity",
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastUnbind",
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

/// Physical memory, or a multicast object.
#[derive(Debug)]
struct Handle(sys::CUmemGenericAllocationHandle);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was made once, and is mapped and bound no more: `Multicast` drops its parts in that order.
        let _ = unsafe { sys::cuMemRelease(self.0) };
    }
}

/// Addresses at which a handle is mapped.
#[derive(Debug)]
struct Mapped {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
    /// Whether something is mapped there.
    filled: bool,
}

impl Mapped {
    /// Maps a handle for kernels of one GPU.
    fn new(
        device: &Arc<Device>,
        handle: &Handle,
        bytes: usize,
        granularity: usize,
    ) -> Result<Self, String> {
        let what = || format!("mapping {bytes} bytes for GPU {}", device.number);
        let mut address = 0;
        // SAFETY: the driver writes one address.
        unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, granularity, 0, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        let mut mapped = Self {
            device: Arc::clone(device),
            address,
            bytes,
            filled: false,
        };
        // SAFETY: the addresses were reserved just now, and the handle has as many bytes.
        unsafe { sys::cuMemMap(address, bytes, 0, handle.0, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        mapped.filled = true;
        let access = sys::CUmemAccessDesc {
            location: location(device),
            flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the driver reads one description.
        unsafe { sys::cuMemSetAccess(address, bytes, &raw const access, 1) }
            .to(what)
            .map_err(|error| error.to_string())?;
        Ok(mapped)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        // SAFETY: no kernel runs that was given these addresses, for every launch is waited for.
        unsafe {
            if self.filled {
                let _ = sys::cuMemUnmap(self.address, self.bytes);
            }
            let _ = sys::cuMemAddressFree(self.address, self.bytes);
        }
    }
}

/// What one GPU has of it. Fields are dropped from the first to the last.
#[derive(Debug)]
struct Part {
    all: Mapped,
    own: Mapped,
    _bound: Bound,
    _memory: Handle,
}

/// That memory of a GPU is bound to the object.
#[derive(Debug)]
struct Bound {
    object: Arc<Handle>,
    device: sys::CUdevice,
    bytes: usize,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: it was bound so, and both are there still.
        let _ = unsafe { sys::cuMulticastUnbind(self.object.0, self.device, 0, self.bytes) };
    }
}

/// Memory of several GPUs that one address stands for.
#[derive(Debug)]
pub struct Multicast {
    parts: Vec<Part>,
}

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.ordinal(),
    }
}

impl Multicast {
    /// So many bytes on each of some GPUs.
    ///
    /// # Errors
    /// A GPU or the driver has no multicast, one is named twice, or there is not enough memory.
    pub(crate) fn new(devices: &[Arc<Device>], bytes: u64) -> Result<Self, String> {
        check(devices)?;
        let count = devices.len();
        let what = || format!("making a multicast of {bytes} bytes for {count} GPUs");
        let told = |result: sys::CUresult| result.to(what).map_err(|error| error.to_string());
        let mut properties = sys::CUmulticastObjectProp {
            numDevices: u32::try_from(count).unwrap_or(u32::MAX),
            size: bytes as usize,
            handleTypes: 0,
            flags: 0,
        };
        let recommended =
            sys::CUmulticastGranularity_flags_enum::CU_MULTICAST_GRANULARITY_RECOMMENDED;
        let mut granularity = 0;
        // SAFETY: the driver reads the properties and writes one number.
        told(unsafe {
            sys::cuMulticastGetGranularity(&raw mut granularity, &raw const properties, recommended)
        })?;
        for device in devices {
            granularity = granularity.max(memory_granularity(device)?);
        }
        let size = (bytes as usize).next_multiple_of(granularity.max(1));
        properties.size = size;
        let mut object = 0;
        // SAFETY: the driver reads the properties and writes one handle.
        told(unsafe { sys::cuMulticastCreate(&raw mut object, &raw const properties) })?;
        let object = Arc::new(Handle(object));
        // All are added before any memory is bound, as the driver asks for.
        for device in devices {
            // SAFETY: both were made by the driver.
            told(unsafe { sys::cuMulticastAddDevice(object.0, device.ordinal()) })?;
        }
        let mut parts = Vec::with_capacity(count);
        for device in devices {
            device.enter()?;
            let memory = memory(device, size)?;
            // SAFETY: the memory is as long as the object, to which its device was added.
            told(unsafe { sys::cuMulticastBindMem(object.0, 0, memory.0, 0, size, 0) })?;
            let bound = Bound {
                object: Arc::clone(&object),
                device: device.ordinal(),
                bytes: size,
            };
            let own = Mapped::new(device, &memory, size, granularity)?;
            let all = Mapped::new(device, &object, size, granularity)?;
            parts.push(Part {
                all,
                own,
                _bound: bound,
                _memory: memory,
            });
        }
        Ok(Self { parts })
    }

    /// Where each GPU finds it.
    pub(crate) fn addresses(&self) -> Vec<Everywhere> {
        let parts = self.parts.iter();
        let addresses = parts.map(|part| Everywhere {
            all: part.all.address,
            own: part.own.address,
        });
        addresses.collect()
    }
}

/// Whether these GPUs have multicast.
fn check(devices: &[Arc<Device>]) -> Result<(), String> {
    if let Some(symbol) = presence::lacking(&SYMBOLS) {
        return Err(format!(
            "the NVIDIA driver is too old for multicast (NVLS): it lacks {symbol}; install 580 or newer, or take another \
             algorithm"
        ));
    }
    for (place, device) in devices.iter().enumerate() {
        let number = device.number;
        if devices[..place].iter().any(|other| other.number == number) {
            return Err(format!(
                "two ranks are on GPU {number}, and a multicast (NVLS) has one memory of each GPU; take as many GPUs as \
                 ranks (--gpus), or another algorithm"
            ));
        }
        let supported = device
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
            .map_err(|error| error.to_string())?;
        if supported == 0 {
            return Err(format!(
                "GPU {number} ({}) has no multicast (NVLS), which needs compute capability 9.0 or newer, NVSwitches and their \
                 fabric manager; take another algorithm, such as two-phase-mesh",
                device.facts.name
            ));
        }
    }
    Ok(())
}

fn properties(device: &Device) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType_enum::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn memory_granularity(device: &Device) -> Result<usize, String> {
    let properties = properties(device);
    let recommended =
        sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
    let mut granularity = 0;
    // SAFETY: the driver reads the properties and writes one number.
    unsafe {
        sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, recommended)
    }
    .to(|| format!("asking GPU {} how memory is aligned", device.number))
    .map_err(|error| error.to_string())?;
    Ok(granularity)
}

/// Physical memory of a GPU.
fn memory(device: &Device, bytes: usize) -> Result<Handle, String> {
    let properties = properties(device);
    let mut handle = 0;
    // SAFETY: the driver reads the properties and writes one handle.
    unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) }
        .to(|| format!("allocating {bytes} bytes on GPU {}", device.number))
        .map_err(|error| error.to_string())?;
    Ok(Handle(handle))
}
