//! The GPU that is current on a thread, and CUDA's results.

use std::cell::Cell;
use std::ffi::c_void;

use super::devices;

/// `cudaError_t` and `CUresult`, whose numbers are equal where both are used here.
pub(crate) type Code = i32;

/// Success.
pub(crate) const SUCCESS: Code = 0;
/// An argument is out of its range.
pub(crate) const INVALID_VALUE: Code = 1;
/// No memory is left.
pub(crate) const OUT_OF_MEMORY: Code = 2;
/// There is no such GPU.
pub(crate) const INVALID_DEVICE: Code = 101;
/// No context is current.
pub(crate) const INVALID_CONTEXT: Code = 201;
/// There is no such name.
pub(crate) const NOT_FOUND: Code = 500;
/// The stand-in has no such function.
pub(crate) const NOT_SUPPORTED: Code = 801;

thread_local! {
    static CURRENT: Cell<Option<i32>> = const { Cell::new(None) };
    static LAST_ERROR: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// The GPU that is current on this thread: the first one before any is chosen.
pub(crate) fn device() -> i32 {
    CURRENT.get().unwrap_or(0)
}

/// Makes a GPU current on this thread.
pub(crate) fn set_device(number: i32) -> Code {
    if devices::gpu(number).is_none() {
        return INVALID_DEVICE;
    }
    CURRENT.set(Some(number));
    SUCCESS
}

/// The context of a GPU: its number and 1, as an address that nobody reads.
pub(crate) fn context_of(number: i32) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize + 1)
}

/// The current context; null if no GPU was chosen.
pub(crate) fn current() -> *mut c_void {
    CURRENT.get().map_or(std::ptr::null_mut(), context_of)
}

/// Makes a context current; null: none.
pub(crate) fn set_current(context: *mut c_void) -> Code {
    match context.addr() {
        0 => {
            CURRENT.set(None);
            SUCCESS
        }
        address => i32::try_from(address - 1).map_or(INVALID_CONTEXT, set_device),
    }
}

/// Keeps an error for `cudaGetLastError`, and returns it.
pub(crate) fn keep(code: Code) -> Code {
    if code != SUCCESS {
        LAST_ERROR.set(code);
    }
    code
}

/// The last error on this thread.
pub(crate) fn last_error() -> Code {
    LAST_ERROR.get()
}

/// The last error on this thread, which is forgotten.
pub(crate) fn take_last_error() -> Code {
    LAST_ERROR.replace(SUCCESS)
}
