//! Unpacks the planner in the page, as a module of its own: browsers have no decoder of zstd, which
//! packs a quarter better than the gzip that they have.
//!
//! The packed text is what `cargo xtask web` writes: the number of bytes that only fill the last
//! six, then seven digits of base 125 for each six bytes. They are the length of the content (four
//! bytes, lowest first) and a zstd frame.

use ruzstd::decoding::FrameDecoder;

/// Bytes of the length before a content.
const LENGTH: usize = 4;

/// Memory for a text of this number of bytes, which is never freed: the module unpacks once.
#[unsafe(no_mangle)]
pub extern "C" fn unpack_allocate(bytes: usize) -> *mut u8 {
    vec![0; bytes].leak().as_mut_ptr()
}

/// Unpacks the text in memory of [`unpack_allocate`]. Returns the length of the content, and behind
/// it the content; null if the text is damaged.
///
/// # Safety
/// `text` is from [`unpack_allocate`] with the same number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unpack(text: *const u8, bytes: usize) -> *const u8 {
    // SAFETY: the caller's promise.
    let text = unsafe { std::slice::from_raw_parts(text, bytes) };
    match content(text) {
        Some(content) => content.leak().as_ptr(),
        None => std::ptr::null(),
    }
}

/// The content with its length before it.
fn content(text: &[u8]) -> Option<Vec<u8>> {
    let (excess, digits) = text.split_first()?;
    let mut packed = Vec::with_capacity(digits.len() / 7 * 6);
    for part in digits.chunks_exact(7) {
        let number = part.iter().fold(0, |number: u64, &code| {
            let left_out = 1 + u8::from(code > b'\r') + u8::from(code > b'<');
            number.wrapping_mul(125) + u64::from(code.wrapping_sub(left_out))
        });
        packed.extend_from_slice(&number.to_be_bytes()[2..]);
    }
    let excess = usize::from(excess.wrapping_sub(b'0'));
    packed.truncate(packed.len().checked_sub(excess)?);
    let (length, frame) = packed.split_first_chunk::<LENGTH>()?;
    let mut content = length.to_vec();
    content.resize(LENGTH + u32::from_le_bytes(*length) as usize, 0);
    let written = FrameDecoder::new()
        .decode_all(frame, &mut content[LENGTH..])
        .ok()?;
    (LENGTH + written == content.len()).then_some(content)
}
