//! Collectives and transfers on memory of GPUs in the order of streams.

use std::ffi::{c_int, c_void};

use toporing::communicator::{Code, Comm, End};

use crate::ffi::RunArguments;
use crate::handles::of;
use crate::last::call;
use crate::transfers::{exchange, transfer};

/// Enqueues a collective on memory of this rank's GPU behind the work of a stream.
///
/// # Safety
/// The buffers are null or as long as the collective needs. Until the stream has passed the
/// collective, nobody else writes to the input or uses the output. `stream` is a stream of the GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_run_on(
    comm: *const Comm,
    collective: c_int,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    root: u32,
    stream: *mut c_void,
) -> c_int {
    call(|| {
        let comm = of(comm)?;
        let launch = RunArguments {
            collective,
            input,
            output,
            count,
            element,
            operation,
            root,
        };
        comm.run_on(&launch.read(&comm)?, stream.addr() as u64)
    })
}

/// Enqueues a send behind the work of a stream, or adds it to the group.
///
/// # Safety
/// `input` is null or as long as `count` elements until the stream has passed the transfer.
/// `stream` is a stream of the GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_send_on(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    element: c_int,
    to: u32,
    stream: *mut c_void,
) -> c_int {
    call(|| {
        let transfer = transfer(input.cast_mut(), count, element, End::To(to))?;
        of(comm)?.transfer_on(transfer, stream.addr() as u64)
    })
}

/// Enqueues a receive behind the work of a stream, or adds it to the group.
///
/// # Safety
/// As for [`topo_send_on`]; nobody else uses `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_receive_on(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: u32,
    stream: *mut c_void,
) -> c_int {
    call(|| {
        let transfer = transfer(output, count, element, End::From(from))?;
        of(comm)?.transfer_on(transfer, stream.addr() as u64)
    })
}

/// Enqueues an all-to-all with counts for each rank behind the work of a stream.
///
/// # Safety
/// `sent` and `received` are null or have a count for each rank, and the buffers are null or as
/// long as the counts. Until the stream has passed it, nobody else writes to the input or uses the
/// output. `stream` is a stream of the GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_all_to_all_v_on(
    comm: *const Comm,
    input: *const c_void,
    sent: *const usize,
    output: *mut c_void,
    received: *const usize,
    element: c_int,
    stream: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller says that all are valid.
        let (comm, transfers) =
            unsafe { exchange(comm, (input, sent), (output, received), element) }?;
        comm.run_group_on(&transfers, stream.addr() as u64)
    })
}

/// Registers memory of this rank's GPU, so that the switch reduces and stores it where it is.
///
/// # Safety
/// `window` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_comm_register(
    comm: *const Comm,
    memory: *mut c_void,
    bytes: usize,
    window: *mut u32,
) -> c_int {
    call(|| {
        let found = of(comm)?.register(memory.addr() as u64, bytes as u64)?;
        if !window.is_null() {
            // SAFETY: the caller says that it is writable.
            unsafe { window.write(found) };
        }
        Ok(Code::Ok)
    })
}

/// Ends the registration of a window.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_deregister(comm: *const Comm, window: u32) -> c_int {
    call(|| of(comm)?.deregister(window))
}

/// Whether what [`topo_run_on`] enqueued has ended. Any thread may ask.
#[unsafe(no_mangle)]
pub extern "C" fn topo_comm_query(comm: *const Comm) -> c_int {
    call(|| of(comm)?.query())
}
