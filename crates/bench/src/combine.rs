//! Numbers of all ranks, made one.

use anyhow::Result;
use backend_cpu::Cpu;
use executor::{Communicator, Element, Reduction};

/// Replaces numbers by the sum or the largest of all ranks, by any choice.
///
/// In memory of the communicator: peers may write to it where it is, and if the memory in which
/// ranks signal is overwritten, they may do so after this rank has left the launch. That must hit
/// neither its stack nor its heap.
pub(crate) fn combine<T: Element>(
    communicator: &mut Communicator<Cpu>,
    numbers: &mut [T],
    reduction: Reduction,
) -> Result<()> {
    let mut shared = communicator.buffer(numbers.len())?;
    shared.copy_from_slice(numbers);
    communicator.set_choice(None);
    communicator.all_reduce(&mut shared, reduction)?;
    numbers.copy_from_slice(&shared);
    Ok(())
}
