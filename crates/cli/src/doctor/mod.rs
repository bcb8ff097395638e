//! `topo doctor`: checks a machine or a file.

mod page;
mod price;

use anyhow::Result;
use planner::Settings;
use probe::{Finding, checks};
use serde::Serialize;
use serde_json::json;
use topology::xml::Document;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::DoctorArguments;
use crate::environment::Environment;
use crate::input::FileOrProbe;
use crate::output::{self, Output};
pub use page::{section, table};
use price::Cost;

/// Findings with what they cost.
#[derive(Debug)]
pub struct FindingReport {
    pub findings: Vec<(Finding, Option<Cost>)>,
}

#[derive(Debug, Serialize)]
pub struct FindingRow<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    title: &'static str,
    cost: Option<Cost>,
}

impl FindingReport {
    pub fn rows(&self) -> Vec<FindingRow<'_>> {
        self.findings
            .iter()
            .map(|(finding, cost)| FindingRow {
                finding,
                title: finding.rule.title(),
                cost: *cost,
            })
            .collect()
    }
}

/// Findings with their costs.
pub fn priced(findings: &[Finding], document: &Document, settings: &Settings) -> FindingReport {
    let priced = findings
        .iter()
        .map(|finding| (finding.clone(), price::cost(finding, document, settings)));
    FindingReport {
        findings: priced.collect(),
    }
}

pub fn run(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let subject = FileOrProbe::read(
        arguments.file.as_deref(),
        &arguments.source,
        environment,
        output,
    )?;
    // The reader's warnings are among the findings.
    output.warnings.clear();
    let settings = environment.settings(&arguments.variables, &mut output.warnings);
    if let FileOrProbe::Probed(_) = subject {
        // A probe reads the file, unlike commands that are given one.
        output
            .warnings
            .retain(|remark| !remark.starts_with("NCCL_TOPO_FILE="));
    }
    let (found, document) = match subject {
        FileOrProbe::File(machine) => (checks::of_document(&machine.document), machine.document),
        FileOrProbe::Probed(probe) => (probe.findings, probe.document),
    };
    let report = priced(&found, &document, &settings);
    output.differs = !report.findings.is_empty();
    output.text = match arguments.format {
        TextOrJson::Text => page::table(&report, environment.look()),
        TextOrJson::Json => output::json(&json!({"findings": report.rows()}))?,
    };
    Ok(())
}
