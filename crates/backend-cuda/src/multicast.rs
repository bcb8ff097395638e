//! Multicast of NVSwitches (NVLS): memory of several GPUs that one address stands for.
//!
//! Rank 0 makes a multicast object for as many GPUs as take part, and the others open it: threads of the same process by its
//! number, other processes by a file descriptor that they take or by a fabric handle, which reaches other hosts, too. Each
//! is added to it; when all are, memory of each is bound to it. Each GPU maps its own memory and the object: what its
//! kernels store at the object's address (`multimem.st`) the switch stores in all memories, and what they load there
//! (`multimem.ld_reduce`) it reduces over all.
//!
//! | joined by | word |
//! |---|---|
//! | threads of the process | `NUMBER:BYTES` |
//! | fabric handle | `HANDLE:BYTES` |
//! | descriptor | `PROCESS:NUMBER:BYTES` |

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys;
use kernel_bundle::{Everywhere, Team};
use sys::CUdevice_attribute_enum as Attribute;
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::device::Device;
use crate::error::Driver;
use crate::launch::lock;
use crate::memory::MemoryKind;
use crate::presence;
use crate::sharing::{bytes_of, digits, take_descriptor};

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

/// What a GPU has bound. Fields are dropped from the first to the last.
#[derive(Debug)]
struct Part {
    _all: Mapped,
    _own: Mapped,
    _bound: Bound,
    _memory: Handle,
}

/// A GPU's part in memory of several GPUs that one address stands for. Fields are dropped from the first to the last.
#[derive(Debug)]
pub struct Multicast {
    part: Option<Part>,
    object: Arc<Handle>,
    device: Arc<Device>,
    kind: Option<MemoryKind>,
    bytes: usize,
    granularity: usize,
    /// The descriptor that others take, until all have.
    descriptor: Option<OwnedFd>,
}

/// Multicast objects that threads of this process join, by the number that the driver gave them.
#[derive(Debug, Default)]
pub(crate) struct Objects(Mutex<HashMap<u64, Weak<Handle>>>);

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.ordinal(),
    }
}

/// The kind that a team joins by, if it has one.
fn kind_of(team: &Team) -> Result<Option<MemoryKind>, String> {
    let Some(name) = &team.kind else {
        return Ok(None);
    };
    let found = MemoryKind::ALL.into_iter().find(|it| it.name() == name);
    match found.filter(|it| it.handle_type().is_some()) {
        None => Err(format!("there are no multicasts of kind {name}")),
        found => Ok(found),
    }
}

fn handle_type(kind: Option<MemoryKind>) -> HandleType {
    let of_kind = kind.and_then(MemoryKind::handle_type);
    of_kind.unwrap_or(HandleType::CU_MEM_HANDLE_TYPE_NONE)
}

/// What an object is to be, with its size rounded up as this GPU wants it, and to what.
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
    let recommended = sys::CUmulticastGranularity_flags_enum::CU_MULTICAST_GRANULARITY_RECOMMENDED;
    let mut granularity = 0;
    // SAFETY: the driver reads the properties and writes one number.
    unsafe {
        sys::cuMulticastGetGranularity(&raw mut granularity, &raw const properties, recommended)
    }
    .to(|| format!("asking how a multicast of {} GPUs is aligned", team.ranks))
    .map_err(|error| error.to_string())?;
    let granularity = granularity.max(memory_granularity(device, kind)?).max(1);
    properties.size = properties.size.next_multiple_of(granularity);
    Ok((properties, granularity))
}

impl Multicast {
    /// Makes the object, of which this GPU is the first member; and the word by which others open it.
    ///
    /// # Errors
    /// The driver makes none.
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
        unsafe { sys::cuMulticastCreate(&raw mut object, &raw const properties) }
            .to(what)
            .map_err(|error| error.to_string())?;
        let mut made = Self {
            part: None,
            object: Arc::new(Handle(object)),
            device: Arc::clone(device),
            kind,
            bytes,
            granularity,
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
                let handle = export_fabric(object, &what)?;
                format!("{}:{bytes}", digits(&handle))
            }
            Some(_) => {
                let descriptor = export_descriptor(object, &what)?;
                let (process, number) = (std::process::id(), descriptor.as_raw_fd());
                made.descriptor = Some(descriptor);
                format!("{process}:{number}:{bytes}")
            }
        };
        made.add()?;
        Ok((made, word))
    }

    /// Becomes a member of the object that a word names; and a word for the others.
    ///
    /// # Errors
    /// It cannot be opened, or the GPU does not belong to it.
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
                let (process, number) = handle.split_once(':').ok_or_else(unknown)?;
                let descriptor = take_descriptor(process, number).map_err(|why| {
                    format!("{why} (the kernel must be 5.6 or newer and allow it)")
                })?;
                let number = descriptor.as_raw_fd().unsigned_abs() as usize;
                // The driver takes the number itself for the pointer, and the descriptor remains this process's.
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
            descriptor: None,
        };
        joined.add()?;
        // All that the others need to know is that it did.
        Ok((joined, String::new()))
    }

    /// Makes the GPU a member.
    fn add(&self) -> Result<(), String> {
        // SAFETY: both were made by the driver.
        unsafe { sys::cuMulticastAddDevice(self.object.0, self.device.ordinal()) }
            .to(|| {
                format!(
                    "making GPU {} a member of a multicast (all must be joined by the same NVSwitches)",
                    self.device.number
                )
            })
            .map_err(|error| error.to_string())
    }

    /// Binds memory of the GPU, and maps it and the object. All GPUs must be members: the driver waits for them.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn bind(&mut self) -> Result<Everywhere, String> {
        // All have opened it.
        self.descriptor = None;
        let (device, bytes) = (&self.device, self.bytes);
        let memory = memory(device, self.kind, bytes)?;
        // SAFETY: the memory is as long as the object, to which its device was added.
        unsafe { sys::cuMulticastBindMem(self.object.0, 0, memory.0, 0, bytes, 0) }
            .to(|| {
                let number = device.number;
                format!("binding {bytes} bytes of GPU {number} to a multicast")
            })
            .map_err(|error| error.to_string())?;
        let bound = Bound {
            object: Arc::clone(&self.object),
            device: device.ordinal(),
            bytes,
        };
        let own = Mapped::new(device, &memory, bytes, self.granularity)?;
        let all = Mapped::new(device, &self.object, bytes, self.granularity)?;
        let found = Everywhere {
            all: all.address,
            own: own.address,
        };
        self.part = Some(Part {
            _all: all,
            _own: own,
            _bound: bound,
            _memory: memory,
        });
        Ok(found)
    }
}

fn export_fabric(
    object: sys::CUmemGenericAllocationHandle,
    what: &dyn Fn() -> String,
) -> Result<[u8; 64], String> {
    let mut fabric = sys::CUmemFabricHandle { data: [0; 64] };
    let place = (&raw mut fabric).cast::<c_void>();
    let requested = HandleType::CU_MEM_HANDLE_TYPE_FABRIC;
    // SAFETY: the driver writes a fabric handle.
    unsafe { sys::cuMemExportToShareableHandle(place, object, requested, 0) }
        .to(what)
        .map_err(|error| error.to_string())?;
    Ok(fabric.data)
}

fn export_descriptor(
    object: sys::CUmemGenericAllocationHandle,
    what: &dyn Fn() -> String,
) -> Result<OwnedFd, String> {
    let mut descriptor: RawFd = -1;
    let place = (&raw mut descriptor).cast::<c_void>();
    let requested = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // SAFETY: the driver writes a descriptor that is this process's from now on.
    unsafe { sys::cuMemExportToShareableHandle(place, object, requested, 0) }
        .to(what)
        .map_err(|error| error.to_string())?;
    // SAFETY: the driver just opened it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn import(device: &Device, shareable: *mut c_void, kind: HandleType) -> Result<Handle, String> {
    let mut handle = 0;
    // SAFETY: the driver checks what it is given, reads it, and writes the handle, which is given back once.
    unsafe { sys::cuMemImportFromShareableHandle(&raw mut handle, shareable, kind) }
        .to(|| format!("opening the multicast of rank 0 for GPU {}", device.number))
        .map_err(|error| error.to_string())?;
    Ok(Handle(handle))
}

/// Whether a GPU has multicast.
///
/// # Errors
/// It has none, and why.
pub(crate) fn check(device: &Device) -> Result<(), String> {
    if let Some(symbol) = presence::lacking(&SYMBOLS) {
        return Err(format!(
            "the NVIDIA driver is too old for multicast (NVLS): it lacks {symbol}; install 580 or newer"
        ));
    }
    let number = device.number;
    let supported = device
        .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
        .map_err(|error| error.to_string())?;
    if supported == 0 {
        return Err(format!(
            "GPU {number} ({}) has no multicast (NVLS), which needs compute capability 9.0 or newer, NVSwitches and their \
             fabric manager",
            device.facts.name
        ));
    }
    Ok(())
}

/// Of memory that is bound: of the object's kind, though it has no handle itself.
fn properties(device: &Device, kind: Option<MemoryKind>) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: handle_type(kind),
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

fn memory_granularity(device: &Device, kind: Option<MemoryKind>) -> Result<usize, String> {
    let properties = properties(device, kind);
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
fn memory(device: &Device, kind: Option<MemoryKind>, bytes: usize) -> Result<Handle, String> {
    let properties = properties(device, kind);
    let mut handle = 0;
    // SAFETY: the driver reads the properties and writes one handle.
    unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) }
        .to(|| format!("allocating {bytes} bytes on GPU {}", device.number))
        .map_err(|error| error.to_string())?;
    Ok(Handle(handle))
}
