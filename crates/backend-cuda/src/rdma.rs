//! Memory of GPUs that NICs read and write (GPUDirect RDMA): by its address, if the driver's peer-memory module is loaded, or by
//! a file that other drivers take (DMA-BUF).

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use cudarc::driver::sys;
use kernel_bundle::NicMemory;
use shared_memory::fifo::in_place::{DmaBuf, Owner};
use sys::CUdevice_attribute_enum as Attribute;

use crate::device::Device;
use crate::error::Driver;
use crate::memory::{Block, Plain};
use crate::presence;

/// The driver takes memory from the device in blocks of this size. A NIC is let into whole pages, so nothing else shall lie in
/// what it is given.
const BLOCK_BYTES: u64 = 2 << 20;

/// What files of memory begin and end at multiples of: pages of the host, bytes.
const PAGE_BYTES: u64 = 4096;

/// In drivers since 11.7.
const EXPORT: &str = "cuMemGetHandleForAddressRange";

fn has(device: &Device, attribute: Attribute) -> bool {
    device.attribute(attribute).is_ok_and(|it| it != 0)
}

/// Whether NICs can reach the memory of a GPU.
///
/// # Errors
/// They cannot, and why.
pub(crate) fn check(device: &Device) -> Result<(), String> {
    if has(
        device,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    ) {
        return Ok(());
    }
    Err(format!(
        "GPU {} ({}) or its driver lets no NIC into its memory (GPUDirect RDMA)",
        device.number, device.facts.name
    ))
}

/// Whether what a NIC wrote may come later than the word that it did. From compute capability 9.0 on PCIe's order is kept,
/// unless the GPU's link to its processor is another way (C2C), which such a GPU's page tables tell.
fn must_flush(device: &Device) -> bool {
    let other_way = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    device.facts.major < 9 || has(device, other_way)
}

/// So many bytes that NICs reach, all 0.
pub(crate) fn allocate(device: &Arc<Device>, bytes: u64) -> Result<NicMemory<Block>, String> {
    let plain = Plain::new(device, bytes.next_multiple_of(BLOCK_BYTES))?;
    let (address, number) = (plain.address, device.number);
    let synchronous: u32 = 1;
    // SAFETY: the driver reads one number, of memory that was allocated just now. Copies by the driver are then done when they
    // say so, in whatever order a NIC looks.
    unsafe {
        sys::cuPointerSetAttribute(
            (&raw const synchronous).cast::<c_void>(),
            sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
            address,
        )
    }
    .to(|| format!("preparing {bytes} bytes of GPU {number} for NICs"))
    .map_err(|error| error.to_string())?;
    Ok(NicMemory {
        owner: Owner::Device {
            dma_buf: dma_buf(device, address, plain.bytes),
            flush: must_flush(device),
        },
        address,
        block: Block::Plain(plain),
    })
}

/// The file of memory; none where the driver gives none, for NICs may find it otherwise.
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
