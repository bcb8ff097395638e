//! Copying, and storing past the caches.
//!
//! An ordinary store first fetches the line that it changes. For a message larger than the caches that is a third of
//! the traffic of a copy, and the stored lines push out what is needed sooner.

use super::{Scale, Step};

/// Alignment of what is stored past the caches, bytes.
pub const STREAM_ALIGNMENT: usize = 64;

/// Bytes that are copied to one destination before the next, so that a source is fetched once for all.
const BLOCK_BYTES: usize = 8192;

/// The kernel for one source of elements of so many bytes, with nothing to multiply or divide.
///
/// # Safety
/// As [`super::Reduce::run`].
pub unsafe fn copy_step<const ELEMENT_BYTES: usize>(step: &Step<'_>, _scale: &Scale) {
    let (source, bytes) = (step.sources[0], step.elements * ELEMENT_BYTES);
    if let [destination] = *step.destinations {
        // SAFETY: the caller's promise.
        return unsafe { copy(destination, source, bytes, step.stream & 1 != 0) };
    }
    let mut done = 0;
    while done < bytes {
        let now = BLOCK_BYTES.min(bytes - done);
        for (index, destination) in step.destinations.iter().enumerate() {
            // SAFETY: the range is within the step's.
            unsafe {
                let stream = step.stream >> index & 1 != 0;
                copy(destination.add(done), source.add(done), now, stream);
            }
        }
        done += now;
    }
}

/// Copies bytes.
///
/// # Safety
/// As [`super::copy`].
#[inline]
pub unsafe fn copy(destination: *mut u8, source: *const u8, bytes: usize, stream: bool) {
    if destination.cast_const() == source {
        return;
    }
    if !stream || bytes < 4 * STREAM_ALIGNMENT {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(source, destination, bytes) };
    }
    let head = destination.align_offset(STREAM_ALIGNMENT);
    let middle = (bytes - head) / STREAM_ALIGNMENT * STREAM_ALIGNMENT;
    let tail = head + middle;
    // SAFETY: head, middle and tail are the caller's bytes; the middle is aligned and whole blocks long.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, head);
        let mut done = head;
        while done < tail {
            let block = source
                .add(done)
                .cast::<[u8; STREAM_ALIGNMENT]>()
                .read_unaligned();
            store_streaming(destination.add(done), &block);
            done += STREAM_ALIGNMENT;
        }
        std::ptr::copy_nonoverlapping(source.add(tail), destination.add(tail), bytes - tail);
    }
    end_streaming();
}

/// Stores a block past the caches.
///
/// # Safety
/// The block can be written at `to`, which is aligned to [`STREAM_ALIGNMENT`]. [`end_streaming`] follows before anybody
/// is told of it.
#[inline(always)]
pub unsafe fn store_streaming<T: Copy, const N: usize>(to: *mut u8, block: &[T; N]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const { assert!(size_of::<[T; N]>().is_multiple_of(16)) };
        let from = block.as_ptr().cast::<__m128i>();
        for index in 0..size_of::<[T; N]>() / 16 {
            // SAFETY: the part is within the block; its place is aligned.
            unsafe {
                _mm_stream_si128(
                    to.cast::<__m128i>().add(index),
                    _mm_loadu_si128(from.add(index)),
                )
            };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<[T; N]>().write_unaligned(*block);
    }
}

/// Orders what was stored past the caches before what is stored next, as ordinary stores are ordered by themselves.
#[inline(always)]
pub fn end_streaming() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
