//! Memory of kernels: of this process, or of a file that other processes map.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use device_runtime::NicMemory;
use shared_memory::fifo::in_place::{DmaBuf, Owner};
use shared_memory::{Handle, Mapping};

use crate::native::{topo_multicast_free, topo_multicast_new};

/// Alignment of allocations, as on GPUs.
const ALIGNMENT: usize = 256;

/// Memory of kernels.
#[derive(Debug)]
pub enum Block {
    /// Of this process.
    Own(Own),
    /// Of a file or of another owner.
    Mapped(Arc<Mapping>),
}

/// Memory of this process.
#[derive(Debug)]
pub struct Own {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: it is plain memory; the kernels agree on who may access which part when.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

impl Block {
    /// Allocates `bytes` zeroed bytes. Returns them with their address.
    pub fn new(bytes: u64) -> Result<(Self, u64), String> {
        let size =
            usize::try_from(bytes.max(1)).map_err(|_| format!("{bytes} bytes are too many"))?;
        let layout = Layout::from_size_align(size, ALIGNMENT).map_err(|error| error.to_string())?;
        // SAFETY: the size is not 0.
        let address = unsafe { alloc_zeroed(layout) };
        if address.is_null() {
            return Err(format!("{bytes} bytes of memory cannot be allocated"));
        }
        let plain = address.expose_provenance() as u64;
        Ok((Self::Own(Own { address, layout }), plain))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.address, self.layout) };
    }
}

/// A rank's part in a multicast.
#[derive(Debug)]
pub struct Multicast {
    /// `None`: the memory is a caller's.
    _block: Option<Block>,
    own: u64,
    bytes: u64,
    /// The multicast address once it is bound; 0 before.
    all: u64,
}

impl Multicast {
    /// Creates a part with this memory of the rank.
    pub fn of((block, own): (Option<Block>, u64), bytes: u64) -> Self {
        Self {
            _block: block,
            own,
            bytes,
            all: 0,
        }
    }

    /// The address of the own memory.
    pub const fn own(&self) -> u64 {
        self.own
    }

    /// Bytes of that memory.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes a multicast address for the memory of all ranks. `places`: its addresses in this
    /// process.
    pub fn bind(&mut self, places: &[u64]) -> Result<u64, String> {
        let bytes = self.bytes;
        // SAFETY: the addresses are read before the call returns.
        self.all = unsafe { topo_multicast_new(places.as_ptr(), places.len(), bytes) };
        match self.all {
            0 => Err(format!(
                "{bytes} addresses for a multicast cannot be reserved"
            )),
            all => Ok(all),
        }
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        if self.all != 0 {
            // SAFETY: it was made by `bind`, and is freed once.
            unsafe { topo_multicast_free(self.all) };
        }
    }
}

/// The address of a mapping for kernels.
pub fn address(mapping: &Mapping) -> u64 {
    mapping.base().as_ptr().expose_provenance() as u64
}

/// Allocates memory that NICs find by a file.
pub fn for_nics(bytes: u64) -> Result<NicMemory<Block>, String> {
    let size = usize::try_from(bytes).map_err(|_| format!("{bytes} bytes are too many"))?;
    let mapping = Mapping::shared("emulated device", size.max(1));
    let mapping = Arc::new(mapping.map_err(|error| error.to_string())?);
    let file = mapping.file().map(|file| file.try_clone_to_owned());
    let file = file.transpose().map_err(|error| error.to_string())?;
    Ok(NicMemory {
        address: address(&mapping),
        owner: Owner::Device {
            dma_buf: file.map(|file| DmaBuf {
                file: Arc::new(file),
                offset: 0,
            }),
            flush: true,
        },
        block: Block::Mapped(mapping),
    })
}

/// Memory that this process shares with others.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// By address.
    exported: Mutex<BTreeMap<u64, Weak<Mapping>>>,
    imported: Mutex<HashMap<Handle, Arc<Mapping>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedMemory {
    /// Allocates memory that other processes can map.
    pub fn allocate(&self, bytes: u64) -> Result<(Block, u64), String> {
        let size = usize::try_from(bytes).map_err(|_| format!("{bytes} bytes are too many"))?;
        shared_memory::process_memory::allow_peers();
        let mapping = Mapping::shared("emulated device", size.max(1));
        let mapping = Arc::new(mapping.map_err(|error| error.to_string())?);
        let address = address(&mapping);
        let mut exported = lock(&self.exported);
        exported.retain(|_, mapping| mapping.strong_count() > 0);
        exported.insert(address, Arc::downgrade(&mapping));
        Ok((Block::Mapped(mapping), address))
    }

    /// The handle of an address in such memory.
    pub fn export(&self, address: u64) -> Result<String, String> {
        let exported = lock(&self.exported);
        let found = exported.range(..=address).next_back();
        let found = found.and_then(|(base, mapping)| Some((address - base, mapping.upgrade()?)));
        let (offset, mapping) = found
            .filter(|(offset, mapping)| *offset < mapping.bytes() as u64)
            .ok_or("only memory that was allocated for peers can be opened by them")?;
        let handle = mapping.handle().map_err(|error| error.to_string())?;
        let handle = handle.ok_or("the memory is of no file")?;
        serde_json::to_string(&(handle, offset)).map_err(|error| error.to_string())
    }

    /// Maps such memory of another process. Returns the address of its `bytes` bytes.
    pub fn import(&self, word: &str, bytes: u64) -> Result<u64, String> {
        let read = serde_json::from_str::<(Handle, u64)>(word);
        let unknown = |_| format!("`{word}` names no memory of an emulated device");
        let (handle, offset) = read.map_err(unknown)?;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > handle.bytes) {
            return Err(format!(
                "`{word}` names {bytes} bytes at {offset} of memory of {} bytes",
                handle.bytes
            ));
        }
        let mut imported = lock(&self.imported);
        let mapping = match imported.entry(handle) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let opened = Mapping::open(&handle).map_err(|error| error.to_string())?;
                new.insert(Arc::new(opened))
            }
        };
        Ok(address(mapping) + offset)
    }
}
