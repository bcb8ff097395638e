//! Streams, captures, events, graphs.

use crate::Case;
use crate::api::{allocate, begin, call, event, right, stream};

const STREAM: &str = "Stream Management";
const EVENT: &str = "Event Management";
const GRAPH: &str = "Graph Management";

/// Capture modes.
const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

fn begin_capture(stream: u64, mode: u32) -> u32 {
    call!(cuStreamBeginCapture_v2(stream, mode))
}

fn end_capture(stream: u64) -> (u64, u32) {
    let mut graph = 0_u64;
    let error = call!(cuStreamEndCapture(stream, &raw mut graph));
    (graph, error)
}

/// A capturing, non-blocking stream.
fn capturing(mode: u32) -> u64 {
    begin(0);
    let stream = stream(1);
    assert_eq!(begin_capture(stream, mode), 0);
    stream
}

fn elapsed(one: u64, other: u64) -> u32 {
    let mut milliseconds = 0_f32;
    call!(cuEventElapsedTime(&raw mut milliseconds, one, other))
}

/// An executable graph without nodes.
fn executable() -> u64 {
    let (graph, error) = end_capture(capturing(THREAD_LOCAL));
    assert_eq!(error, 0);
    let mut executable = 0_u64;
    right!(cuGraphInstantiateWithFlags(
        &raw mut executable,
        graph,
        0_u64
    ));
    executable
}

pub const CASES: &[Case] = &[
    Case(
        "flags for a stream",
        "",
        "cuStreamCreate",
        1,
        STREAM,
        || {
            begin(0);
            let mut stream = 0_u64;
            call!(cuStreamCreate(&raw mut stream, 8_u32))
        },
    ),
    Case(
        "a destroyed stream",
        "",
        "cuStreamSynchronize",
        400,
        STREAM,
        || {
            begin(0);
            let stream = stream(1);
            right!(cuStreamDestroy_v2(stream));
            call!(cuStreamSynchronize(stream))
        },
    ),
    Case(
        "a stream destroyed twice",
        "",
        "cuStreamDestroy_v2",
        400,
        STREAM,
        || {
            begin(0);
            let stream = stream(1);
            right!(cuStreamDestroy_v2(stream));
            call!(cuStreamDestroy_v2(stream))
        },
    ),
    Case(
        "a stream of another context",
        "",
        "cuStreamSynchronize",
        400,
        STREAM,
        || {
            begin(1);
            let stream = stream(1);
            begin(0);
            call!(cuStreamSynchronize(stream))
        },
    ),
    Case(
        "a stream whose context was released",
        "",
        "cuStreamSynchronize",
        400,
        STREAM,
        || {
            begin(1);
            let stream = stream(1);
            right!(cuDevicePrimaryCtxRelease_v2(1_i32));
            begin(1);
            call!(cuStreamSynchronize(stream))
        },
    ),
    Case(
        "a capture of the legacy stream",
        "",
        "cuStreamBeginCapture_v2",
        900,
        STREAM,
        || {
            begin(0);
            begin_capture(0, THREAD_LOCAL)
        },
    ),
    Case(
        "a capture begun twice",
        "",
        "cuStreamBeginCapture_v2",
        401,
        STREAM,
        || begin_capture(capturing(RELAXED), RELAXED),
    ),
    Case(
        "a capture mode that is not there",
        "",
        "cuStreamBeginCapture_v2",
        1,
        STREAM,
        || {
            begin(0);
            begin_capture(stream(1), 3)
        },
    ),
    Case(
        "the end of no capture",
        "",
        "cuStreamEndCapture",
        401,
        STREAM,
        || {
            begin(0);
            end_capture(stream(1)).1
        },
    ),
    Case(
        "a capture ended by another thread",
        "",
        "cuStreamEndCapture",
        908,
        STREAM,
        || {
            let stream = capturing(THREAD_LOCAL);
            let other = std::thread::spawn(move || {
                begin(0);
                end_capture(stream).1
            });
            other.join().unwrap()
        },
    ),
    Case(
        "waiting for a capturing stream",
        "",
        "cuStreamSynchronize",
        900,
        STREAM,
        || call!(cuStreamSynchronize(capturing(RELAXED))),
    ),
    Case(
        "asking a capturing stream",
        "",
        "cuStreamQuery",
        900,
        STREAM,
        || call!(cuStreamQuery(capturing(RELAXED))),
    ),
    Case(
        "the end of an invalid capture",
        "",
        "cuStreamEndCapture",
        901,
        STREAM,
        || {
            let stream = capturing(RELAXED);
            assert_eq!(call!(cuStreamSynchronize(stream)), 900);
            end_capture(stream).1
        },
    ),
    Case(
        "an allocation during a capture",
        "",
        "cuMemAlloc_v2",
        900,
        STREAM,
        || {
            capturing(THREAD_LOCAL);
            let mut address = 0_u64;
            call!(cuMemAlloc_v2(&raw mut address, 64_usize))
        },
    ),
    Case(
        "an allocation during a global capture",
        "",
        "cuMemAlloc_v2",
        900,
        STREAM,
        || {
            capturing(GLOBAL);
            let other = std::thread::spawn(|| {
                begin(0);
                let mut address = 0_u64;
                call!(cuMemAlloc_v2(&raw mut address, 64_usize))
            });
            other.join().unwrap()
        },
    ),
    Case(
        "an allocation during another thread's capture",
        "",
        "cuMemAlloc_v2",
        0,
        "",
        || {
            capturing(THREAD_LOCAL);
            let other = std::thread::spawn(|| {
                begin(0);
                let mut address = 0_u64;
                call!(cuMemAlloc_v2(&raw mut address, 64_usize))
            });
            other.join().unwrap()
        },
    ),
    Case(
        "the legacy stream during a capture",
        "",
        "cuMemsetD8_v2",
        906,
        STREAM,
        || {
            begin(0);
            let (address, blocking) = (allocate(64), stream(0));
            assert_eq!(begin_capture(blocking, RELAXED), 0);
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case(
        "the legacy stream beside a capture",
        "",
        "cuMemsetD8_v2",
        0,
        "",
        || {
            begin(0);
            let address = allocate(64);
            capturing(RELAXED);
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case("flags for an event", "", "cuEventCreate", 1, EVENT, || {
        begin(0);
        let mut event = 0_u64;
        call!(cuEventCreate(&raw mut event, 64_u32))
    }),
    Case(
        "an event of another context",
        "",
        "cuEventRecord",
        400,
        EVENT,
        || {
            begin(1);
            let event = event(0);
            begin(0);
            call!(cuEventRecord(event, stream(1)))
        },
    ),
    Case("a destroyed event", "", "cuEventRecord", 400, EVENT, || {
        begin(0);
        let event = event(0);
        right!(cuEventDestroy_v2(event));
        call!(cuEventRecord(event, 0_u64))
    }),
    Case(
        "the time of an event never recorded",
        "",
        "cuEventElapsedTime",
        400,
        EVENT,
        || {
            begin(0);
            elapsed(event(0), event(0))
        },
    ),
    Case(
        "the time of an event without time",
        "",
        "cuEventElapsedTime",
        400,
        EVENT,
        || {
            begin(0);
            let (timed, untimed) = (event(0), event(2));
            right!(cuEventRecord(timed, 0_u64));
            right!(cuEventRecord(untimed, 0_u64));
            right!(cuCtxSynchronize());
            elapsed(timed, untimed)
        },
    ),
    Case(
        "the time of events of two contexts",
        "",
        "cuEventElapsedTime",
        400,
        EVENT,
        || {
            let record = |device| {
                begin(device);
                let event = event(0);
                right!(cuEventRecord(event, 0_u64));
                right!(cuCtxSynchronize());
                event
            };
            elapsed(record(0), record(1))
        },
    ),
    Case("a captured event", "", "cuEventQuery", 907, EVENT, || {
        begin(0);
        let event = event(0);
        right!(cuEventRecord(event, capturing(RELAXED)));
        call!(cuEventQuery(event))
    }),
    Case(
        "a destroyed graph",
        "",
        "cuGraphInstantiateWithFlags",
        1,
        GRAPH,
        || {
            let (graph, _) = end_capture(capturing(RELAXED));
            right!(cuGraphDestroy(graph));
            let mut executable = 0_u64;
            call!(cuGraphInstantiateWithFlags(
                &raw mut executable,
                graph,
                0_u64
            ))
        },
    ),
    Case(
        "a graph destroyed twice",
        "",
        "cuGraphDestroy",
        1,
        GRAPH,
        || {
            let (graph, _) = end_capture(capturing(RELAXED));
            right!(cuGraphDestroy(graph));
            call!(cuGraphDestroy(graph))
        },
    ),
    Case(
        "a destroyed executable graph",
        "",
        "cuGraphLaunch",
        1,
        GRAPH,
        || {
            let graph = executable();
            right!(cuGraphExecDestroy(graph));
            call!(cuGraphLaunch(graph, 0_u64))
        },
    ),
    Case(
        "a graph launched into a capture",
        "",
        "cuGraphLaunch",
        900,
        GRAPH,
        || {
            let graph = executable();
            call!(cuGraphLaunch(graph, capturing(RELAXED)))
        },
    ),
    Case(
        "a graph uploaded into a capture",
        "",
        "cuGraphUpload",
        900,
        GRAPH,
        || {
            let graph = executable();
            call!(cuGraphUpload(graph, capturing(RELAXED)))
        },
    ),
];
