//! Checks of a probed machine and of topology files.

mod devices;
mod document;
mod driver;
mod flat;
mod isolation;
mod links;
mod merging;
mod network;
mod nvlink;
mod places;
mod twins;
mod values;
mod virtual_functions;

pub use isolation::{SwitchPort, ports_between};
use topology::xml::Document;

use crate::finding::{Finding, Rule};
use crate::{Probe, base};

/// Checks a probed machine and its document. Findings are sorted by id. `unread` is why the file
/// that NCCL starts from could not be read.
pub(crate) fn of_probe(probe: &Probe, unread: Option<String>) -> Vec<Finding> {
    let mut findings = driver::check(probe);
    findings.extend(
        unread
            .map(|why| Finding::new(Rule::Garbage, base::NAME, why, "a topology that NCCL reads")),
    );
    findings.extend(links::check(probe));
    findings.extend(values::check(probe));
    findings.extend(nvlink::check(probe));
    findings.extend(isolation::check(probe));
    findings.extend(network::check(probe));
    findings.extend(devices::check(probe));
    let mut findings = Finding::joined(findings);
    // Reported already for the machine. NVLinks may lead to GPUs that are not in use.
    let told = [Rule::MissingAttribute, Rule::Incomplete, Rule::Dangling];
    let document = document::check(&probe.document).into_iter();
    findings.extend(document.filter(|finding| !told.contains(&finding.rule)));
    findings.extend(flat::check(&probe.document));
    add_merging(&probe.document, &mut findings);
    // The driver and the kernel told about NVLinks and NUMA nodes; a link that could be wider is
    // a finding already.
    let narrow = [Rule::Width, Rule::Speed, Rule::ImpossibleLink];
    if !findings
        .iter()
        .any(|finding| narrow.contains(&finding.rule))
    {
        findings.extend(places::narrow(&probe.document));
    }
    in_order(findings)
}

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
