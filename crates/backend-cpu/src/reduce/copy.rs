//! Copies with ordinary and with non-temporal stores.
//!
//! An ordinary store first loads the line that it changes. For messages larger than the caches this
//! is a third of a copy's traffic, and it evicts lines that are needed sooner.

/// Alignment of non-temporal stores, bytes.
const STREAM_ALIGNMENT: usize = 64;

/// Copies bytes. After a streaming copy, call [`end_streaming`] before telling anybody.
///
/// # Safety
/// As [`super::copy`].
#[inline]
pub unsafe fn copy(destination: *mut u8, source: *const u8, bytes: usize, stream: bool) {
    if destination.cast_const() == source {
        return;
    }
    if stream && bytes >= 4 * STREAM_ALIGNMENT {
        // SAFETY: the caller's promise.
        unsafe { copy_streaming(destination, source, bytes) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, bytes) };
    }
}

/// # Safety
/// As [`copy`]; there are [`STREAM_ALIGNMENT`] bytes at least.
unsafe fn copy_streaming(destination: *mut u8, source: *const u8, bytes: usize) {
    let head = destination.align_offset(STREAM_ALIGNMENT);
    let tail = head + (bytes - head) / STREAM_ALIGNMENT * STREAM_ALIGNMENT;
    // SAFETY: head, middle and tail are the caller's bytes; the middle is aligned and whole blocks
    // long.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, head);
        for done in (head..tail).step_by(STREAM_ALIGNMENT) {
            store_streaming(destination.add(done), source.add(done));
        }
        std::ptr::copy_nonoverlapping(source.add(tail), destination.add(tail), bytes - tail);
    }
}

/// Copies one line with non-temporal stores.
///
/// # Safety
/// [`STREAM_ALIGNMENT`] bytes can be read at `from` and written at `to`, which is aligned to as
/// many.
#[inline(always)]
unsafe fn store_streaming(to: *mut u8, from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let (to, from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
        // SAFETY: the four parts are the caller's line, and are aligned.
        unsafe {
            let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, value) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), value);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, STREAM_ALIGNMENT);
    }
}

/// Orders non-temporal stores before later stores.
#[inline(always)]
pub fn end_streaming() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
