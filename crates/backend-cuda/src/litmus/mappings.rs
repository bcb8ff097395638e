//! The driver's answers about memory that is mapped at reserved addresses, and about multicasts.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;
use sys::CUmemAllocationHandleType_enum as HandleType;
use sys::CUpointer_attribute_enum as Attribute;

use crate::callers_memory::{Retained, range_of};
use crate::device::Device;
use crate::error::Driver;
use crate::memory::{Handle, MemoryKind, allow_access, granularity, properties};
use crate::multicast;

use super::Litmus;

/// Granules of reserved addresses, and of two mappings at their begin.
const RESERVED: u64 = 8;
const MAPPED: [u64; 2] = [1, 2];

/// Bytes of a fill across both, half of them in each.
const FILLED: usize = 128 << 10;

/// A byte that no answer has.
const UNWRITTEN: u8 = 0xff;

/// What the driver says of two mappings in reserved addresses, of which the second is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mappings {
    /// Its length, bytes.
    pub mapped: u64,
    /// The length of what `cuMemGetAddressRange` finds there, bytes.
    pub found: u64,
    /// Its attribute `RANGE_SIZE`, bytes.
    pub range: u64,
    /// Of the first and last addresses of both, how many lead to the handle that was mapped.
    pub right_handles: u32,
    /// Different handles, and buffer ids, of both and of other memory in place of the second, of 3.
    pub handles: u32,
    /// See `handles`.
    pub buffer_ids: u32,
    /// Bytes of a fill across both that arrive.
    pub filled: u64,
    /// Bytes that the driver writes for the attribute `ALLOWED_HANDLE_TYPES`.
    pub handle_type_bytes: u32,
    /// The least and the recommended granularity of a multicast, bytes; `None`: the GPU has none.
    pub multicast: Option<[u64; 2]>,
}

impl Mappings {
    /// Bytes of the fill.
    pub const FILLED: u64 = FILLED as u64;
}

impl Litmus<'_> {
    /// Maps memory, and asks the driver what it knows of it.
    ///
    /// # Errors
    /// The driver refuses a call.
    pub fn mappings(&self) -> Result<Mappings, String> {
        self.cuda.device(0)?;
        let mut reserved = Reserved::new(&self.device)?;
        let first = reserved.map(0, MAPPED[0])?;
        let second = reserved.map(MAPPED[0], MAPPED[1])?;
        let granule = reserved.granule;
        let bytes = MAPPED[1] * granule;
        let asked = [
            (first, 0),
            (first + granule - 1, 0),
            (second, 1),
            (second + bytes - 1, 1),
        ];
        let right = |(address, which): &(u64, usize)| {
            Retained::still_at(*address, reserved.mapped[*which].handle).is_ok()
        };
        let right_handles = asked.iter().filter(|it| right(it)).count() as u32;
        let found = range_of(second).filter(|(base, _)| *base == second);
        let range = number(second, Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE)?;
        let filled = fill(second)?;
        let handle_type_bytes = handle_type_bytes(second)?;
        let id = |address| number(address, Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID);
        let mut ids = BTreeSet::from([id(first)?, id(second)?]);
        reserved.unmap_last()?;
        reserved.map(MAPPED[0], MAPPED[1])?;
        ids.insert(id(second)?);
        let handles: BTreeSet<Handle> = reserved.handles().collect();
        Ok(Mappings {
            mapped: bytes,
            found: found.map_or(0, |it| it.1),
            range,
            right_handles,
            handles: handles.len() as u32,
            buffer_ids: ids.len() as u32,
            filled,
            handle_type_bytes,
            multicast: multicast_granularities(&self.device, granule),
        })
    }
}

/// Memory that is mapped, or was.
#[derive(Debug)]
struct Mapping {
    address: u64,
    bytes: u64,
    handle: Handle,
}

/// Addresses with mappings. Handles of memory are kept until the end.
#[derive(Debug)]
struct Reserved {
    device: Arc<Device>,
    granule: u64,
    base: u64,
    mapped: Vec<Mapping>,
    unmapped: Vec<Handle>,
}

impl Reserved {
    fn new(device: &Arc<Device>) -> Result<Self, String> {
        let least = sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let granule = granularity(device, &kept_properties(device), least)?.max(1) as u64;
        let size = (RESERVED * granule) as usize;
        let mut base = 0;
        // SAFETY: the driver writes an address; `drop` frees the reservation.
        unsafe { sys::cuMemAddressReserve(&raw mut base, size, 0, 0, 0) }
            .to(|| format!("reserving {size} bytes"))?;
        Ok(Self {
            device: Arc::clone(device),
            granule,
            base,
            mapped: Vec::new(),
            unmapped: Vec::new(),
        })
    }

    /// Maps new memory of `count` granules from one of them on. Returns its address.
    fn map(&mut self, first: u64, granules: u64) -> Result<u64, String> {
        let (address, bytes) = (self.base + first * self.granule, granules * self.granule);
        let what = || format!("mapping {bytes} bytes for GPU {}", self.device.number);
        let properties = kept_properties(&self.device);
        let mut handle = 0;
        // SAFETY: the driver reads the properties and writes a handle, which `drop` releases.
        unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) }
            .to(what)?;
        // SAFETY: nothing is mapped at these reserved addresses.
        let mapped = unsafe { sys::cuMemMap(address, bytes as usize, 0, handle, 0) };
        if let Err(why) = mapped.to(what) {
            self.unmapped.push(handle);
            return Err(why.into());
        }
        self.mapped.push(Mapping {
            address,
            bytes,
            handle,
        });
        allow_access(&self.device, address, bytes as usize, what)?;
        Ok(address)
    }

    fn unmap_last(&mut self) -> Result<(), String> {
        let Some(last) = self.mapped.pop() else {
            return Ok(());
        };
        self.unmapped.push(last.handle);
        // SAFETY: it is mapped there, and nothing uses it.
        let unmapped = unsafe { sys::cuMemUnmap(last.address, last.bytes as usize) };
        Ok(unmapped.to(|| "unmapping memory".to_owned())?)
    }

    fn handles(&self) -> impl Iterator<Item = Handle> {
        let mapped = self.mapped.iter().map(|it| it.handle);
        mapped.chain(self.unmapped.iter().copied())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        while !self.mapped.is_empty() {
            let _ = self.unmap_last();
        }
        // SAFETY: each was made once, and nothing uses it.
        unsafe {
            for handle in &self.unmapped {
                let _ = sys::cuMemRelease(*handle);
            }
            let _ = sys::cuMemAddressFree(self.base, (RESERVED * self.granule) as usize);
        }
    }
}

/// Properties of memory that callers share: with descriptors, if the GPU has them.
fn kept_properties(device: &Device) -> sys::CUmemAllocationProp {
    let kind = MemoryKind::Descriptor;
    let shared = kind.handle_type().filter(|_| kind.is_offered(device));
    let none = HandleType::CU_MEM_HANDLE_TYPE_NONE;
    properties(device, shared.unwrap_or(none), false)
}

/// The eight bytes at a place after the driver wrote an attribute of an address there.
fn attribute(address: u64, attribute: Attribute, before: [u8; 8]) -> Result<[u8; 8], String> {
    let (mut attributes, mut bytes) = ([attribute], before);
    let mut places = [bytes.as_mut_ptr().cast::<c_void>()];
    // SAFETY: the driver reads one number and one place, and writes at most 8 bytes to it.
    let asked = unsafe {
        let (attributes, places) = (attributes.as_mut_ptr(), places.as_mut_ptr());
        sys::cuPointerGetAttributes(1, attributes, places, address)
    };
    asked.to(|| format!("asking for {attribute:?}"))?;
    Ok(bytes)
}

fn number(address: u64, of: Attribute) -> Result<u64, String> {
    attribute(address, of, [0; 8]).map(u64::from_ne_bytes)
}

fn handle_type_bytes(address: u64) -> Result<u32, String> {
    let of = Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
    let bytes = attribute(address, of, [UNWRITTEN; 8])?;
    Ok(bytes.iter().filter(|it| **it != UNWRITTEN).count() as u32)
}

/// Fills bytes on both sides of an address. Returns the number of those that arrive.
fn fill(middle: u64) -> Result<u64, String> {
    let begin = middle - FILLED as u64 / 2;
    let mut bytes = vec![0_u8; FILLED];
    let what = || "filling memory across two mappings".to_owned();
    // SAFETY: both mappings are longer than half of it, and the GPU may access them. The copy
    // waits for the fill, because both are on the default stream.
    unsafe {
        sys::cuMemsetD8_v2(begin, 1, FILLED).to(what)?;
        sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast::<c_void>(), begin, FILLED).to(what)?;
    }
    Ok(bytes.iter().filter(|it| **it == 1).count() as u64)
}

/// The least and the recommended granularity of a multicast.
fn multicast_granularities(device: &Device, bytes: u64) -> Option<[u64; 2]> {
    multicast::check(device).ok()?;
    use sys::CUmulticastGranularity_flags_enum as Flags;
    let properties = sys::CUmulticastObjectProp {
        numDevices: 2,
        size: bytes as usize,
        handleTypes: 0,
        flags: 0,
    };
    let ask = |wanted| {
        let mut found = 0;
        // SAFETY: the driver reads the properties and writes one number.
        let asked = unsafe {
            sys::cuMulticastGetGranularity(&raw mut found, &raw const properties, wanted)
        };
        asked.result().is_ok().then_some(found as u64)
    };
    Some([
        ask(Flags::CU_MULTICAST_GRANULARITY_MINIMUM)?,
        ask(Flags::CU_MULTICAST_GRANULARITY_RECOMMENDED)?,
    ])
}
