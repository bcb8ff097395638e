//! Steps with operands in other processes. A move is one copy by the kernel; to reduce, the kernel
//! copies pieces into memory of this process.

use std::cell::Cell;

use shared_memory::{ProcessMemory, ProcessMemoryError};

use crate::reduce::{MOST_OPERANDS, Reduce, ReduceStep};

/// An address in another process.
#[derive(Debug, Clone, Copy)]
pub struct RemoteAddress {
    /// Index of the program's base to which it belongs.
    pub base: u32,
    /// The process.
    pub process: u32,
    /// The address there.
    pub address: u64,
}

/// The remote operands of a step.
pub type RemoteOperands = [Option<RemoteAddress>; MOST_OPERANDS];

/// Bytes per copy: enough to amortize the system call, few enough for a core's cache.
const PIECE_BYTES: usize = 64 << 10;

/// A failed access.
#[derive(Debug)]
pub struct RefusedAccess {
    /// Index of the program's base.
    pub base: u32,
    /// The system's error.
    pub error: ProcessMemoryError,
}

thread_local! {
    /// Pieces of remote operands, kept for the next step.
    static STAGING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Copies `bytes` bytes between a remote address and a local one, at once: the kernel moves them
/// without memory in between.
///
/// # Errors
/// The remote memory cannot be accessed.
///
/// # Safety
/// The local bytes are readable and, if they are the destination, writable by nobody else. The
/// remote ones stay valid during the launch.
pub unsafe fn copy(
    remote: &RemoteAddress,
    local: LocalSide,
    bytes: usize,
) -> Result<(), RefusedAccess> {
    let there = ProcessMemory::new(remote.process);
    // SAFETY: the caller's promise.
    let copied = unsafe {
        match local {
            LocalSide::Destination(to) => there.read(remote.address, to, bytes),
            LocalSide::Source(from) => there.write(remote.address, from, bytes),
        }
    };
    copied.map_err(|error| RefusedAccess {
        base: remote.base,
        error,
    })
}

/// The local side of a copy.
#[derive(Debug, Clone, Copy)]
pub enum LocalSide {
    /// The remote bytes are copied here.
    Destination(*mut u8),
    /// These bytes are copied to the remote address.
    Source(*const u8),
}

/// Runs a step with remote operands.
///
/// # Errors
/// A remote operand cannot be accessed.
///
/// # Safety
/// As [`Reduce::run`] for local operands. Remote ones are null and stay valid during the
/// launch.
pub unsafe fn reduce(
    reduce: &Reduce,
    step: &ReduceStep<'_>,
    remote_sources: &RemoteOperands,
    remote_destinations: &RemoteOperands,
) -> Result<(), RefusedAccess> {
    let element = reduce.element_bytes();
    let piece = PIECE_BYTES / element;
    let fetched = remote_sources.iter().flatten().count();
    let mut staging = STAGING.take();
    // The sources that are fetched, and the result if no local destination takes it.
    let least = (fetched + 1) * PIECE_BYTES;
    if staging.len() < least {
        staging.resize(least, 0);
    }
    let (sources_at, result_at) = staging.split_at_mut(fetched * PIECE_BYTES);
    let mut done = 0;
    let mut result = Ok(());
    while done < step.elements && result.is_ok() {
        let elements = piece.min(step.elements - done);
        let part = Part {
            step: &ReduceStep { elements, ..*step },
            offset: done * element,
            bytes: elements * element,
        };
        // SAFETY: the caller's promise.
        result = unsafe {
            part.run(
                reduce,
                (remote_sources, &mut *sources_at),
                (remote_destinations, result_at.as_mut_ptr()),
            )
        };
        done += elements;
    }
    STAGING.set(staging);
    result
}

/// A piece of a step.
struct Part<'a> {
    step: &'a ReduceStep<'a>,
    /// Where it begins in each operand, bytes.
    offset: usize,
    bytes: usize,
}

impl Part<'_> {
    /// Fetches remote sources, reduces into local destinations, and stores what is there at remote
    /// ones. `spare` takes the result where no destination is local.
    ///
    /// # Safety
    /// As [`reduce`]; `spare` has room for a piece.
    unsafe fn run(
        &self,
        reduce: &Reduce,
        (remote_sources, fetched): (&RemoteOperands, &mut [u8]),
        (remote_destinations, spare): (&RemoteOperands, *mut u8),
    ) -> Result<(), RefusedAccess> {
        let Self {
            step,
            offset,
            bytes,
        } = *self;
        let at = |remote: &RemoteAddress| RemoteAddress {
            address: remote.address.wrapping_add(offset as u64),
            ..*remote
        };
        let mut sources = [std::ptr::null(); MOST_OPERANDS];
        let mut free = fetched.chunks_mut(PIECE_BYTES);
        for ((to, source), remote) in sources.iter_mut().zip(step.sources).zip(remote_sources) {
            *to = match remote {
                None => source.wrapping_add(offset),
                Some(remote) => {
                    let to = free.next().map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
                    // SAFETY: a piece is at least as long.
                    unsafe { copy(&at(remote), LocalSide::Destination(to), bytes) }?;
                    to.cast_const()
                }
            };
        }
        let sources = &sources[..step.sources.len()];
        let mut destinations = [std::ptr::null_mut(); MOST_OPERANDS];
        let mut local = 0;
        for (destination, remote) in step.destinations.iter().zip(remote_destinations) {
            if remote.is_none() {
                destinations[local] = destination.wrapping_add(offset);
                local += 1;
            }
        }
        let moves = reduce.moves(step);
        if local == 0 && !moves {
            destinations[0] = spare;
            local = 1;
        }
        let destinations = &destinations[..local];
        if !destinations.is_empty() {
            let now = ReduceStep {
                sources,
                destinations,
                ..*step
            };
            // SAFETY: the caller's promise for local operands; the others are pieces of staging.
            unsafe { reduce.run(&now) };
        }
        let result = match (moves, destinations.first()) {
            (false, Some(made)) => made.cast_const(),
            _ => sources[0],
        };
        for remote in remote_destinations.iter().flatten() {
            // SAFETY: as above; the peer's buffer is valid during this launch.
            unsafe { copy(&at(remote), LocalSide::Source(result), bytes) }?;
        }
        Ok(())
    }
}
