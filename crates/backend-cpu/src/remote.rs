//! Steps whose operands are in other processes: the kernel copies them piece by piece into memory of this process, where
//! they are reduced.

use shared_memory::{ProcessMemory, ProcessMemoryError};

use crate::reduce::{MOST_OPERANDS, Reduce, Step};

/// Memory of another process.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    /// Which of the program's bases it belongs to.
    pub base: u32,
    /// Which process.
    pub process: u32,
    /// Where there.
    pub address: u64,
}

/// Operands of a step that are elsewhere.
pub type Remote = [Option<Address>; MOST_OPERANDS];

/// Bytes that are fetched at a time: so many that the call costs little, and few enough to stay in a core's cache.
const PIECE_BYTES: usize = 64 << 10;

/// Memory that was not accessed, and why.
#[derive(Debug)]
pub struct Refused {
    /// Which of the program's bases it belongs to.
    pub base: u32,
    /// What the kernel said.
    pub error: ProcessMemoryError,
}

/// Runs a step some of whose operands are elsewhere.
///
/// # Errors
/// Some could not be accessed.
///
/// # Safety
/// As [`Reduce::run`], for the operands that are here; those that are elsewhere are null, and are lent to this launch.
pub unsafe fn reduce(
    reduce: &Reduce,
    step: &Step<'_>,
    remote_sources: &Remote,
    remote_destinations: &Remote,
) -> Result<(), Refused> {
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
                    read.map_err(|error| Refused {
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
        let now = Step {
            sources: &sources[..step.sources.len()],
            destinations: &destinations[..step.destinations.len()],
            elements,
            ..*step
        };
        // SAFETY: the caller's promise for what is here; the rest is staging memory, as long as a piece.
        unsafe { reduce.run(&now) };
        for (at, remote) in remote_destinations.iter().enumerate() {
            if let Some(remote) = remote {
                let from = &made[at * PIECE_BYTES..][..bytes];
                let there = ProcessMemory::new(remote.process);
                let to = remote.address.wrapping_add(offset as u64);
                // SAFETY: the bytes are borrowed, and the other rank lent its buffer to this launch.
                let stored = unsafe { there.write(to, from.as_ptr(), bytes) };
                stored.map_err(|error| Refused {
                    base: remote.base,
                    error,
                })?;
            }
        }
        done += elements;
    }
    Ok(())
}
