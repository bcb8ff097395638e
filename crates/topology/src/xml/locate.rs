//! Offsets to lines and columns.

use crate::error::Position;

/// Converts increasing byte offsets to lines and columns in one pass.
#[derive(Debug)]
pub(super) struct Locator<'a> {
    text: &'a [u8],
    seen: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Locator<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            seen: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// The position of an offset. A smaller offset than before restarts the scan (errors only).
    pub(super) fn position(&mut self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        if offset < self.seen {
            *self = Self {
                text: self.text,
                seen: 0,
                line: 1,
                line_start: 0,
            };
        }
        let passed = &self.text[self.seen..offset];
        if let Some(last) = passed.iter().rposition(|&byte| byte == b'\n') {
            let lines = passed.iter().filter(|&&byte| byte == b'\n').count();
            self.line = self.line.saturating_add(narrow(lines));
            self.line_start = self.seen + last + 1;
        }
        self.seen = offset;
        Position {
            line: self.line,
            column: narrow(offset - self.line_start + 1),
        }
    }
}

/// The position `bytes` later on the same line.
pub(super) fn further(position: Position, bytes: usize) -> Position {
    Position {
        line: position.line,
        column: position.column.saturating_add(narrow(bytes)),
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
