//! Multicast objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult;

use super::memory::out_of_memory;
use super::virtual_memory::{GRANULARITY, check_handle_types, physical, wait_for_team};
use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{In, MulticastProperties, Out};
use crate::call::entry_points;
use crate::driver::{Driver, driver};
use crate::memory_file::Content;
use crate::multicast::{MOST_DEVICES, Member, Team};
use crate::space::{Physical, changed};

/// The recommended granularity, bytes; the least is that of physical memory.
const RECOMMENDED: u64 = 512 << 20;

const SECTION: Section = Section::Multicast;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The multicast object of a handle.
fn team(driver: &Driver, handle: u64) -> Answer<Arc<Team>> {
    match &physical(driver, handle)?.team {
        Some(team) => Ok(Arc::clone(team)),
        None => refuse(INVALID, SECTION, "the handle is no multicast object"),
    }
}

fn check(driver: &Driver, properties: &MulticastProperties) -> Answer<u32> {
    let types = u32::try_from(properties.handle_types).unwrap_or(u32::MAX);
    check_handle_types(driver, types)?;
    let devices = properties.devices as usize;
    ensure(
        (1..=MOST_DEVICES).contains(&devices),
        INVALID,
        SECTION,
        "the number of devices is out of range",
    )?;
    ensure(properties.flags == 0, INVALID, SECTION, "flags must be 0")?;
    let any = (0..driver.machine.gpus.len()).any(|it| driver.machine.has_multicast(it));
    let error = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    ensure(any, error, SECTION, "no device supports multicast")?;
    Ok(types)
}

/// Binds a range of memory: offsets in object and memory, and bytes.
fn bind(
    driver: &Driver,
    team: &Team,
    memory: &Physical,
    [offset, memory_offset, bytes]: [u64; 3],
    flags: u64,
) -> Answer {
    let of_device = memory.file.label.content == Content::Physical;
    ensure(
        of_device,
        INVALID,
        SECTION,
        "only memory of a device can be bound",
    )?;
    ensure(flags == 0, INVALID, SECTION, "flags must be 0")?;
    let private = team.file.label.handle_types != 0 && memory.file.label.handle_types == 0;
    let rule = "an object with handles takes only memory with handles";
    ensure(!private, INVALID, SECTION, rule)?;
    let numbers = [offset, memory_offset, bytes];
    let whole = numbers.iter().all(|it| it.is_multiple_of(GRANULARITY));
    ensure(
        whole && bytes > 0,
        INVALID,
        SECTION,
        "offsets or size are no multiples of the granularity",
    )?;
    let fits = offset.saturating_add(bytes) <= team.size()
        && memory_offset.saturating_add(bytes) <= memory.bytes;
    ensure(
        fits,
        INVALID,
        SECTION,
        "the range is longer than the object or the memory",
    )?;
    let device = driver.machine.gpus[memory.device].uuid;
    let error = CUresult::CUDA_ERROR_INVALID_DEVICE;
    ensure(
        team.has(device),
        error,
        SECTION,
        "the memory's device was not added to the object",
    )?;
    wait_for_team(driver, team)?;
    let handle = memory.file.handle().map_err(out_of_memory)?;
    let member = Member {
        device,
        bytes,
        offset,
        memory_offset,
        handle,
    };
    team.bind(member)
        .or_else(|why| refuse(INVALID, SECTION, why))?;
    changed();
    Ok(())
}

entry_points! {
    /// The granularity of a multicast object.
    fn cuMulticastGetGranularity(bytes: Out<usize>, properties: In<MulticastProperties>, option: u32) {
        let driver = driver()?;
        check(driver, &properties.get(SECTION)?)?;
        let found = match option {
            0 => GRANULARITY,
            1 => RECOMMENDED,
            _ => return refuse(INVALID, SECTION, "there is no such option"),
        };
        bytes.put(found as usize, SECTION)
    }

    /// Makes a multicast object.
    fn cuMulticastCreate(handle: Out<u64>, properties: In<MulticastProperties>) {
        let driver = driver()?;
        driver.settle_all();
        driver.not_while_capturing()?;
        let properties = properties.get(SECTION)?;
        let types = check(driver, &properties)?;
        let bytes = properties.size as u64;
        let whole = bytes > 0 && bytes.is_multiple_of(GRANULARITY);
        ensure(whole, INVALID, SECTION, "the size is no multiple of the granularity")?;
        let team = Team::new(properties.devices, bytes, types).map_err(out_of_memory)?;
        let file = Arc::clone(&team.file);
        let number = driver.add(Physical::new(file, 0, bytes, Some(Arc::new(team))));
        handle.put(number, SECTION)
    }

    /// Adds a device to an object.
    fn cuMulticastAddDevice(object: u64, device: i32) {
        let driver = driver()?;
        driver.settle_all();
        let (device, gpu) = driver.device(device)?;
        let team = team(driver, object)?;
        let error = CUresult::CUDA_ERROR_NOT_SUPPORTED;
        ensure(driver.machine.has_multicast(device), error, SECTION, "the device does not support multicast")?;
        team.add(gpu.uuid).or_else(|why| refuse(INVALID, SECTION, why))
    }

    /// Binds memory of a device to an object.
    fn cuMulticastBindMem(object: u64, offset: usize, memory: u64, memory_offset: usize, bytes: usize, flags: u64) {
        let driver = driver()?;
        driver.settle_all();
        let team = team(driver, object)?;
        let memory = physical(driver, memory)?;
        bind(driver, &team, &memory, [offset as u64, memory_offset as u64, bytes as u64], flags)
    }

    /// Binds memory of a device that is mapped at an address to an object.
    fn cuMulticastBindAddr(object: u64, offset: usize, address: u64, bytes: usize, flags: u64) {
        let driver = driver()?;
        driver.settle_all();
        let team = team(driver, object)?;
        // Memory is mapped from its begin on.
        let found = driver.space().mapping(address).map(|(base, it)| {
            (Arc::clone(&it.physical), address - base, it.bytes)
        });
        let Some((memory, memory_offset, end)) = found else {
            return refuse(INVALID, SECTION, "no virtual memory is mapped at the address");
        };
        let mapped = memory_offset.saturating_add(bytes as u64) <= end;
        ensure(mapped, INVALID, SECTION, "the range is longer than what is mapped at the address")?;
        bind(driver, &team, &memory, [offset as u64, memory_offset, bytes as u64], flags)?;
        team.by_address.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Unbinds memory of a device from an object.
    fn cuMulticastUnbind(object: u64, device: i32, offset: usize, bytes: usize) {
        let driver = driver()?;
        driver.settle_all();
        let (_, gpu) = driver.device(device)?;
        let unbound = team(driver, object)?.unbind(gpu.uuid, offset as u64, bytes as u64);
        ensure(unbound, INVALID, SECTION, "the device has not bound this range")?;
        changed();
        Ok(())
    }
}
