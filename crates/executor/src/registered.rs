//! Memory that the communicator allocates and peers can access.
//!
//! Threads access all memory of their process. A process allocates from one arena that the others
//! map; to access other memory they need the kernel (`process_vm_readv`).

use std::sync::{Arc, OnceLock};

use shared_memory::process_memory::ProcessHandle;
use shared_memory::{Arena, ArenaBuffer, Descriptor, Handle, Mapping, Place, limits};

use crate::bootstrap::Bootstrap;
use crate::connections::offers_none;
use crate::error::Error;
use crate::transport::Transport;

/// The number of a rank's only arena in descriptors.
const ARENA: u32 = 0;

/// Alignment of allocations, so that copies use whole pages.
const PAGE_BYTES: usize = 4096;

/// The place of a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// An address in this process.
    Here(*mut u8),
    /// An address in another process.
    Elsewhere {
        /// The process.
        process: u32,
        /// The address there.
        address: u64,
    },
}

/// Why the memory of a peer cannot be accessed.
#[derive(Debug, Clone)]
pub enum ReachError {
    /// Its memory cannot be opened, perhaps because its process has ended.
    Closed(String),
    /// Its descriptor is invalid.
    Invalid(String),
}

/// How the memory of a peer is accessed.
#[derive(Debug)]
enum Peer {
    /// In the same address space, where no memory is shared with other processes.
    Thread,
    /// Not at all: it is on another host.
    Remote,
    /// By its arena, which is mapped here when it is first used, or by the kernel.
    Process(Box<Elsewhere>),
}

/// A peer whose memory is known by an offer.
#[derive(Debug)]
struct Elsewhere {
    arena: Handle,
    opened: OnceLock<Result<Arc<Mapping>, ReachError>>,
    /// Its process, to tell it from a later one with the same id; `None` for a thread of this
    /// process.
    process: Option<Arc<ProcessHandle>>,
}

impl Elsewhere {
    #[inline]
    fn arena(&self) -> Result<&Mapping, ReachError> {
        match self.opened.get() {
            Some(Ok(arena)) => Ok(arena),
            _ => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Mapping, ReachError> {
        let opened = self.opened.get_or_init(|| {
            let opened = Mapping::open_once(&self.arena);
            opened.map_err(|error| {
                ReachError::Closed(format!("its memory cannot be opened: {error}"))
            })
        });
        match opened {
            Ok(arena) => Ok(arena),
            Err(why) => Err(why.clone()),
        }
    }
}

/// The arena of a rank, and its access to those of peers.
#[derive(Debug)]
pub struct Registered {
    arena: Arena,
    /// The arena for other processes; `None` if they do not open it.
    offer: Option<Handle>,
    peers: Vec<Peer>,
    shared: bool,
    scratch: Option<ArenaBuffer>,
    scratch_bytes: usize,
}

/// Least bytes of an arena of unspecified length.
const LEAST_BYTES: u64 = 1 << 20;

/// Most bytes of an arena of unspecified length: half of the memory, or half of the free addresses
/// divided among the ranks that map each other's arenas. Pages are taken when they are used.
fn most_bytes(ranks: u64, shared: bool) -> u64 {
    let memory = shared_memory::machine_bytes() / 2;
    let addresses = limits::address_space_left().unwrap_or(u64::MAX) / (2 * ranks.max(1));
    let file = limits::file_bytes().filter(|_| shared).unwrap_or(u64::MAX);
    memory.min(addresses).min(file).max(LEAST_BYTES)
}

/// Halves the length until the kernel gives the memory.
fn make_largest(
    most: u64,
    make: impl Fn(usize) -> Result<Mapping, shared_memory::Error>,
) -> Result<Mapping, shared_memory::Error> {
    let mut bytes = most;
    loop {
        match make(bytes as usize) {
            Err(_) if bytes / 2 >= LEAST_BYTES => bytes /= 2,
            made => return made,
        }
    }
}

impl Registered {
    /// Makes the own arena.
    pub(crate) fn begin(
        bootstrap: &mut dyn Bootstrap,
        bytes: Option<usize>,
    ) -> Result<Self, Error> {
        let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
        let memory = |source| Error::Memory {
            rank,
            cause: Arc::new(source),
        };
        let near = (0..ranks).filter(|peer| bootstrap.transport(*peer) != Transport::Net);
        let near = near.count() as u64;
        let shared = (0..ranks).any(|peer| bootstrap.transport(peer) == Transport::Shm);
        let name = format!("buffers of rank {rank}");
        let make = |bytes| match shared {
            true => Mapping::shared(&name, bytes),
            false => Mapping::private(&name, bytes),
        };
        let made = match bytes {
            Some(bytes) => make(bytes),
            None => make_largest(most_bytes(near, shared), make),
        };
        let arena = Arena::new(made.map_err(memory)?);
        let mut offer = None;
        if shared {
            shared_memory::process_memory::allow_peers();
            offer = arena.mapping().handle().map_err(memory)?;
        }
        Ok(Self {
            offer,
            arena,
            peers: Vec::new(),
            shared,
            scratch: None,
            scratch_bytes: 0,
        })
    }

    /// The own arena for other processes.
    pub(crate) const fn offer(&self) -> Option<Handle> {
        self.offer
    }

    /// Takes the arenas of the others, in rank order.
    pub(crate) fn meet(
        &mut self,
        bootstrap: &dyn Bootstrap,
        arenas: impl Iterator<Item = Option<Handle>>,
    ) -> Result<(), Error> {
        let rank = bootstrap.rank();
        for (peer, arena) in (0..bootstrap.ranks()).zip(arenas) {
            let transport = bootstrap.transport(peer);
            match transport {
                Transport::P2p if arena.is_none() || peer == rank => {
                    self.peers.push(Peer::Thread);
                    continue;
                }
                Transport::Net => {
                    self.peers.push(Peer::Remote);
                    continue;
                }
                Transport::P2p | Transport::Shm => {}
            }
            let arena = arena.ok_or_else(|| offers_none(rank, peer))?;
            let is_other = transport == Transport::Shm;
            self.peers.push(Peer::Process(Box::new(Elsewhere {
                arena,
                opened: OnceLock::new(),
                process: is_other.then(|| ProcessHandle::of(arena.process)),
            })));
        }
        Ok(())
    }

    /// Whether the process of a peer has ended.
    pub(crate) fn has_ended(&self, peer: u32) -> bool {
        match self.peers.get(peer as usize) {
            Some(Peer::Process(peer)) => peer.process.as_ref().is_some_and(|it| it.has_ended()),
            _ => false,
        }
    }

    /// Allocates memory.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<ArenaBuffer, shared_memory::Error> {
        self.arena.allocate(bytes, PAGE_BYTES)
    }

    /// Makes scratch memory of at least `bytes`. Its contents are lost.
    pub(crate) fn reserve_scratch(&mut self, bytes: usize) -> Result<(), shared_memory::Error> {
        if bytes > self.scratch_bytes {
            self.scratch = None;
            self.scratch_bytes = 0;
            let bytes = bytes.next_power_of_two();
            self.scratch = Some(self.arena.allocate(bytes, PAGE_BYTES)?);
            self.scratch_bytes = bytes;
        }
        Ok(())
    }

    /// The address of scratch memory.
    pub(crate) fn scratch(&self) -> *mut u8 {
        let address = self.scratch.as_ref().map(ArenaBuffer::address);
        address.unwrap_or(std::ptr::null_mut())
    }

    /// Length of scratch memory, bytes.
    pub(crate) const fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Describes memory of this rank to peers.
    pub(crate) fn place(&self, pointer: *const u8, bytes: usize) -> Place {
        let offset = if self.shared {
            self.arena.offset_of(pointer, bytes)
        } else {
            None
        };
        match offset {
            Some(offset) => Place::Registered {
                allocation: ARENA,
                offset: offset as u64,
            },
            None => Place::Address(pointer.expose_provenance() as u64),
        }
    }

    /// The place of a peer's memory, of which the first `needed` bytes are used. Other processes
    /// can write the descriptor, so it is checked.
    ///
    /// # Errors
    /// The memory is too short, not within the peer's arena, or cannot be opened.
    #[inline]
    pub fn reach(
        &self,
        peer: u32,
        descriptor: &Descriptor,
        needed: u64,
    ) -> Result<Reach, ReachError> {
        let Descriptor { place, bytes } = *descriptor;
        if needed > bytes {
            return Err(ReachError::Invalid(format!(
                "it shows a buffer of {bytes} bytes where {needed} are needed"
            )));
        }
        let within = |arena: &Mapping, allocation: u32, offset: u64| {
            let end = offset.checked_add(bytes);
            if allocation != ARENA || end.is_none_or(|end| end > arena.bytes() as u64) {
                return Err(ReachError::Invalid(format!(
                    "it shows {bytes} bytes at {offset} of memory {allocation}, and has {} bytes of memory {ARENA}",
                    arena.bytes()
                )));
            }
            Ok(Reach::Here(
                arena.base().as_ptr().wrapping_add(offset as usize),
            ))
        };
        match (&self.peers[peer as usize], place) {
            // Nothing is accessed, so the descriptor may be empty.
            _ if needed == 0 => Ok(Reach::Here(std::ptr::null_mut())),
            (Peer::Process(peer), Place::Registered { allocation, offset }) => {
                within(peer.arena()?, allocation, offset)
            }
            // The kernel checks addresses of other processes.
            (Peer::Process(peer), Place::Address(address)) => match &peer.process {
                None => Ok(Reach::Here(std::ptr::with_exposed_provenance_mut(
                    address as usize,
                ))),
                Some(process) if process.has_ended() => {
                    Err(ReachError::Closed("its process has ended".to_owned()))
                }
                Some(_) => Ok(Reach::Elsewhere {
                    process: peer.arena.process,
                    address,
                }),
            },
            (Peer::Remote, _) => Err(ReachError::Invalid("it is on another host".to_owned())),
            // A thread of this process lends the memory while the launch lasts.
            (Peer::Thread, Place::Address(address)) => Ok(Reach::Here(
                std::ptr::with_exposed_provenance_mut(address as usize),
            )),
            (Peer::Thread, Place::Registered { allocation, offset }) => {
                within(self.arena.mapping(), allocation, offset)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_an_ended_process_is_closed_not_invalid() {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let own = Mapping::shared("own", 4096).unwrap().handle().unwrap();
        let arena = Handle {
            process: ended.id(),
            ..own.unwrap()
        };
        let registered = Registered {
            arena: Arena::new(Mapping::private("own", 4096).unwrap()),
            offer: None,
            peers: vec![Peer::Process(Box::new(Elsewhere {
                arena,
                opened: OnceLock::new(),
                process: Some(ProcessHandle::of(arena.process)),
            }))],
            shared: true,
            scratch: None,
            scratch_bytes: 0,
        };
        let place = Place::Registered {
            allocation: ARENA,
            offset: 0,
        };
        let descriptor = Descriptor { place, bytes: 8 };
        let closed = registered.reach(0, &descriptor, 8);
        assert!(matches!(closed, Err(ReachError::Closed(_))), "{closed:?}");
        let short = registered.reach(0, &descriptor, 9);
        assert!(matches!(short, Err(ReachError::Invalid(_))), "{short:?}");
    }
}
