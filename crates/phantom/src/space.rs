//! The addresses of a process: what each belongs to, and which GPU may access it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory_file::{MemoryFile, release, withdraw};
use crate::multicast::Team;

/// Memory of `cuMemCreate` or a multicast object, of this or another process.
#[derive(Debug)]
pub struct Physical {
    /// Its memory; of a multicast object: the list of its members.
    pub file: Arc<MemoryFile>,
    /// The device, an index; of host memory and multicast objects: unused.
    pub device: usize,
    /// Bytes.
    pub bytes: u64,
    /// If it is a multicast object.
    pub team: Option<Arc<Team>>,
    /// How often its handle must be released.
    pub handles: AtomicU64,
}

impl Physical {
    /// New memory with one handle.
    pub fn new(file: Arc<MemoryFile>, device: usize, bytes: u64, team: Option<Arc<Team>>) -> Self {
        Self {
            file,
            device,
            bytes,
            team,
            handles: AtomicU64::new(1),
        }
    }
}

/// What a block of addresses is.
#[derive(Debug)]
pub enum Kind {
    /// Memory of a device, of `cuMemAlloc`.
    Device(Arc<MemoryFile>),
    /// Memory of another process, opened by CUDA IPC.
    Imported(Arc<MemoryFile>),
    /// Host memory of `cuMemHostAlloc`.
    Host,
    /// Host memory of the caller that was registered.
    Registered,
}

/// A block of addresses that one call made.
#[derive(Debug)]
pub struct Block {
    /// Number of bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// The device whose context was current.
    pub device: usize,
    /// Of host memory: whether all contexts may use it, and whether kernels may.
    pub portable: bool,
    /// Whether kernels may access it.
    pub mapped: bool,
    /// Unique number.
    pub id: u64,
    /// Whether copies are synchronous.
    pub synchronous: bool,
}

/// Physical memory at reserved addresses.
#[derive(Debug)]
pub struct Mapping {
    /// Number of bytes.
    pub bytes: u64,
    /// The memory.
    pub physical: Arc<Physical>,
    /// The handle with which it was mapped.
    pub handle: u64,
    /// Devices that may read it, and whether they may write.
    pub access: BTreeMap<usize, bool>,
}

/// All addresses that the driver knows.
#[derive(Debug, Default)]
pub struct Space {
    /// By first address.
    pub blocks: BTreeMap<u64, Block>,
    /// By first address.
    pub mappings: BTreeMap<u64, Mapping>,
    /// Bytes by first address.
    pub reservations: BTreeMap<u64, u64>,
    /// Pairs of devices: the first may access the plain memory of the second.
    pub peers: BTreeSet<(usize, usize)>,
    /// Freed addresses for new memory, with their length.
    pub freed: Vec<(u64, u64)>,
    ids: u64,
}

/// Increases whenever a GPU may no longer access something. Runs of kernels then ask again.
pub static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Tells running kernels to ask again.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The entry of a map that holds an address, with its first address.
fn around<T>(map: &BTreeMap<u64, T>, address: u64, bytes: impl Fn(&T) -> u64) -> Option<(u64, &T)> {
    let (base, found) = map.range(..=address).next_back()?;
    (address - base < bytes(found)).then_some((*base, found))
}

impl Space {
    /// Adds a block that kernels may access.
    pub fn add(&mut self, base: u64, bytes: u64, kind: Kind, device: usize) -> &mut Block {
        self.ids += 1;
        let block = Block {
            bytes,
            // With unified addressing, all contexts may use pinned memory, and kernels too.
            portable: matches!(kind, Kind::Host),
            kind,
            device,
            mapped: true,
            id: self.ids,
            synchronous: false,
        };
        match self.blocks.entry(base) {
            Entry::Vacant(entry) => entry.insert(block),
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                *known = block;
                known
            }
        }
    }

    /// The block that holds an address, with its first address.
    pub fn block(&self, address: u64) -> Option<(u64, &Block)> {
        around(&self.blocks, address, |it| it.bytes)
    }

    /// The mapping that holds an address, with its first address.
    pub fn mapping(&self, address: u64) -> Option<(u64, &Mapping)> {
        around(&self.mappings, address, |it| it.bytes)
    }

    /// The first address and the length of the reservation that holds an address.
    pub fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        around(&self.reservations, address, |it| *it).map(|(base, bytes)| (base, *bytes))
    }

    /// The accessible range around `bytes` bytes that a kernel of a device accesses.
    ///
    /// # Errors
    /// Why it may not access them.
    pub fn check(
        &self,
        device: usize,
        address: u64,
        bytes: u64,
        store: bool,
    ) -> Result<(u64, u64), String> {
        let what = if store { "store to" } else { "load from" };
        let refused = |why: String| {
            Err(format!(
                "GPU {device}: {what} {bytes} bytes at {address:#x}: {why}"
            ))
        };
        let within = |base: u64, length: u64| address - base + bytes <= length;
        if let Some((base, block)) = self.block(address) {
            let allowed = match &block.kind {
                Kind::Device(_) => {
                    block.device == device || self.peers.contains(&(device, block.device))
                }
                Kind::Imported(_) => block.device == device,
                Kind::Host | Kind::Registered => {
                    block.mapped && (block.portable || block.device == device)
                }
            };
            return match allowed && within(base, block.bytes) {
                true => Ok((base, base + block.bytes)),
                false if allowed => refused(format!("the block ends at {:#x}", base + block.bytes)),
                false => refused(match block.kind {
                    Kind::Device(_) => format!(
                        "memory of GPU {}, access to which is not enabled",
                        block.device
                    ),
                    Kind::Imported(_) => format!("memory that was opened for GPU {}", block.device),
                    _ => "host memory that is not mapped for this GPU".to_owned(),
                }),
            };
        }
        let Some((base, mapping)) = self.mapping(address) else {
            return refused(match self.reservation(address) {
                Some(_) => "addresses that are reserved, and nothing is mapped there".to_owned(),
                None => "no memory of the driver".to_owned(),
            });
        };
        if mapping.physical.team.is_some() {
            return refused(
                "a multicast object, which only multimem instructions access".to_owned(),
            );
        }
        match mapping.access.get(&device) {
            None => refused("cuMemSetAccess gave this GPU no access".to_owned()),
            Some(false) if store => {
                refused("cuMemSetAccess gave this GPU no right to write".to_owned())
            }
            _ if within(base, mapping.bytes) => Ok((base, base + mapping.bytes)),
            _ => {
                // Mappings of a reservation, one behind the other, are used as one range.
                let end = base + mapping.bytes;
                let together = self.reservation(address) == self.reservation(end);
                if !together || !self.mappings.contains_key(&end) {
                    return refused(format!("the mapping ends at {end:#x}"));
                }
                let rest = self.check(device, end, address + bytes - end, store);
                rest.map(|(_, last)| (base, last))
            }
        }
    }

    /// Whether an address is of memory of another device than this one.
    pub fn is_of_other(&self, device: usize, address: u64) -> bool {
        match (self.block(address), self.mapping(address)) {
            (Some((_, block)), _) => match block.kind {
                Kind::Device(_) => block.device != device,
                Kind::Imported(_) => true,
                Kind::Host | Kind::Registered => false,
            },
            (None, Some((_, mapping))) => mapping.physical.device != device,
            (None, None) => false,
        }
    }

    /// The multicast object that a device may access at an address, and the offset in it.
    pub fn team(&self, device: usize, address: u64) -> Option<(Arc<Team>, u64)> {
        let (base, mapping) = self.mapping(address)?;
        mapping.access.get(&device).filter(|write| **write)?;
        Some((Arc::clone(mapping.physical.team.as_ref()?), address - base))
    }

    /// Takes addresses of freed memory of a length, those that were freed last.
    pub fn take_freed(&mut self, bytes: u64) -> Option<u64> {
        let found = self
            .freed
            .iter()
            .rposition(|(_, length)| *length == bytes)?;
        Some(self.freed.remove(found).0)
    }

    /// Reads all host memory that is registered with a device, as a kernel does that waits. A
    /// program that has unmapped some crashes.
    pub fn read_registered(&self, device: usize) {
        for (base, block) in &self.blocks {
            if matches!(block.kind, Kind::Registered) && (block.portable || block.device == device)
            {
                let place = std::ptr::with_exposed_provenance::<u8>(*base as usize);
                // SAFETY: memory stays mapped as long as it is registered.
                unsafe { place.read_volatile() };
            }
        }
    }

    /// Removes the block that begins at an address. Of memory of the driver, the addresses stay
    /// reserved, so that a later access is found.
    pub fn remove_block(&mut self, base: u64) -> Option<Block> {
        let block = self.blocks.remove(&base)?;
        if !matches!(block.kind, Kind::Registered) {
            withdraw(base, block.bytes);
        }
        changed();
        Some(block)
    }

    /// Unmaps a mapping. Its addresses stay reserved.
    pub fn unmap(&mut self, base: u64) -> Option<Mapping> {
        let mapping = self.mappings.remove(&base)?;
        withdraw(base, mapping.bytes);
        changed();
        Some(mapping)
    }

    /// Gives a reservation back.
    pub fn free_reservation(&mut self, base: u64) {
        if let Some(bytes) = self.reservations.remove(&base) {
            release(base, bytes);
        }
    }
}
