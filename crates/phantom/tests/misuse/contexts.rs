//! Initialization, devices, contexts, peers, entry points.

use crate::BEFORE_INIT;
use crate::api::{allocate, allocated, begin, call, elsewhere, out, right};

const INITIALIZATION: &str = "Initialization";
const DEVICE: &str = "Device Management";
const PRIMARY: &str = "Primary Context Management";
const CONTEXT: &str = "Context Management";
const PEER: &str = "Peer Context Memory Access";
const ENTRY: &str = "Driver Entry Point Access";
const MACHINE: &str = "the machine file";

/// The context of device 1, while that of device 0 is current.
fn other() -> u64 {
    let other = begin(1);
    begin(0);
    other
}

/// Looks a function up that is not there, with this status.
fn look_up(name: &std::ffi::CStr, expected: u32) -> u32 {
    let (mut address, mut status) = (0_usize, 0_u32);
    let (place, why) = (&raw mut address, &raw mut status);
    let error = call!(cuGetProcAddress_v2(
        name.as_ptr(),
        place,
        13_000_i32,
        0_u64,
        why
    ));
    assert_eq!((address, status), (0, expected));
    error
}

crate::table! {
    "a call before cuInit" [BEFORE_INIT] => cuDeviceGetCount(out::<i32>()) = 3 INITIALIZATION;
    "flags for cuInit" => cuInit(1_u32) = 1 INITIALIZATION;
    "an unknown error" => cuGetErrorName(12_345_u32, out::<usize>()) = 1 INITIALIZATION;
    "a device that is not there" => cuDeviceGet(out::<i32>(), 99_i32) = 101 DEVICE;
    "an attribute that is not there" => cuDeviceGetAttribute(out::<i32>(), 100_000_u32, 0_i32) = 1 DEVICE;
    "a null pointer" => cuDeviceGetCount(std::ptr::null_mut::<i32>()) = 1 DEVICE;
    "the link of a device with itself" => cuDeviceGetP2PAttribute(out::<i32>(), 2_u32, 0_i32, 0_i32) = 101 PEER;
    "no current context" { right!(cuCtxSetCurrent(0_u64)); } => cuMemAlloc_v2 { allocated(64) } = 201 CONTEXT;
    "the current context of another thread" => cuMemAlloc_v2 { elsewhere(|| allocated(64)) } = 201 CONTEXT;
    "a handle that is no context" => cuCtxSetCurrent(0x1234_u64) = 201 CONTEXT;
    "a context after its release" { right!(cuDevicePrimaryCtxRelease_v2(0_i32)); }
        => cuMemAlloc_v2 { allocated(64) } = 709 CONTEXT;
    "entering a released context" {
        let context = begin(0);
        right!(cuDevicePrimaryCtxRelease_v2(0_i32));
        right!(cuDevicePrimaryCtxRelease_v2(0_i32));
    } => cuCtxSetCurrent(context) = 709 CONTEXT;
    "a context released too often" { right!(cuDevicePrimaryCtxRelease_v2(0_i32)); }
        => cuDevicePrimaryCtxRelease_v2(0_i32) = 201 PRIMARY;
    "a peer that is the context itself" => cuCtxEnablePeerAccess(begin(0), 0_u32) = 201 PEER;
    "flags for peer access" => cuCtxEnablePeerAccess(other(), 1_u32) = 1 PEER;
    "peer access twice" { let other = other(); right!(cuCtxEnablePeerAccess(other, 0_u32)); }
        => cuCtxEnablePeerAccess(other, 0_u32) = 704 "";
    "peers that cannot reach each other" ["peers none"] => cuCtxEnablePeerAccess(other(), 0_u32) = 217 PEER;
    "an end of access that was not enabled" => cuCtxDisablePeerAccess(other()) = 705 PEER;
    "tables without documentation" => cuGetExportTable(out::<usize>(), [0_u8; 16].as_ptr()) = 500 ENTRY;
    "a function that is not there" => cuGetProcAddress_v2 { look_up(c"cuMakeCoffee", 1) } = 500 ENTRY;
    "a function of a newer driver" ["driver 12020"]
        => cuGetProcAddress_v2 { look_up(c"cuLogsCurrent", 2) } = 500 ENTRY;
    "a function that is not implemented" => cuArray3DCreate { call!(cuArray3DCreate_v2()) } = 801 "";
    "a planted failure" ["fail cuMemAlloc_v2 2 2"] { allocate(64); }
        => cuMemAlloc_v2 { allocated(64) } = 2 MACHINE;
    "a bus id without a device" => cuDeviceGetByPCIBusId(out::<i32>(), c"0000:FF:00.0".as_ptr()) = 101 DEVICE;
}
