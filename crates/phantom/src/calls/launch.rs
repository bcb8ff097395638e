//! Launches of kernels.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::machine::{FaultKind, Stray};
use cudarc::driver::sys::CUresult;

use super::module::{MOST_THREADS, function};
use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{In, LaunchConfig, bytes};
use crate::call::entry_points;
use crate::driver::{Driver, Function, current};
use crate::execution::{Asked, Emulator, Launch, blocks_per_multiprocessor};
use crate::report;
use crate::stream::Work;

const SECTION: Section = Section::Execution;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// What a launch counts against the limit of bytes of a queue besides its argument.
const LAUNCH_BYTES: usize = 256;

/// `CU_LAUNCH_ATTRIBUTE_IGNORE`, `_COOPERATIVE` and `_MEM_SYNC_DOMAIN`.
const IGNORE: u32 = 0;
const COOPERATIVE: u32 = 2;
const MEM_SYNC_DOMAIN: u32 = 10;

/// The least compute capability × 10 of code with multimem instructions (PTX ISA, `multimem`).
const MULTICAST: u32 = 90;

/// Between two looks whether a launch that hangs has been cancelled.
const HANGING: Duration = Duration::from_millis(20);

/// The arguments of a launch that are checked.
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    cooperative: bool,
}

/// Accesses of a launch that are wrong although they are granted.
struct Strays {
    loads: bool,
    stores: bool,
    /// What the memory held, by address.
    before: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Strays {
    fn of(all: &[(u32, Stray)], device: usize) -> Self {
        let has = |kind| all.contains(&(device as u32, kind));
        Self {
            loads: has(Stray::Loads),
            stores: has(Stray::Stores),
            before: Mutex::default(),
        }
    }

    const fn hit(&self, store: bool) -> bool {
        if store { self.stores } else { self.loads }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what an access that is allowed finds there, and lets loads find other data. Returns
    /// its range.
    fn begin(&self, address: u64, bytes: u64) -> (u64, u64) {
        let place: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
        self.lock().entry(address).or_insert_with(|| {
            // SAFETY: the driver has checked that the memory is there.
            let here = unsafe { std::slice::from_raw_parts_mut(place, bytes as usize) };
            let before = here.to_vec();
            if self.loads {
                here.iter_mut().for_each(|byte| *byte = !*byte);
            }
            before
        });
        (address, address + bytes)
    }

    /// Gives the memory what it held.
    fn end(&self) {
        for (address, before) in std::mem::take(&mut *self.lock()) {
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: as in `begin`; the launch has ended, and memory stays as long as it runs.
            unsafe { std::ptr::copy_nonoverlapping(before.as_ptr(), place, before.len()) };
        }
    }
}

/// Carries out a planted fault that comes before the kernel runs. Returns whether the kernel must
/// not run.
fn ends_at_once(
    driver: &'static Driver,
    (device, number): (usize, u64),
    planted: Option<FaultKind>,
) -> bool {
    let why = || format!("launch {number} faults, as the machine file says");
    match planted {
        Some(FaultKind::Address) => {
            driver.fail(device, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &why());
        }
        Some(FaultKind::Trap) => driver.fail(device, CUresult::CUDA_ERROR_LAUNCH_FAILED, &why()),
        // SAFETY: signals to the own process.
        Some(FaultKind::Kill) => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
        // SAFETY: as above.
        Some(FaultKind::Stop) => unsafe {
            libc::kill(libc::getpid(), libc::SIGSTOP);
        },
        Some(FaultKind::Hang | FaultKind::Wrong | FaultKind::Late) | None => {}
    }
    matches!(planted, Some(FaultKind::Address | FaultKind::Trap))
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
    let planted = planted.find(|it| it.hits(device, number));
    let planted = planted.map(|it| it.kind);
    if ends_at_once(driver, (device, number), planted) {
        return;
    }
    let setup = &driver.machine.setup;
    let overlaps = setup.overlap && (setup.cooperative_overlap || !launch.cooperative);
    let alone = &context.alone;
    let _alone = (!overlaps).then(|| alone.lock().unwrap_or_else(PoisonError::into_inner));
    let gpu = &driver.machine.gpus[device];
    let most =
        blocks_per_multiprocessor(gpu, found.registers, launch.threads) * gpu.multiprocessors;
    let strays = Strays::of(&driver.machine.setup.strays, device);
    let access = |address, bytes, store| {
        let checked = driver.space().check(device, address, bytes, store);
        let range = checked
            .map_err(|why| driver.fail(device, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, &why))
            .ok()?;
        match strays.hit(store) && driver.space().is_of_other(device, address) {
            true => Some(strays.begin(address, bytes)),
            false => Some(range),
        }
    };
    let members = |address| {
        let team = driver.space().team(device, address);
        if team.is_some() && found.capability < MULTICAST {
            let why = format!(
                "code for sm_{} has no multimem instructions",
                found.capability
            );
            driver.fail(device, CUresult::CUDA_ERROR_LAUNCH_FAILED, &why);
            return Vec::new();
        }
        team.map_or_else(Vec::new, |(team, offset)| {
            if team.by_address.load(Ordering::Relaxed) {
                report::multicast();
            }
            team.places(offset)
        })
    };
    let asked = Asked {
        access: &access,
        members: &members,
    };
    let spoils = planted == Some(FaultKind::Wrong);
    let run = || {
        if planted == Some(FaultKind::Hang) {
            // Its blocks stay resident, and wait for words of others.
            while context.fault.load(Ordering::Acquire) == 0 {
                driver.space().read_registered(device);
                std::thread::sleep(HANGING);
            }
            return Ok(());
        }
        emulator.run(launch, &asked, context.fault.as_ptr(), spoils)
    };
    let ended = context.residency.with(launch.blocks, most, run);
    strays.end();
    if let Err((error, why)) = ended {
        driver.fail(device, error, &why);
    } else if planted == Some(FaultKind::Late) {
        let late = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as u32;
        context.late.store(late, Ordering::Release);
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
    if stream.priority < 0 {
        report::urgent();
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
        cooperative,
    };
    let bytes = LAUNCH_BYTES + launch.argument.len();
    let work: Work = Arc::new(move || execute(driver, emulator, &found, &launch));
    if !stream.capture(&work, bytes) {
        driver.submit(&stream, work, true, bytes)?;
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

    /// Launches a kernel with attributes.
    fn cuLaunchKernelEx(
        config: In<LaunchConfig>,
        function: u64,
        parameters: In<*const c_void>,
        _extra: *const c_void,
    ) {
        let LaunchConfig { grid, block, shared, stream, attributes, count } = config.get(SECTION)?;
        let mut cooperative = false;
        for at in 0..count as usize {
            let attribute = attributes.nth(at, SECTION)?;
            let [value, ..] = attribute.value;
            match attribute.id {
                IGNORE => {}
                COOPERATIVE => cooperative = value != 0,
                // Two logical domains, which a GPU with one domain joins.
                MEM_SYNC_DOMAIN => ensure(value < 2, INVALID, SECTION, "there is no such domain")?,
                id => return refuse(INVALID, SECTION, format!("attribute {id} is not known of a phantom")),
            }
        }
        launch(function, &Shape { grid, block, shared, cooperative }, stream, parameters)
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
