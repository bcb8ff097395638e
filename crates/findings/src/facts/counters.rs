//! Counters of network ports.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The id of the cause that a count above 0 fits; `None`: what it counts is usual.
    pub cause: Option<&'static str>,
    /// What it counts.
    pub counts: &'static str,
}

/// The counters by name, each number in a name as `#`.
static COUNTERS: LazyLock<HashMap<&str, Counter>> = LazyLock::new(|| {
    let rows = include_str!("counters.tsv").lines();
    let rows = rows.filter(|it| !it.starts_with('#'));
    let named = rows.filter_map(|row| {
        let mut columns = row.split('\t');
        let (names, cause, counts) = (columns.next()?, columns.next()?, columns.next()?);
        let cause = Some(cause).filter(|it| *it != "-");
        Some((names, Counter { cause, counts }))
    });
    let each = named.flat_map(|(names, it)| names.split(' ').map(move |name| (name, it)));
    each.collect()
});

/// The counter of a name, as a program prints it.
pub fn of(name: &str) -> Option<Counter> {
    let found = COUNTERS.get(name).copied();
    found.or_else(|| {
        let digit = name.find(|it: char| it.is_ascii_digit())?;
        let (before, rest) = name.split_at(digit);
        let after = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        COUNTERS.get(format!("{before}#{after}").as_str()).copied()
    })
}

/// All counters, with their names.
pub fn all() -> impl Iterator<Item = (&'static str, Counter)> {
    COUNTERS.iter().map(|(name, it)| (*name, *it))
}
