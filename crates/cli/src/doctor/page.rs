//! The table of findings.

use super::FindingReport;
use crate::render::table::Columns;
use crate::render::{Look, count, or_dash, wrap};

/// Findings and, below, what to do; one line when there are none.
pub fn table(report: &FindingReport, look: Look) -> String {
    if report.findings.is_empty() {
        return "no findings\n".to_owned();
    }
    let mut columns = Columns::new(look, &["id", "device", "what", "seen", "expected", "costs"]);
    for (finding, cost) in &report.findings {
        columns.row(vec![
            finding.rule.id(),
            finding.device.clone(),
            finding.rule.title().to_owned(),
            finding.seen.clone(),
            finding.expected.clone(),
            or_dash(cost.map(|cost| cost.text())),
        ]);
    }
    let mut text = columns.finish();
    text.push('\n');
    let mut rules: Vec<_> = report
        .findings
        .iter()
        .map(|(finding, _)| finding.rule)
        .collect();
    rules.dedup();
    for rule in rules {
        text.push_str(&wrap(
            rule.advice(),
            &format!("  {}  ", rule.id()),
            "        ",
            look.width,
        ));
    }
    text
}

/// The same as a part of a page.
pub fn section(report: &FindingReport, look: Look) -> String {
    let number = count(report.findings.len(), "finding");
    look.section("Findings", &number, &table(report, look))
}
