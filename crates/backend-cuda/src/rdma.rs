//! Device memory that NICs access (GPUDirect RDMA): by address with the driver's peer-memory
//! module, or as a DMA-BUF.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use cudarc::driver::sys;
use device_runtime::NicMemory;
use shared_memory::fifo::in_place::{DmaBuf, Owner};
use sys::CUdevice_attribute_enum as Attribute;

use crate::device::Device;
use crate::error::Driver;
use crate::memory::{Block, Plain};
use crate::presence;

/// Block size in which the driver allocates device memory, bytes. A NIC gets access to whole
/// blocks, so an allocation fills them.
const BLOCK_BYTES: u64 = 2 << 20;

/// Alignment of DMA-BUF ranges: the host's page size, bytes.
const PAGE_BYTES: u64 = 4096;

/// Exports a DMA-BUF; drivers since 11.7 have it.
pub(crate) const EXPORT: &str = "cuMemGetHandleForAddressRange";

fn has(device: &Device, attribute: Attribute) -> bool {
    device.attribute(attribute).is_ok_and(|it| it != 0)
}

/// Checks that NICs can access the memory of a GPU.
///
/// # Errors
/// They cannot.
pub(crate) fn check(device: &Device) -> Result<(), String> {
    if has(
        device,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    ) {
        return Ok(());
    }
    Err(format!(
        "GPU {} ({}) or its driver lets no NIC into its memory (GPUDirect RDMA)",
        device.number, device.properties.name
    ))
}

/// Whether a NIC's data may arrive after its completion. From compute capability 9.0 on, PCIe order
/// is kept unless the GPU is attached by C2C, which its use of the host's page tables tells.
fn must_flush(device: &Device) -> bool {
    let host_page_tables =
        Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    device.properties.major < 9 || has(device, host_page_tables)
}

/// Allocates zeroed memory that NICs can access.
pub(crate) fn allocate(device: &Arc<Device>, bytes: u64) -> Result<NicMemory<Block>, String> {
    let plain = Plain::new(device, bytes.next_multiple_of(BLOCK_BYTES))?;
    let (address, number) = (plain.address, device.number);
    let synchronous: u32 = 1;
    // SAFETY: the driver reads one number. The memory was allocated just now. The attribute makes
    // the driver's copies synchronous, so that NICs see their data.
    unsafe {
        sys::cuPointerSetAttribute(
            (&raw const synchronous).cast::<c_void>(),
            sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
            address,
        )
    }
    .to(|| format!("preparing {bytes} bytes of GPU {number} for NICs"))?;
    Ok(NicMemory {
        owner: Owner::Device {
            dma_buf: dma_buf(device, address, plain.bytes),
            flush: must_flush(device),
        },
        address,
        block: Block::Plain(plain),
    })
}

/// The DMA-BUF of memory; `None` if the driver cannot export it: NICs may use the address.
fn dma_buf(device: &Device, address: u64, bytes: u64) -> Option<DmaBuf> {
    let supported = Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
    let whole_pages = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
    if !has(device, supported) || !whole_pages || presence::lacking(&[EXPORT]).is_some() {
        return None;
    }
    let mut descriptor: RawFd = -1;
    let kind = sys::CUmemRangeHandleType_enum::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    // SAFETY: the driver writes a descriptor that is this process's from now on.
    let exported = unsafe {
        sys::cuMemGetHandleForAddressRange(
            (&raw mut descriptor).cast::<c_void>(),
            address,
            bytes as usize,
            kind,
            0,
        )
    };
    exported.result().ok()?;
    // SAFETY: the driver just opened it for the caller.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Some(DmaBuf {
        file: Arc::new(file),
        offset: 0,
    })
}
