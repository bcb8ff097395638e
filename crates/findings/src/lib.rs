//! Faults of a topology file, and its missing parts.
//!
//! [`of_document`] checks a file. [`complete`] adds devices to files of cloud vendors; [`guest`]
//! makes files for virtual machines.
//!
//! [`causes`] has what makes jobs hang, fail or slow; [`facts`] has the lines that show it.
//!
//! [`check`] has what was checked, and what came of it, for every command that judges.
//!
//! In reading order: [`finding`], `document`, `flat`, `places`, `twins`, `virtual_functions`,
//! `merging`, [`complete`], [`guest`].

pub mod causes;
pub mod check;
pub mod complete;
mod document;
pub mod facts;
pub mod finding;
mod flat;
pub mod guest;
mod merging;
mod places;
mod twins;
mod virtual_functions;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

use topology::xml::Document;

pub use check::{Check, Maturity};
pub use finding::{AttributeChange, Effect, Finding, Remedy, Rule, Selector, Teller};

/// Checks a topology file. Findings are sorted by id.
pub fn of_document(document: &Document) -> Vec<Finding> {
    let mut findings = document::check(document);
    findings.extend(flat::check(document));
    findings.extend(places::check(document));
    findings.extend(twins::check(document));
    findings.extend(virtual_functions::check(document));
    add_merging(document, &mut findings);
    in_order(findings)
}

/// Adds the findings of a machine's document to those of the machine, sorted by id.
pub fn with_document(of_machine: Vec<Finding>, document: &Document) -> Vec<Finding> {
    let mut findings = Finding::joined(of_machine);
    // Reported already for the machine. NVLinks may lead to GPUs that are not in use.
    let told = [Rule::MissingAttribute, Rule::Incomplete, Rule::Dangling];
    let found = document::check(document).into_iter();
    findings.extend(found.filter(|finding| !told.contains(&finding.rule)));
    findings.extend(flat::check(document));
    add_merging(document, &mut findings);
    // The driver and the kernel told about NVLinks and NUMA nodes; a link that could be wider is
    // a finding already.
    let narrow = [Rule::Width, Rule::Speed, Rule::ImpossibleLink];
    if !findings
        .iter()
        .any(|finding| narrow.contains(&finding.rule))
    {
        findings.extend(places::narrow(document));
    }
    in_order(findings)
}

/// Adds what is doubtful about merged ports, unless a finding about the ports explains it.
fn add_merging(document: &Document, findings: &mut Vec<Finding>) {
    let explained = [Rule::PortDown, Rule::PortSlow, Rule::VirtualFunction];
    if !findings.iter().any(|it| explained.contains(&it.rule)) {
        findings.extend(merging::check(document));
    }
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.rule);
    findings
}
