//! Texts in UTF-16, as PowerShell and other programs of Windows write them.

use std::io::{BufRead, Read, Result};

/// Bytes that are decoded at once.
const PIECE: u64 = 8 << 10;

/// A stream; one that begins with a byte-order mark of UTF-16 as UTF-8. What is no character
/// becomes a replacement character.
#[derive(Debug)]
pub struct Decoded<R> {
    stream: R,
    is_begun: bool,
    /// How two bytes are read; `None`: the stream is not UTF-16.
    unit: Option<fn([u8; 2]) -> u16>,
    text: Vec<u8>,
    /// Bytes of the text that were taken.
    taken: usize,
}

impl<R> Decoded<R> {
    /// Begins at the stream's first byte.
    pub const fn new(stream: R) -> Self {
        Self {
            stream,
            is_begun: false,
            unit: None,
            text: Vec::new(),
            taken: 0,
        }
    }
}

impl<R: BufRead> BufRead for Decoded<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.unit = match self.stream.fill_buf()? {
                [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
                [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
                _ => None,
            };
            self.stream.consume(if self.unit.is_some() { 2 } else { 0 });
        }
        let Some(unit) = self.unit else {
            return self.stream.fill_buf();
        };
        if self.taken == self.text.len() {
            let units = |bytes: &[u8]| -> Vec<u16> {
                let pairs = bytes.chunks_exact(2);
                pairs.map(|it| unit([it[0], it[1]])).collect()
            };
            let mut bytes = Vec::new();
            self.stream.by_ref().take(PIECE).read_to_end(&mut bytes)?;
            // The second half of a character may follow.
            if units(&bytes).last().is_some_and(|it| it >> 10 == 0x36) {
                self.stream.by_ref().take(2).read_to_end(&mut bytes)?;
            }
            self.text = String::from_utf16_lossy(&units(&bytes)).into_bytes();
            self.taken = 0;
        }
        Ok(&self.text[self.taken..])
    }

    fn consume(&mut self, bytes: usize) {
        match self.unit {
            Some(_) => self.taken = (self.taken + bytes).min(self.text.len()),
            None => self.stream.consume(bytes),
        }
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_two_units_are_whole_at_the_end_of_a_piece() {
        // The byte-order mark is not of the piece, so the first units of two fill it.
        let text = format!("a{}", "\u{1f600}\u{e4}".repeat(5000));
        for (mark, bytes) in [
            ([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            ([0xfe, 0xff], u16::to_be_bytes),
        ] {
            let units = text.encode_utf16().flat_map(bytes);
            let all: Vec<u8> = mark.into_iter().chain(units).collect();
            for (bytes, expected) in [
                (&all[..], text.clone()),
                (&all[..6], "a\u{fffd}".to_owned()),
            ] {
                let mut read = String::new();
                Decoded::new(bytes).read_to_string(&mut read).unwrap();
                assert!(read == expected);
            }
        }
        let mut read = Vec::new();
        Decoded::new(&b"\xff\x80"[..])
            .read_to_end(&mut read)
            .unwrap();
        assert_eq!(read, b"\xff\x80");
    }
}
