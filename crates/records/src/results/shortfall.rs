//! Measurements that fall short of what is predicted, and of each other.

use crate::JsonSchema;
use serde::Serialize;

use crate::results::ladder::{Choice, ComparedRow, Step};
use crate::results::values::Table;
use program::size::short;

/// Times longer than predicted times by this factor fall short.
const SLOW: f64 = 1.25;

/// A message may take longer than the smaller ones that it could be cut into by this factor.
const SLACK: f64 = 1.1;

/// No bandwidth is above the bound by this factor, because both are rounded.
const ABOVE: f64 = 1.02;

/// The kinds of shortfalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Elements are wrong.
    WrongResults,
    /// A step of the ladder is slower than predicted.
    SlowStep,
    /// Single sizes are slower than the others of their step.
    SlowSize,
    /// The choice changes to one that is slower there.
    EarlyChange,
    /// A message takes longer than the smaller ones that it could be cut into.
    Drop,
    /// The bus bandwidth is above the bound: the plan is for another machine.
    AboveBound,
    /// The bus bandwidth is below what healthy machines reach.
    BelowFloor,
    /// Columns of rows contradict each other, so that they cannot be judged.
    Contradiction,
}

/// Where measurements fall short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Shortfall {
    /// The kind of fault.
    pub kind: Kind,
    /// The first size, bytes.
    pub from_bytes: u64,
    /// The last size, bytes.
    pub to_bytes: u64,
    /// The fault, in words.
    pub text: String,
}

/// An algorithm and a protocol in words.
pub fn words(choice: Choice) -> String {
    format!("{} {}", choice.0, choice.1)
}

/// All shortfalls of a table.
pub fn find(table: &Table, rows: &[ComparedRow], steps: &[Step]) -> Vec<Shortfall> {
    let mut found = Vec::new();
    found.extend(wrong(table, rows));
    for step in steps {
        found.extend(slow_step(step));
    }
    for pair in rows.windows(2) {
        found.extend(growth(&pair[0], &pair[1]));
    }
    found.extend(above_bound(rows));
    found
}

/// The shortfalls of a table that is to be accepted: sizes next to each other below their floors,
/// wrong elements, rows that cannot be judged, and bandwidths that are none of this machine.
pub fn below_floors(table: &Table, rows: &[ComparedRow]) -> Vec<Shortfall> {
    let is_below = |row: &ComparedRow| row.floor_gbps.is_some_and(|floor| row.bus_gbps < floor);
    let mut found: Vec<Shortfall> = wrong(table, rows).into_iter().collect();
    for low in rows.chunk_by(|a, b| is_below(a) == is_below(b)) {
        found.extend(below_floor(low).filter(|_| low.iter().any(is_below)));
    }
    found.extend(above_bound(rows));
    found.extend(contradictions(table));
    found
}

/// The rows whose columns contradict each other.
fn contradictions(table: &Table) -> Option<Shortfall> {
    let all = table.contradictions?;
    let rows = match all.rows {
        1 => "1 row is".to_owned(),
        rows => format!("{rows} rows are"),
    };
    let line = match all.line {
        0 => String::new(),
        line => format!(", the first in line {line}"),
    };
    Some(Shortfall {
        kind: Kind::Contradiction,
        from_bytes: all.bytes.0,
        to_bytes: all.bytes.1,
        text: format!(
            "{}: {rows} not judged{line}: the bandwidth is not the size by the time, or the bus \
             bandwidth is not that of the collective",
            range(all.bytes.0, all.bytes.1)
        ),
    })
}

fn below_floor(rows: &[ComparedRow]) -> Option<Shortfall> {
    let (first, last) = (rows.first()?, rows.last()?);
    let share = ComparedRow::expected_share;
    let worst = rows.iter().min_by(|a, b| share(a).total_cmp(&share(b)))?;
    let (expected, floor) = (worst.expected_gbps?, worst.floor_gbps?);
    let at = match rows.len() {
        1 => String::new(),
        _ => format!(" at {}", short(worst.bytes)),
    };
    Some(Shortfall {
        kind: Kind::BelowFloor,
        from_bytes: first.bytes,
        to_bytes: last.bytes,
        text: format!(
            "{}: {:.1} GB/s{at}, below the floor of {:.1}; {:.1} are expected, by {}",
            range(first.bytes, last.bytes),
            worst.bus_gbps,
            floor,
            expected,
            worst.like?
        ),
    })
}

fn above_bound(rows: &[ComparedRow]) -> Option<Shortfall> {
    let above = |it: &&ComparedRow| it.bound_share.is_some_and(|share| share > ABOVE);
    let (from, to) = (rows.iter().find(above)?, rows.iter().rfind(above)?);
    let most = rows.iter().filter_map(|it| it.bound_share);
    let most = 100.0 * most.max_by(f64::total_cmp)?;
    Some(Shortfall {
        kind: Kind::AboveBound,
        from_bytes: from.bytes,
        to_bytes: to.bytes,
        text: format!(
            "the bus bandwidth is up to {most:.0} % of the bound: the job had faster links than the plan's machine has"
        ),
    })
}

fn wrong(table: &Table, rows: &[ComparedRow]) -> Option<Shortfall> {
    let elements = table.wrong().max(table.out_of_bounds.unwrap_or(0));
    let is_wrong = |it: &&ComparedRow| it.wrong.is_some_and(|it| it > 0);
    let (first, last) = (rows.first()?, rows.last()?);
    let from = rows.iter().find(is_wrong).unwrap_or(first);
    let to = rows.iter().rev().find(is_wrong).unwrap_or(last);
    (elements > 0).then(|| Shortfall {
        kind: Kind::WrongResults,
        from_bytes: from.bytes,
        to_bytes: to.bytes,
        text: format!(
            "{elements} elements are wrong, the first at {}",
            short(from.bytes)
        ),
    })
}

fn slow_step(step: &Step) -> Option<Shortfall> {
    let (ratio, worst_ratio) = (step.ratio?, step.worst_ratio?);
    let limited = match step.worst_latency_share {
        Some(share) if share >= 0.5 => ", where latency decides",
        Some(_) => ", where bandwidth decides",
        None => "",
    };
    let sizes = range(step.from_bytes, step.to_bytes);
    let worst = short(step.worst_bytes);
    let at_worst = match step.rows {
        ..=1 => String::new(),
        _ => format!("; at {worst} {worst_ratio:.1} times"),
    };
    let choice = words((step.algorithm, step.protocol));
    if ratio >= SLOW {
        return Some(Shortfall {
            kind: Kind::SlowStep,
            from_bytes: step.from_bytes,
            to_bytes: step.to_bytes,
            text: format!(
                "{choice} ({sizes}) takes {ratio:.1} times the predicted time{at_worst}{limited}"
            ),
        });
    }
    (worst_ratio >= SLOW * ratio.max(1.0)).then(|| Shortfall {
        kind: Kind::SlowSize,
        from_bytes: step.worst_bytes,
        to_bytes: step.worst_bytes,
        text: format!(
            "{choice} takes {worst_ratio:.1} times the predicted time at {worst}{limited}; the other sizes of {sizes} are as predicted"
        ),
    })
}

/// A message that takes longer than several of the size before.
fn growth(before: &ComparedRow, row: &ComparedRow) -> Option<Shortfall> {
    let factor = row.bytes as f64 / before.bytes.max(1) as f64;
    if factor <= 1.0 || row.measured_us <= SLACK * factor * before.measured_us {
        return None;
    }
    let slower = row.measured_us / (factor * before.measured_us);
    let kind = match (before.choice(), row.choice()) {
        (Some(old), Some(new)) if old != new => Kind::EarlyChange,
        _ => Kind::Drop,
    };
    let fact = format!(
        "{} takes {slower:.1} times as long as {} messages of {}",
        short(row.bytes),
        if factor.fract() == 0.0 {
            format!("{factor:.0}")
        } else {
            format!("{factor:.1}")
        },
        short(before.bytes)
    );
    Some(Shortfall {
        kind,
        from_bytes: before.bytes,
        to_bytes: row.bytes,
        text: match (kind, before.choice(), row.choice()) {
            (Kind::EarlyChange, Some(old), Some(new)) => format!(
                "{fact}: NCCL changes there from {} to {}, which is too early",
                words(old),
                words(new)
            ),
            _ => fact,
        },
    })
}

/// `64K` or `64K to 2M`.
pub fn range(from: u64, to: u64) -> String {
    match from == to {
        true => short(from),
        false => format!("{} to {}", short(from), short(to)),
    }
}
