//! Checks of tables.

use std::collections::BTreeMap;

use findings::{Check, Maturity};
use program::size::short;
use records::results::ladder::ComparedRow;
use records::results::program_name;
use records::results::shortfall::{Kind, Shortfall};

use super::ComparedTable;

/// Why nothing is predicted.
const NO_MACHINE: &str = "no machine is given, or its plan predicts nothing for this table";

/// A kind of shortfall: its id, and what a table without it shows.
type Asked = (Kind, &'static str, &'static str);

/// What is asked of every table.
const ALWAYS: [Asked; 2] = [
    (Kind::WrongResults, "wrong-results", "no wrong element"),
    (Kind::AboveBound, "above-bound", "no more than the bound"),
];

/// What is asked of a table beside predicted times.
const BESIDE_TIMES: [Asked; 4] = [
    (
        Kind::SlowStep,
        "slow-step",
        "less than 1.25 times the predicted time",
    ),
    (
        Kind::SlowSize,
        "slow-size",
        "as fast as the other sizes of its step",
    ),
    (Kind::EarlyChange, "early-change", "no slower choice"),
    (
        Kind::Drop,
        "drop",
        "no longer than the messages it could be cut into",
    ),
];

/// What was checked of all tables; `accepts`: beside what healthy machines reach, instead of
/// predicted times.
pub(super) fn checks(tables: &[ComparedTable], accepts: bool) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let is_judged = tables
        .iter()
        .any(|it| it.rows.iter().any(|row| row.floor_gbps.is_some()));
    for table in tables {
        let beside: &[Asked] = if accepts { &[] } else { &BESIDE_TIMES };
        for asked in ALWAYS.iter().chain(beside) {
            table.ask(*asked, &mut checks);
        }
        if accepts {
            checks.push(table.is_whole());
            let mut least: BTreeMap<u64, &ComparedRow> = BTreeMap::new();
            for row in &table.rows {
                let of_size = least.entry(row.bytes).or_insert(row);
                if row.bus_gbps < of_size.bus_gbps {
                    *of_size = row;
                }
            }
            checks.extend(least.values().map(|row| table.size(row, is_judged)));
        }
    }
    if accepts && tables.iter().all(|it| it.rows.is_empty()) {
        let sizes = Check::new("sizes", "all tables", Maturity::Measured);
        checks.push(sizes.unknown("no row has a bandwidth that can be judged"));
    }
    checks
}

impl ComparedTable {
    /// The table in words.
    fn place(&self) -> String {
        let collective = self.collective.map_or("unknown collective", |it| it.name());
        let ranks = self.ranks.map(|it| format!(" among {it} ranks"));
        let line = match self.line {
            0 => String::new(),
            line => format!(", line {line}"),
        };
        format!(
            "{collective}{} in {}{line}",
            ranks.unwrap_or_default(),
            self.file
        )
    }

    /// The program that would measure it again.
    fn program(&self) -> String {
        let of_job = self.collective.filter(|_| self.timing.is_some());
        match (&self.program, of_job.and_then(program_name::of_collective)) {
            (Some(program), _) => program.clone(),
            (None, Some(test)) => test,
            (None, None) => "the same program".to_owned(),
        }
    }

    /// Whether the table has shortfalls of a kind.
    fn ask(&self, (kind, id, expected): Asked, checks: &mut Vec<Check>) {
        let new = || {
            let proof = format!("{} with the same options again", self.program());
            Check::new(id, self.place(), Maturity::Modelled).expects(expected, proof)
        };
        let before = checks.len();
        let found = self.shortfalls.iter().filter(|it| it.kind == kind);
        checks.extend(found.map(|it| match self.timing {
            None => new().judged(false, &it.text),
            // What slows a job may be the job.
            Some(_) => new().unknown(&it.text),
        }));
        if checks.len() > before {
            return;
        }
        let any = |has: fn(&ComparedRow) -> bool| self.rows.iter().any(has);
        let is_asked = match kind {
            Kind::WrongResults => any(|row| row.wrong.is_some()),
            Kind::AboveBound => self.bound_gbps.is_some() && !self.rows.is_empty(),
            Kind::Drop => self.rows.len() > 1,
            _ => any(|row| row.predicted_us.is_some()),
        };
        checks.push(match (is_asked, kind) {
            (true, _) => new(),
            (false, Kind::WrongResults) => new().skipped("the program compared no elements"),
            (false, _) if self.rows.is_empty() => new().skipped("the table has no whole row"),
            (false, Kind::Drop) => new().skipped("the table has one row"),
            (false, _) => new().skipped(NO_MACHINE),
        });
    }

    /// Whether all rows could be read.
    fn is_whole(&self) -> Check {
        let check = Check::new("rows", self.place(), Maturity::Modelled)
            .expects("whole rows, whose columns agree", "the whole output");
        if let Some(why) = &self.other_gpus {
            return check.unknown(why);
        }
        let contradicts = |it: &&Shortfall| it.kind == Kind::Contradiction;
        match self.shortfalls.iter().find(contradicts) {
            Some(found) => check.unknown(&found.text),
            None if self.damaged_rows > 0 => check.unknown(format!(
                "{}: line {}: a row is cut or contradicts itself; expected a whole table",
                self.file, self.first_damaged
            )),
            // A run that failed has rows, and not what nccl-tests, which lists devices first,
            // prints at its end.
            None if self.line > 0
                && self.model.is_some()
                && self.average_bus_bandwidth_gbps.is_none() =>
            {
                check.unknown(format!(
                    "{}: no average bus bandwidth follows the rows; expected the whole output",
                    self.file
                ))
            }
            None => check,
        }
    }

    /// The least bandwidth of a size beside its floor. Of no size anything may be expected.
    fn size(&self, row: &ComparedRow, is_judged: bool) -> Check {
        let collective = self.collective.map_or("unknown", |it| it.command_name());
        let (size, bytes) = (short(row.bytes), row.bytes);
        let id = format!("{collective}-{size}");
        let mut check = Check::new(id, format!("{size}: {}", self.place()), Maturity::Measured);
        let alone = match self.timing {
            Some(_) => " on these hosts alone",
            None => "",
        };
        check.proof = format!("{} -b {bytes} -e {bytes}{alone}", self.program());
        if let (Some(floor), Some(expected)) = (row.floor_gbps, row.expected_gbps) {
            let like = row
                .like
                .map_or(String::new(), |it| format!(" are expected, by {it}"));
            check.expected = format!("≥ {floor:.1} GB/s; {expected:.1}{like}");
            let seen = format!("{:.1} GB/s", row.bus_gbps);
            if row.bus_gbps < floor && self.timing.is_some() {
                check.seen = seen;
                return check.unknown(
                    "below the floor in a job, where computation and ranks that come late also slow a \
                     collective",
                );
            }
            return check.judged(row.bus_gbps >= floor, seen);
        }
        let why = row.unknown.as_deref();
        let why = why
            .unwrap_or("expected all-reduces, all-gathers, reduce-scatters, broadcasts or reduces");
        check.seen = format!("{:.1} GB/s", row.bus_gbps);
        match is_judged {
            true => check.skipped(format!("nothing is expected: {why}")),
            false => check.unknown(format!(
                "nothing is expected of a size that was measured: {why}"
            )),
        }
    }
}
