//! Text for terminals.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The colors of pages and of clap, and their end.
const COLORS: [&str; 9] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[36m",
];

/// The text without control characters from outside: `\u001b` replaces the escape character.
/// Newlines, tabs and the program's own colors stay. JSON keeps its meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_escaped) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let color = COLORS.iter().find(|color| rest.starts_with(**color));
        let length = match color {
            Some(color) => {
                shown.push_str(color);
                color.len()
            }
            None => {
                let found = rest.chars().next().unwrap_or_default();
                let _ = write!(shown, "\\u{:04x}", u32::from(found));
                found.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

fn is_escaped(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_colors_stay() {
        for (text, shown) in [
            ("plain \u{e9}\n\ttext", "plain \u{e9}\n\ttext"),
            ("\u{1b}[4mhead\u{1b}[0m\n", "\u{1b}[4mhead\u{1b}[0m\n"),
            ("a\u{1b}[2Jb", "a\\u001b[2Jb"),
            ("\u{1b}]0;x\u{7}", "\\u001b]0;x\\u0007"),
            ("\u{9b}2J\r\u{7f}\0", "\\u009b2J\\u000d\\u007f\\u0000"),
            ("\u{1b}", "\\u001b"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
