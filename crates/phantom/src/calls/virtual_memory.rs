//! Physical memory, reserved addresses, mappings and access.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::machine::Fabric;
use cudarc::driver::sys::CUresult;

use super::memory::{new_file, out_of_memory};
use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{AccessDescription, AllocationProperties, In, Location, Out};
use crate::call::entry_points;
use crate::driver::{Driver, driver};
use crate::memory_file::{Content, PAGE, reserve};
use crate::space::{Mapping, Physical, changed};
use crate::table::Found;

const SECTION: Section = Section::VirtualMemory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Granularity of physical memory on all GPUs so far, bytes.
pub const GRANULARITY: u64 = 2 << 20;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR` and `_FABRIC`.
pub const DESCRIPTOR: u32 = 1;
/// See [`DESCRIPTOR`].
pub const FABRIC: u32 = 8;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const PINNED: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const OF_DEVICE: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA`.
pub const OF_HOST_NUMA: u32 = 3;

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`; 1 is read only and 0 none.
const READ_WRITE: u32 = 3;

/// Checks properties of physical memory; returns its device and what it is.
fn check_properties(
    driver: &Driver,
    properties: &AllocationProperties,
) -> Answer<(usize, Content)> {
    ensure(
        properties.kind == PINNED,
        INVALID,
        SECTION,
        "the type must be PINNED",
    )?;
    let found = match properties.location.kind {
        OF_DEVICE => (driver.device(properties.location.id)?.0, Content::Physical),
        OF_HOST_NUMA => (0, Content::Host),
        _ => {
            return refuse(
                INVALID,
                SECTION,
                "the location must be a device or a NUMA node",
            );
        }
    };
    check_handle_types(driver, properties.handle_types)?;
    Ok(found)
}

/// Checks kinds of handles.
pub fn check_handle_types(driver: &Driver, types: u32) -> Answer {
    ensure(
        types & !(DESCRIPTOR | FABRIC) == 0,
        INVALID,
        SECTION,
        "there is no such type of handle on Linux",
    )?;
    let offered = types & FABRIC == 0 || driver.machine.reports_fabric();
    let error = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    ensure(
        offered,
        error,
        SECTION,
        "the device reports no fabric handles",
    )
}

/// Physical memory or a multicast object by its handle.
pub fn physical(driver: &Driver, handle: u64) -> Answer<Arc<Physical>> {
    match driver.objects().physical.find(handle) {
        Found::Live(found) => Ok(Arc::clone(found)),
        Found::Dead => refuse(INVALID, SECTION, "the handle was released"),
        Found::Unknown => refuse(INVALID, SECTION, "it is no handle of memory"),
    }
}

/// Waits until all devices were added to a multicast object.
///
/// # Errors
/// They are not in time; a real driver would block for ever.
pub fn wait_for_team(driver: &Driver, team: &crate::multicast::Team) -> Answer {
    let patience = std::time::Duration::from_millis(driver.machine.setup.patience_ms);
    let began = std::time::Instant::now();
    while team.added() < team.devices() {
        if began.elapsed() > patience {
            let (added, all) = (team.added(), team.devices());
            return refuse(
                CUresult::CUDA_ERROR_TIMEOUT,
                Section::Multicast,
                format!("the call blocks until all devices were added: {added} of {all} were"),
            );
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    Ok(())
}

/// The mappings that a range consists of, by first address.
fn whole_mappings(space: &crate::space::Space, address: u64, bytes: u64) -> Option<Vec<u64>> {
    let mut at = address;
    let mut found = Vec::new();
    while at < address + bytes {
        at += space.mappings.get(&at)?.bytes;
        found.push(at);
    }
    (at == address + bytes).then_some(())?;
    let first = space.mappings.range(address..address + bytes);
    Some(first.map(|(base, _)| *base).collect())
}

entry_points! {
    /// The granularity of physical memory.
    fn cuMemGetAllocationGranularity(bytes: Out<usize>, properties: In<AllocationProperties>, option: u32) {
        let driver = driver()?;
        check_properties(driver, &properties.get(SECTION)?)?;
        ensure(option <= 1, INVALID, SECTION, "there is no such option")?;
        bytes.put(GRANULARITY as usize, SECTION)
    }

    /// Makes physical memory.
    fn cuMemCreate(handle: Out<u64>, bytes: usize, properties: In<AllocationProperties>, flags: u64) {
        let driver = driver()?;
        driver.settle_all();
        driver.not_while_capturing()?;
        let properties = properties.get(SECTION)?;
        let (device, content) = check_properties(driver, &properties)?;
        driver.sound(device)?;
        ensure(flags == 0, INVALID, SECTION, "flags must be 0")?;
        let bytes = bytes as u64;
        let whole = bytes > 0 && bytes.is_multiple_of(GRANULARITY);
        ensure(whole, INVALID, SECTION, "the size is no multiple of the granularity")?;
        let refused = driver.machine.setup.fabric == Fabric::Refused && properties.handle_types & FABRIC != 0;
        let error = CUresult::CUDA_ERROR_NOT_PERMITTED;
        ensure(!refused, error, Section::Machine, "there is no IMEX channel")?;
        let file = new_file(driver, device, content, properties.handle_types, bytes)?;
        let number = driver.add(Physical::new(Arc::new(file), device, bytes, None));
        handle.put(number, SECTION)
    }

    /// Releases a handle of memory.
    fn cuMemRelease(handle: u64) {
        let driver = driver()?;
        driver.settle_all();
        let memory = physical(driver, handle)?;
        if memory.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            driver.objects().physical.remove(handle);
        }
        Ok(())
    }

    /// Retains the handle of the memory at an address, once more.
    fn cuMemRetainAllocationHandle(handle: Out<u64>, address: u64) {
        let driver = driver()?;
        let found = driver.space().mapping(address).map(|(_, it)| (it.handle, Arc::clone(&it.physical)));
        let Some((number, memory)) = found else {
            return refuse(INVALID, SECTION, "nothing is mapped at the address");
        };
        if memory.handles.fetch_add(1, Ordering::AcqRel) == 0 {
            driver.objects().physical.restore(number, memory);
        }
        handle.put(number, SECTION)
    }

    /// The properties of memory.
    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<AllocationProperties>, handle: u64) {
        let driver = driver()?;
        let memory = physical(driver, handle)?;
        let found = AllocationProperties {
            kind: PINNED,
            handle_types: memory.file.label.handle_types,
            location: match memory.file.label.content {
                Content::Host => Location { kind: OF_HOST_NUMA, id: 0 },
                _ => Location { kind: OF_DEVICE, id: memory.device as i32 },
            },
            windows: std::ptr::null_mut(),
            flags: [0; 8],
        };
        properties.put(found, SECTION)
    }

    /// Reserves addresses.
    fn cuMemAddressReserve(address: Out<u64>, bytes: usize, alignment: usize, wanted: u64, flags: u64) {
        let driver = driver()?;
        let (bytes, alignment) = (bytes as u64, alignment as u64);
        ensure(flags == 0, INVALID, SECTION, "flags must be 0")?;
        let whole = bytes > 0 && bytes.is_multiple_of(PAGE) && wanted.is_multiple_of(PAGE);
        ensure(whole, INVALID, SECTION, "size and address must be multiples of the host's page size")?;
        let power = alignment == 0 || alignment.is_power_of_two();
        ensure(power, INVALID, SECTION, "the alignment must be a power of two")?;
        let base = reserve(bytes, alignment.max(GRANULARITY)).map_err(out_of_memory)?;
        driver.space().reservations.insert(base, bytes);
        address.put(base, SECTION)
    }

    /// Gives reserved addresses back.
    fn cuMemAddressFree(address: u64, bytes: usize) {
        let driver = driver()?;
        let mut space = driver.space();
        let Some(reserved) = space.reservations.get(&address).copied() else {
            return refuse(INVALID, SECTION, "no reservation begins at the address, or it was freed");
        };
        ensure(reserved == bytes as u64, INVALID, SECTION, "the size is not that of the reservation")?;
        let mapped = space.mappings.range(address..address + reserved).next().is_some();
        ensure(!mapped, INVALID, SECTION, "memory is mapped there")?;
        space.free_reservation(address);
        Ok(())
    }

    /// Maps physical memory at reserved addresses.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let driver = driver()?;
        driver.settle_all();
        let memory = physical(driver, handle)?;
        let bytes = bytes as u64;
        ensure(flags == 0 && offset == 0, INVALID, SECTION, "offset and flags must be 0")?;
        let whole = bytes > 0 && bytes.is_multiple_of(GRANULARITY) && address.is_multiple_of(GRANULARITY);
        ensure(whole, INVALID, SECTION, "address or size are no multiples of the granularity")?;
        ensure(bytes <= memory.bytes, INVALID, SECTION, "the memory is shorter")?;
        if let Some(team) = &memory.team {
            wait_for_team(driver, team)?;
        }
        let mut space = driver.space();
        let inside = space.reservation(address);
        let inside = inside.is_some_and(|(base, length)| address - base + bytes <= length);
        ensure(inside, INVALID, SECTION, "the addresses are not reserved")?;
        let free = space.mapping(address).is_none()
            && space.mappings.range(address..address + bytes).next().is_none();
        ensure(free, INVALID, SECTION, "memory is mapped there")?;
        if memory.team.is_none() {
            memory.file.map(Some(address), 0, bytes).map_err(out_of_memory)?;
        }
        let mapping = Mapping { bytes, physical: memory, handle, access: BTreeMap::new() };
        space.mappings.insert(address, mapping);
        Ok(())
    }

    /// Unmaps memory.
    fn cuMemUnmap(address: u64, bytes: usize) {
        let driver = driver()?;
        driver.settle_all();
        let mut space = driver.space();
        let Some(bases) = whole_mappings(&space, address, bytes as u64).filter(|it| !it.is_empty()) else {
            return refuse(INVALID, SECTION, "the range does not consist of whole mappings");
        };
        for base in bases {
            space.unmap(base);
        }
        Ok(())
    }

    /// Gives devices access to mappings.
    fn cuMemSetAccess(address: u64, bytes: usize, access: In<AccessDescription>, count: usize) {
        let driver = driver()?;
        driver.settle_all();
        ensure(count > 0, INVALID, SECTION, "there is no description")?;
        let mut space = driver.space();
        let Some(bases) = whole_mappings(&space, address, bytes as u64).filter(|it| !it.is_empty()) else {
            return refuse(INVALID, SECTION, "the range does not consist of whole mappings");
        };
        for index in 0..count {
            let AccessDescription { location, flags } = access.nth(index, SECTION)?;
            ensure(location.kind == OF_DEVICE, INVALID, SECTION, "the location must be a device")?;
            ensure(matches!(flags, 0 | 1 | READ_WRITE), INVALID, SECTION, "there is no such access")?;
            let (device, gpu) = driver.device(location.id)?;
            for base in &bases {
                let Some(mapping) = space.mappings.get_mut(base) else {
                    continue;
                };
                let of = mapping.physical.device;
                let allowed = match &mapping.physical.team {
                    Some(team) => team.has(gpu.uuid),
                    None if mapping.physical.file.label.content == Content::Host => true,
                    None => of == device || driver.machine.reaches(device, of),
                };
                let error = CUresult::CUDA_ERROR_INVALID_DEVICE;
                ensure(allowed, error, SECTION, "the device cannot access this memory")?;
                match flags {
                    0 => mapping.access.remove(&device),
                    flags => mapping.access.insert(device, flags == READ_WRITE),
                };
            }
        }
        changed();
        Ok(())
    }
}
