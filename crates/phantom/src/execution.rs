//! Runs kernels: the library of the machine file does, and asks back before it accesses memory.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::machine::Gpu;
use crate::machine::emulation::{self, Outcome, ParametersFn, Range, Run, RunFn};
use cudarc::driver::sys::CUresult;
use libloading::Library;

use crate::answer::{Answer, Section, refusal};
use crate::space;

/// Bytes of a report on a failed run.
const REPORT: usize = 8192;

/// Units of a GPU's room for blocks.
const ROOM: u64 = 1 << 32;

/// Registers of a multiprocessor, and the unit in which a warp gets them (CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability").
const REGISTERS: u32 = 65_536;
const REGISTER_UNIT: u32 = 256;

/// Threads of a warp.
const WARP: u32 = 32;

/// The library that runs kernels.
#[derive(Debug)]
pub struct Emulator {
    parameters: ParametersFn,
    run: RunFn,
    _library: Library,
}

static EMULATOR: OnceLock<Result<Emulator, String>> = OnceLock::new();

impl Emulator {
    /// The library, opened when it is first asked for.
    ///
    /// # Errors
    /// The machine file names none, or it cannot be opened.
    pub fn get(path: Option<&str>) -> Answer<&'static Self> {
        let opened = EMULATOR.get_or_init(|| {
            let path = path
                .ok_or("the machine file names no library that runs kernels (`emulator PATH`)")?;
            Self::open(path).map_err(|error| format!("{path}: {error}"))
        });
        opened.as_ref().map_err(|why| {
            refusal(
                CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
                Section::Machine,
                why.as_str(),
            )
        })
    }

    fn open(path: &str) -> Result<Self, libloading::Error> {
        // SAFETY: the machine file names a library that was made for this.
        let library = unsafe { Library::new(path) }?;
        // SAFETY: the interface says that the symbols have these types.
        let (parameters, run) = unsafe {
            let parameters = library.get::<ParametersFn>(emulation::PARAMETERS.as_bytes())?;
            (
                *parameters,
                *library.get::<RunFn>(emulation::RUN.as_bytes())?,
            )
        };
        Ok(Self {
            parameters,
            run,
            _library: library,
        })
    }

    /// Bytes of a kernel's argument; `None`: there is no such kernel.
    pub fn parameters(&self, name: &CString) -> Option<usize> {
        let bytes = (self.parameters)(name.as_ptr());
        (bytes > 0).then_some(bytes)
    }

    /// Runs a kernel until it has ended.
    ///
    /// # Errors
    /// CUDA's error of the failed kernel, and a report.
    pub fn run(
        &self,
        launch: &Launch,
        asked: &Asked<'_>,
        cancelled: *const u32,
        spoils: bool,
    ) -> Result<(), (CUresult, String)> {
        let mut report = vec![0_u8; REPORT];
        let run = Run {
            name: launch.name.as_ptr(),
            argument: launch.argument.as_ptr().cast(),
            blocks: launch.blocks,
            threads: launch.threads,
            seed: launch.seed,
            cancelled,
            spoil: c_int::from(spoils),
            changes: space::CHANGES.as_ptr(),
            user: std::ptr::from_ref(asked).cast_mut().cast(),
            access,
            members,
            report: report.as_mut_ptr().cast::<c_char>(),
            report_bytes: report.len(),
        };
        // Everything that the structure leads to lives until the call returns.
        let code = (self.run)(&raw const run);
        let text = report.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        match Outcome::of(code) {
            Some(Outcome::Ended) => Ok(()),
            Some(Outcome::IllegalAddress) => Err((CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, text)),
            Some(Outcome::OutOfMemory) => Err((CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, text)),
            Some(Outcome::Cancelled) => Err((CUresult::CUDA_ERROR_LAUNCH_FAILED, text)),
            None => Err((CUresult::CUDA_ERROR_UNKNOWN, text)),
        }
    }
}

/// A launch of a kernel.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The kernel's name.
    pub name: CString,
    /// Its argument.
    pub argument: Vec<u8>,
    /// Number of blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The order in which threads run.
    pub seed: u64,
    /// Whether all its blocks must be resident at once.
    pub cooperative: bool,
}

/// Answers what a run asks.
pub struct Asked<'a> {
    /// Whether an access is allowed: address, bytes, store. Returns the range around it.
    pub access: &'a (dyn Fn(u64, u64, bool) -> Option<(u64, u64)> + Sync),
    /// The memories behind a multicast address.
    pub members: &'a (dyn Fn(u64) -> Vec<u64> + Sync),
}

/// An `AccessFn`.
extern "C" fn access(
    user: *mut c_void,
    address: u64,
    bytes: u64,
    store: c_int,
    range: *mut Range,
) -> c_int {
    // SAFETY: `user` is what `Emulator::run` passed, which lives during the run.
    let asked = unsafe { &*user.cast::<Asked<'_>>() };
    let Some((begin, end)) = (asked.access)(address, bytes, store != 0) else {
        return 0;
    };
    // SAFETY: the caller passes a place for a range.
    unsafe { range.write(Range { begin, end }) };
    1
}

/// A `MembersFn`.
extern "C" fn members(user: *mut c_void, address: u64, places: *mut u64, room: usize) -> usize {
    // SAFETY: as in `access`.
    let asked = unsafe { &*user.cast::<Asked<'_>>() };
    let found = (asked.members)(address);
    if found.len() > room {
        return 0;
    }
    // SAFETY: the caller has room for so many.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), places, found.len()) };
    found.len()
}

/// Most threads and blocks of a multiprocessor, by compute capability (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
const fn limits(sm: u32) -> (u32, u32) {
    match sm {
        75 => (1024, 16),
        86 | 87 => (1536, 16),
        89 | 120..=129 => (1536, 24),
        _ => (2048, 32),
    }
}

/// Blocks of a kernel that a multiprocessor holds at once.
pub fn blocks_per_multiprocessor(gpu: &Gpu, registers: u32, threads: u32) -> u32 {
    let (most_threads, most_blocks) = limits(gpu.sm);
    let warps = threads.div_ceil(WARP).max(1);
    let of_warp = (registers * WARP)
        .next_multiple_of(REGISTER_UNIT)
        .max(REGISTER_UNIT);
    let by_registers = REGISTERS / of_warp / warps;
    (most_threads / (warps * WARP))
        .min(by_registers)
        .min(most_blocks)
}

/// A GPU's room for blocks, which running kernels share.
#[derive(Debug, Default)]
pub struct Residency {
    used: Mutex<u64>,
    freed: Condvar,
}

impl Residency {
    /// Runs something while `blocks` of at most `most` blocks are resident. Waits for room.
    pub fn with<T>(&self, blocks: u32, most: u32, run: impl FnOnce() -> T) -> T {
        let needed = (u64::from(blocks) * ROOM / u64::from(most.max(1))).min(ROOM);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used + needed > ROOM {
            used = self
                .freed
                .wait(used)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *used += needed;
        drop(used);
        let result = run();
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) -= needed;
        self.freed.notify_all();
        result
    }
}
