//! `topo doctor`: checks a machine or a file.

mod page;
mod price;

use anyhow::Result;
use planner::Settings;
use probe::{Finding, checks};
use schemars::JsonSchema;
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

/// A finding.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FindingRow {
    /// The id of its rule, such as `T001`; ids never change.
    id: String,
    /// The problem, in a few words.
    title: &'static str,
    /// The affected devices.
    device: String,
    /// The value found.
    seen: String,
    /// The expected value.
    expected: String,
    /// What to do.
    advice: String,
    /// Bandwidth lost by it; null if the planner cannot tell.
    cost: Option<Cost>,
}

impl FindingReport {
    pub fn rows(&self) -> Vec<FindingRow> {
        let row = |(finding, cost): &(Finding, Option<Cost>)| FindingRow {
            id: finding.rule.id(),
            title: finding.rule.title(),
            device: finding.device.clone(),
            seen: finding.seen.clone(),
            expected: finding.expected.clone(),
            advice: finding.advice.clone(),
            cost: *cost,
        };
        self.findings.iter().map(row).collect()
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
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::table(&report, environment.look()),
        TextOrJson::Json => output::json(&json!({"findings": report.rows()}))?,
    };
    Ok(())
}
