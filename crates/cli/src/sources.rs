//! The files of a job: topology files, or one plan.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use plan::Plan;
use topology::xml::{Element, Tag};

use crate::arguments::JobArguments;
use crate::complete::{explain, with_assumed};
use crate::input::{Machine, Source};
use crate::output::Output;

/// Refuses standard input for more than one of the files.
pub fn refuse_input_twice(arguments: &JobArguments) -> Result<()> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input (-) can be read once only; use --hosts for equal hosts, or files");
    }
    Ok(())
}

/// Reads the machines that the arguments name, with what the arguments assume of them.
pub fn machines(arguments: &JobArguments, output: &mut Output) -> Result<Vec<Machine>> {
    refuse_input_twice(arguments)?;
    let files = arguments.files.iter();
    files
        .map(|file| completed(Machine::read(file, output)?, arguments, output))
        .collect()
}

/// A machine with what the arguments assume of it.
fn completed(
    mut machine: Machine,
    arguments: &JobArguments,
    output: &mut Output,
) -> Result<Machine> {
    if machine.is_rccl() {
        return Ok(machine);
    }
    let (document, missing) = with_assumed(&machine.document, &arguments.assume)?;
    machine.document = document;
    if !missing.is_empty() {
        let text = explain(&machine.document, &missing);
        // Without any GPU there is nothing to plan; otherwise what is there can be.
        if !has_gpu(&machine.document.root) && !missing.gpus.is_empty() {
            bail!("{text}");
        }
        output.warnings.push(text);
    } else if !has_gpu(&machine.document.root) {
        bail!(
            "{} has no GPU to plan for; `topo run --ranks N` runs collectives on the processors of a machine",
            machine.document.file
        );
    }
    Ok(machine)
}

/// Whether the file has a GPU that a rank uses.
fn has_gpu(element: &Element) -> bool {
    match element.tag {
        Tag::Gpu => element.get("rank").is_some(),
        _ => element.children.iter().any(has_gpu),
    }
}

/// What the files of a job are.
#[derive(Debug)]
pub enum Sources {
    /// One plan, with what it is called.
    Plan(String, Box<Plan>),
    /// Topology files.
    Machines(Vec<Machine>),
}

/// Reads the files of a job. Options that cannot change a plan are refused beside one.
pub fn read(arguments: &JobArguments, output: &mut Output) -> Result<Sources> {
    refuse_input_twice(arguments)?;
    let mut machines = Vec::new();
    for file in &arguments.files {
        match Source::read(file, output)? {
            Source::Plan(name, plan) => {
                arguments.refuse_beside_plan(&name)?;
                return Ok(Sources::Plan(name, plan));
            }
            Source::Topology(machine) => machines.push(completed(machine, arguments, output)?),
        }
    }
    Ok(Sources::Machines(machines))
}
