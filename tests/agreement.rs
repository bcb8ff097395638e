//! All golden cases agree with NCCL, section by section.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use golden::Case;
use libtest_mimic::Trial;
use testkit::elsewhere;

use crate::{not_run, test};

/// Most cases of one test, so that several tests run in parallel.
const CASES_OF_A_TEST: usize = 50;

/// One test for each group of cases with a common first word.
pub(crate) fn tests() -> Result<Vec<Trial>> {
    let physical = of("golden_cases", elsewhere::golden())?;
    let merged = of("merged_ports", elsewhere::golden_with_merged_ports())?;
    Ok(physical.into_iter().chain(merged).collect())
}

fn of(name: &str, golden: Result<PathBuf, String>) -> Result<Vec<Trial>> {
    let golden = match golden {
        Ok(golden) => golden,
        Err(why) => return Ok(vec![not_run(&format!("agreement::{name}"), why)]),
    };
    let mut families: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in Case::list(&golden)? {
        families.entry(family(&path)).or_default().push(path);
    }
    ensure!(!families.is_empty(), "no cases in {}", golden.display());
    let mut tests = Vec::new();
    for (family, paths) in families {
        for (part, paths) in paths.chunks(CASES_OF_A_TEST).enumerate() {
            let (paths, topologies) = (paths.to_vec(), golden.join("topologies"));
            let name = format!(
                "agreement::{name}::{family}::{part} ({} cases)",
                paths.len()
            );
            tests.push(test(name, move || replay(&paths, &topologies)));
        }
    }
    Ok(tests)
}

/// The first word of a case's name.
fn family(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.split(['-', '.', '_'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn replay(paths: &[PathBuf], topologies: &Path) -> Result<()> {
    let mut differing = Vec::new();
    for path in paths {
        let case = Case::read(path, topologies)?;
        let verdicts = case.replay();
        verdicts
            .first()
            .with_context(|| format!("{}: nothing was compared", case.name))?;
        let first = verdicts
            .into_iter()
            .find_map(|(section, difference)| Some((section, difference?)));
        if let Some((section, difference)) = first {
            differing.push(format!("{}: {}: {difference}", case.name, section.name()));
        }
    }
    ensure!(
        differing.is_empty(),
        "{} of {} cases differ:\n{}",
        differing.len(),
        paths.len(),
        differing.join("\n")
    );
    Ok(())
}
