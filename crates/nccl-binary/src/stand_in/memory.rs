//! Memory of GPUs and pinned memory of the host: files without a name, whose pages cost nothing
//! until they are written.

use std::ffi::c_void;
use std::ptr;

use phantom::arguments::Out;
use phantom::calls::host::{cuMemFreeHost, cuMemHostAlloc};
use phantom::calls::memory::{cuMemAlloc_v2, cuMemFree_v2};

use super::context::{Code, SUCCESS, device, put};

/// Bytes of a page.
const PAGE: usize = 4096;

/// Zeros from which on pages are given back instead of written.
const MANY_ZEROS: usize = 16 * PAGE;

/// Allocates memory of the current GPU, or of the host, and writes its address: null for no bytes.
///
/// # Safety
/// `out` is null, or one address can be written there.
pub(crate) unsafe fn allocate(out: *mut u64, bytes: usize, of_host: bool) -> Code {
    device();
    // SAFETY: the caller says so.
    unsafe {
        match bytes {
            0 => put(out, 0),
            _ if of_host => cuMemHostAlloc(Out::from(out), bytes, 0),
            _ => cuMemAlloc_v2(Out::from(out), bytes),
        }
    }
}

/// Frees memory of [`allocate`].
pub(crate) fn free(address: u64) -> Code {
    device();
    // SAFETY: the stand-in frees only what it allocated.
    unsafe {
        match cuMemFree_v2(address) {
            SUCCESS => SUCCESS,
            _ => cuMemFreeHost(address),
        }
    }
}

/// Copies bytes.
///
/// # Safety
/// The bytes can be read and written, as CUDA asks of its caller.
pub(crate) unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> Code {
    // SAFETY: the caller says so.
    unsafe { ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    SUCCESS
}

/// Sets bytes of any memory. Many zeros in a shared mapping of a file without a name give pages
/// back, so that large buffers stay empty.
///
/// # Safety
/// The bytes can be written.
pub(crate) unsafe fn set(to: *mut c_void, value: u8, bytes: usize) -> Code {
    let first = to.addr().next_multiple_of(PAGE);
    let last = (to.addr() + bytes) / PAGE * PAGE;
    let to = to.cast::<u8>();
    if value == 0 && bytes >= MANY_ZEROS && last > first {
        let (before, inside) = (first - to.addr(), last - first);
        // SAFETY: all three parts are within the bytes. Pages that are given back are zeros
        // afterwards; other mappings refuse to give pages back this way.
        unsafe {
            if libc::madvise(to.add(before).cast(), inside, libc::MADV_REMOVE) == 0 {
                ptr::write_bytes(to, 0, before);
                ptr::write_bytes(to.add(before + inside), 0, bytes - before - inside);
                return SUCCESS;
            }
        }
    }
    // SAFETY: the caller says so.
    unsafe { ptr::write_bytes(to, value, bytes) };
    SUCCESS
}
