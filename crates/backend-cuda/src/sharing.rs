//! Shares device memory between processes by handles in text form.
//!
//! | handle | memory | opened by |
//! |---|---|---|
//! | `fabric:HANDLE:BYTES+OFFSET` | virtual, fabric handle (64 bytes) | NVLink domain |
//! | `descriptor:WORD:BYTES+OFFSET` | virtual, descriptor | host (Unix socket) |
//! | several of these two with commas | virtual memory of a caller in several mappings | |
//! | `ipc:HANDLE:ALLOCATION+OFFSET` | plain, CUDA IPC handle (64 bytes) | host |

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys;

use crate::callers_memory::{BETWEEN, IpcMemory, MOST_PIECES, ipc_handle};
use crate::descriptors;
use crate::device::Device;
use crate::error::Driver;
use crate::handles::{bytes_of, digits, lock, unknown};
use crate::memory::{Block, MemoryKind, Plain, Shareable, Virtual};
use crate::multicast;

/// Block size in which the driver allocates memory; small allocations share a block, bytes.
const IPC_BLOCK_BYTES: u64 = 2 << 20;

/// Memory that this process shares and has opened.
#[derive(Debug, Default)]
pub(crate) struct MemorySharing {
    /// The only kind to use, if one was requested.
    only: Option<MemoryKind>,
    /// The kind in use, once memory was allocated.
    found: Mutex<Option<MemoryKind>>,
    /// Own virtual memory, by address.
    made: Mutex<BTreeMap<u64, Weak<Virtual>>>,
    /// The address and the GPU's number of own plain memory that was exported, by the handle
    /// without the offset: a process cannot open its own.
    exported: Mutex<HashMap<String, (u64, u32)>>,
    /// Opened memory, by the number of the GPU that opened it and the handle without the offset.
    opened: Mutex<HashMap<(u32, String), OpenedMemory>>,
}

/// Memory of another process.
#[derive(Debug)]
pub enum OpenedMemory {
    /// Virtual memory.
    Virtual(Virtual),
    /// Plain memory, by CUDA IPC.
    Ipc(IpcMemory),
}

impl OpenedMemory {
    /// Opens memory by its handle without the offset.
    pub(crate) fn open(device: &Arc<Device>, word: &str) -> Result<Self, String> {
        if let Some(("ipc", rest)) = word.split_once(':') {
            let (handle, id) = rest.split_once(':').ok_or_else(unknown)?;
            let handle = bytes_of(handle).ok_or_else(unknown)?;
            return Ok(Self::Ipc(IpcMemory::open(device, handle, id)?));
        }
        if word.split(BETWEEN).nth(MOST_PIECES).is_some() {
            return Err(unknown());
        }
        let pieces: Result<Vec<_>, String> = word.split(BETWEEN).map(shareable).collect();
        Ok(Self::Virtual(Virtual::open(device, pieces?)?))
    }

    /// The address of `bytes` bytes at an offset. The length is not known for CUDA IPC.
    pub(crate) fn at(&self, offset: u64, bytes: u64) -> Result<u64, String> {
        let (base, most) = match self {
            Self::Virtual(memory) => (memory.address, memory.bytes),
            Self::Ipc(memory) => (memory.base, u64::MAX),
        };
        let end = offset.checked_add(bytes).filter(|end| *end <= most);
        let address = end.and_then(|_| base.checked_add(offset));
        address.ok_or_else(|| {
            format!("another process shares {bytes} bytes at {offset} of memory of {most} bytes")
        })
    }
}

/// A piece of virtual memory and its bytes, by its handle.
fn shareable(word: &str) -> Result<(Shareable, u64), String> {
    let parts: Vec<&str> = word.split(':').collect();
    let (shareable, bytes) = match parts[..] {
        ["fabric", handle, bytes] => {
            let handle = bytes_of(handle).ok_or_else(unknown)?;
            (Shareable::Fabric(handle), bytes)
        }
        ["descriptor", word, bytes] => (Shareable::Descriptor(descriptors::take(word)?), bytes),
        _ => return Err(unknown()),
    };
    Ok((shareable, bytes.parse().map_err(|_| unknown())?))
}

impl MemorySharing {
    pub(crate) fn new(only: Option<MemoryKind>) -> Self {
        Self {
            only,
            ..Self::default()
        }
    }

    /// Handle types for multicast objects of a device, best first: fabric handles if memory uses
    /// them, and descriptors. Empty if only CUDA IPC is allowed, which has no multicast.
    ///
    /// # Errors
    /// The device does not support multicast.
    pub(crate) fn multicast_kinds(&self, device: &Device) -> Result<Vec<String>, String> {
        multicast::check(device)?;
        let found = *lock(&self.found);
        let taken = |kind: &MemoryKind| match kind {
            MemoryKind::Fabric => found == Some(MemoryKind::Fabric),
            MemoryKind::Descriptor => kind.is_offered(device),
            MemoryKind::Ipc => false,
        };
        let allowed = |kind: &MemoryKind| self.only.is_none_or(|only| only == *kind);
        let kinds = MemoryKind::ALL.into_iter().filter(allowed).filter(taken);
        Ok(kinds.map(|kind| kind.name().to_owned()).collect())
    }

    /// Allocates memory of the best available kind that other processes can open. Where none can
    /// be opened, ranks of this process use plain memory.
    pub(crate) fn allocate(
        &self,
        device: &Arc<Device>,
        bytes: u64,
    ) -> Result<(Block, u64), String> {
        let mut found = lock(&self.found);
        if let Some(kind) = *found {
            return self.allocate_kind(device, kind, bytes);
        }
        let mut refused = Vec::new();
        for kind in MemoryKind::ALL {
            if self.only.is_some_and(|only| only != kind) {
                continue;
            }
            if !kind.is_offered(device) {
                refused.push(format!("GPU {} has no {}", device.number, kind.name()));
                continue;
            }
            // Memory whose handles cannot be exported or imported is of no use to other processes.
            let allocated = self.allocate_kind(device, kind, bytes);
            let tried = allocated.and_then(|(block, address)| {
                match &block {
                    Block::Virtual(memory) => {
                        Virtual::open(device, vec![(memory.shareable()?, memory.bytes)])?;
                    }
                    // A process cannot open its own handle.
                    _ => {
                        ipc_handle(device, address)?;
                    }
                }
                Ok((block, address))
            });
            match tried {
                Ok(allocated) => {
                    *found = Some(kind);
                    return Ok(allocated);
                }
                Err(why) => refused.push(why),
            }
        }
        if self.only.is_none_or(|only| only == MemoryKind::Ipc) {
            // Ranks of this process need no handles. `export` tells the others why there is none.
            let private = self.allocate_kind(device, MemoryKind::Ipc, bytes)?;
            *found = Some(MemoryKind::Ipc);
            return Ok(private);
        }
        Err(format!(
            "there is no memory that other processes can open: {}",
            refused.join("; ")
        ))
    }

    fn allocate_kind(
        &self,
        device: &Arc<Device>,
        kind: MemoryKind,
        bytes: u64,
    ) -> Result<(Block, u64), String> {
        if kind == MemoryKind::Ipc {
            // An IPC handle shares the whole block, so nothing else may be in it.
            let plain = Plain::new(device, bytes.next_multiple_of(IPC_BLOCK_BYTES))?;
            let address = plain.address;
            return Ok((Block::Plain(plain), address));
        }
        let memory = Arc::new(Virtual::new(device, kind, bytes)?);
        let address = memory.address;
        let mut made = lock(&self.made);
        made.retain(|_, memory| memory.strong_count() > 0);
        made.insert(address, Arc::downgrade(&memory));
        Ok((Block::Virtual(memory), address))
    }

    /// Returns the handle of an address in own memory.
    pub(crate) fn export(&self, device: &Device, address: u64) -> Result<String, String> {
        let made = lock(&self.made);
        let memory = made.range(..=address).next_back();
        let memory = memory.and_then(|(_, memory)| memory.upgrade());
        let memory = memory.filter(|it| address < it.address + it.bytes);
        let Some(memory) = memory else {
            let (handle, base) = ipc_handle_of(device, address)?;
            let word = format!("{handle}+{:x}", address - base);
            lock(&self.exported).insert(handle, (base, device.number));
            return Ok(word);
        };
        let (kind, bytes, offset) = (memory.kind.name(), memory.bytes, address - memory.address);
        if let Some(descriptor) = memory.descriptor() {
            return Ok(format!("{kind}:{descriptor}:{bytes}+{offset:x}"));
        }
        match memory.shareable()? {
            Shareable::Fabric(handle) => {
                Ok(format!("{kind}:{}:{bytes}+{offset:x}", digits(&handle)))
            }
            Shareable::Descriptor(_) => Err("a descriptor has no word of its own".to_owned()),
        }
    }

    /// The address of a handle of plain memory of this process, and the number of its GPU.
    pub(crate) fn own(&self, word: &str) -> Option<(u64, u32)> {
        let (memory, offset) = word.rsplit_once('+')?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let (base, number) = *lock(&self.exported).get(memory)?;
        Some((base.checked_add(offset)?, number))
    }

    /// Opens a handle and returns the address of its `bytes` bytes.
    pub(crate) fn import(
        &self,
        device: &Arc<Device>,
        word: &str,
        bytes: u64,
    ) -> Result<u64, String> {
        let (memory, offset) = word.rsplit_once('+').ok_or_else(unknown)?;
        let offset = u64::from_str_radix(offset, 16).map_err(|_| unknown())?;
        let mut opened = lock(&self.opened);
        let key = (device.number, memory.to_owned());
        if let Some(known) = opened.get(&key) {
            return known.at(offset, bytes);
        }
        let now = OpenedMemory::open(device, memory)?;
        let address = now.at(offset, bytes)?;
        opened.insert(key, now);
        Ok(address)
    }
}

/// The handle of plain memory without the offset, and where it begins.
fn ipc_handle_of(device: &Device, address: u64) -> Result<(String, u64), String> {
    let what = || {
        let number = device.number;
        format!("sharing memory of GPU {number} with other processes")
    };
    let (mut base, mut size) = (0, 0);
    // SAFETY: the driver writes what the pointers lead to; the address is one that it allocated.
    unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address) }.to(what)?;
    let handle = digits(&ipc_handle(device, base)?);
    Ok((format!("ipc:{handle}:0"), base))
}
