//! Faults as a page.

use std::borrow::Cow;

use bounds::optimum::Optimum;
use findings::{Rule, check};
use pages::numbers::or_dash;
use pages::{Page, Section, Table, row};

use super::{DoctorReport, LowShare, PricedFinding};
use crate::diff::groups::page::{common_folder, files_of};

impl LowShare {
    pub(super) fn of(it: Optimum) -> Self {
        let links = it.limit.summary();
        Self {
            sentence: format!(
                "NCCL's plan reaches {:.1} GB/s for {}, {} of the {:.1} GB/s that the links allow ({}{}{links})",
                it.nccl,
                it.operation,
                it.percent(),
                it.bound,
                it.limit.border,
                if links.is_empty() { "" } else { ": " },
            ),
            operation: it.operation,
            bound_gbps: it.bound,
            nccl_gbps: it.nccl,
            border: it.limit.border,
        }
    }
}

/// Says what to do about a rule.
pub type Advice<'a> = &'a dyn Fn(Rule) -> Cow<'static, str>;

impl DoctorReport {
    /// The page: the groups of several machines, all findings, and what limits the plan.
    pub fn page(&self, advice: Advice<'_>) -> Page {
        let mut page = Page::default();
        let mut several = false;
        if let Some(groups) = &self.groups {
            several = groups.all.len() > 1;
            page = groups.page();
            page.section("", "").lines("\n");
        }
        let section = page.section("", "");
        match self.findings.is_empty() && several {
            true => section.lines("no findings in single files\n"),
            false => findings(section, &self.findings, advice),
        };
        for test in self.of_dcgm() {
            section.item(test);
        }
        section.faint(check::summary(&self.checks));
        for limit in &self.limits {
            section.note(&limit.sentence).hint(
                "; topo bound shows what trees reach, topo plan --explain why NCCL's search ends lower.",
            );
        }
        page
    }
}

/// Adds findings and, below, what to do; one line when there are none.
pub fn findings<'s>(
    section: &'s mut Section,
    findings: &[PricedFinding],
    advice: Advice<'_>,
) -> &'s mut Section {
    if findings.is_empty() {
        return section.lines("no findings\n");
    }
    let several = findings.iter().any(|it| !it.files().is_empty());
    let mut headers = vec!["id", "device", "what", "seen", "expected", "costs"];
    if several {
        headers.insert(1, "files");
    }
    let folder = common_folder(findings.iter().flat_map(|it| it.files()));
    let mut table = Table::new(headers);
    for it in findings {
        let mut cells = row![
            it.id,
            it.device,
            it.title,
            it.seen,
            it.expected,
            or_dash(it.costs.as_ref())
        ];
        if several {
            cells.insert(1, files_of(it.files(), &folder));
        }
        table.row_of(it.devices.clone(), cells);
    }
    section.table(table).lines("\n");
    let mut rules: Vec<Rule> = findings.iter().map(|it| it.rule).collect();
    rules.dedup();
    for rule in rules {
        section.labeled(format!("{}  ", rule.id()), advice(rule));
    }
    section
}
