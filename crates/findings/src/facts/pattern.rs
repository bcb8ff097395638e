//! Patterns of lines.

use super::Code;

/// A pattern.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Texts in order.
    Text {
        pieces: Vec<Piece>,
        /// The longest of the texts.
        longest: &'static str,
        /// Letters of all texts.
        letters: usize,
    },
    /// A code, and words that must be beside it.
    Code(Code, Vec<&'static str>),
}

/// A piece of a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Text(&'static str),
    Any,
    Number,
}

/// So often a piece is looked for in one line.
const MOST_TRIES: u32 = 256;

impl Pattern {
    /// Reads a pattern; `None`: it has no text.
    pub(super) fn of(text: &'static str) -> Option<Self> {
        if let Some(code) = text.strip_prefix('=') {
            let mut words = code.split(' ');
            let code = Code::of(words.next()?, words.next()?)?;
            return Some(Self::Code(code, words.collect()));
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{}").into_iter().chain(rest.find("{#}")).min() {
            pieces.extend((at > 0).then(|| Piece::Text(&rest[..at])));
            let is_number = rest[at..].starts_with("{#}");
            pieces.push(if is_number { Piece::Number } else { Piece::Any });
            rest = &rest[at + if is_number { 3 } else { 2 }..];
        }
        pieces.extend((!rest.is_empty()).then_some(Piece::Text(rest)));
        let texts = || {
            pieces.iter().filter_map(|it| match it {
                Piece::Text(text) => Some(*text),
                _ => None,
            })
        };
        Some(Self::Text {
            longest: texts().max_by_key(|it| it.len())?,
            letters: texts().map(str::len).sum(),
            pieces,
        })
    }

    /// How many letters of it a text has; `None`: it does not fit.
    pub(super) fn fits(&self, text: &str) -> Option<usize> {
        match self {
            Self::Text {
                pieces, letters, ..
            } => follows(pieces, text, false, &mut MOST_TRIES.clone()).then_some(*letters),
            // The code was read from this text.
            Self::Code(_, words) => {
                let all = words.iter().all(|it| text.contains(it));
                all.then(|| words.iter().map(|it| it.len()).sum())
            }
        }
    }

    /// Whether it is a code of one number.
    pub(super) fn is_exact_code(&self) -> bool {
        matches!(self, Self::Code(code, _) if *code != code.unknown())
    }

    /// A text that fits.
    pub(super) fn example(&self) -> Option<String> {
        let Self::Text { pieces, .. } = self else {
            return None;
        };
        let text = pieces.iter().map(|it| match it {
            Piece::Text(text) => text,
            Piece::Any => "x9 y",
            Piece::Number => "17",
        });
        Some(text.collect())
    }
}

/// Whether pieces follow in a text; `is_next`: right at its beginning.
fn follows(pieces: &[Piece], text: &str, is_next: bool, tries: &mut u32) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return true;
    };
    match first {
        Piece::Any => follows(rest, text, false, tries),
        Piece::Number => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let end = digits.trim_start_matches(|it: char| it.is_ascii_digit());
            end.len() < digits.len() && follows(rest, end, true, tries)
        }
        Piece::Text(word) if is_next => {
            let end = text.strip_prefix(word);
            end.is_some_and(|it| follows(rest, it, true, tries))
        }
        Piece::Text(word) => text.match_indices(word).any(|(at, _)| {
            *tries = tries.saturating_sub(1);
            *tries > 0 && follows(rest, &text[at + word.len()..], true, tries)
        }),
    }
}
