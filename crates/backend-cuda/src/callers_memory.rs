//! Memory of callers: what the driver knows of it, and its handles for other processes.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{self, CUpointer_attribute_enum as Attribute};
use device_runtime::{Allocation, Piece};
use sys::CUmemAllocationHandleType_enum as HandleType;

use crate::descriptors::Offer;
use crate::device::Device;
use crate::error::{Driver, words};
use crate::handles::{digits, lock};
use crate::memory::{Handle, MemoryKind, export_descriptor, export_fabric};

/// Most mappings of a buffer. PyTorch's expandable segments consist of mappings of 20 MiB.
pub(crate) const MOST_PIECES: usize = 64;

/// What is between the handles of mappings.
pub(crate) const BETWEEN: &str = ",";

/// The memory at an address of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The driver's number of the device.
    pub(crate) ordinal: u32,
    /// Whether it is memory of `cuMemAlloc`, which peer access covers. Memory of pools and virtual
    /// memory has access rights of its own, so kernels of other GPUs may not reach it.
    pub(crate) is_of_peers: bool,
    /// Tells memory of `cuMemAlloc` from all other allocations of this process, also earlier ones.
    pub(crate) id: u64,
    /// The types of handles for which virtual memory was made.
    pub(crate) handle_types: u64,
}

/// What the driver knows of an address; `None`: it is not in device memory.
pub(crate) fn place_of(address: u64) -> Option<Place> {
    let mut attributes = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID,
        Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
    ];
    let mut values = [0_u64; 5];
    let mut places = values
        .each_mut()
        .map(|value| std::ptr::from_mut(value).cast::<c_void>());
    // It takes any address, while cuPointerGetAttribute fails for those of other memory.
    // SAFETY: the driver reads five numbers and places, and writes at most 8 bytes to each of
    // these for these attributes.
    let asked = unsafe {
        let (attributes, places) = (attributes.as_mut_ptr(), places.as_mut_ptr());
        sys::cuPointerGetAttributes(5, attributes, places, address)
    };
    let [kind, ordinal, capable, id, handle_types] = values;
    let is_of_device = kind == sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE as u64;
    (asked == sys::CUresult::CUDA_SUCCESS && is_of_device).then_some(Place {
        ordinal: ordinal as u32,
        is_of_peers: capable != 0,
        id,
        handle_types,
    })
}

/// The first address and the length of the allocation or mapping that holds an address. (The
/// attributes `RANGE_START_ADDR` and `RANGE_SIZE` are those of all addresses that were reserved
/// together, in which several mappings can be.)
pub(crate) fn range_of(address: u64) -> Option<(u64, u64)> {
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: the driver writes what the pointers lead to, and checks the address.
    let found = unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut bytes, address) };
    let bytes = (found == sys::CUresult::CUDA_SUCCESS).then_some(bytes as u64)?;
    let holds = base <= address && address - base < bytes && base.checked_add(bytes).is_some();
    holds.then_some((base, bytes))
}

/// A retained handle of the memory that is mapped at an address.
#[derive(Debug)]
pub(crate) struct Retained(Handle);

impl Retained {
    pub(crate) fn at(address: u64) -> Option<Self> {
        let mut handle = 0;
        // SAFETY: the driver finds what is mapped at the address, and writes a handle that `drop`
        // releases.
        let found = unsafe {
            sys::cuMemRetainAllocationHandle(
                &raw mut handle,
                std::ptr::without_provenance_mut(address as usize),
            )
        };
        // What was not retained must not be released.
        (found == sys::CUresult::CUDA_SUCCESS).then(|| Self(handle))
    }

    /// The memory at an address if it is still that with an id.
    pub(crate) fn still_at(address: u64, id: u64) -> Result<Self, String> {
        let found = place_of(address).and_then(|_| Self::at(address));
        let found = found.filter(|it| it.0 == id);
        found.ok_or_else(|| format!("the memory at {address:#x} is gone"))
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        // SAFETY: retained once, released once.
        let _ = unsafe { sys::cuMemRelease(self.0) };
    }
}

/// What is kept while other processes may open virtual memory of a caller, for each piece: the
/// memory, because no other has its number as long as it is retained, and its descriptor.
#[derive(Debug)]
pub struct OfferedMemory {
    _pieces: Vec<(Retained, Option<Offer>)>,
}

/// The kind of handle that virtual memory was made for, best first.
fn kind_of(place: &Place) -> Option<MemoryKind> {
    let made_for = |kind: HandleType| place.handle_types & u64::from(kind.0) != 0;
    match () {
        () if made_for(HandleType::CU_MEM_HANDLE_TYPE_FABRIC) => Some(MemoryKind::Fabric),
        () if made_for(HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) => {
            Some(MemoryKind::Descriptor)
        }
        () => None,
    }
}

/// The allocation or mapping of a GPU that holds an address, if other processes can open it.
fn piece(device: &Device, address: u64) -> Option<Allocation> {
    let place = place_of(address)?;
    let is_here = u32::try_from(device.ordinal()) == Ok(place.ordinal);
    let (base, bytes) = range_of(address).filter(|_| is_here)?;
    let id = match place.is_of_peers {
        true => place.id,
        false => {
            kind_of(&place)?;
            Retained::at(address)?.0
        }
    };
    Some(Allocation {
        base,
        pieces: vec![Piece { bytes, id }],
        is_of_peers: place.is_of_peers,
    })
}

/// The memory of a GPU that holds a buffer, if other processes can open it: an allocation, or
/// mappings one behind the other.
pub(crate) fn allocation(device: &Device, address: u64, bytes: u64) -> Option<Allocation> {
    let end = address.checked_add(bytes)?;
    let mut found = piece(device, address)?;
    let mut at = found.base + found.bytes();
    while at < end {
        let next = piece(device, at)?;
        let follows = next.base == at && !found.is_of_peers && !next.is_of_peers;
        if !follows || found.pieces.len() == MOST_PIECES {
            return None;
        }
        at = at.checked_add(next.bytes())?;
        found.pieces.extend(next.pieces);
    }
    Some(found)
}

/// A handle of an allocation, and what is kept as long as others may open it.
pub(crate) fn offer(
    device: &Device,
    allocation: &Allocation,
) -> Result<(String, Option<OfferedMemory>), String> {
    let mut at = allocation.base;
    if let (true, [piece]) = (allocation.is_of_peers, &allocation.pieces[..]) {
        let handle = digits(&ipc_handle(device, at)?);
        return Ok((format!("ipc:{handle}:{:x}", piece.id), None));
    }
    let (mut words, mut kept) = (Vec::new(), Vec::new());
    for piece in &allocation.pieces {
        let (word, memory) = offer_piece(device, at, piece)?;
        words.push(word);
        kept.push(memory);
        at += piece.bytes;
    }
    Ok((words.join(BETWEEN), Some(OfferedMemory { _pieces: kept })))
}

/// A handle of the memory that is mapped at an address, and what is kept.
fn offer_piece(
    device: &Device,
    address: u64,
    piece: &Piece,
) -> Result<(String, (Retained, Option<Offer>)), String> {
    let memory = Retained::still_at(address, piece.id)?;
    let bytes = piece.bytes;
    let what = || {
        let number = device.number;
        format!("sharing {bytes} bytes of GPU {number} with other processes")
    };
    let kind = place_of(address).as_ref().and_then(kind_of);
    let (kind, word, descriptor) = match kind {
        Some(MemoryKind::Fabric) => {
            let handle = export_fabric(memory.0, what)?;
            (MemoryKind::Fabric, digits(&handle), None)
        }
        _ => {
            let offer = Offer::new(export_descriptor(memory.0, what)?)?;
            let word = offer.word().to_owned();
            (MemoryKind::Descriptor, word, Some(offer))
        }
    };
    Ok((
        format!("{}:{word}:{bytes}", kind.name()),
        (memory, descriptor),
    ))
}

/// The CUDA IPC handle of an allocation, by its first address.
pub(crate) fn ipc_handle(device: &Device, base: u64) -> Result<[u8; 64], String> {
    let what = || {
        let number = device.number;
        format!("sharing memory of GPU {number} with other processes")
    };
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    // SAFETY: the driver checks the address, and writes a handle.
    unsafe { sys::cuIpcGetMemHandle(&raw mut handle, base) }.to(what)?;
    Ok(handle.reserved.map(|byte| byte as u8))
}

/// Memory that was opened by CUDA IPC.
#[derive(Debug)]
pub struct IpcMemory {
    device: Arc<Device>,
    handle: [u8; 64],
    pub(crate) base: u64,
}

/// What this process has opened, by the number of the GPU that did and the handle: the memory's
/// address, the number of its allocation, and how often it was opened. A process opens a handle
/// once for each GPU.
type OpenedByIpc = HashMap<(u32, [u8; 64]), (u64, String, u32)>;

static OPENED: Mutex<Option<OpenedByIpc>> = Mutex::new(None);

impl IpcMemory {
    /// Opens the memory of a handle. `id` tells its allocation from an earlier one with the same
    /// handle.
    ///
    /// # Errors
    /// It cannot be opened; or the earlier one is still open here.
    pub(crate) fn open(device: &Arc<Device>, handle: [u8; 64], id: &str) -> Result<Self, String> {
        let what = || format!("opening memory of another process on GPU {}", device.number);
        let mut opened = lock(&OPENED);
        let opened = opened.get_or_insert_default();
        let key = (device.number, handle);
        let base = match opened.get_mut(&key) {
            Some((base, known, uses)) if known == id => {
                *uses += 1;
                *base
            }
            Some(_) => {
                return Err(format!(
                    "{}: memory that was freed there is still open",
                    what()
                ));
            }
            None => {
                let base = open_ipc(&handle).map_err(|why| format!("{}: {why}", what()))?;
                opened.insert(key, (base, id.to_owned(), 1));
                base
            }
        };
        Ok(Self {
            device: Arc::clone(device),
            handle,
            base,
        })
    }
}

impl Drop for IpcMemory {
    fn drop(&mut self) {
        let mut opened = lock(&OPENED);
        let opened = opened.get_or_insert_default();
        let key = (self.device.number, self.handle);
        let Some((base, _, uses)) = opened.get_mut(&key) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            if self.device.enter().is_ok() {
                // SAFETY: opened once, closed once; no kernel runs that was given it.
                let _ = unsafe { sys::cuIpcCloseMemHandle(*base) };
            }
            opened.remove(&key);
        }
    }
}

fn open_ipc(bytes: &[u8; 64]) -> Result<u64, String> {
    let handle = sys::CUipcMemHandle {
        reserved: bytes.map(|byte| byte as _),
    };
    let lazy = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
    let mut base = 0;
    // SAFETY: the driver writes one address, and checks the handle.
    let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut base, handle, lazy) };
    opened.result().map_err(words)?;
    Ok(base)
}
