//! The causes of hangs, failures and slow collectives, as data.
//!
//! ```
//! assert!(findings::causes::all().any(|it| it.id == "nvls-bind"));
//! ```
//!
//! `topo diagnose --log` explains warnings with this table, `topo doctor` takes titles and advice
//! from it, and `topo diagnose` names its causes. In reading order: `cause` (a cause and its
//! signs), `table` (the causes by subject), and those that lines alone show, in
//! `../facts/causes.tsv`.

mod cause;
pub mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use cause::{Cause, Certainty, Scope, Sign, Subject};

/// The causes that lines alone show.
static OF_LINES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
    let rows = include_str!("../facts/causes.tsv").lines();
    rows.filter_map(Cause::of_row).collect()
});

/// Where a cause stands in the order of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// It only slows a job: it explains no failure.
    pub slows: bool,
    /// Its row in the order: a fault of an earlier row explains those of later ones.
    pub row: usize,
}

/// The rows of the order of evidence: what a row is called, its effects, causes and subjects.
fn order() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    rows(include_str!("order.tsv"))
}

/// The rows of a table with three columns.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let rows = table.lines().filter(|it| !it.starts_with('#'));
    rows.filter_map(|row| {
        let mut columns = row.splitn(3, '\t');
        Some((columns.next()?, columns.next()?, columns.next()?))
    })
}

/// The order of evidence: by cause and subject.
static ORDER: LazyLock<HashMap<&str, Rank>> = LazyLock::new(|| {
    let rows = order().filter(|it| it.1 != REFINES).enumerate();
    let ranked = rows.flat_map(|(row, (_, effects, names))| {
        let slows = effects == "slows";
        names.split(' ').map(move |it| (it, Rank { slows, row }))
    });
    ranked.collect()
});

/// The effect of a cause whose lines say more of a failure than those of another cause.
const REFINES: &str = "refines";

/// Causes by id, each with one of which its lines say more, if both are shown.
pub fn refined() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = order().filter(|it| it.1 == REFINES);
    rows.map(|(cause, _, rougher)| (cause, rougher))
}

/// Where a cause stands in the order of evidence.
pub fn rank(cause: &Cause) -> Rank {
    let subject = format!("{:?}", cause.subject).to_ascii_lowercase();
    let own = ORDER.get(cause.id).or_else(|| ORDER.get(subject.as_str()));
    own.copied().unwrap_or(Rank {
        slows: false,
        row: usize::MAX,
    })
}

/// Causes that leave the same evidence: two ids, or one and `-`, and what tells them apart.
pub fn rows_of_confused() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    rows(include_str!("confused.tsv"))
}

/// The causes that leave the same evidence as this one, the nearest first, and what tells them
/// apart.
pub fn confused(cause: &Cause) -> Vec<(&'static Cause, &'static str)> {
    let own = rows_of_confused().filter(|it| it.0 == cause.id);
    let other = rows_of_confused().filter(|it| it.1 == cause.id);
    let own = own.map(|(_, other, tell)| (other, tell));
    let mut all: Vec<(&Cause, &str)> = Vec::new();
    for (id, tell) in own.chain(other.map(|(other, _, tell)| (other, tell))) {
        if let Some(found) = of_id(id).filter(|it| all.iter().all(|known| known.0 != *it)) {
            all.push((found, tell));
        }
    }
    all
}

/// All causes: by subject, the narrow ones first.
pub fn all() -> impl Iterator<Item = &'static Cause> {
    let subjects = Subject::ALL.iter().zip(table::TABLES);
    subjects.flat_map(|(subject, known)| {
        let more = OF_LINES.iter().filter(|it| it.subject == *subject);
        known.iter().copied().chain(more)
    })
}

/// The cause of an id.
pub fn of_id(id: &str) -> Option<&'static Cause> {
    all().find(|it| it.id == id)
}
