//! `topo doctor`: checks machines or files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::doctor::{CheckedMachine, doctor};
use answers::report;
use anyhow::{Error, Result, bail};

use crate::arguments::compare::TextOrJson;
use crate::arguments::machine::DoctorArguments;
use crate::environment::Environment;
use crate::hints;
use crate::input::{FileOrProbe, refuse_missing, why};
use crate::output::Output;

/// Reads and checks all files, or this machine.
fn check_all(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Vec<CheckedMachine>> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input (-) can be read once only; expected files for the others");
    }
    let files: Vec<Option<&Path>> = match arguments.files.as_slice() {
        [] => vec![None],
        files => files.iter().map(|file| Some(file.as_path())).collect(),
    };
    files
        .iter()
        .flatten()
        .try_for_each(|file| refuse_missing(file))?;
    let mut checked = Vec::new();
    let mut warnings = Vec::new();
    for file in &files {
        let subject = FileOrProbe::read(*file, &arguments.source, environment, output);
        let name = file.map_or_else(String::new, |file| file.display().to_string());
        let (is_probed, are_bridges_read) = match &subject {
            Ok(FileOrProbe::Probed(probe)) => (true, probe.are_bridges_read()),
            _ => (false, None),
        };
        let (findings, content) = match (subject, *file) {
            (
                Ok(FileOrProbe::File {
                    machine,
                    findings,
                    assumed,
                }),
                _,
            ) => {
                warnings.extend(assumed);
                (findings, Ok(machine.document))
            }
            (Ok(FileOrProbe::Probed(probe)), _) => (probe.findings, Ok(Arc::new(probe.document))),
            (Err(problem), Some(file)) if files.len() > 1 => (Vec::new(), Err(why(file, &problem))),
            (Err(problem), _) => return Err(problem),
        };
        checked.push(CheckedMachine {
            file: name,
            content,
            findings,
            is_probed,
            are_bridges_read,
        });
    }
    // A reader's other warnings are among the findings.
    output.warnings = warnings;
    Ok(checked)
}

pub(crate) fn run(
    arguments: &DoctorArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    arguments.outputs.refuse_overwriting(&arguments.files)?;
    if arguments.files.len() > 1 && !arguments.dcgm.dcgm.is_empty() {
        bail!("--dcgm is about one machine; expected one file, or none for this machine");
    }
    let checked = check_all(arguments, environment, output)?;
    let of_amd = |machine: &&CheckedMachine| {
        let document = machine.content.as_ref();
        document.is_ok_and(|document| document.is_rccl())
    };
    if let Some(machine) = checked.iter().find(of_amd) {
        output.warnings.push(format!(
            "{} is a topology of AMD's RCCL: only its devices and links are checked, nothing has a cost",
            machine.file
        ));
    }
    let settings = environment.settings(&[], &arguments.variables, &mut output.warnings);
    if checked.iter().any(|it| it.is_probed) {
        // A probe reads the file, unlike commands that are given one.
        output
            .warnings
            .retain(|remark| !remark.starts_with("NCCL_TOPO_FILE="));
    }
    let mut answer = doctor(&checked, &settings)?;
    for (name, bytes) in arguments.dcgm.read()? {
        answer.add_dcgm(&name, &bytes).map_err(Error::msg)?;
    }
    arguments
        .outputs
        .judge("topo doctor", &answer.checks, output)?;
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page(&hints::advice).text(environment.look()),
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}
