//! Sends, receives, groups of them, and the all-to-all that is one.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use toporing::communicator::{Code, Comm, End, Exchange, Fault, Transfer, bytes};

use crate::handles::of;
use crate::last::call;
use crate::numbers;
use crate::pointers::{null, store};

/// Sends to a rank.
///
/// # Safety
/// `input` is null or as long as `count` elements until the
/// call, or that of [`topo_group_end`], returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_send(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    element: c_int,
    to: u32,
) -> c_int {
    call(|| {
        let transfer = transfer(input.cast_mut(), count, element, End::To(to))?;
        of(comm)?.transfer(transfer)
    })
}

/// Receives from a rank.
///
/// # Safety
/// As for [`topo_send`]; nobody else uses `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_receive(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: u32,
) -> c_int {
    call(|| {
        let transfer = transfer(output, count, element, End::From(from))?;
        of(comm)?.transfer(transfer)
    })
}

/// Starts to send to a rank.
///
/// # Safety
/// As for [`topo_send`], until a wait or a test said that it is done; `work` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_send(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    element: c_int,
    to: u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let transfer = transfer(input.cast_mut(), count, element, End::To(to))?;
        // SAFETY: the caller says that both are valid.
        unsafe { start_transfer(comm, transfer, work) }
    })
}

/// Starts to receive from a rank.
///
/// # Safety
/// As for [`topo_start_send`]; nobody else uses `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_receive(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let transfer = transfer(output, count, element, End::From(from))?;
        // SAFETY: the caller says that both are valid.
        unsafe { start_transfer(comm, transfer, work) }
    })
}

/// Sends to a rank with a tag.
///
/// # Safety
/// As for [`topo_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_send_tagged(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    element: c_int,
    to: u32,
    tag: u32,
) -> c_int {
    call(|| {
        let to = (End::To(to), tag);
        of(comm)?.transfer(tagged(input.cast_mut(), count, element, to, null_mut())?)
    })
}

/// Receives from a rank, or any, with a tag.
///
/// # Safety
/// As for [`topo_receive`]; `source` is null or writable as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_receive_tagged(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: u32,
    tag: u32,
    source: *mut u32,
) -> c_int {
    call(|| {
        let transfer = tagged_receive(output, count, element, (from, tag), source)?;
        of(comm)?.transfer(transfer)
    })
}

/// Starts to send to a rank with a tag.
///
/// # Safety
/// As for [`topo_start_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_send_tagged(
    comm: *const Comm,
    input: *const c_void,
    count: usize,
    element: c_int,
    to: u32,
    tag: u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let to = (End::To(to), tag);
        let transfer = tagged(input.cast_mut(), count, element, to, null_mut())?;
        // SAFETY: the caller says that both are valid.
        unsafe { start_transfer(comm, transfer, work) }
    })
}

/// Starts to receive from a rank, or any, with a tag.
///
/// # Safety
/// As for [`topo_start_receive`]; `source` is null or writable as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_receive_tagged(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: u32,
    tag: u32,
    source: *mut u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let transfer = tagged_receive(output, count, element, (from, tag), source)?;
        // SAFETY: the caller says that both are valid.
        unsafe { start_transfer(comm, transfer, work) }
    })
}

/// Receives from the other rank whose message comes first, and stores its number.
///
/// # Safety
/// As for [`topo_receive`]; `from` is null or writable as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_receive_any(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: *mut u32,
) -> c_int {
    call(|| of(comm)?.transfer(tagged(output, count, element, (End::FromAny, 0), from)?))
}

/// Starts to receive from the other rank whose message comes first.
///
/// # Safety
/// As for [`topo_start_receive`]; `from` is null or writable as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_receive_any(
    comm: *const Comm,
    output: *mut c_void,
    count: usize,
    element: c_int,
    from: *mut u32,
    work: *mut u64,
) -> c_int {
    call(|| {
        let transfer = tagged(output, count, element, (End::FromAny, 0), from)?;
        // SAFETY: the caller says that both are valid.
        unsafe { start_transfer(comm, transfer, work) }
    })
}

/// Runs an all-to-all with counts for each rank.
///
/// # Safety
/// `sent` and `received` are null or have a count for each rank,
/// and the buffers are null or as long as the counts; nobody else writes to the input or uses the
/// output before the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_all_to_all_v(
    comm: *const Comm,
    input: *const c_void,
    sent: *const usize,
    output: *mut c_void,
    received: *const usize,
    element: c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller says that all are valid.
        let (comm, transfers) =
            unsafe { exchange(comm, (input, sent), (output, received), element) }?;
        comm.run_group(transfers)
    })
}

/// Starts an all-to-all with counts for each rank.
///
/// # Safety
/// As for [`topo_all_to_all_v`], until a wait or a test said that it is done; `work` is null or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_start_all_to_all_v(
    comm: *const Comm,
    input: *const c_void,
    sent: *const usize,
    output: *mut c_void,
    received: *const usize,
    element: c_int,
    work: *mut u64,
) -> c_int {
    call(|| {
        if work.is_null() {
            return Err(null("work"));
        }
        // SAFETY: the caller says that all are valid.
        let (comm, transfers) =
            unsafe { exchange(comm, (input, sent), (output, received), element) }?;
        let number = comm.start_group(transfers)?;
        // SAFETY: the caller says that it is writable.
        unsafe { store(work, number, "work") }
    })
}

/// Begins a group of sends and receives.
#[unsafe(no_mangle)]
pub extern "C" fn topo_group_start(comm: *const Comm) -> c_int {
    call(|| of(comm)?.begin_group())
}

/// Runs the transfers of the group together.
///
/// # Safety
/// The buffers of the group are as they were given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_group_end(comm: *const Comm) -> c_int {
    call(|| of(comm)?.end_group())
}

/// The communicator and the transfers of [`topo_all_to_all_v`].
///
/// # Safety
/// As there.
pub(crate) unsafe fn exchange(
    comm: *const Comm,
    (input, sent): (*const c_void, *const usize),
    (output, received): (*mut c_void, *const usize),
    element: c_int,
) -> Result<(Arc<Comm>, Vec<Transfer>), Fault> {
    let comm = of(comm)?;
    let (rank, ranks) = (comm.shared.rank, comm.shared.ranks);
    let counts = |of: *const usize, what| {
        if of.is_null() {
            return Err(null(what));
        }
        // SAFETY: the caller says that there is one for each rank.
        Ok(unsafe { std::slice::from_raw_parts(of, ranks as usize) })
    };
    let exchange = Exchange {
        input: input.cast(),
        sent: counts(sent, "sent")?,
        output: output.cast(),
        received: counts(received, "received")?,
        element: numbers::element(element)?,
    };
    // SAFETY: the caller lends the memory until the call has ended (`topo.h`).
    let transfers = unsafe { exchange.read(rank, ranks) }?;
    Ok((comm, transfers))
}

pub(crate) fn transfer(
    memory: *mut c_void,
    count: usize,
    of: c_int,
    end: End,
) -> Result<Transfer, Fault> {
    tagged(memory, count, of, (end, 0), null_mut())
}

fn tagged(
    memory: *mut c_void,
    count: usize,
    of: c_int,
    (end, tag): (End, u32),
    source: *mut u32,
) -> Result<Transfer, Fault> {
    let memory = (memory.cast(), bytes(count, numbers::element(of)?)?);
    // SAFETY: the caller lends all of it until the call has ended (`topo.h`).
    Ok(unsafe { Transfer::new(end, tag, memory, source) })
}

/// The `from` of a receive from any other rank, `TOPO_ANY_RANK`.
const ANY_RANK: u32 = u32::MAX;

fn tagged_receive(
    memory: *mut c_void,
    count: usize,
    of: c_int,
    (from, tag): (u32, u32),
    source: *mut u32,
) -> Result<Transfer, Fault> {
    let end = match from {
        ANY_RANK => End::FromAny,
        _ => End::From(from),
    };
    tagged(memory, count, of, (end, tag), source)
}

/// # Safety
/// `work` is null or writable.
unsafe fn start_transfer(
    comm: *const Comm,
    transfer: Transfer,
    work: *mut u64,
) -> Result<Code, Fault> {
    if work.is_null() {
        return Err(null("work"));
    }
    let number = of(comm)?.start_transfer(transfer)?;
    // SAFETY: the caller says that it is writable.
    unsafe { store(work, number, "work") }
}
