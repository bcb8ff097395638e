//! Memory, host memory, copies, IPC.

use crate::Case;
use crate::api::{allocate, begin, call, create, map, right};

const MEMORY: &str = "Memory Management";
const MACHINE: &str = "the machine file";

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

fn open_ipc(handle: [u8; 64], flags: u32) -> u32 {
    let mut address = 0_u64;
    call!(cuIpcOpenMemHandle_v2(
        &raw mut address,
        Handle(handle),
        flags
    ))
}

fn export_dma_buf(address: u64, bytes: usize) -> u32 {
    let mut descriptor = -1_i32;
    call!(cuMemGetHandleForAddressRange(
        &raw mut descriptor,
        address,
        bytes,
        1_u32,
        0_u64
    ))
}

pub const CASES: &[Case] = &[
    Case(
        "an allocation of 0 bytes",
        "",
        "cuMemAlloc_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 0_usize))
        },
    ),
    Case(
        "more memory than there is",
        "",
        "cuMemAlloc_v2",
        2,
        MACHINE,
        || {
            begin(0);
            allocate(200 << 20);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 200_usize << 20))
        },
    ),
    Case("a double free", "", "cuMemFree_v2", 1, MEMORY, || {
        begin(0);
        let address = allocate(64);
        right!(cuMemFree_v2(address));
        call!(cuMemFree_v2(address))
    }),
    Case(
        "a free within an allocation",
        "",
        "cuMemFree_v2",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemFree_v2(allocate(512) + 256))
        },
    ),
    Case(
        "a free of host memory",
        "",
        "cuMemFree_v2",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemFree_v2(pinned(64)))
        },
    ),
    Case(
        "a free of device memory as host memory",
        "",
        "cuMemFreeHost",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemFreeHost(allocate(64)))
        },
    ),
    Case(
        "flags for pinned memory",
        "",
        "cuMemHostAlloc",
        1,
        MEMORY,
        || {
            begin(0);
            let mut address = 0_u64;
            call!(cuMemHostAlloc(&raw mut address, 64_usize, 64_u32))
        },
    ),
    Case(
        "a fill past the end",
        "",
        "cuMemsetD8_v2",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemsetD8_v2(allocate(64), 0_u8, 65_usize))
        },
    ),
    Case(
        "a fill of freed memory",
        "",
        "cuMemsetD8_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let address = allocate(64);
            right!(cuMemFree_v2(address));
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case(
        "a copy to plain host memory as a device's",
        "",
        "cuMemcpyHtoD_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let to = page().expose_provenance() as u64;
            call!(cuMemcpyHtoD_v2(to, page().cast_const(), 64_usize))
        },
    ),
    Case(
        "a copy from the device as host memory",
        "",
        "cuMemcpyHtoD_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let (to, from) = (allocate(64), allocate(64));
            let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
            call!(cuMemcpyHtoD_v2(to, from, 64_usize))
        },
    ),
    Case(
        "a copy to a null pointer",
        "",
        "cuMemcpyDtoH_v2",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemcpyDtoH_v2(
                std::ptr::null_mut::<u8>(),
                allocate(64),
                64_usize
            ))
        },
    ),
    Case(
        "a copy of a peer's memory without access",
        "",
        "cuMemcpyDtoD_v2",
        1,
        MEMORY,
        || {
            begin(1);
            let remote = allocate(64);
            begin(0);
            call!(cuMemcpyDtoD_v2(allocate(64), remote, 64_usize))
        },
    ),
    Case(
        "memory registered twice",
        "",
        "cuMemHostRegister_v2",
        712,
        MEMORY,
        || {
            begin(0);
            let page = page();
            right!(cuMemHostRegister_v2(page, 4096_usize, 3_u32));
            call!(cuMemHostRegister_v2(page.wrapping_add(64), 64_usize, 3_u32))
        },
    ),
    Case(
        "flags for a registration",
        "",
        "cuMemHostRegister_v2",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuMemHostRegister_v2(page(), 4096_usize, 64_u32))
        },
    ),
    Case(
        "the end of no registration",
        "",
        "cuMemHostUnregister",
        713,
        MEMORY,
        || {
            begin(0);
            call!(cuMemHostUnregister(page()))
        },
    ),
    Case(
        "a registration ended twice",
        "",
        "cuMemHostUnregister",
        713,
        MEMORY,
        || {
            begin(0);
            let page = page();
            right!(cuMemHostRegister_v2(page, 4096_usize, 3_u32));
            right!(cuMemHostUnregister(page));
            call!(cuMemHostUnregister(page))
        },
    ),
    Case(
        "a device's address of plain host memory",
        "",
        "cuMemHostGetDevicePointer_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let mut address = 0_u64;
            call!(cuMemHostGetDevicePointer_v2(
                &raw mut address,
                page(),
                0_u32
            ))
        },
    ),
    Case(
        "a device's address of unmapped memory",
        "",
        "cuMemHostGetDevicePointer_v2",
        1,
        MEMORY,
        || {
            begin(0);
            let (mut address, page) = (0_u64, page());
            right!(cuMemHostRegister_v2(page, 4096_usize, 1_u32));
            call!(cuMemHostGetDevicePointer_v2(&raw mut address, page, 0_u32))
        },
    ),
    Case(
        "the range of an unknown address",
        "",
        "cuMemGetAddressRange_v2",
        500,
        MEMORY,
        || {
            begin(0);
            let (mut base, mut bytes) = (0_u64, 0_usize);
            call!(cuMemGetAddressRange_v2(
                &raw mut base,
                &raw mut bytes,
                4096_u64
            ))
        },
    ),
    Case(
        "an attribute of an unknown address",
        "",
        "cuPointerGetAttribute",
        1,
        "",
        || {
            begin(0);
            let mut value = 0_u32;
            call!(cuPointerGetAttribute(&raw mut value, 2_u32, 4096_u64))
        },
    ),
    Case(
        "an attribute set within memory",
        "",
        "cuPointerSetAttribute",
        1,
        "Unified Addressing",
        || {
            begin(0);
            let value = 1_u32;
            call!(cuPointerSetAttribute(
                &raw const value,
                6_u32,
                allocate(512) + 256
            ))
        },
    ),
    Case(
        "a DMA-BUF without support",
        "",
        "cuMemGetHandleForAddressRange",
        801,
        MACHINE,
        || {
            begin(0);
            export_dma_buf(allocate(4096), 4096)
        },
    ),
    Case(
        "a DMA-BUF of a part of a page",
        "dma-buf yes",
        "cuMemGetHandleForAddressRange",
        1,
        MEMORY,
        || {
            begin(0);
            export_dma_buf(allocate(4096), 64)
        },
    ),
    Case(
        "a DMA-BUF past the end",
        "dma-buf yes",
        "cuMemGetHandleForAddressRange",
        1,
        MEMORY,
        || {
            begin(0);
            export_dma_buf(allocate(4096), 8192)
        },
    ),
    Case(
        "an own IPC handle",
        "",
        "cuIpcOpenMemHandle_v2",
        201,
        MEMORY,
        || {
            begin(0);
            let (handle, error) = ipc_handle(allocate(64));
            assert_eq!(error, 0);
            open_ipc(handle, 1)
        },
    ),
    Case(
        "bytes that are no IPC handle",
        "",
        "cuIpcOpenMemHandle_v2",
        1,
        MEMORY,
        || {
            begin(0);
            open_ipc([7; 64], 1)
        },
    ),
    Case(
        "an IPC handle without the flag",
        "",
        "cuIpcOpenMemHandle_v2",
        1,
        MEMORY,
        || {
            begin(0);
            open_ipc([7; 64], 0)
        },
    ),
    Case(
        "memory closed that was not opened",
        "",
        "cuIpcCloseMemHandle",
        1,
        MEMORY,
        || {
            begin(0);
            call!(cuIpcCloseMemHandle(allocate(64)))
        },
    ),
    Case(
        "an IPC handle of virtual memory",
        "",
        "cuIpcGetMemHandle",
        1,
        MEMORY,
        || {
            begin(0);
            let (address, _) = map(0, crate::api::GRANULARITY);
            ipc_handle(address).1
        },
    ),
    Case(
        "an IPC handle of host memory",
        "",
        "cuIpcGetMemHandle",
        1,
        MEMORY,
        || {
            begin(0);
            ipc_handle(pinned(64)).1
        },
    ),
    Case(
        "IPC where it does not work",
        "ipc no",
        "cuIpcGetMemHandle",
        801,
        MACHINE,
        || {
            begin(0);
            ipc_handle(allocate(64)).1
        },
    ),
    Case(
        "more physical memory than there is",
        "",
        "cuMemCreate",
        2,
        MACHINE,
        || {
            begin(0);
            create(0, 200 << 20, 0);
            let (mut handle, properties) = (0_u64, crate::api::properties(0, 0));
            call!(cuMemCreate(
                &raw mut handle,
                200_usize << 20,
                &raw const properties,
                0_u64
            ))
        },
    ),
];
