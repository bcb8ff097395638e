//! Modules, launches, errors that stick.

use crate::Case;
use crate::api::{
    LaunchAttribute, LaunchConfig, PTX, begin, call, event, function, module, right, stream,
};

const MODULE: &str = "Module Management";
const EXECUTION: &str = "Execution Control";

/// Bytes for any argument.
static ARGUMENT: [u64; 1024] = [0; 1024];

fn load(image: &[u8]) -> u32 {
    begin(0);
    let mut module = 0_u64;
    call!(cuModuleLoadData(&raw mut module, image.as_ptr()))
}

fn launch(function: u64, blocks: u32, threads: u32, stream: u64) -> u32 {
    let parameters = [ARGUMENT.as_ptr()];
    let parameters = parameters.as_ptr();
    call!(cuLaunchCooperativeKernel(
        function, blocks, 1_u32, 1_u32, threads, 1_u32, 1_u32, 0_u32, stream, parameters
    ))
}

/// Launches with an attribute.
fn launch_with(blocks: u32, id: u32, value: u32) -> u32 {
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
        let mut address = 0_u64;
        call!(cuMemAlloc_v2(&raw mut address, 64_usize))
    })
}

pub const CASES: &[Case] = &[
    Case(
        "text that is no image",
        "",
        "cuModuleLoadData",
        200,
        MODULE,
        || load(b"hello\0"),
    ),
    Case(
        "PTX for newer GPUs",
        "machine dgx-1v",
        "cuModuleLoadData",
        209,
        MODULE,
        || load(PTX),
    ),
    Case(
        "PTX for newer drivers",
        "driver 11080",
        "cuModuleLoadData",
        222,
        MODULE,
        || load(PTX),
    ),
    Case(
        "a kernel that is not in the module",
        "",
        "cuModuleGetFunction",
        500,
        MODULE,
        || {
            begin(0);
            let mut function = 0_u64;
            call!(cuModuleGetFunction(
                &raw mut function,
                module(),
                c"other".as_ptr()
            ))
        },
    ),
    Case(
        "a kernel of an unloaded module",
        "",
        "cuFuncGetAttribute",
        400,
        MODULE,
        || {
            begin(0);
            let module = module();
            let (function, mut value) = (function(module), 0_i32);
            right!(cuModuleUnload(module));
            call!(cuFuncGetAttribute(&raw mut value, 4_u32, function))
        },
    ),
    Case(
        "a module unloaded twice",
        "",
        "cuModuleUnload",
        400,
        MODULE,
        || {
            begin(0);
            let module = module();
            right!(cuModuleUnload(module));
            call!(cuModuleUnload(module))
        },
    ),
    Case(
        "an empty grid",
        "",
        "cuLaunchCooperativeKernel",
        1,
        EXECUTION,
        || launch(kernel(), 0, 64, 0),
    ),
    Case(
        "too many threads",
        "",
        "cuLaunchCooperativeKernel",
        1,
        EXECUTION,
        || launch(kernel(), 1, 1056, 0),
    ),
    Case(
        "more blocks than are resident",
        "",
        "cuLaunchCooperativeKernel",
        720,
        EXECUTION,
        || launch(kernel(), 1000, 448, 0),
    ),
    Case(
        "a kernel of another context",
        "",
        "cuLaunchCooperativeKernel",
        400,
        MODULE,
        || {
            let kernel = kernel();
            begin(1);
            launch(kernel, 1, 96, 0)
        },
    ),
    Case(
        "a launch into a stream of another context",
        "",
        "cuLaunchCooperativeKernel",
        400,
        "Stream Management",
        || {
            begin(1);
            let stream = stream(1);
            launch(kernel(), 1, 96, stream)
        },
    ),
    Case(
        "a block size out of range",
        "",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        1,
        "Occupancy",
        || {
            let (kernel, mut blocks) = (kernel(), 0_i32);
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                kernel,
                0_i32,
                0_usize
            ))
        },
    ),
    Case(
        "a launch that succeeds",
        "",
        "cuStreamSynchronize",
        0,
        "",
        || {
            assert_eq!(launch(kernel(), 2, 96, 0), 0);
            call!(cuStreamSynchronize(0_u64))
        },
    ),
    Case(
        "an error that sticks",
        "fault 0 1",
        "cuMemAlloc_v2",
        700,
        "",
        || {
            assert_eq!(launch(kernel(), 1, 96, 0), 0);
            assert_eq!(call!(cuStreamSynchronize(0_u64)), 700);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
    Case(
        "a cooperative launch by attribute that is too large",
        "",
        "cuLaunchKernelEx",
        720,
        EXECUTION,
        || launch_with(4096, 2, 1),
    ),
    Case(
        "a launch that need not be resident, in the remote domain",
        "",
        "cuLaunchKernelEx",
        0,
        "",
        || launch_with(4096, 10, 1),
    ),
    Case(
        "a domain that is none",
        "",
        "cuLaunchKernelEx",
        1,
        EXECUTION,
        || launch_with(1, 10, 2),
    ),
    Case(
        "a kernel that aborts itself",
        "fault 0 1 trap",
        "cuStreamSynchronize",
        719,
        "",
        || {
            assert_eq!(launch(kernel(), 1, 96, 0), 0);
            call!(cuStreamSynchronize(0_u64))
        },
    ),
    Case(
        "an error that only a wait finds, and that sticks",
        "fault 0 1 late",
        "cuMemAlloc_v2",
        700,
        "",
        || {
            let (kernel, stream, event) = (kernel(), stream(1), event(0));
            assert_eq!(launch(kernel, 1, 96, stream), 0);
            right!(cuEventRecord(event, stream));
            while call!(cuEventQuery(event)) != 0 {
                std::thread::yield_now();
            }
            assert_eq!(call!(cuStreamSynchronize(stream)), 700);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
    Case(
        "a query beside a launch that waits for room",
        "queue 1; fault 0 1 hang",
        "cuEventQuery",
        600,
        "",
        || ends(a_query_beside_a_blocked_launch()),
    ),
    Case(
        "a query beside a launch that waits for room and holds the lock",
        "queue 1; launch-lock yes; fault 0 1 hang",
        "cuEventQuery",
        BLOCKED,
        "",
        || ends(a_query_beside_a_blocked_launch()),
    ),
    Case(
        "an allocation beside a kernel",
        "fault 0 1 hang",
        "cuMemAlloc_v2",
        0,
        "",
        || ends(an_allocation_beside_a_kernel()),
    ),
    Case(
        "an allocation that waits for a kernel",
        "calls-wait yes; fault 0 1 hang",
        "cuMemAlloc_v2",
        BLOCKED,
        "",
        || ends(an_allocation_beside_a_kernel()),
    ),
    Case(
        "an illegal address of a kernel",
        "",
        "cuStreamSynchronize",
        700,
        "",
        || {
            // One part whose lanes are at address 0.
            let mut argument = ARGUMENT;
            argument[2] = 1;
            // The part's numbers of lanes, protocol, operation, divisor and shares.
            argument[3 + 10] = 1;
            argument[3 + 12] = 1;
            let kernel = kernel();
            let parameters = [argument.as_ptr()];
            assert_eq!(
                call!(cuLaunchCooperativeKernel(
                    kernel,
                    1_u32,
                    1_u32,
                    1_u32,
                    96_u32,
                    1_u32,
                    1_u32,
                    0_u32,
                    0_u64,
                    parameters.as_ptr()
                )),
                0
            );
            call!(cuStreamSynchronize(0_u64))
        },
    ),
];
