//! Checks of a probed machine.

mod devices;
mod driver;
mod isolation;
mod links;
mod network;
mod nvlink;
mod values;

pub use isolation::{SwitchPort, ports_between};

use findings::{Finding, Rule};

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
    findings::with_document(findings, &probe.document)
}
