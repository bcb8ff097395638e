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
    /// A word that names who is at fault.
    Named(Who),
}

/// Whom a word of a line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A rank: a number.
    Rank,
    /// Ranks: numbers in braces.
    Ranks,
    /// A host.
    Host,
}

/// How pieces are written.
const WRITTEN: [(&str, Piece); 5] = [
    ("{}", Piece::Any),
    ("{#}", Piece::Number),
    ("{rank}", Piece::Named(Who::Rank)),
    ("{ranks}", Piece::Named(Who::Ranks)),
    ("{host}", Piece::Named(Who::Host)),
];

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
        let first = |rest: &str| {
            let found = WRITTEN.iter().filter_map(|it| Some((rest.find(it.0)?, it)));
            found.min_by_key(|it| it.0)
        };
        while let Some((at, (written, piece))) = first(rest) {
            pieces.extend((at > 0).then(|| Piece::Text(&rest[..at])));
            pieces.push(*piece);
            rest = &rest[at + written.len()..];
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
            } => Search::new()
                .follows(pieces, text, false)
                .then_some(*letters),
            // The code was read from this text.
            Self::Code(_, words) => {
                let all = words.iter().all(|it| text.contains(it));
                all.then(|| words.iter().map(|it| it.len()).sum())
            }
        }
    }

    /// Whom the words of a text name, the last first.
    pub(super) fn named<'a>(&self, text: &'a str) -> Vec<(Who, &'a str)> {
        let mut search = Search::new();
        match self {
            Self::Text { pieces, .. } if search.follows(pieces, text, false) => search.named,
            _ => Vec::new(),
        }
    }

    /// Whether it is a code of one number, or ends with one: `(28)`.
    pub(super) fn is_exact_code(&self) -> bool {
        match self {
            Self::Code(code, _) => *code != code.unknown(),
            Self::Text { pieces, .. } => pieces.last().is_some_and(|it| match it {
                Piece::Text(text) => ends_with_number(text),
                _ => false,
            }),
        }
    }

    /// A text that fits.
    pub(super) fn example(&self) -> Option<String> {
        let Self::Text { pieces, .. } = self else {
            return None;
        };
        let text = pieces.iter().map(|it| match it {
            Piece::Text(text) => text,
            Piece::Any => "x9 y",
            Piece::Number | Piece::Named(Who::Rank) => "17",
            Piece::Named(Who::Ranks) => "{0,3}",
            Piece::Named(Who::Host) => "n1",
        });
        Some(text.collect())
    }
}

/// Whether a text ends with a number in parentheses.
fn ends_with_number(text: &str) -> bool {
    let inner = text.strip_suffix(')').and_then(|it| it.rsplit_once('('));
    inner.is_some_and(|it| !it.1.is_empty() && it.1.bytes().all(|it| it.is_ascii_digit()))
}

/// Whether the last piece ends within a number.
fn cuts(word: &str, behind: &str, rest: &[Piece]) -> bool {
    let is_digit = |it: Option<&u8>| it.is_some_and(u8::is_ascii_digit);
    rest.is_empty() && is_digit(word.as_bytes().last()) && is_digit(behind.as_bytes().first())
}

/// A search for pieces in a text.
struct Search<'a> {
    /// Tries that are left.
    tries: u32,
    /// Whom words name, the last first.
    named: Vec<(Who, &'a str)>,
}

impl<'a> Search<'a> {
    const fn new() -> Self {
        Self {
            tries: MOST_TRIES,
            named: Vec::new(),
        }
    }

    /// Whether pieces follow in a text; `is_next`: right at its beginning. A number at the end is a
    /// whole one: `= -7` is not in `= -70`.
    fn follows(&mut self, pieces: &[Piece], text: &'a str, is_next: bool) -> bool {
        let Some((first, rest)) = pieces.split_first() else {
            return true;
        };
        match first {
            Piece::Any => self.follows(rest, text, false),
            Piece::Number => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let end = digits.trim_start_matches(|it: char| it.is_ascii_digit());
                end.len() < digits.len() && self.follows(rest, end, true)
            }
            Piece::Named(who) => {
                let (word, end) = text.split_at(who.length(text));
                let is_there = !word.is_empty() && self.follows(rest, end, true);
                if is_there {
                    self.named.push((*who, word));
                }
                is_there
            }
            Piece::Text(word) if is_next => {
                let end = text.strip_prefix(word);
                end.is_some_and(|it| !cuts(word, it, rest) && self.follows(rest, it, true))
            }
            Piece::Text(word) => text.match_indices(word).any(|(at, _)| {
                self.tries = self.tries.saturating_sub(1);
                let end = &text[at + word.len()..];
                self.tries > 0 && !cuts(word, end, rest) && self.follows(rest, end, true)
            }),
        }
    }
}

impl Who {
    /// The length of the word at the beginning of a text, bytes; 0: it is none.
    fn length(self, text: &str) -> usize {
        let until = |ends: &dyn Fn(char) -> bool| text.find(ends).unwrap_or(text.len());
        match self {
            Self::Rank => until(&|it| !it.is_ascii_digit()),
            Self::Ranks => {
                let list = text.strip_prefix('{').and_then(|it| it.split_once('}'));
                let list = list.map(|it| it.0);
                let list = list.filter(|it| it.chars().all(|it| "0123456789,- ".contains(it)));
                list.map_or(0, |it| it.len() + 2)
            }
            Self::Host => until(&|it| !it.is_ascii_alphanumeric() && !"-_.".contains(it)),
        }
    }
}
