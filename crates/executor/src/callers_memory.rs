//! Whether ranks can access each other's buffers: they map those of the communicator, and the
//! kernel copies from and to others, unless a container or a security module refuses it.

use std::time::Duration;

use shared_memory::ProcessMemory;

use crate::bootstrap::Bootstrap;
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
    let own = format!("{} {address}", std::process::id());
    let all = bootstrap.exchange("word", own, longest)?;
    let reads = |(text, peer): (&String, u32)| {
        if bootstrap.transport(peer) != Transport::Shm {
            return true;
        }
        let (process, address) = text.split_once(' ').unwrap_or_default();
        let (Ok(process), Ok(address)) = (process.parse(), address.parse()) else {
            return false;
        };
        ProcessMemory::new(process).probe(address, WORD).is_ok()
    };
    let reads_all = all.iter().zip(0..).all(reads);
    let all = bootstrap.exchange("reads words", reads_all.to_string(), longest)?;
    Ok(match all.iter().all(|it| it == "true") {
        true => BufferAccess::Kernel,
        false => BufferAccess::Refused,
    })
}
