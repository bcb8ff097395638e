//! Checks that the driver is present. The bindings panic if the library or a function is missing,
//! so nothing else may call them before [`check`] has succeeded.

use crate::error::Error;

/// The driver's library.
const LIBRARY: &str = "libcuda.so.1";

/// Functions that this crate calls; drivers since 11.4 have them.
const SYMBOLS: [&str; 65] = [
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
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxEnablePeerAccess",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemsetD8_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemGetAddressRange_v2",
    "cuPointerGetAttribute",
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
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
];

/// Checks that the driver is present and has all functions.
///
/// # Errors
/// It is missing or too old.
pub fn check() -> Result<(), Error> {
    let absent = || Error::NoDriver { library: LIBRARY };
    // SAFETY: loading the driver's library runs its initializers, which is what every program that
    // uses it does.
    let library = unsafe { libloading::Library::new(LIBRARY) };
    let library = library.map_err(|_| absent())?;
    for symbol in SYMBOLS {
        // SAFETY: the symbol is looked up and not called.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
        if found.is_err() {
            return Err(Error::OldDriver { symbol });
        }
    }
    // SAFETY: as above; this loads the same library under the names that the bindings try.
    let known = unsafe { cudarc::driver::sys::is_culib_present() };
    if known { Ok(()) } else { Err(absent()) }
}

/// The first of `symbols` that the driver lacks.
pub(crate) fn lacking(symbols: &[&'static str]) -> Option<&'static str> {
    // SAFETY: it is loaded already, for the driver was found before.
    let library = unsafe { libloading::Library::new(LIBRARY) };
    let Ok(library) = library else {
        return symbols.first().copied();
    };
    let absent = |symbol: &&&str| {
        // SAFETY: the symbol is looked up and not called.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
        found.is_err()
    };
    symbols.iter().find(absent).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_it_is_an_error_that_says_how_to_go_on() {
        match check() {
            // A machine with a driver.
            Ok(()) => {}
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("driver") && text.contains("--backend cpu"),
                    "{text}"
                );
            }
        }
    }
}
