//! `topo doctor`: checks a machine or a file.

use anyhow::Result;
use planner::Settings;
use probe::{Finding, checks};
use serde::Serialize;
use serde_json::json;
use topology::xml::Document;

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::DoctorArguments;
use crate::environment::Environment;
use crate::live::Subject;
use crate::output::Output;
use crate::price::{self, Cost};
use crate::render::{Look, findings};

/// Findings with what they cost.
#[derive(Debug)]
pub struct Report {
    /// In the order of their ids.
    pub findings: Vec<(Finding, Option<Cost>)>,
}

/// A finding as JSON has it.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    title: &'static str,
    cost: Option<Cost>,
}

impl Report {
    /// The findings for JSON.
    pub fn rows(&self) -> Vec<Row<'_>> {
        self.findings
            .iter()
            .map(|(finding, cost)| Row {
                finding,
                title: finding.rule.title(),
                cost: *cost,
            })
            .collect()
    }
}

/// Findings with what the planner says they cost.
pub fn priced(findings: &[Finding], document: &Document, settings: &Settings) -> Report {
    let priced = findings
        .iter()
        .map(|finding| (finding.clone(), price::cost(finding, document, settings)));
    Report {
        findings: priced.collect(),
    }
}

/// Checks and prints.
pub fn run(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let subject = Subject::read(
        arguments.file.as_deref(),
        &arguments.source,
        environment,
        output,
    )?;
    // What the reader says of a file is among the findings.
    output.warnings.clear();
    let settings = environment.settings(&arguments.variables, &mut output.warnings);
    if let Subject::Probed(_) = subject {
        // A probe reads the file, unlike commands that are given one.
        output
            .warnings
            .retain(|remark| !remark.starts_with("NCCL_TOPO_FILE="));
    }
    let (found, document) = match subject {
        Subject::File(machine) => (checks::of_document(&machine.document), machine.document),
        Subject::Probed(probe) => (probe.findings, probe.document),
    };
    let report = priced(&found, &document, &settings);
    output.differs = !report.findings.is_empty();
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    output.text = match arguments.format {
        TextOrJson::Text => findings::table(&report, look),
        TextOrJson::Json => {
            serde_json::to_string_pretty(&json!({"findings": report.rows()}))? + "\n"
        }
    };
    Ok(())
}
