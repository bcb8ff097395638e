//! Files as text: whatever is no text cannot be redacted.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// Most bytes that a packed file may unpack to.
const MOST_UNPACKED: u64 = 256 << 20;

/// The first bytes of a file that gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// In a text, at most one character in so many is a control character or no UTF-8.
const TEXT_RATIO: usize = 16;

/// A file that can be read as text.
pub(crate) struct Content {
    pub text: String,
    is_packed: bool,
}

impl Content {
    /// Unpacks and decodes a file. Returns `None` if it is no text.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let is_packed = bytes.starts_with(&GZIP);
        let text = match is_packed {
            true => {
                let mut content = Vec::new();
                let unpacked = MultiGzDecoder::new(bytes).take(MOST_UNPACKED + 1);
                { unpacked }.read_to_end(&mut content).ok()?;
                (content.len() as u64 <= MOST_UNPACKED).then_some(())?;
                text(&content)?
            }
            false => text(bytes)?,
        };
        Some(Self { text, is_packed })
    }

    /// The file with another text, packed as before.
    pub(crate) fn with(&self, text: String) -> std::io::Result<Vec<u8>> {
        if !self.is_packed {
            return Ok(text.into_bytes());
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes())?;
        packed.finish()
    }
}

/// A text without colors, whatever bytes it holds; `None` for binary files, such as pickles.
fn text(bytes: &[u8]) -> Option<String> {
    if matches!(bytes, [0x80, 0..=5, ..]) || bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let is_odd = |it: &char| {
        *it == char::REPLACEMENT_CHARACTER
            || it.is_control() && !matches!(it, '\t' | '\n' | '\r' | '\u{8}' | '\u{c}' | '\u{1b}')
    };
    let odd = text.chars().filter(is_odd).count();
    // A short text may have one.
    if odd > 1 + text.len() / TEXT_RATIO {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|it: char| it.is_ascii_alphabetic());
        plain.push_str(end.map_or(part, |end| &part[end + 1..]));
    }
    Some(plain)
}
