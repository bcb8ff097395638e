//! `cargo xtask replay DIR`: plans golden cases again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use golden::{Case, Section};
use xtask::workspace::exit;

#[derive(clap::Args)]
pub struct Arguments {
    /// A folder with `topologies/` and `cases/`
    directory: PathBuf,
    /// Only cases whose name contains this
    #[arg(long)]
    filter: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
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
