//! Launches of kernels.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult;

use super::module::{MOST_THREADS, function};
use crate::answer::{Answer, Section, ensure};
use crate::arguments::{In, bytes};
use crate::call::entry_points;
use crate::driver::{Driver, Function, current};
use crate::execution::{Asked, Emulator, Launch, blocks_per_multiprocessor};
use crate::stream::Work;

const SECTION: Section = Section::Execution;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// The arguments of a launch that are checked.
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cooperative: bool,
}

/// Runs a launch when its stream comes to it.
fn execute(driver: &'static Driver, emulator: &Emulator, found: &Function, launch: &Launch) {
    let device = found.device;
    let context = &driver.contexts[device];
    let number = context.launches.fetch_add(1, Ordering::Relaxed) + 1;
    if context.fault.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut planted = driver.machine.setup.faults.iter();
    if planted.any(|it| it.gpu as usize == device && it.number == number) {
        let why = format!("launch {number} faults, as the machine file says");
        return driver.fail(device, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &why);
    }
    let gpu = &driver.machine.gpus[device];
    let most =
        blocks_per_multiprocessor(gpu, found.registers, launch.threads) * gpu.multiprocessors;
    let access = |address, bytes, store| {
        let checked = driver.space().check(device, address, bytes, store);
        checked
            .map_err(|why| driver.fail(device, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &why))
            .ok()
    };
    let members = |address| {
        let team = driver.space().team(device, address);
        team.map_or_else(Vec::new, |(team, offset)| team.places(offset))
    };
    let asked = Asked {
        access: &access,
        members: &members,
    };
    let run = || emulator.run(launch, &asked, context.fault.as_ptr());
    if let Err((error, why)) = context.residency.with(launch.blocks, most, run) {
        driver.fail(device, error, &why);
    }
}

fn launch(handle: u64, shape: &Shape, stream: u64, parameters: In<*const c_void>) -> Answer {
    let (driver, device) = current()?;
    let found = function(driver, device, handle)?;
    let stream = driver.stream(device, stream)?;
    let Shape {
        grid,
        block,
        shared,
        cooperative,
    } = *shape;
    let count = |sizes: [u32; 3]| {
        sizes
            .iter()
            .try_fold(1_u32, |all, it| all.checked_mul(*it))
            .unwrap_or(0)
    };
    let (blocks, threads) = (count(grid), count(block));
    ensure(
        blocks > 0 && threads > 0,
        INVALID,
        SECTION,
        "grid and block must not be empty",
    )?;
    ensure(
        threads <= MOST_THREADS,
        INVALID,
        SECTION,
        "a block has too many threads",
    )?;
    ensure(
        shared <= 48 << 10,
        INVALID,
        SECTION,
        "a block has too much shared memory",
    )?;
    let gpu = &driver.machine.gpus[device];
    let resident = blocks_per_multiprocessor(gpu, found.registers, threads) * gpu.multiprocessors;
    let resources = CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    ensure(
        resident > 0,
        resources,
        SECTION,
        "a block has too many registers",
    )?;
    ensure(
        !cooperative || blocks <= resident,
        CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        SECTION,
        "not all blocks of the cooperative launch can be resident at once",
    )?;
    if driver.is_legacy(&stream) {
        driver.no_blocking_capture(device)?;
    }
    let emulator = Emulator::get(driver.machine.setup.emulator.as_deref())?;
    // The driver copies the arguments before the call returns.
    let argument = bytes(parameters.get(SECTION)?, found.parameters, SECTION)?;
    let seed = driver.machine.setup.seed;
    let launch = Launch {
        name: found.name.clone(),
        argument,
        blocks,
        threads,
        seed,
    };
    let work: Work = Arc::new(move || execute(driver, emulator, &found, &launch));
    if !stream.capture(&work) {
        driver.submit(&stream, work, true)?;
    }
    Ok(())
}

entry_points! {
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: u64,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: u64,
        parameters: In<*const c_void>,
        _extra: *const c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, &Shape { grid, block, shared, cooperative: false }, stream, parameters)
    }

    /// Launches a kernel whose blocks are all resident at once.
    fn cuLaunchCooperativeKernel(
        function: u64,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: u64,
        parameters: In<*const c_void>,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, &Shape { grid, block, shared, cooperative: true }, stream, parameters)
    }
}
