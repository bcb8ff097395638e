//! Host memory that GPUs access.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_WRITECOMBINED,
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CUresult,
};

use super::memory::{new_file, out_of_memory};
use crate::answer::{Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::current;
use crate::memory_file::{Content, PAGE};
use crate::space::{Block, Kind};

const SECTION: Section = Section::Memory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// `CU_MEMHOSTREGISTER_IOMEMORY` and `_READ_ONLY`.
const MORE_REGISTER_FLAGS: u32 = 4 | 8;

entry_points! {
    /// Allocates pinned host memory.
    fn cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32) {
        let (driver, device) = current()?;
        driver.settle(device);
        driver.not_while_capturing()?;
        ensure(bytes > 0, INVALID, SECTION, "0 bytes cannot be allocated")?;
        let known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
        ensure(flags & !known == 0, INVALID, SECTION, "there is no such flag")?;
        let whole = (bytes as u64).checked_next_multiple_of(PAGE);
        let whole = whole.ok_or_else(|| out_of_memory("too many bytes"))?;
        let file = new_file(driver, device, Content::Host, 0, whole)?;
        let base = file.map(None, 0, whole).map_err(out_of_memory)?;
        driver.space().add(base, bytes as u64, Kind::Host, device);
        address.put(base, SECTION)
    }

    /// Frees pinned host memory.
    fn cuMemFreeHost(address: u64) {
        let (driver, device) = current()?;
        driver.settle(device);
        driver.not_while_capturing()?;
        let mut space = driver.space();
        match space.blocks.get(&address).map(|it| &it.kind) {
            Some(Kind::Host) => {
                space.remove_block(address);
                Ok(())
            }
            _ => refuse(INVALID, SECTION, "no pinned memory begins at the address, or it was freed"),
        }
    }

    /// Registers host memory of the caller.
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: u32) {
        let (driver, device) = current()?;
        driver.settle(device);
        let known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | MORE_REGISTER_FLAGS;
        ensure(flags & !known == 0, INVALID, SECTION, "there is no such flag")?;
        let base = address.expose_provenance() as u64;
        ensure(base != 0 && bytes > 0, INVALID, SECTION, "there is no memory to register")?;
        let mut space = driver.space();
        let end = base + bytes as u64;
        let inside = space.blocks.range(base..end).next().is_some();
        ensure(
            !inside && space.block(base).is_none(),
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            SECTION,
            "a part of the memory is registered or the driver's",
        )?;
        let block = space.add(base, bytes as u64, Kind::Registered, device);
        block.portable = flags & CU_MEMHOSTREGISTER_PORTABLE != 0;
        block.mapped = flags & CU_MEMHOSTREGISTER_DEVICEMAP != 0;
        Ok(())
    }

    /// Ends a registration.
    fn cuMemHostUnregister(address: *mut c_void) {
        let (driver, device) = current()?;
        driver.settle(device);
        let base = address.expose_provenance() as u64;
        let mut space = driver.space();
        match space.blocks.get(&base).map(|it| &it.kind) {
            Some(Kind::Registered) => {
                space.remove_block(base);
                Ok(())
            }
            _ => refuse(
                CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                SECTION,
                "no registration begins at the address",
            ),
        }
    }

    /// The address with which kernels access host memory.
    fn cuMemHostGetDevicePointer_v2(pointer: Out<u64>, address: *mut c_void, flags: u32) {
        let (driver, _) = current()?;
        ensure(flags == 0, INVALID, SECTION, "flags must be 0")?;
        let place = address.expose_provenance() as u64;
        let space = driver.space();
        match space.block(place) {
            Some((_, Block { kind: Kind::Host | Kind::Registered, mapped: true, .. })) => {
                pointer.put(place, SECTION)
            }
            _ => refuse(INVALID, SECTION, "it is no host memory that was mapped for devices"),
        }
    }
}
