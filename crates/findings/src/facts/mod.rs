//! The meaning of lines of logs, as data: NCCL's warnings, codes of CUDA, statuses of InfiniBand,
//! Xids, and lines of PyTorch, launchers, kernels and drivers.
//!
//! ```
//! use findings::facts::{Said, find};
//! let said = Said::warning("Cuda failure 401 'not permitted now'", Some("transport/nvls.cc:80"));
//! assert_eq!(find(&said).unwrap().meaning.cause.id, "nvls-fabric");
//! ```
//!
//! A row of the tables (`*.tsv` beside this file) has six columns: the id of its cause; how sure it
//! is (`after`: a line that only passes on an earlier code of CUDA of its process; `peer`: the
//! other side is at fault; `pair`: one of two processes of this host is); where it counts (`*`:
//! warnings of NCCL, `-`: all lines, else warnings of files of NCCL whose names begin so, in the
//! function behind a space, or at another such place behind `|`); the pattern; what it means; what
//! to do. In a pattern `{}` is any text and `{#}` a number, `{rank}`, `{ranks}` and `{host}` name
//! who is at fault; `=cuda 401`, `=wc 12` and `=xid 79` are codes, and words behind them must be in
//! the line, too.

mod codes;
pub mod counters;
pub mod frames;
pub mod gpus;
mod pattern;
pub mod places;

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::causes::{self, Cause, Certainty};
pub use codes::Code;
use pattern::Pattern;
pub use pattern::Who;

/// What a line means.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    /// The cause.
    pub cause: &'static Cause,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// What it means, for this line.
    pub means: &'static str,
    /// What to do, for this line.
    pub advice: &'static str,
    /// The other side of the connection is at fault, not the process that wrote the line.
    pub is_of_peer: bool,
}

impl Meaning {
    /// The meaning of a cause in general.
    pub const fn of(cause: &'static Cause, certainty: Certainty) -> Self {
        Self {
            cause,
            certainty,
            means: cause.means,
            advice: cause.advice,
            is_of_peer: false,
        }
    }
}

/// A row of the tables.
#[derive(Debug)]
pub struct Fact {
    /// What its lines mean.
    pub meaning: Meaning,
    /// It only passes on a code of CUDA that its process reported just before.
    pub follows_code: bool,
    /// Its process or a peer on its host is at fault.
    pub is_of_pair: bool,
    scope: &'static str,
    pattern: Pattern,
}

/// A text, and who wrote it where.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// The text, without NCCL's head.
    pub text: &'a str,
    /// Where it is in NCCL's sources: `FILE:LINE`, or `FILE:LINE (FUNCTION)`.
    pub place: Option<&'a str>,
    /// It is a warning of NCCL.
    pub is_warning: bool,
}

impl<'a> Said<'a> {
    /// A warning of NCCL.
    pub const fn warning(text: &'a str, place: Option<&'a str>) -> Self {
        Self {
            text,
            place,
            is_warning: true,
        }
    }

    /// A line of any program.
    pub const fn line(text: &'a str) -> Self {
        Self {
            text,
            place: None,
            is_warning: false,
        }
    }
}

/// The rows of all tables, and how to find them.
struct Tables {
    facts: Vec<Fact>,
    /// Finds a part of each pattern of text.
    parts: Option<AhoCorasick>,
    /// The facts of these parts.
    of_parts: Vec<usize>,
    of_codes: HashMap<Code, Vec<usize>>,
}

/// The tables.
const TEXTS: [&str; 4] = [
    include_str!("nccl.tsv"),
    include_str!("codes.tsv"),
    include_str!("system.tsv"),
    include_str!("outputs.tsv"),
];

/// Read once.
static TABLES: LazyLock<Tables> = LazyLock::new(Tables::read);

impl Tables {
    fn read() -> Self {
        let by_id: HashMap<&str, &'static Cause> = causes::all().map(|it| (it.id, it)).collect();
        let rows = TEXTS.iter().flat_map(|it| it.lines());
        let facts: Vec<Fact> = rows.filter_map(|row| Fact::of(row, &by_id)).collect();
        let mut parts = Vec::new();
        let mut of_parts = Vec::new();
        let mut of_codes: HashMap<Code, Vec<usize>> = HashMap::new();
        for (at, fact) in facts.iter().enumerate() {
            match &fact.pattern {
                Pattern::Text { longest, .. } => {
                    parts.push(*longest);
                    of_parts.push(at);
                }
                Pattern::Code(code, _) => of_codes.entry(*code).or_default().push(at),
            }
        }
        Self {
            parts: AhoCorasick::new(parts).ok(),
            facts,
            of_parts,
            of_codes,
        }
    }

    /// The facts that may fit a text.
    fn candidates(&self, said: &Said<'_>) -> impl Iterator<Item = &Fact> {
        let code = codes::read(said);
        let exact = code.and_then(|it| self.of_codes.get(&it));
        let any = code.and_then(|it| self.of_codes.get(&it.unknown()));
        let coded = [exact, any].into_iter().flatten().flatten();
        let parts = self.parts.iter();
        let parts = parts.flat_map(|it| it.find_overlapping_iter(said.text));
        let texts = parts.filter_map(|it| self.of_parts.get(it.pattern().as_usize()));
        coded.chain(texts).filter_map(|at| self.facts.get(*at))
    }
}

impl Fact {
    /// Reads a row; `None`: it is a comment.
    fn of(row: &'static str, causes: &HashMap<&str, &'static Cause>) -> Option<Self> {
        let mut columns = row.split('\t');
        let mut next = || columns.next().unwrap_or("");
        let (id, sure, scope, pattern, means, advice) =
            (next(), next(), next(), next(), next(), next());
        let cause: &'static Cause = causes.get(id)?;
        let certainty = match sure.split(' ').next()? {
            "proved" => Certainty::Proved,
            "likely" => Certainty::Likely,
            _ => Certainty::Possible,
        };
        let or = |text: &'static str, general| if text.is_empty() { general } else { text };
        Some(Self {
            meaning: Meaning {
                cause,
                certainty,
                means: or(means, cause.means),
                advice: or(advice, cause.advice),
                is_of_peer: sure.contains("peer"),
            },
            follows_code: sure.contains("after"),
            is_of_pair: sure.contains("pair"),
            scope,
            pattern: Pattern::of(pattern)?,
        })
    }

    /// How well it fits a text, the best with the largest value; `None`: it does not.
    fn fits(&self, said: &Said<'_>) -> Option<(bool, usize, usize)> {
        let near = match self.scope {
            "-" => 0,
            _ if !said.is_warning => return None,
            "*" => 1,
            scopes => {
                let place = of_sources(said.place?);
                let is_there = |scope: &&str| {
                    let (file, function) = scope.split_once(' ').unwrap_or((scope, ""));
                    place.starts_with(file) && place.contains(function)
                };
                1 + scopes.split('|').find(is_there)?.len()
            }
        };
        let letters = self.pattern.fits(said.text)?;
        Some((self.pattern.is_exact_code(), near, letters))
    }

    /// Whether its pattern is in a text, if it is no code.
    pub fn is_in(&self, text: &str) -> bool {
        matches!(self.pattern, Pattern::Text { .. }) && self.pattern.fits(text).is_some()
    }

    /// Whom a text that it fits names as being at fault: ranks and hosts.
    pub fn named<'a>(&self, text: &'a str) -> impl Iterator<Item = (Who, &'a str)> {
        self.pattern.named(text).into_iter()
    }

    /// The longest part of its pattern that every line of it has; `None`: it has none, or counts
    /// in warnings of NCCL alone.
    pub fn word(&self) -> Option<&'static str> {
        match &self.pattern {
            Pattern::Text { longest, .. } if self.scope == "-" => Some(longest),
            _ => None,
        }
    }

    /// A line that it fits, if it is no code.
    pub fn example(&self) -> Option<(String, bool)> {
        Some((self.pattern.example()?, self.scope != "-"))
    }
}

/// A place without the directory of the sources: RCCL and other builds log it whole.
fn of_sources(place: &str) -> &str {
    place.rsplit_once("/src/").map_or(place, |it| it.1)
}

/// The row that fits a text best, of equal ones the first.
pub fn find(said: &Said<'_>) -> Option<&'static Fact> {
    let fitting = TABLES.candidates(said);
    let fitting = fitting.filter_map(|it| Some((it.fits(said)?, it)));
    let best = fitting.reduce(|best, it| if it.0 > best.0 { it } else { best });
    best.map(|it| it.1)
}

/// The code that a text has, if it has one.
pub fn code(said: &Said<'_>) -> Option<Code> {
    codes::read(said)
}

/// What a warning of NCCL means: by the tables, or else by the words of causes. `place`: its file
/// and line.
pub fn of_warning(text: &str, place: Option<&str>) -> Option<Meaning> {
    let by_words = || {
        let signs = causes::all().flat_map(|it| it.signs.iter().map(move |sign| (it, sign)));
        let mut found = signs.filter(|it| it.1.is_in(text));
        found.next().map(|it| Meaning::of(it.0, it.1.certainty))
    };
    let fact = find(&Said::warning(text, place));
    fact.map(|it| it.meaning).or_else(by_words)
}

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Fact> {
    TABLES.facts.iter()
}

/// Words of which a line of another program than NCCL must have one to mean anything.
pub fn words() -> impl Iterator<Item = &'static str> {
    let texts = all().filter_map(Fact::word);
    texts.chain(codes::WORDS)
}
