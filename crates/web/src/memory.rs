//! The border to JavaScript: requests and answers in the module's memory.
//!
//! The page asks for memory, writes a request there, and reads the answer: four bytes with its
//! length, lowest first, and then that many bytes.

use std::alloc::{Layout, alloc, dealloc};

use crate::{MOST_BYTES, answer};

fn layout(bytes: usize) -> Option<Layout> {
    let is_possible = bytes > 0 && bytes <= MOST_BYTES;
    is_possible.then(|| Layout::from_size_align(bytes, 4).ok())?
}

/// Memory for a request with this number of bytes; null if it is too long.
#[unsafe(no_mangle)]
pub extern "C" fn topo_allocate(bytes: usize) -> *mut u8 {
    match layout(bytes) {
        // SAFETY: the size is not 0.
        Some(layout) => unsafe { alloc(layout) },
        None => std::ptr::null_mut(),
    }
}

/// Answers the request in memory of [`topo_allocate`], which this frees. Returns the answer, which
/// [`topo_free`] frees; null if there is no memory.
///
/// # Safety
/// `request` is from [`topo_allocate`] with the same number of bytes, which are written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_answer(request: *mut u8, bytes: usize) -> *mut u8 {
    let text = {
        // SAFETY: the caller's promise.
        let request = unsafe { std::slice::from_raw_parts(request, bytes) };
        answer(request)
    };
    // SAFETY: the caller's promise.
    unsafe { free(request, bytes) };
    let out = topo_allocate(text.len() + 4);
    if !out.is_null() {
        let length = (text.len() as u32).to_le_bytes();
        // SAFETY: `out` has room for the length and the text.
        unsafe {
            out.copy_from_nonoverlapping(length.as_ptr(), 4);
            out.add(4)
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
    }
    out
}

/// Frees an answer; `bytes` counts the length before it, too.
///
/// # Safety
/// `answer` is from [`topo_answer`] and was not freed, and `bytes` is its length and four.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn topo_free(answer: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(answer, bytes) };
}

/// # Safety
/// The memory is from [`topo_allocate`] with so many bytes.
unsafe fn free(memory: *mut u8, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(memory, layout) };
    }
}
