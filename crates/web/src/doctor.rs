//! Faults of a machine.

use std::sync::Arc;

use answers::doctor::{CheckedMachine, DoctorReport, doctor};
use answers::report;
use answers::request::JobRequest;
use findings::of_document;

/// Checks a topology file and plans it as the job's version does, without its faults.
///
/// # Errors
/// The file is no topology.
pub fn answer(request: &JobRequest) -> Result<String, String> {
    let document = Arc::new(request.file.document()?);
    let settings = request.settings()?;
    let checked = CheckedMachine {
        file: request.file.name.clone(),
        findings: of_document(&document),
        content: Ok(document),
    };
    let answer = doctor(&[checked], &settings).map_err(|why| why.to_string())?;
    report::line(&DoctorReport::of(&answer)).map_err(|why| why.to_string())
}
