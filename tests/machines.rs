//! Plans each folder of `topologies/` as its origin requires.

use anyhow::{Result, ensure};
use golden::binary::Answer;
use golden::{Case, Section};
use libtest_mimic::Trial;
use testkit::{Expectation, Machine};
use xtask::bless;

use crate::test;

/// One test for each machine.
pub(crate) fn tests() -> Result<Vec<Trial>> {
    let machines = Machine::all()?.into_iter();
    Ok(machines
        .map(|machine| {
            test(format!("machines::{}", machine.name), move || {
                as_binaries_answered(&machine)?;
                match machine.origin.expectation {
                    Expectation::Nccl => as_nccl_answered(&machine),
                    Expectation::Blessed => as_blessed(&machine),
                }
            })
        })
        .collect())
}

/// All sections of all answers agree.
fn as_nccl_answered(machine: &Machine) -> Result<()> {
    let mut differing = Vec::new();
    for case in Case::on(machine)? {
        let verdicts = case.replay();
        // A case that NCCL refuses has nothing else to compare.
        let planned = verdicts
            .iter()
            .any(|(section, _)| *section == Section::Graphs);
        ensure!(
            planned
                || verdicts
                    .iter()
                    .all(|(section, _)| *section == Section::Refusal),
            "{}: only {} sections were compared",
            case.name,
            verdicts.len()
        );
        differing.extend(verdicts.into_iter().filter_map(|(section, difference)| {
            Some(format!(
                "{}: {}: {}",
                case.name,
                section.name(),
                difference?
            ))
        }));
    }
    ensure!(
        differing.is_empty(),
        "differs from NCCL:\n{}",
        differing.join("\n")
    );
    Ok(())
}

/// All fields of the answers of NCCL's binaries agree.
fn as_binaries_answered(machine: &Machine) -> Result<()> {
    let home = Machine::home();
    let mut differing = Vec::new();
    for answer in Answer::beside(machine)? {
        for (field, difference) in answer.replay(&home) {
            let (version, name) = (answer.version, &answer.name);
            let text = |difference| format!("{version} {name}: {}: {difference}", field.name());
            differing.extend(difference.map(text));
        }
    }
    let differences = differing.join("\n");
    ensure!(
        differing.is_empty(),
        "differs from NCCL's binary:\n{differences}"
    );
    Ok(())
}

/// The recorded files agree with the planner's present output.
fn as_blessed(machine: &Machine) -> Result<()> {
    let diffs: Vec<String> = bless::stale(machine)?
        .iter()
        .map(bless::Stale::diff)
        .collect();
    ensure!(
        diffs.is_empty(),
        "{}\n{}",
        bless::HOW_TO_BLESS,
        diffs.join("\n")
    );
    Ok(())
}
