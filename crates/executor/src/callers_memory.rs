//! Access of ranks to each other's buffers: they map those of the communicator, and the
//! kernel copies from and to others, unless a container or a security module refuses it.

use std::time::Duration;

use shared_memory::ProcessMemory;

use crate::bootstrap::{Bootstrap, exchange};
use crate::error::Error;
use crate::transport::Transport;

/// How ranks of one host access each other's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BufferAccess {
    /// They share an address space, or map them.
    #[default]
    Mapped,
    /// The kernel copies.
    Kernel,
    /// Not at all: the kernel refuses it to at least one rank.
    Refused,
}

/// What the others read to try it.
static WORD: u64 = 0x7465_7374_0a77_6f72;

/// Tries to read the memory of all ranks of this host. Equal on all ranks.
///
/// # Errors
/// A rank does not answer in time, or failed.
pub(crate) fn try_kernel(
    bootstrap: &mut dyn Bootstrap,
    longest: Duration,
) -> Result<BufferAccess, Error> {
    let address = (&raw const WORD).expose_provenance();
    let own = (std::process::id(), address as u64);
    let all = exchange(bootstrap, "word", &own, longest)?;
    let reads = |((process, address), peer): ((u32, u64), u32)| {
        let is_other = bootstrap.transport(peer) == Transport::Shm;
        !is_other || ProcessMemory::new(process).probe(address, WORD).is_ok()
    };
    let reads_all = all.into_iter().zip(0..).all(reads);
    let all = exchange(bootstrap, "reads words", &reads_all, longest)?;
    Ok(match all.iter().all(|it| *it) {
        true => BufferAccess::Kernel,
        false => BufferAccess::Refused,
    })
}
