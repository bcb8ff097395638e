//! The GPU that is current on a thread, and CUDA's results.

use std::cell::Cell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};

use phantom::arguments::Out;
use phantom::calls::context::{
    cuCtxGetCurrent, cuCtxGetDevice, cuCtxSetCurrent, cuDevicePrimaryCtxRetain,
};

/// `cudaError_t` and `CUresult`, whose numbers are equal where both are used here.
pub(crate) type Code = u32;

/// Success.
pub(crate) const SUCCESS: Code = 0;
/// An argument is out of its range.
pub(crate) const INVALID_VALUE: Code = 1;
/// There is no such GPU.
pub(crate) const INVALID_DEVICE: Code = 101;
/// The stand-in has no such function.
pub(crate) const NOT_SUPPORTED: Code = 801;

/// Writes a result.
///
/// # Safety
/// `out` is null, or a `T` can be written there, as CUDA asks of its caller.
pub(super) unsafe fn put<T>(out: *mut T, value: T) -> Code {
    if out.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller says so.
    unsafe { out.write(value) };
    SUCCESS
}

thread_local! {
    static LAST_ERROR: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Makes the context of a GPU current on this thread, and writes it.
pub(crate) fn enter(number: i32, context: &mut u64) -> Code {
    // SAFETY: the context is written to a variable.
    unsafe {
        match cuDevicePrimaryCtxRetain(Out::from(&raw mut *context), number) {
            SUCCESS => cuCtxSetCurrent(*context),
            code => code,
        }
    }
}

/// Makes a GPU current on this thread.
pub(crate) fn set_device(number: i32) -> Code {
    enter(number, &mut 0)
}

/// The GPU that is current on this thread: the first one, from now on, before any is chosen.
pub(crate) fn device() -> i32 {
    let (mut context, mut number) = (0, 0);
    // SAFETY: the results are written to variables.
    unsafe {
        cuCtxGetCurrent(Out::from(&raw mut context));
        if context == 0 {
            set_device(0);
        }
        cuCtxGetDevice(Out::from(&raw mut number));
    }
    number
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

/// Where the library's own runtime has the meanings of errors; 0 if it has none.
static TEXTS: AtomicUsize = AtomicUsize::new(0);

/// Says where `cudaGetErrorString` of the library is, which stays as it is.
pub(crate) fn error_texts_at(address: usize) {
    TEXTS.store(address, Ordering::Relaxed);
}

/// The meaning of an error in NVIDIA's words.
pub(super) extern "C" fn error_text(error: Code) -> *const c_char {
    match TEXTS.load(Ordering::Relaxed) {
        0 => c"an error of the stand-in for CUDA".as_ptr(),
        address => {
            type Text = extern "C" fn(Code) -> *const c_char;
            // SAFETY: the runtime's function has this type, and its library stays loaded.
            let text = unsafe { std::mem::transmute::<usize, Text>(address) };
            text(error)
        }
    }
}
