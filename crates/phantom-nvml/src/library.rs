//! Initialization, handles of GPUs, errors.

use std::ffi::{CStr, c_char, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};
use phantom_machine::{Gpu, Machine};

/// An answer, or NVML's number of an error.
pub(crate) type Answer<T> = Result<T, nvmlReturn_t>;

static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();

/// How many calls of `nvmlInit_v2` were not yet undone by `nvmlShutdown`.
static USERS: AtomicU32 = AtomicU32::new(0);

/// The machine, if the library is initialized.
pub(crate) fn machine() -> Answer<&'static Machine> {
    if USERS.load(Ordering::Acquire) == 0 {
        return Err(UNINITIALIZED);
    }
    let opened = MACHINE.get().ok_or(UNINITIALIZED)?;
    opened.as_ref().map_err(|_| DRIVER_NOT_LOADED)
}

/// The index of a GPU by its handle.
pub(crate) fn index(handle: nvmlDevice_t) -> Answer<usize> {
    let count = machine()?.gpus.len();
    let index = (handle as usize).checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    if index < count {
        Ok(index)
    } else {
        Err(INVALID_ARGUMENT)
    }
}

/// A GPU by its handle.
pub(crate) fn gpu(handle: nvmlDevice_t) -> Answer<&'static Gpu> {
    let index = index(handle)?;
    machine()?.gpus.get(index).ok_or(INVALID_ARGUMENT)
}

/// The number that a function returns.
pub(crate) fn finish(answer: Answer<()>) -> nvmlReturn_t {
    answer.err().unwrap_or(SUCCESS)
}

/// Writes a result.
///
/// # Safety
/// `place` is null or valid for writing.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Answer<()> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: it is valid for writing, as the caller promises.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a text and its final zero into a buffer of this length, bytes.
///
/// # Safety
/// `place` is null or valid for writing that many bytes.
pub(crate) unsafe fn put_text(place: *mut c_char, length: c_uint, text: &str) -> Answer<()> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and the zero fit into the buffer, which is valid as the caller promises.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// `nvmlInit_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    let opened = MACHINE.get_or_init(|| {
        let opened = phantom_machine::open();
        if let Err(why) = &opened {
            eprintln!("topo phantom: {why}");
        }
        opened
    });
    match opened {
        Ok(_) => {
            USERS.fetch_add(1, Ordering::AcqRel);
            SUCCESS
        }
        Err(_) => DRIVER_NOT_LOADED,
    }
}

/// `nvmlShutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    let less = |users: u32| users.checked_sub(1);
    match USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Ok(_) => SUCCESS,
        Err(_) => UNINITIALIZED,
    }
}

/// `nvmlErrorString`: also before initialization.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text: &CStr = match result {
        SUCCESS => c"success",
        UNINITIALIZED => c"not initialized",
        INVALID_ARGUMENT => c"invalid argument",
        NOT_SUPPORTED => c"not supported",
        INSUFFICIENT_SIZE => c"insufficient size",
        DRIVER_NOT_LOADED => c"driver not loaded",
        _ => c"another error of the topo phantom",
    };
    text.as_ptr()
}

/// `nvmlSystemGetDriverVersion`.
///
/// # Safety
/// `version` is null or valid for writing `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(
    version: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    finish(machine().and_then(|machine| {
        let (major, minor) = (
            machine.setup.driver / 1000,
            machine.setup.driver % 1000 / 10,
        );
        let text = format!("topo phantom of CUDA {major}.{minor}");
        // SAFETY: as the caller promises.
        unsafe { put_text(version, length, &text) }
    }))
}

/// `nvmlDeviceGetCount_v2`.
///
/// # Safety
/// `count` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    finish(machine().and_then(|machine| {
        // SAFETY: as the caller promises.
        unsafe { put(count, machine.gpus.len() as c_uint) }
    }))
}

/// `nvmlDeviceGetHandleByIndex_v2`: the index plus one serves as the handle.
///
/// # Safety
/// `device` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    number: c_uint,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    let handle = std::ptr::without_provenance_mut(number as usize + 1);
    finish(index(handle).and_then(|_| {
        // SAFETY: as the caller promises.
        unsafe { put(device, handle) }
    }))
}
