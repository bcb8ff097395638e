//! Memory that kernels reach: of a GPU, of a kind that other processes can open or not, and of the host.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use cudarc::driver::{result, sys};
use shared_memory::Mapping;
use sys::CUdevice_attribute_enum as Attribute;
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::device::Device;
use crate::error::{Driver, words};

/// A kind of memory that other processes can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Virtual memory with a fabric handle, which GPUs of other hosts open too where NVLink joins them.
    Fabric,
    /// Virtual memory with a file descriptor.
    Descriptor,
    /// Plain memory with a handle of CUDA IPC.
    Ipc,
}

impl MemoryKind {
    /// All of them, the best first. CUDA IPC is before descriptors, for it asks for no permission to take those of another
    /// process.
    pub const ALL: [Self; 3] = [Self::Fabric, Self::Ipc, Self::Descriptor];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fabric => "fabric",
            Self::Descriptor => "descriptor",
            Self::Ipc => "ipc",
        }
    }

    /// What the driver calls its handles, if it is virtual memory.
    pub(crate) const fn handle_type(self) -> Option<HandleType> {
        match self {
            Self::Fabric => Some(HandleType::CU_MEM_HANDLE_TYPE_FABRIC),
            Self::Descriptor => Some(HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            Self::Ipc => None,
        }
    }

    /// Whether a device says that it has it. Fabric handles may be refused all the same, where no IMEX channel is set up.
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

/// Memory that kernels reach. It is given back when this is dropped.
#[derive(Debug)]
pub enum Block {
    /// Plain memory of a GPU.
    Plain(Plain),
    /// Virtual memory of a GPU.
    Virtual(Arc<Virtual>),
    /// Memory of the host that GPUs were told of.
    Host(Host),
}

/// Plain memory of a GPU.
#[derive(Debug)]
pub struct Plain {
    device: Arc<Device>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl Plain {
    /// So many bytes, all 0.
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
        clear(address, size).map_err(failed)?;
        Ok(block)
    }
}

/// Fills memory with zeros. The streams of launches do not wait for the default stream, so this does.
fn clear(address: u64, bytes: usize) -> Result<(), cudarc::driver::DriverError> {
    // SAFETY: the caller has just allocated so many bytes there.
    unsafe {
        result::memset_d8_sync(address, 0, bytes)?;
        result::stream::synchronize(result::stream::null())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: it was allocated by `new` and is freed once; no kernel runs that was given it, for every launch is
            // waited for.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Virtual memory: physical memory of this process or of another one, and where it is mapped here.
#[derive(Debug)]
pub struct Virtual {
    device: Arc<Device>,
    handle: sys::CUmemGenericAllocationHandle,
    pub(crate) kind: MemoryKind,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    mapped: bool,
    /// The descriptor by which others open it.
    descriptor: Option<OwnedFd>,
}

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.ordinal(),
    }
}

impl Virtual {
    /// New memory of a kind, all 0.
    pub(crate) fn new(device: &Arc<Device>, kind: MemoryKind, bytes: u64) -> Result<Self, String> {
        let none = || format!("memory of kind {} has no such handle", kind.name());
        let requested = kind.handle_type().ok_or_else(none)?;
        let what = || {
            let (number, kind) = (device.number, kind.name());
            format!("allocating {bytes} bytes of kind {kind} on GPU {number}")
        };
        let with_vmm = Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        let rdma = device.attribute(with_vmm).is_ok_and(|it| it != 0);
        let properties = sys::CUmemAllocationProp {
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
        };
        let minimum = sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let (mut granularity, mut handle) = (0_usize, 0);
        // SAFETY: the driver reads the properties and writes a number.
        unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, minimum)
        }
        .to(what)
        .map_err(|error| error.to_string())?;
        let bytes = bytes.max(1).next_multiple_of(granularity.max(1) as u64);
        // SAFETY: the driver reads the properties and writes the handle, which `drop` gives back.
        unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        let mut made = Self::unmapped(device, handle, kind, bytes);
        made.map()?;
        clear(made.address, bytes as usize)
            .map_err(|error| format!("{}: {}", what(), words(error)))?;
        if kind == MemoryKind::Descriptor {
            let mut descriptor: RawFd = -1;
            // SAFETY: the driver writes a descriptor that is this process's from now on.
            let exported = unsafe {
                sys::cuMemExportToShareableHandle(
                    (&raw mut descriptor).cast::<c_void>(),
                    handle,
                    requested,
                    0,
                )
            };
            exported.to(what).map_err(|error| error.to_string())?;
            // SAFETY: the driver just opened it for the caller.
            made.descriptor = Some(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        Ok(made)
    }

    /// Memory of another process by the handle that it gave.
    pub(crate) fn open(
        device: &Arc<Device>,
        shareable: Shareable,
        bytes: u64,
    ) -> Result<Self, String> {
        let (kind, mut fabric, os_handle);
        match shareable {
            Shareable::Fabric(data) => {
                kind = MemoryKind::Fabric;
                fabric = sys::CUmemFabricHandle { data };
                os_handle = (&raw mut fabric).cast::<c_void>();
            }
            Shareable::Descriptor(descriptor) => {
                kind = MemoryKind::Descriptor;
                // The driver takes the number itself for the pointer.
                os_handle = std::ptr::without_provenance_mut(
                    descriptor.as_raw_fd().unsigned_abs() as usize
                );
            }
        }
        let what = || {
            let (number, kind) = (device.number, kind.name());
            format!("opening memory of kind {kind} of another process on GPU {number}")
        };
        let requested = kind.handle_type().ok_or_else(what)?;
        let mut handle = 0;
        // SAFETY: the driver checks what it is given, reads it, and writes the handle, which `drop` gives back.
        unsafe { sys::cuMemImportFromShareableHandle(&raw mut handle, os_handle, requested) }
            .to(what)
            .map_err(|error| error.to_string())?;
        let mut opened = Self::unmapped(device, handle, kind, bytes);
        opened.map()?;
        Ok(opened)
    }

    fn unmapped(
        device: &Arc<Device>,
        handle: sys::CUmemGenericAllocationHandle,
        kind: MemoryKind,
        bytes: u64,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            handle,
            kind,
            address: 0,
            bytes,
            mapped: false,
            descriptor: None,
        }
    }

    /// Maps it for the device.
    fn map(&mut self) -> Result<(), String> {
        let what = || {
            let (bytes, number) = (self.bytes, self.device.number);
            format!("mapping {bytes} bytes on GPU {number}")
        };
        let size = self.bytes as usize;
        // SAFETY: the driver writes an address; what it reserves is freed by `drop`.
        unsafe { sys::cuMemAddressReserve(&raw mut self.address, size, 0, 0, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        // SAFETY: so much was reserved there, and the memory is as long.
        unsafe { sys::cuMemMap(self.address, size, 0, self.handle, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        self.mapped = true;
        let access = sys::CUmemAccessDesc {
            location: location(&self.device),
            flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: it is mapped there, and the driver reads one description.
        unsafe { sys::cuMemSetAccess(self.address, size, &raw const access, 1) }
            .to(what)
            .map_err(|error| error.to_string())
    }

    /// By what another process opens it.
    pub(crate) fn shareable(&self) -> Result<Shareable, String> {
        if let Some(descriptor) = &self.descriptor {
            let again = descriptor.try_clone().map_err(|error| error.to_string())?;
            return Ok(Shareable::Descriptor(again));
        }
        let mut fabric = sys::CUmemFabricHandle { data: [0; 64] };
        let requested = HandleType::CU_MEM_HANDLE_TYPE_FABRIC;
        // SAFETY: the driver writes a fabric handle.
        let exported = unsafe {
            sys::cuMemExportToShareableHandle(
                (&raw mut fabric).cast::<c_void>(),
                self.handle,
                requested,
                0,
            )
        };
        exported
            .to(|| format!("a fabric handle of memory of GPU {}", self.device.number))
            .map_err(|error| error.to_string())?;
        Ok(Shareable::Fabric(fabric.data))
    }

    /// The descriptor by which others open it, if it has one.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.descriptor.as_ref().map(AsFd::as_fd)
    }
}

/// By what memory of another process is opened.
#[derive(Debug)]
pub(crate) enum Shareable {
    /// A fabric handle.
    Fabric([u8; 64]),
    /// A descriptor of this process.
    Descriptor(OwnedFd),
}

impl Drop for Virtual {
    fn drop(&mut self) {
        if self.device.enter().is_err() {
            return;
        }
        // SAFETY: each was made once and is given back once, in the opposite order; no kernel runs that was given it.
        unsafe {
            if self.mapped {
                let _ = sys::cuMemUnmap(self.address, self.bytes as usize);
            }
            if self.address != 0 {
                let _ = sys::cuMemAddressFree(self.address, self.bytes as usize);
            }
            let _ = sys::cuMemRelease(self.handle);
        }
    }
}

/// Memory of the host that GPUs were told of, which it keeps.
#[derive(Debug)]
pub struct Host {
    device: Arc<Device>,
    mapping: Arc<Mapping>,
    pub(crate) address: u64,
}

impl Host {
    /// Tells GPUs of memory of the host.
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
        // SAFETY: the mapping is so long and stays as long as this, which takes it back before.
        unsafe { sys::cuMemHostRegister_v2(base, mapping.bytes().max(1), flags) }
            .to(what)
            .map_err(|error| error.to_string())?;
        let mut host = Self {
            device: Arc::clone(device),
            mapping: Arc::clone(mapping),
            address: 0,
        };
        // SAFETY: it was registered just now; the driver writes an address.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut host.address, base, 0) }
            .to(what)
            .map_err(|error| error.to_string())?;
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: registered once, by `new`; no kernel runs that was given it.
            let _ = unsafe { sys::cuMemHostUnregister(self.mapping.base().as_ptr().cast()) };
        }
    }
}
