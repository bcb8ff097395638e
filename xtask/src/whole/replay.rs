//! `cargo xtask replay DIR`: plans golden cases, or answers of NCCL's binaries, again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use golden::binary::{Answer, Field};
use golden::{Case, Section};
use planner::NcclVersion;
use testkit::Machine;
use xtask::workspace::exit;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder with `topologies/` and `cases/`, or with a folder of answers for each version
    directory: PathBuf,
    /// Only cases whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Only answers of this version of NCCL
    #[arg(long, value_name = "VERSION")]
    nccl: Option<NcclVersion>,
    /// Print every difference of an answer, not only the first
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !Answer::versions(&arguments.directory).is_empty() {
        return replay_answers(arguments);
    }
    let topologies = arguments.directory.join("topologies");
    let mut totals: BTreeMap<Section, (usize, usize)> = BTreeMap::new();
    let (mut cases, mut differing) = (0, 0);
    for path in Case::list(&arguments.directory)? {
        let case = Case::read(&path, &topologies)?;
        if arguments
            .filter
            .as_ref()
            .is_some_and(|filter| !case.name.contains(filter.as_str()))
        {
            continue;
        }
        cases += 1;
        let verdicts = case.replay();
        let mut first = None;
        for (section, difference) in verdicts {
            let (agreed, compared) = totals.entry(section).or_default();
            *compared += 1;
            match difference {
                None => *agreed += 1,
                Some(difference) => drop(first.get_or_insert((section, difference))),
            }
        }
        if let Some((section, difference)) = first {
            differing += 1;
            println!("{}: {}: {difference}", case.name, section.name());
        }
    }
    if cases == 0 {
        bail!("no case matches in {}", arguments.directory.display());
    }
    for (section, (agreed, compared)) in &totals {
        println!("{:8} {agreed} of {compared} agree", section.name());
    }
    println!("{cases} cases, {differing} differ");
    Ok(exit(differing == 0))
}

/// Plans the answers of NCCL's binaries again, version after version.
fn replay_answers(arguments: &Arguments) -> Result<ExitCode> {
    let machines = Machine::home();
    let mut all_agree = true;
    let mut versions = Answer::versions(&arguments.directory);
    versions.retain(|version| arguments.nccl.is_none_or(|wanted| *version == wanted));
    for version in versions {
        let mut totals: BTreeMap<Field, (usize, usize)> = BTreeMap::new();
        let (mut answers, mut differing) = (0, 0);
        for path in Answer::list(&arguments.directory, version)? {
            let answer = Answer::read(&path, &arguments.directory)?;
            let filter = arguments.filter.as_ref();
            if filter.is_some_and(|filter| !answer.name.contains(filter.as_str())) {
                continue;
            }
            answers += 1;
            let mut differences = Vec::new();
            for (field, difference) in answer.replay(&machines) {
                let (agreed, compared) = totals.entry(field).or_default();
                *compared += 1;
                match difference {
                    None => *agreed += 1,
                    Some(difference) => differences.push((field, difference)),
                }
            }
            differing += usize::from(!differences.is_empty());
            let shown = if arguments.all { differences.len() } else { 1 };
            for (field, difference) in differences.into_iter().take(shown) {
                println!("{version} {}: {}: {difference}", answer.name, field.name());
            }
        }
        for (field, (agreed, compared)) in &totals {
            println!("{version} {:16} {agreed} of {compared} agree", field.name());
        }
        println!("{version}: {answers} answers, {differing} differ");
        all_agree &= differing == 0 && answers > 0;
    }
    Ok(exit(all_agree))
}
