//! Attributes of addresses.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUmemorytype_enum as MemoryType, CUpointer_attribute as Attribute, CUresult,
};

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{In, Out};
use crate::call::entry_points;
use crate::driver::{Driver, current, driver};
use crate::space::Kind;

const SECTION: Section = Section::UnifiedAddressing;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// What is known of an address.
struct About {
    /// The mappable addresses: an allocation, or all addresses that were reserved together.
    range: (u64, u64),
    /// The memory; `None`: nothing is mapped there.
    memory: Option<Memory>,
}

/// The memory at an address.
struct Memory {
    device: usize,
    of_host: bool,
    id: u64,
    synchronous: bool,
    is_plain: bool,
    handle_types: u32,
}

fn about(driver: &Driver, address: u64) -> Option<About> {
    let space = driver.space();
    if let Some((base, block)) = space.block(address) {
        return Some(About {
            range: (base, block.bytes),
            memory: Some(Memory {
                device: block.device,
                of_host: matches!(block.kind, Kind::Host | Kind::Registered),
                id: block.id,
                synchronous: block.synchronous,
                is_plain: matches!(block.kind, Kind::Device(_)),
                handle_types: 0,
            }),
        });
    }
    let range = space.reservation(address)?;
    let memory = space.mapping(address).map(|(_, mapping)| Memory {
        device: mapping.physical.device,
        of_host: false,
        // The documentation promises unique numbers for memory of functions that allocate, and
        // nothing for mappings. So here it tells neither mappings nor what was mapped before apart.
        id: range.0,
        synchronous: false,
        is_plain: false,
        handle_types: mapping.physical.file.label.handle_types,
    });
    Some(About { range, memory })
}

/// Writes an attribute of 4 or 8 bytes.
fn write(place: *mut c_void, value: u64, wide: bool) -> Answer {
    // SAFETY: both are pointers; `Out` has the layout of a pointer.
    let (narrow, long) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Out<u32>>(place),
            std::mem::transmute::<*mut c_void, Out<u64>>(place),
        )
    };
    match wide {
        true => long.put(value, SECTION),
        false => narrow.put(value as u32, SECTION),
    }
}

/// An attribute of an address, and whether it has 8 bytes; `None`: the address has none such.
fn attribute_of(
    driver: &Driver,
    about: &About,
    attribute: u32,
    address: u64,
) -> Option<(u64, bool)> {
    let is = |wanted: Attribute| attribute == wanted as u32;
    match () {
        () if is(Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) => {
            return Some((about.range.0, true));
        }
        () if is(Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE) => {
            return Some((about.range.1, true));
        }
        () if is(Attribute::CU_POINTER_ATTRIBUTE_MAPPED) => {
            return Some((u64::from(about.memory.is_some()), false));
        }
        () => {}
    }
    let about = about.memory.as_ref()?;
    let kind = match about.of_host {
        true => MemoryType::CU_MEMORYTYPE_HOST,
        false => MemoryType::CU_MEMORYTYPE_DEVICE,
    };
    let context = driver.context_handle(about.device);
    Some(match () {
        () if is(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT) => (context, true),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE) => (u64::from(kind as u32), false),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER) => (address, true),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER) && about.of_host => (address, true),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) => {
            (u64::from(about.synchronous), false)
        }
        () if is(Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID) => (about.id, true),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED) => (0, false),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) => (about.device as u64, false),
        () if is(Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) => {
            (u64::from(about.is_plain && driver.machine.setup.ipc), false)
        }
        () if is(Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) => {
            (u64::from(about.handle_types), true)
        }
        () if is(Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) => (0, true),
        () => return None,
    })
}

entry_points! {
    /// An attribute of an address.
    fn cuPointerGetAttribute(place: *mut c_void, attribute: u32, address: u64) {
        let driver = driver()?;
        let Some(about) = about(driver, address) else {
            // Programs ask whether an address is of a device; that it is not is no broken rule.
            return refuse(INVALID, SECTION, "");
        };
        match attribute_of(driver, &about, attribute, address) {
            Some((value, wide)) => write(place, value, wide),
            None => refuse(INVALID, SECTION, format!("attribute {attribute} is not known of the address")),
        }
    }

    /// Attributes of an address; they are 0 where the driver does not know it.
    fn cuPointerGetAttributes(count: u32, attributes: In<u32>, places: In<*mut c_void>, address: u64) {
        let driver = driver()?;
        ensure(count > 0, INVALID, SECTION, "no attribute is wanted")?;
        let about = about(driver, address);
        for at in 0..count as usize {
            let (attribute, place) = (attributes.nth(at, SECTION)?, places.nth(at, SECTION)?);
            let known = about.as_ref().and_then(|it| attribute_of(driver, it, attribute, address));
            let (value, wide) = known.unwrap_or_default();
            write(place, value, wide)?;
        }
        Ok(())
    }

    /// Sets an attribute of an allocation.
    fn cuPointerSetAttribute(value: In<u32>, attribute: u32, address: u64) {
        let (driver, _) = current()?;
        let known = Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS as u32;
        ensure(attribute == known, INVALID, SECTION, "only SYNC_MEMOPS can be set")?;
        let value = value.get(SECTION)?;
        let mut space = driver.space();
        match space.blocks.get_mut(&address) {
            Some(block) if matches!(block.kind, Kind::Device(_)) => {
                block.synchronous = value != 0;
                Ok(())
            }
            _ => refuse(INVALID, SECTION, "no allocation of a device begins at the address"),
        }
    }
}
