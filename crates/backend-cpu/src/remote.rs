//! Steps with operands in other processes: the system copies them piece by piece into memory of
//! this process.

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
    let staging = MOST_OPERANDS * 2 * PIECE_BYTES;
    let mut staging = vec![0_u8; staging];
    let (fetched, made) = staging.split_at_mut(MOST_OPERANDS * PIECE_BYTES);
    let mut done = 0;
    while done < step.elements {
        let elements = piece.min(step.elements - done);
        let (offset, bytes) = (done * element, elements * element);
        let mut sources = [std::ptr::null(); MOST_OPERANDS];
        for (at, source) in step.sources.iter().enumerate() {
            sources[at] = match remote_sources[at] {
                None => source.wrapping_add(offset),
                Some(remote) => {
                    let to = &mut fetched[at * PIECE_BYTES..][..bytes];
                    let from = remote.address.wrapping_add(offset as u64);
                    let read = ProcessMemory::new(remote.process).read_into(from, to);
                    read.map_err(|error| RefusedAccess {
                        base: remote.base,
                        error,
                    })?;
                    to.as_ptr()
                }
            };
        }
        let mut destinations = [std::ptr::null_mut(); MOST_OPERANDS];
        for (at, destination) in step.destinations.iter().enumerate() {
            destinations[at] = match remote_destinations[at] {
                None => destination.wrapping_add(offset),
                Some(_) => made[at * PIECE_BYTES..].as_mut_ptr(),
            };
        }
        let now = ReduceStep {
            sources: &sources[..step.sources.len()],
            destinations: &destinations[..step.destinations.len()],
            elements,
            ..*step
        };
        // SAFETY: the caller's promise for local operands; the others are staging pieces.
        unsafe { reduce.run(&now) };
        for (at, remote) in remote_destinations.iter().enumerate() {
            if let Some(remote) = remote {
                let from = &made[at * PIECE_BYTES..][..bytes];
                let there = ProcessMemory::new(remote.process);
                let to = remote.address.wrapping_add(offset as u64);
                // SAFETY: the bytes are borrowed; the peer's buffer is valid during this launch.
                let stored = unsafe { there.write(to, from.as_ptr(), bytes) };
                stored.map_err(|error| RefusedAccess {
                    base: remote.base,
                    error,
                })?;
            }
        }
        done += elements;
    }
    Ok(())
}
