//! The table of findings.

use answers::doctor::FindingReport;
use answers::groups::Groups;
use bounds::optimum::Optimum;

use crate::hints;
use crate::render::groups::{self, common_folder, files_of};
use crate::render::table::Columns;
use crate::render::{Look, count, or_dash, wrap};

/// The groups of several machines, and all findings.
pub(super) fn page(report: &FindingReport, all: Option<&Groups>, look: Look) -> String {
    match all {
        None => table(report, look),
        Some(all) => {
            let findings = match report.findings.is_empty() && all.all.len() > 1 {
                true => "no findings in single files\n".to_owned(),
                false => table(report, look),
            };
            format!("{}\n{findings}", groups::page(all, look))
        }
    }
}

/// The rest of the machine's links beside NCCL's plan, a sentence for each operation.
pub(super) fn limits(all: &[Optimum], look: Look) -> String {
    let mut text = String::new();
    for it in all {
        let links = it.limit.summary();
        let sentence = format!(
            "NCCL's plan reaches {:.1} GB/s for {}, {} of the {:.1} GB/s that the links allow ({}{}{links}); topo bound \
             shows what trees reach, topo plan --explain why NCCL's search ends lower.",
            it.nccl,
            it.operation,
            it.percent(),
            it.bound,
            it.limit.border,
            if links.is_empty() { "" } else { ": " },
        );
        text.push_str(&wrap(&sentence, "note: ", "      ", look.width));
    }
    text
}

/// Findings and, below, what to do; one line when there are none.
pub(crate) fn table(report: &FindingReport, look: Look) -> String {
    if report.findings.is_empty() {
        return "no findings\n".to_owned();
    }
    let several = report
        .findings
        .iter()
        .any(|priced| !priced.files.is_empty());
    let mut headers = vec!["id", "device", "what", "seen", "expected", "costs"];
    if several {
        headers.insert(1, "files");
    }
    let folder = common_folder(report.findings.iter().flat_map(|priced| &priced.files));
    let mut columns = Columns::new(look, &headers);
    for priced in &report.findings {
        let finding = &priced.finding;
        let mut cells = vec![
            finding.rule.id(),
            finding.device(),
            finding.rule.title().to_owned(),
            finding.seen.clone(),
            finding.expected.clone(),
            or_dash(priced.cost.as_ref().map(ToString::to_string)),
        ];
        if several {
            cells.insert(1, files_of(&priced.files, &folder));
        }
        columns.row(cells);
    }
    let mut text = columns.finish();
    text.push('\n');
    let mut rules: Vec<_> = report
        .findings
        .iter()
        .map(|priced| priced.finding.rule)
        .collect();
    rules.dedup();
    for rule in rules {
        text.push_str(&wrap(
            &hints::advice(rule),
            &format!("  {}  ", rule.id()),
            "        ",
            look.width,
        ));
    }
    text
}

/// The same as a part of a page.
pub(crate) fn section(report: &FindingReport, look: Look) -> String {
    let number = count(report.findings.len(), "finding");
    look.section("Findings", &number, &table(report, look))
}
