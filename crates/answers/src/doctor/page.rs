//! Faults as a page.

use std::borrow::Cow;

use bounds::optimum::Optimum;
use findings::Rule;
use pages::numbers::or_dash;
use pages::terminal::{Look, wrap};
use pages::{Section, Table, row};

use super::{DoctorReport, LowShare, PricedFinding};
use crate::terminal::groups::{common_folder, files_of, page as groups_page};

impl LowShare {
    pub(super) fn of(it: Optimum) -> Self {
        let links = it.limit.summary();
        Self {
            sentence: format!(
                "NCCL's plan reaches {:.1} GB/s for {}, {} of the {:.1} GB/s that the links allow ({}{}{links}); topo \
                 bound shows what trees reach, topo plan --explain why NCCL's search ends lower.",
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

impl DoctorReport {
    /// The page: the groups of several machines, all findings, and what limits the plan. `advice`
    /// says what to do about a rule.
    pub fn text(&self, advice: &dyn Fn(Rule) -> Cow<'static, str>, look: Look) -> String {
        let findings = table(&self.findings, advice, look);
        let mut text = match &self.grouped {
            None => findings,
            Some(all) if self.findings.is_empty() && all.all.len() > 1 => {
                format!("{}\nno findings in single files\n", groups_page(all, look))
            }
            Some(all) => format!("{}\n{findings}", groups_page(all, look)),
        };
        for limit in &self.limits {
            text.push_str(&wrap(&limit.sentence, "note: ", "      ", look.width));
        }
        text
    }
}

/// Findings and, below, what to do; one line when there are none.
pub fn table(
    findings: &[PricedFinding],
    advice: &dyn Fn(Rule) -> Cow<'static, str>,
    look: Look,
) -> String {
    if findings.is_empty() {
        return "no findings\n".to_owned();
    }
    let several = findings.iter().any(|it| !it.files().is_empty());
    let mut headers = vec!["id", "device", "what", "seen", "expected", "costs"];
    if several {
        headers.insert(1, "files");
    }
    let folder = common_folder(findings.iter().flat_map(|it| it.files()));
    let mut columns = Table::new(headers);
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
        columns.row(cells);
    }
    let mut text = Section::default().table(columns).lines("\n").text(look);
    let mut rules: Vec<Rule> = findings.iter().map(|it| it.rule).collect();
    rules.dedup();
    for rule in rules {
        let first = format!("  {}  ", rule.id());
        text.push_str(&wrap(&advice(rule), &first, "        ", look.width));
    }
    text
}
