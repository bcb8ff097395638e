//! What is wrong with a machine.

use std::sync::Arc;

use planner::{Settings, rings};
use probe::{Finding, checks};
use serde_json::{Value, json};
use topology::xml::Document;

use crate::job;
use crate::request::JobRequest;

/// What a finding costs, in words, if the planner can tell.
fn cost(finding: &Finding, document: &Arc<Document>, settings: &Settings) -> Option<String> {
    let (now, mended) = finding.effect.states(document)?;
    rings::cost(&now, &mended, settings).map(|it| it.to_string())
}

/// Checks a topology file and plans it as the job's version does, without its faults.
///
/// # Errors
/// The file is no topology.
pub fn answer(request: &JobRequest) -> Result<Value, String> {
    let file = &request.file;
    let document = Arc::new(job::read(file)?);
    let settings = job::settings(request)?;
    let findings = checks::of_document(&document);
    let rows = findings.iter().map(|finding| {
        json!({
            "id": finding.rule.id(),
            "title": finding.rule.title(),
            "device": finding.device(),
            "devices": finding.devices,
            "seen": finding.seen,
            "expected": finding.expected,
            "advice": finding.advice,
            "costs": cost(finding, &document, &settings),
        })
    });
    let warnings = document.warnings.iter().map(ToString::to_string);
    Ok(json!({
        "name": file.name,
        "findings": rows.collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
    }))
}
