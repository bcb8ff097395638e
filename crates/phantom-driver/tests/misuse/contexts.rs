//! Initialization, devices, contexts, peers, entry points.

use crate::Case;
use crate::api::{allocate, begin, call, right};

const INITIALIZATION: &str = "Initialization";
const DEVICE: &str = "Device Management";
const CONTEXT: &str = "Context Management";
const PEER: &str = "Peer Context Memory Access";
const ENTRY: &str = "Driver Entry Point Access";

pub const CASES: &[Case] = &[
    Case(
        "a call before cuInit",
        "",
        "cuDeviceGetCount",
        3,
        INITIALIZATION,
        || {
            let mut count = 0_i32;
            call!(cuDeviceGetCount(&raw mut count))
        },
    ),
    Case("flags for cuInit", "", "cuInit", 1, INITIALIZATION, || {
        call!(cuInit(1_u32))
    }),
    Case(
        "an unknown error",
        "",
        "cuGetErrorName",
        1,
        INITIALIZATION,
        || {
            let mut text = std::ptr::null::<i8>();
            call!(cuGetErrorName(12_345_u32, &raw mut text))
        },
    ),
    Case(
        "a device that is not there",
        "",
        "cuDeviceGet",
        101,
        DEVICE,
        || {
            right!(cuInit(0_u32));
            let mut device = 0_i32;
            call!(cuDeviceGet(&raw mut device, 99_i32))
        },
    ),
    Case(
        "an attribute that is not there",
        "",
        "cuDeviceGetAttribute",
        1,
        DEVICE,
        || {
            right!(cuInit(0_u32));
            let mut value = 0_i32;
            call!(cuDeviceGetAttribute(&raw mut value, 100_000_u32, 0_i32))
        },
    ),
    Case("a null pointer", "", "cuDeviceGetCount", 1, DEVICE, || {
        right!(cuInit(0_u32));
        call!(cuDeviceGetCount(std::ptr::null_mut::<i32>()))
    }),
    Case(
        "the link of a device with itself",
        "",
        "cuDeviceGetP2PAttribute",
        101,
        PEER,
        || {
            right!(cuInit(0_u32));
            let mut value = 0_i32;
            call!(cuDeviceGetP2PAttribute(&raw mut value, 2_u32, 0_i32, 0_i32))
        },
    ),
    Case(
        "no current context",
        "",
        "cuMemAlloc_v2",
        201,
        CONTEXT,
        || {
            right!(cuInit(0_u32));
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
    Case(
        "the current context of another thread",
        "",
        "cuMemAlloc_v2",
        201,
        CONTEXT,
        || {
            begin(0);
            let other = std::thread::spawn(|| {
                let mut address = 0_u64;
                call!(cuMemAlloc_v2(&raw mut address, 64_usize))
            });
            other.join().unwrap()
        },
    ),
    Case(
        "a handle that is no context",
        "",
        "cuCtxSetCurrent",
        201,
        CONTEXT,
        || {
            begin(0);
            call!(cuCtxSetCurrent(0x1234_u64))
        },
    ),
    Case(
        "a context after its release",
        "",
        "cuMemAlloc_v2",
        709,
        CONTEXT,
        || {
            begin(0);
            right!(cuDevicePrimaryCtxRelease_v2(0_i32));
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
    Case(
        "entering a released context",
        "",
        "cuCtxSetCurrent",
        709,
        CONTEXT,
        || {
            let context = begin(0);
            right!(cuDevicePrimaryCtxRelease_v2(0_i32));
            call!(cuCtxSetCurrent(context))
        },
    ),
    Case(
        "a context released too often",
        "",
        "cuDevicePrimaryCtxRelease_v2",
        201,
        "Primary Context Management",
        || {
            begin(0);
            right!(cuDevicePrimaryCtxRelease_v2(0_i32));
            call!(cuDevicePrimaryCtxRelease_v2(0_i32))
        },
    ),
    Case(
        "a peer that is the context itself",
        "",
        "cuCtxEnablePeerAccess",
        201,
        PEER,
        || {
            let context = begin(0);
            call!(cuCtxEnablePeerAccess(context, 0_u32))
        },
    ),
    Case(
        "flags for peer access",
        "",
        "cuCtxEnablePeerAccess",
        1,
        PEER,
        || {
            let other = begin(1);
            begin(0);
            call!(cuCtxEnablePeerAccess(other, 1_u32))
        },
    ),
    Case(
        "peer access twice",
        "",
        "cuCtxEnablePeerAccess",
        704,
        "",
        || {
            let other = begin(1);
            begin(0);
            right!(cuCtxEnablePeerAccess(other, 0_u32));
            call!(cuCtxEnablePeerAccess(other, 0_u32))
        },
    ),
    Case(
        "peers that cannot reach each other",
        "peers none",
        "cuCtxEnablePeerAccess",
        217,
        PEER,
        || {
            let other = begin(1);
            begin(0);
            call!(cuCtxEnablePeerAccess(other, 0_u32))
        },
    ),
    Case(
        "an end of access that was not enabled",
        "",
        "cuCtxDisablePeerAccess",
        705,
        PEER,
        || {
            let other = begin(1);
            begin(0);
            call!(cuCtxDisablePeerAccess(other))
        },
    ),
    Case(
        "tables without documentation",
        "",
        "cuGetExportTable",
        500,
        ENTRY,
        || {
            let mut table = std::ptr::null::<u8>();
            call!(cuGetExportTable(&raw mut table, [0_u8; 16].as_ptr()))
        },
    ),
    Case(
        "a function that is not there",
        "",
        "cuGetProcAddress_v2",
        500,
        ENTRY,
        || {
            let (mut address, mut status) = (0_usize, 0_u32);
            let name = c"cuMakeCoffee".as_ptr();
            let error = call!(cuGetProcAddress_v2(
                name,
                &raw mut address,
                13_000_i32,
                0_u64,
                &raw mut status
            ));
            assert_eq!((address, status), (0, 1));
            error
        },
    ),
    Case(
        "a function of a newer driver",
        "driver 12020",
        "cuGetProcAddress_v2",
        500,
        ENTRY,
        || {
            let (mut address, mut status) = (0_usize, 0_u32);
            let name = c"cuLogsCurrent".as_ptr();
            let error = call!(cuGetProcAddress_v2(
                name,
                &raw mut address,
                13_000_i32,
                0_u64,
                &raw mut status
            ));
            assert_eq!((address, status), (0, 2));
            error
        },
    ),
    Case(
        "a function that is not implemented",
        "",
        "cuArray3DCreate",
        801,
        "",
        || call!(cuArray3DCreate_v2()),
    ),
    Case(
        "a planted failure",
        "fail cuMemAlloc_v2 2 2",
        "cuMemAlloc_v2",
        2,
        "the machine file",
        || {
            begin(0);
            allocate(64);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
];
