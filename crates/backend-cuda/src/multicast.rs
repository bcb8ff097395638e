//! Multicast of NVSwitches (NVLS): memory of several GPUs with one address.
//!
//! Rank 0 creates a multicast object for all GPUs that take part, and the others open it: threads
//! of the same process by its number, other processes with a file descriptor or a fabric handle,
//! which other hosts can open, too. Each GPU is added to it, and once all are, each binds memory.
//! Each GPU maps its own memory and the object. The switch writes a store to the object's address
//! (`multimem.st`) to all memories and reduces a load (`multimem.ld_reduce`) over all of them.
//!
//! | member | handle |
//! |---|---|
//! | threads of the process | `NUMBER:BYTES` |
//! | fabric handle | `HANDLE:BYTES` |
//! | descriptor | `WORD:BYTES` |

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys;
use device_runtime::{Bindable, MulticastAddresses, Team};
use sys::CUdevice_attribute_enum as Attribute;
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::bindable::{granularity, handle_type, kind_of};
use crate::callers_memory::Retained;
use crate::descriptors::{self, Offer};
use crate::device::Device;
use crate::error::Driver;
use crate::handles::{bytes_of, digits, lock};
use crate::memory::{self, MemoryKind, allow_access, export_descriptor, export_fabric, properties};
use crate::presence;

/// Functions of the driver that only multicast needs; drivers since 12.1 have them.
const SYMBOLS: [&str; 15] = [
    "cuMulticastGetGranularity",
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastBindAddr",
    "cuMulticastUnbind",
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

/// Physical memory or a multicast object.
#[derive(Debug)]
struct Handle {
    device: Arc<Device>,
    number: sys::CUmemGenericAllocationHandle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: created once. It is neither mapped nor bound any more: `Part` drops it last.
            let _ = unsafe { sys::cuMemRelease(self.number) };
        }
    }
}

/// An address range at which a handle is mapped.
#[derive(Debug)]
struct MappedRange {
    device: Arc<Device>,
    address: u64,
    bytes: usize,
    /// Whether the mapping was made.
    filled: bool,
}

impl MappedRange {
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
        unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, granularity, 0, 0) }.to(what)?;
        let mut mapped = Self {
            device: Arc::clone(device),
            address,
            bytes,
            filled: false,
        };
        // SAFETY: the addresses were reserved just now, and the handle has as many bytes.
        unsafe { sys::cuMemMap(address, bytes, 0, handle.number, 0) }.to(what)?;
        mapped.filled = true;
        allow_access(device, address, bytes, what)?;
        Ok(mapped)
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        // SAFETY: every launch is waited for, so no kernel uses these addresses.
        unsafe {
            if self.filled {
                let _ = sys::cuMemUnmap(self.address, self.bytes);
            }
            let _ = sys::cuMemAddressFree(self.address, self.bytes);
        }
    }
}

/// Memory of a GPU bound to a multicast object.
#[derive(Debug)]
struct BoundMemory {
    object: Arc<Handle>,
    device: Arc<Device>,
    bytes: usize,
}

impl Drop for BoundMemory {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        let (object, device) = (self.object.number, self.device.ordinal());
        // SAFETY: bound once with these values; object and memory are still there.
        let _ = unsafe { sys::cuMulticastUnbind(object, device, 0, self.bytes) };
    }
}

/// The bound memory of a GPU. Fields are dropped from first to last.
#[derive(Debug)]
struct Part {
    _all: MappedRange,
    /// `None`: it is a caller's, where that mapped it.
    _own: Option<MappedRange>,
    _bound: BoundMemory,
    /// New memory.
    _memory: Option<Handle>,
    /// A caller's memory: as long as it is retained, no other memory has its number.
    _callers: Option<Retained>,
}

/// A GPU's part of a multicast object. Fields are dropped from first to last.
#[derive(Debug)]
pub struct Multicast {
    part: Option<Part>,
    object: Arc<Handle>,
    device: Arc<Device>,
    kind: Option<MemoryKind>,
    bytes: usize,
    granularity: usize,
    /// The caller's memory to bind; `None`: new memory.
    callers: Option<Bindable>,
    /// The descriptor that others take, until all have.
    descriptor: Option<Offer>,
}

/// Multicast objects that threads of this process can join, by the driver's number.
#[derive(Debug, Default)]
pub(crate) struct Objects(Mutex<HashMap<u64, Weak<Handle>>>);

/// The properties of a team's object, with its size rounded up to the returned granularity, the
/// least one: the recommended one can be as much as 512 MiB.
fn wanted(
    device: &Device,
    team: &Team,
    kind: Option<MemoryKind>,
) -> Result<(sys::CUmulticastObjectProp, usize), String> {
    let mut properties = sys::CUmulticastObjectProp {
        numDevices: team.ranks,
        size: team.bytes as usize,
        handleTypes: u64::from(handle_type(kind).0),
        flags: 0,
    };
    let granularity = granularity(team, &properties)?;
    if team.memory.is_some() {
        return Ok((properties, granularity));
    }
    let least = sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let of_memory = memory::granularity(device, &bound_properties(device, kind), least)?;
    let granularity = granularity.max(of_memory).max(1);
    properties.size = properties.size.next_multiple_of(granularity);
    Ok((properties, granularity))
}

impl Multicast {
    /// Creates an object with this GPU as its first member, and its handle for the others.
    ///
    /// # Errors
    /// The driver cannot create one.
    pub(crate) fn begin(
        device: &Arc<Device>,
        team: &Team,
        objects: &Objects,
    ) -> Result<(Self, String), String> {
        let kind = kind_of(team)?;
        let (properties, granularity) = wanted(device, team, kind)?;
        let bytes = properties.size;
        let what = || {
            format!(
                "making a multicast of {bytes} bytes for {} GPUs",
                team.ranks
            )
        };
        let mut object = 0;
        // SAFETY: the driver reads the properties and writes one handle.
        unsafe { sys::cuMulticastCreate(&raw mut object, &raw const properties) }.to(what)?;
        let mut made = Self {
            part: None,
            object: Arc::new(Handle {
                device: Arc::clone(device),
                number: object,
            }),
            device: Arc::clone(device),
            kind,
            bytes,
            granularity,
            callers: team.memory.clone(),
            descriptor: None,
        };
        let word = match kind {
            None => {
                let mut known = lock(&objects.0);
                known.retain(|_, object| object.strong_count() > 0);
                known.insert(object, Arc::downgrade(&made.object));
                format!("{object}:{bytes}")
            }
            Some(MemoryKind::Fabric) => {
                let handle = export_fabric(object, what)?;
                format!("{}:{bytes}", digits(&handle))
            }
            Some(_) => {
                let offer = Offer::new(export_descriptor(object, what)?)?;
                let word = format!("{}:{bytes}", offer.word());
                made.descriptor = Some(offer);
                word
            }
        };
        made.add()?;
        Ok((made, word))
    }

    /// Joins the object of a handle. The returned text for the other ranks is empty.
    ///
    /// # Errors
    /// The object cannot be opened, or does not accept the GPU.
    pub(crate) fn join(
        device: &Arc<Device>,
        team: &Team,
        word: &str,
        objects: &Objects,
    ) -> Result<(Self, String), String> {
        let unknown = || format!("rank 0 shares a multicast in an unknown form, `{word}`");
        let kind = kind_of(team)?;
        let (_, granularity) = wanted(device, team, kind)?;
        let (handle, bytes) = word.rsplit_once(':').ok_or_else(unknown)?;
        let bytes: usize = bytes.parse().map_err(|_| unknown())?;
        if !bytes.is_multiple_of(granularity) {
            return Err(format!(
                "GPU {} has multicasts of multiples of {granularity} bytes, and rank 0 made one of {bytes}; take GPUs of one \
                 kind",
                device.number
            ));
        }
        let object = match kind {
            None => {
                let number: u64 = handle.parse().map_err(|_| unknown())?;
                let known = lock(&objects.0).get(&number).and_then(Weak::upgrade);
                known.ok_or_else(|| "rank 0 has given its multicast back".to_owned())?
            }
            Some(MemoryKind::Fabric) => {
                let data = bytes_of(handle).ok_or_else(unknown)?;
                let mut fabric = sys::CUmemFabricHandle { data };
                let fabric = (&raw mut fabric).cast::<c_void>();
                Arc::new(import(device, fabric, handle_type(kind))?)
            }
            Some(_) => {
                let descriptor = descriptors::take(handle)?;
                let number = descriptor.as_raw_fd().unsigned_abs() as usize;
                // The driver takes the number as the pointer and leaves the descriptor open.
                let number = std::ptr::without_provenance_mut(number);
                Arc::new(import(device, number, handle_type(kind))?)
            }
        };
        let joined = Self {
            part: None,
            object,
            device: Arc::clone(device),
            kind,
            bytes,
            granularity,
            callers: team.memory.clone(),
            descriptor: None,
        };
        joined.add()?;
        // The others only need to know that this rank joined.
        Ok((joined, String::new()))
    }

    /// Adds the GPU to the object.
    fn add(&self) -> Result<(), String> {
        // SAFETY: both were made by the driver.
        let added = unsafe { sys::cuMulticastAddDevice(self.object.number, self.device.ordinal()) };
        let number = self.device.number;
        Ok(added.to(|| {
            format!(
                "making GPU {number} a member of a multicast (all must be joined by the same NVSwitches)"
            )
        })?)
    }

    /// Binds memory of the GPU, then maps memory and object. The driver waits for all GPUs.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn bind(&mut self) -> Result<MulticastAddresses, String> {
        // All members have opened it.
        self.descriptor = None;
        let (device, bytes) = (&self.device, self.bytes);
        let object = self.object.number;
        let what = || {
            format!(
                "binding {bytes} bytes of GPU {} to a multicast",
                device.number
            )
        };
        let (memory, callers) = match &self.callers {
            Some(callers) => {
                let id = callers.allocation.pieces.first().map_or(0, |it| it.id);
                let retained = Retained::still_at(callers.base, id)?;
                // SAFETY: the driver checks that memory of this length is mapped there, of a device
                // that was added to the object.
                unsafe { sys::cuMulticastBindAddr(object, 0, callers.base, bytes, 0) }.to(what)?;
                (None, Some(retained))
            }
            None => {
                let memory = allocate(device, self.kind, bytes)?;
                // SAFETY: the memory is as long as the object, to which its device was added.
                unsafe { sys::cuMulticastBindMem(object, 0, memory.number, 0, bytes, 0) }
                    .to(what)?;
                (Some(memory), None)
            }
        };
        let bound = BoundMemory {
            object: Arc::clone(&self.object),
            device: Arc::clone(device),
            bytes,
        };
        let map = |memory| MappedRange::new(device, memory, bytes, self.granularity);
        let own = memory.as_ref().map(map).transpose()?;
        let callers_base = self.callers.as_ref().map_or(0, |it| it.base);
        let all = MappedRange::new(device, &self.object, bytes, self.granularity)?;
        let found = MulticastAddresses {
            all: all.address,
            own: own.as_ref().map_or(callers_base, |it| it.address),
            bytes: bytes as u64,
        };
        self.part = Some(Part {
            _all: all,
            _own: own,
            _bound: bound,
            _memory: memory,
            _callers: callers,
        });
        Ok(found)
    }
}

fn import(
    device: &Arc<Device>,
    shareable: *mut c_void,
    kind: HandleType,
) -> Result<Handle, String> {
    let mut handle = 0;
    // SAFETY: the driver checks what it is given, reads it, and writes the handle, which is given
    // back once.
    unsafe { sys::cuMemImportFromShareableHandle(&raw mut handle, shareable, kind) }
        .to(|| format!("opening the multicast of rank 0 for GPU {}", device.number))?;
    Ok(Handle {
        device: Arc::clone(device),
        number: handle,
    })
}

/// Checks that a GPU supports multicast.
///
/// # Errors
/// Why it does not.
pub(crate) fn check(device: &Device) -> Result<(), String> {
    if let Some(symbol) = presence::lacking(&SYMBOLS) {
        return Err(format!(
            "the NVIDIA driver is too old for multicast (NVLS): it lacks {symbol}; install 580 or newer"
        ));
    }
    let number = device.number;
    let supported = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)?;
    if supported == 0 {
        return Err(format!(
            "GPU {number} ({}) has no multicast (NVLS), which needs compute capability 9.0 or newer, NVSwitches and their \
             fabric manager",
            device.properties.name
        ));
    }
    Ok(())
}

/// Properties of memory to bind: of the object's kind, although it is not exported.
fn bound_properties(device: &Device, kind: Option<MemoryKind>) -> sys::CUmemAllocationProp {
    properties(device, handle_type(kind), false)
}

/// Allocates physical memory of a GPU.
fn allocate(
    device: &Arc<Device>,
    kind: Option<MemoryKind>,
    bytes: usize,
) -> Result<Handle, String> {
    let properties = bound_properties(device, kind);
    let mut handle = 0;
    // SAFETY: the driver reads the properties and writes one handle.
    unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) }
        .to(|| format!("allocating {bytes} bytes on GPU {}", device.number))?;
    Ok(Handle {
        device: Arc::clone(device),
        number: handle,
    })
}
