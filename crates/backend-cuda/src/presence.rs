//! Checks that the driver is present. The bindings panic if the library or a function is missing,
//! so nothing else may call them before [`check`] has succeeded.

use std::path::PathBuf;
use std::time::Duration;

use cudarc::driver::{DriverError, sys};
use shared_memory::call_within;

use crate::error::Error;

/// The driver's library.
const LIBRARY: &str = "libcuda.so.1";

/// How long the driver's library may take to load, and then to start: without persistence mode it
/// initializes all GPUs.
pub const LONGEST_START: Duration = Duration::from_secs(60);

/// Functions that this crate calls; drivers since 11.6 have them.
pub const SYMBOLS: [&str; 73] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetP2PAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxGetCurrent",
    "cuCtxEnablePeerAccess",
    "cuCtxGetStreamPriorityRange",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamGetPriority",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemGetAddressRange_v2",
    "cuPointerGetAttributes",
    "cuPointerSetAttribute",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle",
    "cuMemcpyDtoD_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemHostGetDevicePointer_v2",
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuDeviceGetUuid_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuLaunchKernelEx",
];

/// Names of the function that measures the time between two events, newest first. Drivers since
/// 12.8 (570) have the first.
pub const ELAPSED: [&str; 2] = ["cuEventElapsedTime_v2", "cuEventElapsedTime"];

/// Opens the driver's library, which stays loaded once the bindings have opened it.
fn open() -> Result<libloading::Library, Error> {
    // SAFETY: loading the driver's library runs its initializers, which is what every program that
    // uses it does.
    let library = unsafe { libloading::Library::new(LIBRARY) };
    library.map_err(|_| Error::NoDriver { library: LIBRARY })
}

/// The address of a function.
fn find(library: &libloading::Library, symbol: &str) -> Option<usize> {
    // SAFETY: the symbol is looked up and not called.
    let found = unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
    found.ok().map(|function| *function as usize)
}

/// Checks that the driver is present and has all functions. `longest` is how long its library may
/// take to load.
///
/// # Errors
/// It is missing, too old or hangs, or the loader finds another library under another of its names.
pub fn check(longest: Duration) -> Result<(), Error> {
    answer("loading it", longest, find_driver)?
}

/// Runs a call of the driver's library that may hang.
pub(crate) fn answer<R: Send + 'static>(
    what: &str,
    longest: Duration,
    call: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Error> {
    call_within(longest, call).map_err(|why| Error::Silent {
        library: LIBRARY,
        why: format!("{what}: {why}"),
    })
}

fn find_driver() -> Result<(), Error> {
    let library = open()?;
    let absent = SYMBOLS.iter().find(|it| find(&library, it).is_none());
    if let Some(symbol) = absent {
        return Err(Error::OldDriver { symbol });
    }
    if ELAPSED.iter().all(|it| find(&library, it).is_none()) {
        return Err(Error::OldDriver { symbol: ELAPSED[1] });
    }
    // The bindings try `libcuda.so` first, which in images for compiling is a stub.
    // SAFETY: the library was found above under one of the names that the bindings try.
    let bound = unsafe { sys::culib() };
    let found = find(&library, SYMBOLS[0]);
    match find(bound, SYMBOLS[0]) == found {
        true => Ok(()),
        false => Err(Error::TwoDrivers {
            library: LIBRARY,
            file: found.and_then(file_of),
        }),
    }
}

/// The file that is mapped at an address.
fn file_of(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, _) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let holds = (number(begin)?..number(end)?).contains(&address);
        let path = &line[line.find('/')?..];
        holds.then(|| PathBuf::from(path))
    })
}

/// Milliseconds between two events that were reached.
pub(crate) fn elapsed_ms(begin: sys::CUevent, end: sys::CUevent) -> Result<f32, DriverError> {
    type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let mut milliseconds = 0.0;
    // SAFETY: the driver was found before.
    let library = unsafe { sys::culib() };
    // SAFETY: both functions have this type.
    let mut known = ELAPSED
        .iter()
        .filter_map(|it| unsafe { library.get::<ElapsedTime>(it.as_bytes()) }.ok());
    let Some(elapsed) = known.next() else {
        return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
    };
    // SAFETY: the driver writes one number and checks the events.
    unsafe { elapsed(&raw mut milliseconds, begin, end) }.result()?;
    Ok(milliseconds)
}

/// The first of `symbols` that the driver lacks.
pub(crate) fn lacking(symbols: &[&'static str]) -> Option<&'static str> {
    let Ok(library) = open() else {
        return symbols.first().copied();
    };
    let mut absent = symbols.iter().filter(|it| find(&library, it).is_none());
    absent.next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_it_is_an_error_that_says_how_to_go_on() {
        match check(LONGEST_START) {
            // A machine with a driver.
            Ok(()) => {}
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("driver") && text.contains("the CPU backend"),
                    "{text}"
                );
            }
        }
    }
}
