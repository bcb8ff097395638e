//! Streams, captures, events, graphs.

use crate::api::{allocate, allocated, begin, call, elsewhere, event, out, right, stream};

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

/// The error of the end of a capture after calls beside it.
fn broken(mode: u32, beside: impl FnOnce(u64)) -> u32 {
    let stream = capturing(mode);
    beside(stream);
    end_capture(stream).1
}

/// Sets this thread's capture mode. Returns the mode before.
fn exchange(mut mode: u32) -> u32 {
    right!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    mode
}

/// Asks on a thread of this mode for an event, which was not recorded in a capture.
fn asked(mode: u32) -> u32 {
    let event = event(0);
    elsewhere(move || {
        begin(0);
        assert_eq!(exchange(mode), GLOBAL);
        call!(cuEventQuery(event))
    })
}

/// Calls a function with a stream or an event, while another thread captures in mode `GLOBAL`.
fn beside_global(call: fn(u64, u64) -> u32) -> u32 {
    begin(0);
    let (stream, event) = (stream(1), event(0));
    capturing(GLOBAL);
    elsewhere(move || {
        begin(0);
        call(stream, event)
    })
}

fn elapsed(one: u64, other: u64) -> u32 {
    call!(cuEventElapsedTime(out::<f32>(), one, other))
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

/// A graph without nodes that was destroyed.
fn destroyed_graph() -> u64 {
    let (graph, _) = end_capture(capturing(RELAXED));
    right!(cuGraphDestroy(graph));
    graph
}

/// A stream that was destroyed.
fn destroyed() -> u64 {
    let stream = stream(1);
    right!(cuStreamDestroy_v2(stream));
    stream
}

/// An event that was recorded on a device.
fn recorded(device: i32, flags: u32) -> u64 {
    begin(device);
    let event = event(flags);
    right!(cuEventRecord(event, 0_u64));
    right!(cuCtxSynchronize());
    event
}

/// Allocates on another thread.
fn allocated_elsewhere() -> u32 {
    elsewhere(|| {
        begin(0);
        allocated(64)
    })
}

crate::table! {
    "flags for a stream" => cuStreamCreate(out::<u64>(), 8_u32) = 1 STREAM;
    "a destroyed stream" => cuStreamSynchronize(destroyed()) = 400 STREAM;
    "a stream destroyed twice" => cuStreamDestroy_v2(destroyed()) = 400 STREAM;
    "a stream of another context" { begin(1); let stream = stream(1); begin(0); }
        => cuStreamSynchronize(stream) = 400 STREAM;
    "a stream whose context was released" {
        begin(1);
        let stream = stream(1);
        right!(cuDevicePrimaryCtxRelease_v2(1_i32));
        begin(1);
    } => cuStreamSynchronize(stream) = 400 STREAM;
    "a capture of the legacy stream" => cuStreamBeginCapture_v2(0_u64, THREAD_LOCAL) = 900 STREAM;
    "a capture begun twice" => cuStreamBeginCapture_v2(capturing(RELAXED), RELAXED) = 401 STREAM;
    "a capture mode that is not there" => cuStreamBeginCapture_v2(stream(1), 3_u32) = 1 STREAM;
    "the end of no capture" => cuStreamEndCapture(stream(1), out::<u64>()) = 401 STREAM;
    "a capture ended by another thread" {
        let stream = capturing(THREAD_LOCAL);
        let end = move || {
            begin(0);
            end_capture(stream).1
        };
    } => cuStreamEndCapture { elsewhere(end) } = 908 STREAM;
    "waiting for a capturing stream" => cuStreamSynchronize(capturing(RELAXED)) = 900 STREAM;
    "asking a capturing stream" => cuStreamQuery(capturing(RELAXED)) = 900 STREAM;
    "a wait for a destroyed event" { let event = event(0); right!(cuEventDestroy_v2(event)); }
        => cuStreamWaitEvent(stream(1), event, 0_u32) = 400 EVENT;
    "a wait for a captured event" { let event = event(0); right!(cuEventRecord(event, capturing(RELAXED))); }
        => cuStreamWaitEvent(stream(1), event, 0_u32) = 907 EVENT;
    "a capturing stream that waits for an event outside"
        => cuStreamWaitEvent(capturing(RELAXED), event(0), 0_u32) = 905 STREAM;
    "flags of a wait" => cuStreamWaitEvent(stream(1), event(0), 2_u32) = 1 STREAM;
    "the end of an invalid capture" {
        let stream = capturing(RELAXED);
        assert_eq!(call!(cuStreamSynchronize(stream)), 900);
    } => cuStreamEndCapture(stream, out::<u64>()) = 901 STREAM;
    "an allocation during a capture" { capturing(THREAD_LOCAL); }
        => cuMemAlloc_v2 { allocated(64) } = 900 STREAM;
    "an allocation during a global capture" { capturing(GLOBAL); }
        => cuMemAlloc_v2 { allocated_elsewhere() } = 900 STREAM;
    "an allocation during another thread's capture" { capturing(THREAD_LOCAL); }
        => cuMemAlloc_v2 { allocated_elsewhere() } = 0 "";
    "an event asked for during another thread's global capture"
        => cuEventQuery { beside_global(|_, event| call!(cuEventQuery(event))) } = 900 STREAM;
    "an event waited for during another thread's global capture"
        => cuEventSynchronize { beside_global(|_, event| call!(cuEventSynchronize(event))) } = 900 STREAM;
    "a stream asked during another thread's global capture"
        => cuStreamQuery { beside_global(|stream, _| call!(cuStreamQuery(stream))) } = 900 STREAM;
    "a stream waited for during another thread's global capture"
        => cuStreamSynchronize { beside_global(|stream, _| call!(cuStreamSynchronize(stream))) } = 900 STREAM;
    "a global capture that another thread's question made invalid"
        => cuStreamEndCapture { broken(GLOBAL, |_| assert_eq!(asked(GLOBAL), 900)) } = 901 STREAM;
    "a global capture beside a question of a thread-local thread"
        => cuStreamEndCapture { broken(GLOBAL, |_| assert_eq!(asked(THREAD_LOCAL), 0)) } = 0 "";
    "a global capture beside a question of a relaxed thread"
        => cuStreamEndCapture { broken(GLOBAL, |_| assert_eq!(asked(RELAXED), 0)) } = 0 "";
    "a thread-local capture beside a question of another thread"
        => cuStreamEndCapture { broken(THREAD_LOCAL, |_| assert_eq!(asked(GLOBAL), 0)) } = 0 "";
    "a relaxed capture beside a question"
        => cuStreamEndCapture { broken(RELAXED, |_| assert_eq!(asked(GLOBAL), 0)) } = 0 "";
    "a question of the thread that captures" { let event = event(0); capturing(THREAD_LOCAL); }
        => cuEventQuery(event) = 900 STREAM;
    "a question of a thread-local thread that captures" {
        let event = event(0);
        capturing(GLOBAL);
        exchange(THREAD_LOCAL);
    } => cuEventQuery(event) = 900 STREAM;
    "a question of a relaxed thread that captures" {
        let event = event(0);
        capturing(GLOBAL);
        exchange(RELAXED);
    } => cuEventQuery(event) = 0 "";
    "a relaxed thread that asks a capturing stream" { let stream = capturing(GLOBAL); exchange(RELAXED); }
        => cuStreamQuery(stream) = 900 STREAM;
    "a thread's mode that is not there" { let mut mode = 3_u32; }
        => cuThreadExchangeStreamCaptureMode(&raw mut mode) = 1 STREAM;
    "a thread's mode is what it was set to" { assert_eq!((exchange(RELAXED), exchange(GLOBAL)), (GLOBAL, RELAXED)); }
        => cuEventQuery(event(0)) = 0 "";
    "whether the legacy stream captures, during a capture" {
        assert_eq!(begin_capture(stream(0), RELAXED), 0);
    } => cuStreamIsCapturing(0_u64, out::<u32>()) = 906 STREAM;
    "a capture that the legacy stream was asked beside" {
        let blocking = stream(0);
        assert_eq!(begin_capture(blocking, RELAXED), 0);
        assert_eq!(call!(cuStreamIsCapturing(0_u64, out::<u32>())), 906);
    } => cuStreamEndCapture(blocking, out::<u64>()) = 0 "";
    "whether the legacy stream captures, beside a capture" { capturing(RELAXED); }
        => cuStreamIsCapturing(0_u64, out::<u32>()) = 0 "";
    "the legacy stream during a capture" {
        let (address, blocking) = (allocate(64), stream(0));
        assert_eq!(begin_capture(blocking, RELAXED), 0);
    } => cuMemsetD8_v2(address, 0_u8, 64_usize) = 906 STREAM;
    "the legacy stream beside a capture" { let address = allocate(64); capturing(RELAXED); }
        => cuMemsetD8_v2(address, 0_u8, 64_usize) = 0 "";
    "flags for an event" => cuEventCreate(out::<u64>(), 64_u32) = 1 EVENT;
    "an event of another context" { begin(1); let event = event(0); begin(0); }
        => cuEventRecord(event, stream(1)) = 400 EVENT;
    "a destroyed event" { let event = event(0); right!(cuEventDestroy_v2(event)); }
        => cuEventRecord(event, 0_u64) = 400 EVENT;
    "the time of an event never recorded" => cuEventElapsedTime { elapsed(event(0), event(0)) } = 400 EVENT;
    "the time of an event without time"
        => cuEventElapsedTime { elapsed(recorded(0, 0), recorded(0, 2)) } = 400 EVENT;
    "the time of events of two contexts"
        => cuEventElapsedTime { elapsed(recorded(0, 0), recorded(1, 0)) } = 400 EVENT;
    "a captured event" { let event = event(0); right!(cuEventRecord(event, capturing(RELAXED))); }
        => cuEventQuery(event) = 907 EVENT;
    "a destroyed graph"
        => cuGraphInstantiateWithFlags(out::<u64>(), destroyed_graph(), 0_u64) = 1 GRAPH;
    "a graph destroyed twice" => cuGraphDestroy(destroyed_graph()) = 1 GRAPH;
    "a destroyed executable graph" { let graph = executable(); right!(cuGraphExecDestroy(graph)); }
        => cuGraphLaunch(graph, 0_u64) = 1 GRAPH;
    "a graph launched into a capture" { let graph = executable(); }
        => cuGraphLaunch(graph, capturing(RELAXED)) = 900 GRAPH;
    "a graph uploaded into a capture" { let graph = executable(); }
        => cuGraphUpload(graph, capturing(RELAXED)) = 900 GRAPH;
}
