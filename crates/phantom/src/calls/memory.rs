//! Memory of devices.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Refusal, Section, ensure, refuse};
use crate::arguments::Out;
use crate::call::entry_points;
use crate::driver::{Driver, current};
use crate::memory_file::{Content, Label, MemoryFile, PAGE};
use crate::space::Kind;

const SECTION: Section = Section::Memory;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Most bytes of new memory that are filled with arbitrary values, because a GPU promises nothing.
const MOST_FILLED: u64 = 1 << 20;

/// What new memory holds.
const ARBITRARY: u8 = 0xa5;

/// The error that there is not enough memory.
pub fn out_of_memory(why: impl std::fmt::Display) -> Refusal {
    Refusal {
        error: CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32,
        section: Section::Machine,
        rule: why.to_string(),
    }
}

/// New memory of a device, or of the host for a device, in whole pages of the host. It holds
/// arbitrary values at its begin, unless the machine file says otherwise. The bytes that are asked
/// for count as used: how much more a driver takes is not documented.
///
/// # Errors
/// The device has not enough.
pub fn new_file(
    driver: &'static Driver,
    device: usize,
    content: Content,
    handle_types: u32,
    bytes: u64,
) -> Answer<MemoryFile> {
    let gpu = &driver.machine.gpus[device];
    let whole = bytes.checked_next_multiple_of(PAGE);
    let label = Label {
        content,
        device: gpu.uuid,
        handle_types,
        bytes: whole.ok_or_else(|| out_of_memory("too many bytes"))?,
    };
    let count = &driver.contexts[device].used;
    let (used, all) = (count.load(Ordering::Acquire), gpu.memory_bytes);
    let of_host = content == Content::Host;
    if !of_host && used.saturating_add(bytes) > all {
        return Err(out_of_memory(format!(
            "{used} of {all} bytes are in use, and {bytes} are wanted"
        )));
    }
    let mut file = MemoryFile::new(label).map_err(out_of_memory)?;
    if !of_host {
        file.count(count, bytes);
    }
    if driver.machine.setup.arbitrary {
        let filled = file.fill(ARBITRARY, bytes.min(MOST_FILLED));
        filled.map_err(out_of_memory)?;
    }
    Ok(file)
}

entry_points! {
    /// Allocates memory of the current device.
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) {
        let (driver, device) = current()?;
        driver.settle(device);
        driver.not_while_capturing()?;
        ensure(bytes > 0, INVALID, SECTION, "0 bytes cannot be allocated")?;
        let file = Arc::new(new_file(driver, device, Content::Plain, 0, bytes as u64)?);
        let whole = file.label.bytes;
        let freed = driver.space().take_freed(whole);
        let base = file.map(freed, 0, whole).map_err(out_of_memory)?;
        driver.space().add(base, bytes as u64, Kind::Device(file), device);
        address.put(base, SECTION)
    }

    /// Frees memory.
    fn cuMemFree_v2(address: u64) {
        let (driver, device) = current()?;
        driver.settle(device);
        driver.not_while_capturing()?;
        if address == 0 {
            return Ok(());
        }
        let mut space = driver.space();
        match space.blocks.get(&address).map(|it| &it.kind) {
            Some(Kind::Device(_)) => {
                if let Some(block) = space.remove_block(address)
                    && driver.machine.setup.reuse
                {
                    space.freed.push((address, block.bytes.next_multiple_of(PAGE)));
                }
                Ok(())
            }
            Some(Kind::Imported(_)) => {
                refuse(INVALID, SECTION, "memory of another process is closed, not freed")
            }
            Some(_) => refuse(INVALID, SECTION, "it is host memory"),
            None => refuse(INVALID, SECTION, "no allocation begins at the address, or it was freed"),
        }
    }

    /// The allocation that holds an address.
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) {
        let (driver, _) = current()?;
        let space = driver.space();
        let block = space.block(address).map(|(base, it)| (base, it.bytes));
        let mapping = || space.mapping(address).map(|(base, it)| (base, it.bytes));
        let Some((begin, length)) = block.or_else(mapping) else {
            let error = CUresult::CUDA_ERROR_NOT_FOUND;
            return refuse(error, SECTION, "no allocation holds the address");
        };
        base.put_if_wanted(begin);
        bytes.put_if_wanted(length as usize);
        Ok(())
    }

    /// Free and total memory of the current device, bytes.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let (driver, device) = current()?;
        let all = driver.machine.gpus[device].memory_bytes;
        let used = driver.contexts[device].used.load(Ordering::Acquire);
        free.put(all.saturating_sub(used) as usize, SECTION)?;
        total.put(all as usize, SECTION)
    }

    /// Exports a range of memory as DMA-BUF.
    fn cuMemGetHandleForAddressRange(handle: Out<i32>, address: u64, bytes: usize, kind: u32, flags: u64) {
        /// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`
        const DMA_BUF: u32 = 1;
        let (driver, _) = current()?;
        ensure(kind == DMA_BUF && flags == 0, INVALID, SECTION, "the kind is not DMA-BUF, or flags are not 0")?;
        let supported = driver.machine.setup.dma_buf;
        let error = CUresult::CUDA_ERROR_NOT_SUPPORTED;
        ensure(supported, error, Section::Machine, "the device reports no DMA-BUF")?;
        let whole = address.is_multiple_of(PAGE) && (bytes as u64).is_multiple_of(PAGE);
        ensure(whole, INVALID, SECTION, "address and length must be multiples of the host's page size")?;
        let space = driver.space();
        let Some((base, block)) = space.block(address) else {
            return refuse(INVALID, SECTION, "no allocation holds the range");
        };
        let Kind::Device(file) = &block.kind else {
            return refuse(INVALID, SECTION, "the range is not of the device");
        };
        let end = address - base + bytes as u64;
        ensure(end <= block.bytes, INVALID, SECTION, "the range is longer than the allocation")?;
        // The descriptor is of the whole memory; NICs of tests map it from its begin.
        ensure(base == address, error, Section::Machine, "only whole allocations are exported")?;
        handle.put(file.descriptor().map_err(out_of_memory)?, SECTION)
    }
}
