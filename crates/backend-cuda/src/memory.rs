//! Memory for kernels: device memory, shareable device memory, and registered host memory.

use std::ffi::c_void;
use std::fmt::Debug;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use cudarc::driver::{result, sys};
use shared_memory::Mapping;
use sys::CUdevice_attribute_enum as Attribute;
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::descriptors::Offer;
use crate::device::Device;
use crate::error::{Driver, Error, words};

/// A kind of device memory that other processes can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Virtual memory with a fabric handle, which other hosts in the NVLink domain can open, too.
    Fabric,
    /// Virtual memory with a file descriptor.
    Descriptor,
    /// Plain memory with a CUDA IPC handle.
    Ipc,
}

impl MemoryKind {
    /// All kinds, best first. CUDA IPC precedes descriptors because it needs no socket.
    pub const ALL: [Self; 3] = [Self::Fabric, Self::Ipc, Self::Descriptor];

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fabric => "fabric",
            Self::Descriptor => "descriptor",
            Self::Ipc => "ipc",
        }
    }

    /// The driver's handle type of virtual memory.
    pub(crate) const fn handle_type(self) -> Option<HandleType> {
        match self {
            Self::Fabric => Some(HandleType::CU_MEM_HANDLE_TYPE_FABRIC),
            Self::Descriptor => Some(HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            Self::Ipc => None,
        }
    }

    /// Whether a device reports support. Fabric handles can still fail without an IMEX channel.
    pub(crate) fn is_offered(self, device: &Device) -> bool {
        let has = |attribute| device.attribute(attribute).is_ok_and(|it| it != 0);
        let virtual_memory =
            || has(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
        match self {
            Self::Fabric => {
                virtual_memory() && has(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)
            }
            Self::Descriptor => {
                let handles =
                    Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
                virtual_memory() && has(handles)
            }
            Self::Ipc => has(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
        }
    }
}

/// Memory that kernels can access, freed on drop.
#[derive(Debug)]
pub enum Block {
    /// Plain memory of a GPU.
    Plain(Plain),
    /// Virtual memory of a GPU.
    Virtual(Arc<Virtual>),
    /// Host memory registered with a GPU.
    Host(Host),
    /// Memory of a caller, opened or offered until this is dropped.
    Kept(Box<dyn Debug + Send + Sync>),
}

/// Plain memory of a GPU.
#[derive(Debug)]
pub struct Plain {
    device: Arc<Device>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl Plain {
    /// Allocates zeroed memory.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64) -> Result<Self, String> {
        let failed = |error| {
            format!(
                "allocating {bytes} bytes on GPU {}: {}",
                device.number,
                words(error)
            )
        };
        let size = bytes.max(1) as usize;
        // SAFETY: the device's context is current.
        let address = unsafe { result::malloc_sync(size) }.map_err(failed)?;
        let block = Self {
            device: Arc::clone(device),
            address,
            bytes: size as u64,
        };
        clear(device, address, size).map_err(failed)?;
        Ok(block)
    }
}

/// Zeroes memory, and waits for it.
fn clear(device: &Device, address: u64, bytes: usize) -> Result<(), cudarc::driver::DriverError> {
    // SAFETY: the caller has just allocated so many bytes there.
    unsafe {
        result::memset_d8_async(address, 0, bytes, device.copies())?;
        result::stream::synchronize(device.copies())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: allocated by `new`, freed once. Every launch is waited for, so no kernel
            // uses it.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Physical memory of this or another process, mapped here.
#[derive(Debug)]
pub struct Virtual {
    device: Arc<Device>,
    /// The handles of its pieces and their bytes; only memory of another process can have several.
    pieces: Vec<(Handle, u64)>,
    pub(crate) kind: MemoryKind,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Number of pieces that are mapped.
    mapped: usize,
    /// The descriptor that other processes take.
    descriptor: Option<Offer>,
}

/// A handle of physical memory or of a multicast object.
pub(crate) type Handle = sys::CUmemGenericAllocationHandle;

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.ordinal(),
    }
}

/// Properties of physical memory of a GPU.
pub(crate) fn properties(
    device: &Device,
    requested: HandleType,
    rdma: bool,
) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: requested,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: u8::from(rdma),
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// The granularity of memory with these properties, bytes.
pub(crate) fn granularity(
    device: &Device,
    properties: &sys::CUmemAllocationProp,
    wanted: sys::CUmemAllocationGranularity_flags,
) -> Result<usize, Error> {
    let mut granularity = 0;
    // SAFETY: the driver reads the properties and writes one number.
    unsafe { sys::cuMemGetAllocationGranularity(&raw mut granularity, properties, wanted) }
        .to(|| format!("asking GPU {} how memory is aligned", device.number))?;
    Ok(granularity)
}

/// Lets kernels of a GPU read and write a mapping.
pub(crate) fn allow_access(
    device: &Device,
    address: u64,
    bytes: usize,
    what: impl FnOnce() -> String,
) -> Result<(), String> {
    let access = sys::CUmemAccessDesc {
        location: location(device),
        flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: something is mapped there, and the driver reads one description.
    Ok(unsafe { sys::cuMemSetAccess(address, bytes, &raw const access, 1) }.to(what)?)
}

/// Exports a fabric handle.
pub(crate) fn export_fabric(
    handle: Handle,
    what: impl FnOnce() -> String,
) -> Result<[u8; 64], String> {
    let mut fabric = sys::CUmemFabricHandle { data: [0; 64] };
    let place = (&raw mut fabric).cast::<c_void>();
    let requested = HandleType::CU_MEM_HANDLE_TYPE_FABRIC;
    // SAFETY: the driver writes a fabric handle.
    unsafe { sys::cuMemExportToShareableHandle(place, handle, requested, 0) }.to(what)?;
    Ok(fabric.data)
}

/// Exports a file descriptor.
pub(crate) fn export_descriptor(
    handle: Handle,
    what: impl FnOnce() -> String,
) -> Result<OwnedFd, String> {
    let mut descriptor: RawFd = -1;
    let place = (&raw mut descriptor).cast::<c_void>();
    let requested = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // SAFETY: the driver writes a descriptor that this process owns from now on.
    unsafe { sys::cuMemExportToShareableHandle(place, handle, requested, 0) }.to(what)?;
    // SAFETY: the driver opened it just now for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

impl Virtual {
    /// Allocates zeroed memory of a kind.
    pub(crate) fn new(device: &Arc<Device>, kind: MemoryKind, bytes: u64) -> Result<Self, String> {
        let none = || format!("memory of kind {} has no such handle", kind.name());
        let requested = kind.handle_type().ok_or_else(none)?;
        let what = || {
            let (number, kind) = (device.number, kind.name());
            format!("allocating {bytes} bytes of kind {kind} on GPU {number}")
        };
        let with_vmm = Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        let rdma = device.attribute(with_vmm).is_ok_and(|it| it != 0);
        let properties = properties(device, requested, rdma);
        let minimum = sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let granularity = granularity(device, &properties, minimum)?;
        let mut handle = 0;
        let bytes = bytes.max(1).next_multiple_of(granularity.max(1) as u64);
        // SAFETY: the driver reads the properties and writes the handle, which `drop` releases.
        unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) }
            .to(what)?;
        let mut made = Self::unmapped(device, kind);
        made.add(handle, bytes);
        made.map()?;
        clear(device, made.address, bytes as usize)
            .map_err(|error| format!("{}: {}", what(), words(error)))?;
        if kind == MemoryKind::Descriptor {
            made.descriptor = Some(Offer::new(export_descriptor(handle, what)?)?);
        }
        Ok(made)
    }

    /// Opens memory that another process shares, in pieces that are mapped one behind the other.
    pub(crate) fn open(
        device: &Arc<Device>,
        shareables: Vec<(Shareable, u64)>,
    ) -> Result<Self, String> {
        let kind = shareables.first().map(|(first, _)| first.kind());
        let mut opened = Self::unmapped(device, kind.unwrap_or(MemoryKind::Descriptor));
        for (shareable, bytes) in shareables {
            opened.add(shareable.import(device)?, bytes);
        }
        opened.map()?;
        Ok(opened)
    }

    fn unmapped(device: &Arc<Device>, kind: MemoryKind) -> Self {
        Self {
            device: Arc::clone(device),
            pieces: Vec::new(),
            kind,
            address: 0,
            bytes: 0,
            mapped: 0,
            descriptor: None,
        }
    }

    /// Adds a piece, which `drop` releases.
    fn add(&mut self, handle: Handle, bytes: u64) {
        self.pieces.push((handle, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Maps the memory for the device.
    fn map(&mut self) -> Result<(), String> {
        let what = || {
            let (bytes, number) = (self.bytes, self.device.number);
            format!("mapping {bytes} bytes on GPU {number}")
        };
        let size = self.bytes as usize;
        // SAFETY: the driver writes an address; `drop` frees the reservation.
        unsafe { sys::cuMemAddressReserve(&raw mut self.address, size, 0, 0, 0) }.to(what)?;
        let mut at = self.address;
        for (handle, bytes) in &self.pieces {
            // SAFETY: the pieces have as many bytes together as the reservation, and the driver
            // checks that the memory has those of this one.
            unsafe { sys::cuMemMap(at, *bytes as usize, 0, *handle, 0) }.to(what)?;
            self.mapped += 1;
            at += bytes;
        }
        allow_access(&self.device, self.address, size, what)
    }

    /// The handle with which another process opens the memory.
    pub(crate) fn shareable(&self) -> Result<Shareable, String> {
        if let Some(descriptor) = &self.descriptor {
            return Ok(Shareable::Descriptor(descriptor.duplicate()?));
        }
        let what = || format!("a fabric handle of memory of GPU {}", self.device.number);
        match self.pieces[..] {
            [(handle, _)] => Ok(Shareable::Fabric(export_fabric(handle, what)?)),
            _ => Err(format!("{}: it is of another process", what())),
        }
    }

    /// The word of the descriptor, if the memory is of kind [`MemoryKind::Descriptor`].
    pub(crate) fn descriptor(&self) -> Option<&str> {
        self.descriptor.as_ref().map(Offer::word)
    }
}

/// A handle of memory of another process.
#[derive(Debug)]
pub(crate) enum Shareable {
    /// A fabric handle.
    Fabric([u8; 64]),
    /// A descriptor owned by this process.
    Descriptor(OwnedFd),
}

impl Shareable {
    const fn kind(&self) -> MemoryKind {
        match self {
            Self::Fabric(_) => MemoryKind::Fabric,
            Self::Descriptor(_) => MemoryKind::Descriptor,
        }
    }

    /// Imports the memory. The returned handle is the caller's.
    fn import(self, device: &Device) -> Result<Handle, String> {
        let kind = self.kind();
        let mut fabric;
        // The descriptor stays open until the driver has imported it.
        let os_handle = match &self {
            Self::Fabric(data) => {
                fabric = sys::CUmemFabricHandle { data: *data };
                (&raw mut fabric).cast::<c_void>()
            }
            // The driver takes the number itself as the pointer.
            Self::Descriptor(descriptor) => {
                std::ptr::without_provenance_mut(descriptor.as_raw_fd().unsigned_abs() as usize)
            }
        };
        let what = || {
            let (number, kind) = (device.number, kind.name());
            format!("opening memory of kind {kind} of another process on GPU {number}")
        };
        let requested = kind.handle_type().ok_or_else(what)?;
        let mut handle = 0;
        // SAFETY: the driver validates the handle, and writes one.
        unsafe { sys::cuMemImportFromShareableHandle(&raw mut handle, os_handle, requested) }
            .to(what)?;
        Ok(handle)
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        // SAFETY: each was made once and is released once, in reverse order; no kernel uses it.
        unsafe {
            let mut at = self.address;
            for (_, bytes) in self.pieces.iter().take(self.mapped) {
                let _ = sys::cuMemUnmap(at, *bytes as usize);
                at += bytes;
            }
            if self.address != 0 {
                let _ = sys::cuMemAddressFree(self.address, self.bytes as usize);
            }
            for (handle, _) in &self.pieces {
                let _ = sys::cuMemRelease(*handle);
            }
        }
    }
}

/// Host memory registered with a GPU. Keeps the mapping.
#[derive(Debug)]
pub struct Host {
    device: Arc<Device>,
    mapping: Arc<Mapping>,
    pub(crate) address: u64,
}

impl Host {
    /// Registers host memory.
    pub(crate) fn new(device: &Arc<Device>, mapping: &Arc<Mapping>) -> Result<Self, String> {
        let what = || {
            format!(
                "letting GPU {} access {} bytes of the host's memory (ulimit -l may bound what can be pinned)",
                device.number,
                mapping.bytes()
            )
        };
        let base = mapping.base().as_ptr().cast::<c_void>();
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the mapping has this length and outlives the registration.
        unsafe { sys::cuMemHostRegister_v2(base, mapping.bytes().max(1), flags) }.to(what)?;
        let mut host = Self {
            device: Arc::clone(device),
            mapping: Arc::clone(mapping),
            address: 0,
        };
        // SAFETY: it was registered just now; the driver writes an address.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut host.address, base, 0) }.to(what)?;
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            // A kernel that does not end may still use it.
            return std::mem::forget(Arc::clone(&self.mapping));
        }
        // SAFETY: registered once, by `new`; no kernel runs that was given it.
        let _ = unsafe { sys::cuMemHostUnregister(self.mapping.base().as_ptr().cast()) };
    }
}
