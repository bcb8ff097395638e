//! Modules, launches, errors that stick.

use std::mem::offset_of;

use device_runtime::layout::{Launch, LaunchPart};

use crate::api::{
    LaunchAttribute, LaunchConfig, PTX, allocated, begin, call, event, function, module, out,
    right, stream,
};

const MODULE: &str = "Module Management";
const EXECUTION: &str = "Execution Control";
const STREAM: &str = "Stream Management";
const OCCUPANCY: &str = "Occupancy";

/// Bytes for any argument.
static ARGUMENT: [u64; 1024] = [0; 1024];

fn launch_with(kernel: u64, blocks: u32, threads: u32, stream: u64, argument: &[u64]) -> u32 {
    let parameters = [argument.as_ptr()];
    let parameters = parameters.as_ptr();
    call!(cuLaunchCooperativeKernel(
        kernel, blocks, 1_u32, 1_u32, threads, 1_u32, 1_u32, 0_u32, stream, parameters
    ))
}

fn launch(kernel: u64, blocks: u32, threads: u32, stream: u64) -> u32 {
    launch_with(kernel, blocks, threads, stream, &ARGUMENT)
}

/// Launches with an attribute.
fn launch_by_attribute(blocks: u32, id: u32, value: u32) -> u32 {
    let kernel = kernel();
    let attribute = LaunchAttribute {
        id,
        padding: 0,
        value: [value; 16],
    };
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        shared: 0,
        stream: 0,
        attributes: &raw const attribute,
        count: 1,
    };
    let parameters = [ARGUMENT.as_ptr()];
    call!(cuLaunchKernelEx(
        &raw const config,
        kernel,
        parameters.as_ptr(),
        std::ptr::null::<u8>()
    ))
}

/// A kernel whose argument has no part ends at once.
fn kernel() -> u64 {
    begin(0);
    function(module())
}

/// The result of a call that does not return.
const BLOCKED: u32 = u32::MAX;

/// The result of a call on another thread, or [`BLOCKED`].
fn ends(call: std::thread::JoinHandle<u32>) -> u32 {
    let until = std::time::Instant::now() + std::time::Duration::from_millis(200);
    while !call.is_finished() {
        if std::time::Instant::now() > until {
            return BLOCKED;
        }
        std::thread::yield_now();
    }
    call.join().unwrap()
}

/// Behind a kernel that hangs, a launch blocks.
fn a_query_beside_a_blocked_launch() -> std::thread::JoinHandle<u32> {
    let (kernel, event) = (kernel(), event(0));
    assert_eq!(launch(kernel, 1, 96, 0), 0);
    right!(cuEventRecord(event, 0_u64));
    let context = begin(0);
    let blocked = std::thread::spawn(move || {
        right!(cuCtxSetCurrent(context));
        launch(kernel, 1, 96, 0)
    });
    assert_eq!(ends(blocked), BLOCKED);
    std::thread::spawn(move || call!(cuEventQuery(event)))
}

fn an_allocation_beside_a_kernel() -> std::thread::JoinHandle<u32> {
    assert_eq!(launch(kernel(), 1, 96, 0), 0);
    let context = begin(0);
    std::thread::spawn(move || {
        right!(cuCtxSetCurrent(context));
        allocated(64)
    })
}

crate::table! {
    "text that is no image" => cuModuleLoadData(out::<u64>(), c"hello".as_ptr()) = 200 MODULE;
    "PTX for newer GPUs" ["machine dgx-1v"] => cuModuleLoadData(out::<u64>(), PTX.as_ptr()) = 209 MODULE;
    "PTX for newer drivers" ["driver 11080"] => cuModuleLoadData(out::<u64>(), PTX.as_ptr()) = 222 MODULE;
    "a kernel that is not in the module"
        => cuModuleGetFunction(out::<u64>(), module(), c"other".as_ptr()) = 500 MODULE;
    "a kernel of an unloaded module" {
        let module = module();
        let function = function(module);
        right!(cuModuleUnload(module));
    } => cuFuncGetAttribute(out::<i32>(), 4_u32, function) = 400 MODULE;
    "a module unloaded twice" { let module = module(); right!(cuModuleUnload(module)); }
        => cuModuleUnload(module) = 400 MODULE;
    "an empty grid" => cuLaunchCooperativeKernel { launch(kernel(), 0, 64, 0) } = 1 EXECUTION;
    "too many threads" => cuLaunchCooperativeKernel { launch(kernel(), 1, 1056, 0) } = 1 EXECUTION;
    "more blocks than are resident"
        => cuLaunchCooperativeKernel { launch(kernel(), 1000, 448, 0) } = 720 EXECUTION;
    "a kernel of another context" { let kernel = kernel(); begin(1); }
        => cuLaunchCooperativeKernel { launch(kernel, 1, 96, 0) } = 400 MODULE;
    "a launch into a stream of another context" { begin(1); let stream = stream(1); }
        => cuLaunchCooperativeKernel { launch(kernel(), 1, 96, stream) } = 400 STREAM;
    "a block size out of range" { let kernel = kernel(); }
        => cuOccupancyMaxActiveBlocksPerMultiprocessor(out::<i32>(), kernel, 0_i32, 0_usize) = 1 OCCUPANCY;
    "a launch that succeeds" { assert_eq!(launch(kernel(), 2, 96, 0), 0); }
        => cuStreamSynchronize(0_u64) = 0 "";
    "an error that sticks" ["fault 0 1"] {
        assert_eq!(launch(kernel(), 1, 96, 0), 0);
        assert_eq!(call!(cuStreamSynchronize(0_u64)), 700);
    } => cuMemAlloc_v2 { allocated(64) } = 700 "";
    "a cooperative launch by attribute that is too large"
        => cuLaunchKernelEx { launch_by_attribute(4096, 2, 1) } = 720 EXECUTION;
    "a launch that need not be resident, in the remote domain"
        => cuLaunchKernelEx { launch_by_attribute(4096, 10, 1) } = 0 "";
    "a domain that is none" => cuLaunchKernelEx { launch_by_attribute(1, 10, 2) } = 1 EXECUTION;
    "a kernel that aborts itself" ["fault 0 1 trap"] { assert_eq!(launch(kernel(), 1, 96, 0), 0); }
        => cuStreamSynchronize(0_u64) = 719 "";
    "an error that only a wait finds, and that sticks" ["fault 0 1 late"] {
        let (kernel, stream, event) = (kernel(), stream(1), event(0));
        assert_eq!(launch(kernel, 1, 96, stream), 0);
        right!(cuEventRecord(event, stream));
        while call!(cuEventQuery(event)) != 0 {
            std::thread::yield_now();
        }
        assert_eq!(call!(cuStreamSynchronize(stream)), 700);
    } => cuMemAlloc_v2 { allocated(64) } = 700 "";
    "a query beside a launch that waits for room" ["queue 1; fault 0 1 hang"]
        => cuEventQuery { ends(a_query_beside_a_blocked_launch()) } = 600 "";
    "a query beside a launch that waits for room and holds the lock"
        ["queue 1; launch-lock yes; fault 0 1 hang"]
        => cuEventQuery { ends(a_query_beside_a_blocked_launch()) } = BLOCKED "";
    "an allocation beside a kernel" ["fault 0 1 hang"]
        => cuMemAlloc_v2 { ends(an_allocation_beside_a_kernel()) } = 0 "";
    "an allocation that waits for a kernel" ["calls-wait yes; fault 0 1 hang"]
        => cuMemAlloc_v2 { ends(an_allocation_beside_a_kernel()) } = BLOCKED "";
    "an illegal address of a kernel" {
        // One part with one lane, which is at address 0.
        let part = offset_of!(Launch, parts);
        let mut argument = ARGUMENT;
        argument[offset_of!(Launch, count) / 8] = 1;
        argument[(part + offset_of!(LaunchPart, lane_count)) / 8] = 1;
        argument[(part + offset_of!(LaunchPart, shares)) / 8] = 1;
        assert_eq!(launch_with(kernel(), 1, 96, 0, &argument), 0);
    } => cuStreamSynchronize(0_u64) = 700 "";
}
