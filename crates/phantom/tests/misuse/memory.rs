//! Memory, host memory, copies, IPC.

use crate::api::{
    GRANULARITY, allocate, allocated, begin, call, create, create_on_host, map, out, properties,
    right,
};

const MEMORY: &str = "Memory Management";
const MACHINE: &str = "the machine file";
const UNIFIED: &str = "Unified Addressing";

/// Host memory of the caller, of a whole page.
fn page() -> *mut u8 {
    let layout = std::alloc::Layout::from_size_align(4096, 4096).unwrap();
    // SAFETY: the size is not 0.
    unsafe { std::alloc::alloc_zeroed(layout) }
}

fn pinned(bytes: usize) -> u64 {
    let mut address = 0_u64;
    right!(cuMemHostAlloc(&raw mut address, bytes, 3_u32));
    address
}

fn ipc_handle(address: u64) -> ([u8; 64], u32) {
    let mut handle = [0_u8; 64];
    let error = call!(cuIpcGetMemHandle(handle.as_mut_ptr(), address));
    (handle, error)
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Handle([u8; 64]);

fn export_dma_buf(address: u64, bytes: usize) -> u32 {
    call!(cuMemGetHandleForAddressRange(
        out::<i32>(),
        address,
        bytes,
        1_u32,
        0_u64
    ))
}

crate::table! {
    "an allocation of 0 bytes" => cuMemAlloc_v2(out::<u64>(), 0_usize) = 1 MEMORY;
    "more memory than there is" { allocate(200 << 20); } => cuMemAlloc_v2(out::<u64>(), 200_usize << 20) = 2 MACHINE;
    "a double free" { let address = allocate(64); right!(cuMemFree_v2(address)); }
        => cuMemFree_v2(address) = 1 MEMORY;
    "a free within an allocation" => cuMemFree_v2(allocate(512) + 256) = 1 MEMORY;
    "a free of host memory" => cuMemFree_v2(pinned(64)) = 1 MEMORY;
    "a free of device memory as host memory" => cuMemFreeHost(allocate(64)) = 1 MEMORY;
    "flags for pinned memory" => cuMemHostAlloc(out::<u64>(), 64_usize, 64_u32) = 1 MEMORY;
    "a fill past the end" => cuMemsetD8_v2(allocate(64), 0_u8, 65_usize) = 1 MEMORY;
    "a fill of freed memory" { let address = allocate(64); right!(cuMemFree_v2(address)); }
        => cuMemsetD8_v2(address, 0_u8, 64_usize) = 1 MEMORY;
    "a copy to plain host memory as a device's" { let to = page().expose_provenance() as u64; }
        => cuMemcpyHtoD_v2(to, page().cast_const(), 64_usize) = 1 MEMORY;
    "a copy from the device as host memory" { let from = allocate(64) as usize; }
        => cuMemcpyHtoD_v2(allocate(64), std::ptr::with_exposed_provenance::<u8>(from), 64_usize) = 1 MEMORY;
    "a copy to a null pointer"
        => cuMemcpyDtoH_v2(std::ptr::null_mut::<u8>(), allocate(64), 64_usize) = 1 MEMORY;
    "a copy of a peer's memory without access" { begin(1); let remote = allocate(64); begin(0); }
        => cuMemcpyDtoD_v2(allocate(64), remote, 64_usize) = 1 MEMORY;
    "memory registered twice" { let page = page(); right!(cuMemHostRegister_v2(page, 4096_usize, 3_u32)); }
        => cuMemHostRegister_v2(page.wrapping_add(64), 64_usize, 3_u32) = 712 MEMORY;
    "flags for a registration" => cuMemHostRegister_v2(page(), 4096_usize, 64_u32) = 1 MEMORY;
    "the end of no registration" => cuMemHostUnregister(page()) = 713 MEMORY;
    "a registration ended twice" {
        let page = page();
        right!(cuMemHostRegister_v2(page, 4096_usize, 3_u32));
        right!(cuMemHostUnregister(page));
    } => cuMemHostUnregister(page) = 713 MEMORY;
    "a device's address of plain host memory"
        => cuMemHostGetDevicePointer_v2(out::<u64>(), page(), 0_u32) = 1 MEMORY;
    "a device's address of unmapped memory" {
        let page = page();
        right!(cuMemHostRegister_v2(page, 4096_usize, 1_u32));
    } => cuMemHostGetDevicePointer_v2(out::<u64>(), page, 0_u32) = 1 MEMORY;
    "the range of an unknown address"
        => cuMemGetAddressRange_v2(out::<u64>(), out::<usize>(), 4096_u64) = 500 MEMORY;
    "an attribute of an unknown address" => cuPointerGetAttribute(out::<u32>(), 2_u32, 4096_u64) = 1 "";
    "no attributes of an address" => cuPointerGetAttributes(0_u32, out::<u32>(), out::<u64>(), 4096_u64)
        = 1 UNIFIED;
    "an attribute set within memory"
        => cuPointerSetAttribute(out::<u32>(), 6_u32, allocate(512) + 256) = 1 UNIFIED;
    "a DMA-BUF without support"
        => cuMemGetHandleForAddressRange { export_dma_buf(allocate(4096), 4096) } = 801 MACHINE;
    "a DMA-BUF of a part of a page" ["dma-buf yes"]
        => cuMemGetHandleForAddressRange { export_dma_buf(allocate(4096), 64) } = 1 MEMORY;
    "a DMA-BUF past the end" ["dma-buf yes"]
        => cuMemGetHandleForAddressRange { export_dma_buf(allocate(4096), 8192) } = 1 MEMORY;
    "an own IPC handle" { let (handle, error) = ipc_handle(allocate(64)); assert_eq!(error, 0); }
        => cuIpcOpenMemHandle_v2(out::<u64>(), Handle(handle), 1_u32) = 201 MEMORY;
    "bytes that are no IPC handle" => cuIpcOpenMemHandle_v2(out::<u64>(), Handle([7; 64]), 1_u32) = 1 MEMORY;
    "an IPC handle without the flag" => cuIpcOpenMemHandle_v2(out::<u64>(), Handle([7; 64]), 0_u32) = 1 MEMORY;
    "memory closed that was not opened" => cuIpcCloseMemHandle(allocate(64)) = 1 MEMORY;
    "an IPC handle of virtual memory" => cuIpcGetMemHandle { ipc_handle(map(0, GRANULARITY).0).1 } = 1 MEMORY;
    "an IPC handle of host memory" => cuIpcGetMemHandle { ipc_handle(pinned(64)).1 } = 1 MEMORY;
    "an IPC handle within an allocation" => cuIpcGetMemHandle { ipc_handle(allocate(512) + 256).1 } = 1 MEMORY;
    "IPC where it does not work" ["ipc no"] => cuIpcGetMemHandle { ipc_handle(allocate(64)).1 } = 801 MACHINE;
    "more physical memory than there is" { create(0, 200 << 20, 0); let properties = properties(0, 0); }
        => cuMemCreate(out::<u64>(), 200_usize << 20, &raw const properties, 0_u64) = 2 MACHINE;
    "an allocation beside memory that only a mapping holds" {
        let (_, memory) = map(0, 200 << 20);
        right!(cuMemRelease(memory));
    } => cuMemAlloc_v2 { allocated(200 << 20) } = 2 MACHINE;
    "an allocation beside host memory of a NUMA node" { create_on_host(200 << 20); }
        => cuMemAlloc_v2 { allocated(200 << 20) } = 0 "";
    "an allocation after a free" { let address = allocate(200 << 20); right!(cuMemFree_v2(address)); }
        => cuMemAlloc_v2 { allocated(200 << 20) } = 0 "";
}
