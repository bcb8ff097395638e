//! What is wrong with a machine.

use probe::checks;
use serde_json::{Value, json};

use crate::job;
use crate::request::File;

/// Checks a topology file.
///
/// # Errors
/// The file is no topology.
pub fn answer(file: &File) -> Result<Value, String> {
    let document = job::read(file)?;
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
        })
    });
    let warnings = document.warnings.iter().map(ToString::to_string);
    Ok(json!({
        "name": file.name,
        "findings": rows.collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
    }))
}
