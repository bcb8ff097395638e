//! Ranks by reports of RAS.

use causes::Certainty::{Likely, Proved};
use causes::table::{consequence, hang};
use evidence::ras::{Report, Trouble};

use crate::verdict::{Line, MOST_LINES, Verdict, ranks};

/// A verdict for each kind of trouble in each communicator.
pub(crate) fn verdicts(reports: &[(String, Report)]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (input, report) in reports {
        for finding in &report.findings {
            let mut at: Vec<u32> = finding
                .ranks
                .iter()
                .map(|it| it.rank)
                .filter(|it| *it != u32::MAX)
                .collect();
            at.sort_unstable();
            let who = match at.is_empty() {
                true => format!("{} processes", finding.ranks.len()),
                false => ranks(&at),
            };
            let of = match finding.communicator.as_str() {
                "" => String::new(),
                name => format!(" of communicator {name}"),
            };
            let (cause, certainty, what) = match &finding.trouble {
                Trouble::Behind(operation, launched, usual) => (
                    &hang::RANK_MISSING,
                    Likely,
                    format!(
                        "RAS: {who}{of} launched {launched} {operation} operations, the others {usual}."
                    ),
                ),
                Trouble::Silent => (
                    &hang::RANK_SILENT,
                    Likely,
                    format!("RAS: {who}{of} do not answer."),
                ),
                Trouble::Dead => (
                    &hang::RANK_SILENT,
                    Proved,
                    format!("RAS: {who}{of} are dead."),
                ),
                Trouble::Error => (
                    &consequence::PEER_CLOSED,
                    Likely,
                    format!("RAS: {who}{of} report an error."),
                ),
            };
            let mut hosts: Vec<String> = finding.ranks.iter().map(|it| it.host.clone()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.retain(|it| !it.is_empty());
            let lines = finding.ranks.iter().take(MOST_LINES).map(|it| {
                let text = format!("rank {} on {}, process {}", it.rank, it.host, it.process);
                Line::new(input, (it.line > 0).then_some(it.line), &text)
            });
            verdicts.push(Verdict {
                lines: lines.collect(),
                ranks: at,
                hosts,
                group: Some(finding.communicator.clone()).filter(|it| !it.is_empty()),
                ..Verdict::new(cause, certainty, what)
            });
        }
    }
    verdicts
}
