//! CUDA IPC.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use super::memory::out_of_memory;
use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{Handle64, Out};
use crate::call::entry_points;
use crate::driver::{Driver, current};
use crate::memory_file::{Content, MemoryFile};
use crate::space::Kind;

const SECTION: Section = Section::Memory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
const LAZY: u32 = 1;

fn supported(driver: &Driver) -> Answer {
    let error = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    ensure(
        driver.machine.setup.ipc,
        error,
        Section::Machine,
        "CUDA IPC does not work",
    )
}

entry_points! {
    /// A handle of an allocation for other processes.
    fn cuIpcGetMemHandle(handle: Out<Handle64>, address: u64) {
        let (driver, _) = current()?;
        supported(driver)?;
        let space = driver.space();
        let Some((base, block)) = space.block(address) else {
            return match space.mapping(address) {
                Some(_) => refuse(INVALID, SECTION, "memory of cuMemCreate has no IPC handle"),
                None => refuse(INVALID, SECTION, "no allocation holds the address"),
            };
        };
        let Kind::Device(file) = &block.kind else {
            return refuse(INVALID, SECTION, "only memory of cuMemAlloc has an IPC handle");
        };
        ensure(base == address, INVALID, SECTION, "the pointer must be the base of an allocation")?;
        handle.put(Handle64(file.handle().map_err(out_of_memory)?), SECTION)
    }

    /// Opens memory of another process.
    fn cuIpcOpenMemHandle_v2(address: Out<u64>, handle: Handle64, flags: u32) {
        let (driver, device) = current()?;
        driver.settle(device);
        supported(driver)?;
        ensure(flags == LAZY, INVALID, SECTION, "flags must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS")?;
        let own = MemoryFile::process_of(&handle.0) == std::process::id();
        let error = CUresult::CUDA_ERROR_INVALID_CONTEXT;
        ensure(!own, error, SECTION, "a process cannot open its own handle")?;
        let file = match MemoryFile::open(&handle.0) {
            Ok(file) if file.label.content == Content::Plain => file,
            Ok(_) => return refuse(INVALID, SECTION, "it is no IPC handle"),
            Err(why) => return refuse(INVALID, SECTION, format!("the handle leads to no memory: {why}")),
        };
        let of = driver.by_uuid(file.label.device);
        let reaches = of.is_some_and(|of| of == device || driver.machine.reaches(device, of));
        let error = CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        ensure(reaches, error, SECTION, "the device cannot access the memory's device")?;
        let mut space = driver.space();
        let opened = space.blocks.values().any(|it| {
            matches!(&it.kind, Kind::Imported(known) if known.is(&file)) && it.device == device
        });
        let error = CUresult::CUDA_ERROR_ALREADY_MAPPED;
        ensure(!opened, error, SECTION, "this context has opened the memory already")?;
        let bytes = file.label.bytes;
        let base = file.map(None, 0, bytes).map_err(out_of_memory)?;
        space.add(base, bytes, Kind::Imported(Arc::new(file)), device);
        address.put(base, SECTION)
    }

    /// Closes memory of another process.
    fn cuIpcCloseMemHandle(address: u64) {
        let (driver, device) = current()?;
        driver.settle(device);
        supported(driver)?;
        let mut space = driver.space();
        match space.blocks.get(&address).map(|it| &it.kind) {
            Some(Kind::Imported(_)) => {
                space.remove_block(address);
                Ok(())
            }
            _ => refuse(INVALID, SECTION, "no opened memory begins at the address, or it was closed"),
        }
    }
}
