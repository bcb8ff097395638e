//! `cargo xtask bless`: records the planner's output for machines whose expectation is blessed.

use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use golden::expectation;
use similar::TextDiff;
use testkit::{Expectation, Machine};

use crate::workspace::{exit, write_beside};

/// How to accept a difference.
pub const HOW_TO_BLESS: &str =
    "if this is what was meant: `cargo xtask bless`, then read the diff before you commit it";

/// Arguments of `cargo xtask bless`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only these machines
    names: Vec<String>,
    /// Write nothing, and fail if something would change
    #[arg(long)]
    check: bool,
}

/// Records what changed, or prints it.
///
/// # Errors
/// A machine is unknown or has no plan, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machines = machines(&arguments.names)?;
    let mut changed = 0;
    for machine in &machines {
        for stale in stale(machine)? {
            changed += 1;
            if arguments.check {
                print!("{}", stale.diff());
            } else {
                stale.write()?;
                println!("{}", stale.name);
            }
        }
    }
    let done = if arguments.check { "differ" } else { "written" };
    println!("{} machines, {changed} files {done}", machines.len());
    let passed = !arguments.check || changed == 0;
    if !passed {
        println!("{HOW_TO_BLESS}");
    }
    Ok(exit(passed))
}

/// A recorded file of a machine that differs from the planner's present output.
#[derive(Debug)]
pub struct Stale {
    /// The machine's name and the file in its folder.
    pub name: String,
    /// Present content.
    text: String,
    /// Recorded content; `None` if the file is missing.
    recorded: Option<String>,
}

impl Stale {
    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Result<()> {
        write_beside(&Machine::home().join(&self.name), self.text.as_bytes())
    }

    /// The differing lines with some context.
    pub fn diff(&self) -> String {
        let recorded = self.recorded.as_deref().unwrap_or_default();
        let diff = TextDiff::from_lines(recorded, &self.text);
        let mut unified = diff.unified_diff();
        let (before, after) = (
            format!("{} recorded", self.name),
            format!("{} now", self.name),
        );
        unified
            .context_radius(2)
            .header(&before, &after)
            .to_string()
    }
}

/// The blessed machines of these names; all if there are no names.
///
/// # Errors
/// A folder is not valid, or a name is not that of a blessed machine.
pub fn machines(names: &[String]) -> Result<Vec<Machine>> {
    let mut machines = Machine::all()?;
    for name in names {
        match machines.iter().find(|machine| machine.name == *name) {
            None => bail!(
                "there is no machine {name} in {}",
                Machine::home().display()
            ),
            Some(machine) if machine.origin.expectation != Expectation::Blessed => {
                bail!("{name} is compared with answers of NCCL, so it cannot be blessed")
            }
            Some(_) => {}
        }
    }
    machines.retain(|machine| {
        machine.origin.expectation == Expectation::Blessed
            && (names.is_empty() || names.contains(&machine.name))
    });
    Ok(machines)
}

/// The files of a machine that differ from the planner's present output.
///
/// # Errors
/// The machine or one of the files cannot be read.
pub fn stale(machine: &Machine) -> Result<Vec<Stale>> {
    let mut found = Vec::new();
    for expected in expectation::of(machine)? {
        let path = machine.folder.join(&expected.path);
        let recorded = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        if recorded.as_ref() != Some(&expected.text) {
            let name = format!("{}/{}", machine.name, expected.path.display());
            found.push(Stale {
                name,
                text: expected.text,
                recorded,
            });
        }
    }
    Ok(found)
}
