//! Numbers of all ranks, made one.

use anyhow::Result;
use backend_cpu::Cpu;
use executor::{Choice, Communicator, Element, Reduction};
use program::{Protocol, Schedule, Transfer};

/// Most ranks whose backend chooses.
const MOST_FREE: u32 = 64;

/// Replaces numbers by the sum or the largest of all ranks, by the choice of the backend
/// or of a leader.
///
/// In memory of the communicator: peers may write to it where it is, and if the memory in which
/// ranks signal is overwritten, they may do so after this rank has left the launch. That must hit
/// neither its stack nor its heap.
pub fn combine<T: Element>(
    communicator: &mut Communicator<Cpu>,
    numbers: &mut [T],
    reduction: Reduction,
) -> Result<()> {
    let mut shared = communicator.buffer(numbers.len())?;
    shared.copy_from_slice(numbers);
    let choice = choice(communicator)?;
    communicator.set_choice(choice);
    communicator.all_reduce(&mut shared, reduction)?;
    numbers.copy_from_slice(&shared);
    Ok(())
}

/// The choice for such short messages. With many ranks that share memory a leader adds the numbers:
/// its program grows with the ranks, and those of meshes with their square, so writing and proving
/// them would take longer than all launches.
fn choice(communicator: &mut Communicator<Cpu>) -> Result<Option<Choice>> {
    let shape = communicator.shape()?;
    let leader = shape.hosts == 1 && shape.ranks > MOST_FREE;
    Ok(leader.then_some(Choice {
        schedule: Schedule::Leader,
        transfer: Transfer::Direct,
        protocol: Protocol::Simple,
        channels: 1,
        piece_bytes: 0,
    }))
}
