//! Ranks by reports of RAS.

use std::collections::BTreeSet;
use std::net::IpAddr;

use findings::causes::Certainty::{Likely, Possible, Proved};
use findings::causes::table::{consequence, hang};
use findings::causes::{self, Cause, Certainty};
use records::evidence::ras::{Finding, Rank, Report, Trouble};
use records::nccl_log::Log;

use crate::verdict::{Line, MOST_LINES, Missing, Verdict, ranks};

/// A verdict for each kind of trouble in each communicator, and what would tell more. Ranks of a
/// running job are some operations apart: they are late if the job hangs, or if another report
/// says the same. `log` names the hosts whose addresses RAS prints.
pub(crate) fn verdicts(
    reports: &[(String, Report)],
    is_hang: bool,
    log: &Log,
) -> (Vec<Verdict>, Option<Missing>) {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut apart = false;
    for (place, (input, report)) in reports.iter().enumerate() {
        let (before, after) = (&reports[..place], &reports[place + 1..]);
        for finding in &report.findings {
            if is_in(before, finding) {
                continue;
            }
            let is_behind = matches!(finding.trouble, Trouble::Behind(..));
            if is_behind && !is_hang && !is_in(after, finding) {
                apart = true;
                continue;
            }
            let mut at: Vec<u32> = finding
                .ranks
                .iter()
                .map(|it| it.rank)
                .filter(|it| *it != u32::MAX)
                .collect();
            // RAS reports ranks and addresses of processes that it does not know any more.
            let is_beyond = |it: &u32| report.size > 0 && u64::from(*it) >= report.size;
            if at.iter().any(is_beyond) {
                verdicts.extend(garbage(input, finding, report.size));
                continue;
            }
            at.sort_unstable();
            let who = match at.is_empty() {
                true => format!("{} processes", finding.ranks.len()),
                false => ranks(&at),
            };
            let of = match finding.communicator.as_str() {
                "" => String::new(),
                name => format!(" of communicator {name}"),
            };
            let (cause, certainty, what) = judged(&finding.trouble, &format!("{who}{of}"));
            let mut hosts: Vec<String> = finding.ranks.iter().map(|it| host(it, log)).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.retain(|it| !it.is_empty() && it != "0.0.0.0");
            let lines = finding.ranks.iter().take(MOST_LINES).map(|it| {
                let text = format!("rank {} on {}, process {}", it.rank, it.host, it.process);
                Line::new(input, (it.line > 0).then_some(it.line), &text)
            });
            // Ranks report errors of others.
            if finding.trouble == Trouble::Error {
                at.clear();
                hosts.clear();
            }
            verdicts.push(Verdict {
                lines: lines.collect(),
                ranks: at,
                hosts,
                group: Some(finding.communicator.clone()).filter(|it| !it.is_empty()),
                ..Verdict::new(cause, certainty, what)
            });
        }
    }
    let missing = apart.then(|| Missing {
        what: "whether ranks that RAS sees behind stay behind".to_owned(),
        how: "run ncclras again after a minute, and give both reports".to_owned(),
    });
    (verdicts, missing)
}

/// What a report says by itself.
pub(crate) fn says(report: &Report) -> Vec<String> {
    let well = (report.communicators > 0).then(|| {
        let (well, all) = (report.healthy, report.communicators);
        format!("RAS: {well} of {all} communicators are well")
    });
    let behind = report
        .findings
        .iter()
        .filter(|it| matches!(it.trouble, Trouble::Behind(..)));
    let behind = behind.map(|it| {
        let at: Vec<u32> = it.ranks.iter().map(|it| it.rank).collect();
        let who = format!("{} of communicator {}", ranks(&at), it.communicator);
        judged(&it.trouble, &who).2
    });
    well.into_iter().chain(behind).collect()
}

/// What a trouble means. `who`: the processes that have it.
fn judged(trouble: &Trouble, who: &str) -> (&'static Cause, Certainty, String) {
    match trouble {
        Trouble::Behind(operation, launched, usual) => (
            &hang::RANK_MISSING,
            Likely,
            format!("RAS: {who} launched {launched} {operation} operations, the others {usual}."),
        ),
        Trouble::Silent => (
            &hang::RANK_SILENT,
            Likely,
            format!("RAS: {who} do not answer."),
        ),
        Trouble::Dead => (&hang::RANK_SILENT, Proved, format!("RAS: {who} are dead.")),
        Trouble::Error => (
            &consequence::PEER_CLOSED,
            Possible,
            format!("RAS: {who} report an error."),
        ),
    }
}

/// A verdict that blames nobody: a report names ranks that cannot be.
fn garbage(input: &str, finding: &Finding, size: u64) -> Option<Verdict> {
    let first = finding.ranks.first()?;
    let what = format!(
        "RAS names rank {} of {}, whose communicators have at most {size} ranks: these entries cannot be right.",
        first.rank, finding.communicator
    );
    Some(Verdict {
        lines: vec![Line::new(
            input,
            (first.line > 0).then_some(first.line),
            &format!("rank {}", first.rank),
        )],
        ..Verdict::new(causes::of_id("ras-silent")?, Possible, what)
    })
}

/// The host of a rank: by the log, if RAS prints an address and one host of the log has such a
/// process.
fn host(rank: &Rank, log: &Log) -> String {
    if rank.host.parse::<IpAddr>().is_ok() {
        let members = log.communicators.iter().flat_map(|it| &it.members);
        let own = members.filter(|it| {
            u64::from(it.process) == rank.process
                && (rank.rank == u32::MAX || it.rank == Some(rank.rank))
        });
        let hosts: BTreeSet<&str> = own.map(|it| it.host.as_str()).collect();
        if let (1, Some(host)) = (hosts.len(), hosts.first()) {
            return (*host).to_owned();
        }
    }
    rank.host.clone()
}

/// Whether reports have a finding.
fn is_in(reports: &[(String, Report)], finding: &Finding) -> bool {
    let ranks = |it: &Finding| it.ranks.iter().map(|it| it.rank).collect::<BTreeSet<u32>>();
    let is_it = |it: &Finding| {
        it.communicator == finding.communicator
            && it.trouble == finding.trouble
            && ranks(it) == ranks(finding)
    };
    reports.iter().any(|it| it.1.findings.iter().any(is_it))
}
