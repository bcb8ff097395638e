//! Handles of physical memory and multicast objects for other processes.

use std::ffi::c_void;
use std::sync::Arc;

use crate::machine::Fabric;
use cudarc::driver::sys::CUresult;

use super::memory::out_of_memory;
use super::virtual_memory::{DESCRIPTOR, FABRIC, physical};
use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{Handle64, In, Out};
use crate::call::entry_points;
use crate::driver::{Driver, driver};
use crate::memory_file::{Content, MemoryFile};
use crate::multicast::Team;
use crate::space::Physical;

const SECTION: Section = Section::VirtualMemory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The memory or multicast object of a file.
fn imported(driver: &Driver, file: MemoryFile) -> Answer<Physical> {
    let file = Arc::new(file);
    match file.label.content {
        Content::Plain => refuse(INVALID, SECTION, "it is memory of cuMemAlloc"),
        Content::Multicast => {
            let team = Team::of(Arc::clone(&file)).map_err(out_of_memory)?;
            let bytes = team.size();
            let team = Some(Arc::new(team));
            Ok(Physical::new(file, 0, bytes, team))
        }
        Content::Physical | Content::Host => match driver.by_uuid(file.label.device) {
            Some(device) => {
                let bytes = file.label.bytes;
                Ok(Physical::new(file, device, bytes, None))
            }
            None => refuse(
                INVALID,
                SECTION,
                "the memory is of no device of this machine",
            ),
        },
    }
}

entry_points! {
    /// Exports memory or a multicast object.
    fn cuMemExportToShareableHandle(place: *mut c_void, handle: u64, kind: u32, flags: u64) {
        let driver = driver()?;
        driver.settle_all();
        let memory = physical(driver, handle)?;
        ensure(flags == 0, INVALID, SECTION, "flags must be 0")?;
        let requested = memory.file.label.handle_types & kind == kind;
        let one = matches!(kind, DESCRIPTOR | FABRIC);
        ensure(one && requested, INVALID, SECTION, "the memory was not made for handles of this type")?;
        let half = kind == FABRIC && driver.machine.setup.fabric == Fabric::Half;
        let error = CUresult::CUDA_ERROR_NOT_PERMITTED;
        ensure(!half, error, Section::Machine, "IMEX is half configured")?;
        if kind == DESCRIPTOR {
            let descriptor = memory.file.descriptor().map_err(out_of_memory)?;
            // SAFETY: `Out` has the layout of a pointer.
            let place = unsafe { std::mem::transmute::<*mut c_void, Out<i32>>(place) };
            return place.put(descriptor, SECTION);
        }
        // SAFETY: as above.
        let place = unsafe { std::mem::transmute::<*mut c_void, Out<Handle64>>(place) };
        place.put(Handle64(memory.file.handle().map_err(out_of_memory)?), SECTION)
    }

    /// Opens memory or a multicast object of another process.
    fn cuMemImportFromShareableHandle(handle: Out<u64>, shareable: *mut c_void, kind: u32) {
        let driver = driver()?;
        driver.settle_all();
        let opened = match kind {
            // The pointer is the descriptor's number.
            DESCRIPTOR => MemoryFile::from_descriptor(i32::try_from(shareable.addr()).unwrap_or(-1)),
            FABRIC => {
                ensure(
                    driver.machine.setup.fabric == Fabric::Whole,
                    CUresult::CUDA_ERROR_NOT_PERMITTED,
                    Section::Machine,
                    "fabric handles do not work",
                )?;
                // SAFETY: `In` has the layout of a pointer.
                let place = unsafe { std::mem::transmute::<*mut c_void, In<Handle64>>(shareable) };
                MemoryFile::open(&place.get(SECTION)?.0)
            }
            _ => return refuse(INVALID, SECTION, "there is no such type of handle on Linux"),
        };
        let file = match opened {
            Ok(file) => file,
            Err(why) => return refuse(INVALID, SECTION, format!("the handle leads to no memory: {why}")),
        };
        handle.put(driver.add(imported(driver, file)?), SECTION)
    }
}
