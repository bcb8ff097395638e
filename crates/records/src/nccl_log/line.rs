//! Lines of a log, bounded in length, as text.

use std::borrow::Cow;
use std::io::{BufRead, Read, Result};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr3, memrchr};

use crate::nccl_log::utf16::Decoded;
use crate::nccl_log::wrapper::{Columns, end, unescaped, unwrapped, without_notes};

/// Longest part of a line that is read, bytes. NCCL cuts its own lines at 1024 characters; messages
/// that run together and launchers' prefixes make them longer.
pub const MOST_BYTES: usize = 16 << 10;

/// The lines of a stream.
#[derive(Debug)]
pub struct Lines<R> {
    stream: Decoded<R>,
    /// Bytes of the stream that the line before was borrowed from.
    borrowed: usize,
    /// A line that is not whole in the stream's buffer, or that had escape sequences.
    line: Vec<u8>,
    /// The stream is a table.
    columns: Option<Columns>,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Begins at the stream's first line.
    pub const fn new(stream: R) -> Self {
        Self {
            stream: Decoded::new(stream),
            borrowed: 0,
            line: Vec::new(),
            columns: None,
            number: 0,
            bytes: 0,
        }
    }

    /// Number of the line that [`next`](Self::next) returned last, from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next line without its end, escape sequences and bytes beyond [`MOST_BYTES`], or
    /// `None` at the end of the stream. Bytes that are not UTF-8 become replacement characters.
    ///
    /// # Errors
    /// The stream cannot be read.
    #[expect(clippy::should_implement_trait, reason = "the line borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Cow<'_, str>>> {
        self.stream.consume(std::mem::take(&mut self.borrowed));
        let buffer = self.stream.fill_buf()?;
        // One pass finds the end, and that no escape sequence or quotation mark comes before it.
        if let Some(end) = memchr3(b'\n', 0x1b, b'"', buffer)
            && buffer[end] == b'\n'
            && end <= MOST_BYTES
            && self.number > 0
        {
            self.number += 1;
            self.bytes += end as u64 + 1;
            self.borrowed = end + 1;
            let line = &self.stream.fill_buf()?[..end];
            let line = text(line.strip_suffix(b"\r").unwrap_or(line));
            return Ok(Some(match unescaped(&line) {
                Some(line) => unwrapped(line.into(), self.columns),
                None => without_notes(line, self.columns),
            }));
        }
        self.copied()
    }

    /// Reads lines that are whole in the stream's buffer and that [`next`](Self::next) would return
    /// as they are but for their ends: at most so many bytes and lines, in one piece, which is much
    /// faster. Adds them to a text, with their places in it. Returns how many they are; 0: the next
    /// line is another one, or there is none.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(crate) fn plain(
        &mut self,
        (bytes, lines): (usize, usize),
        text: &mut String,
        places: &mut Vec<Range<usize>>,
    ) -> Result<usize> {
        self.stream.consume(std::mem::take(&mut self.borrowed));
        if self.number == 0 || self.columns.is_some() {
            return Ok(0);
        }
        let buffer = self.stream.fill_buf()?;
        let buffer = &buffer[..buffer.len().min(bytes)];
        // Marks of escape sequences, quotations and HTML.
        let buffer = &buffer[..memchr3(0x1b, b'"', b'&', buffer).unwrap_or(buffer.len())];
        let whole = memrchr(b'\n', buffer).map_or(0, |at| at + 1);
        let piece = match std::str::from_utf8(&buffer[..whole]) {
            Ok(piece) => piece,
            Err(error) => std::str::from_utf8(&buffer[..error.valid_up_to()]).unwrap_or(""),
        };
        let (begin, mut taken, mut count) = (text.len(), 0, 0);
        for at in memchr_iter(b'\n', piece.as_bytes()).take(lines) {
            if at - taken > MOST_BYTES {
                break;
            }
            let line = &piece[taken..at];
            let line = line.strip_suffix('\r').unwrap_or(line);
            let from = begin + taken;
            places.push(from..from + end(line));
            (taken, count) = (at + 1, count + 1);
        }
        text.push_str(&piece[..taken]);
        self.stream.consume(taken);
        self.number += count as u64;
        self.bytes += taken as u64;
        Ok(count)
    }

    /// As [`next`](Self::next), by a copy.
    fn copied(&mut self) -> Result<Option<Cow<'_, str>>> {
        self.line.clear();
        let most = MOST_BYTES as u64 + 1;
        let read = self
            .stream
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes += read as u64;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read as u64 == most {
            self.line.truncate(MOST_BYTES);
            self.bytes += self.stream.skip_until(b'\n')? as u64;
        }
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if memchr(0x1b, &self.line).is_some() {
            remove_escapes(&mut self.line);
        }
        if self.number == 1 && self.line.starts_with("\u{feff}".as_bytes()) {
            self.line.drain(..3);
        }
        let line = text(&self.line);
        let line = unescaped(&line).map_or(line, Cow::Owned);
        if self.number == 1 {
            self.columns = Columns::of(&line);
        }
        Ok(Some(unwrapped(line, self.columns)))
    }
}

/// Bytes as text. Nearly all lines are ASCII, which the first check reads much faster.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(line) => Cow::Borrowed(line),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Removes the escape sequences of terminals: `ESC [ … letter`, `ESC ] …` and other strings up to
/// BEL or `ESC \`, and `ESC` with one character.
fn remove_escapes(line: &mut Vec<u8>) {
    let mut kept = 0;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        at += 1;
        if byte != 0x1b {
            line[kept] = byte;
            kept += 1;
            continue;
        }
        let rest = line.get(at + 1..).unwrap_or_default();
        at += match line.get(at) {
            Some(b'[') => {
                let end = rest.iter().position(|it| (0x40..=0x7e).contains(it));
                end.map_or(rest.len() + 1, |end| end + 2)
            }
            Some(b']' | b'P' | b'X' | b'^' | b'_') => {
                // The escape character of `ESC \` is read again, and removed with the backslash.
                match rest.iter().position(|it| matches!(it, 0x07 | 0x1b)) {
                    Some(end) if rest[end] == 0x07 => end + 2,
                    Some(end) => end + 1,
                    None => rest.len() + 1,
                }
            }
            _ => 1,
        };
    }
    line.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line.into_owned());
        }
        all
    }

    #[test]
    fn ends_and_escapes_are_removed() {
        let text = b"one\r\n\x1b[1;31mtwo\x1b[0m\n\nlast \xff";
        assert_eq!(all(text), ["one", "two", "", "last \u{fffd}"]);
        assert_eq!(all(b"\x1b["), [""]);
        assert_eq!(all(b"a\x1b]0;title\x07b\x1b]8;;x\x1b\\c"), ["abc"]);
        assert_eq!(all(b"a\x1bPq\x1b\\b\x1b]0;no end"), ["ab"]);
        assert_eq!(all(b"a\x1b"), ["a"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let mut text = vec![b'x'; 3 * MOST_BYTES];
        text.extend_from_slice(b"\nnext\n");
        let lines = all(&text);
        assert_eq!(lines[0].len(), MOST_BYTES);
        assert_eq!(lines[1], "next");
    }
}
