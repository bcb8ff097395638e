//! All answers of NCCL's published binaries agree with the planner, version by version.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use golden::binary::Answer;
use libtest_mimic::Trial;
use planner::NcclVersion;
use testkit::{Machine, elsewhere};

use crate::{not_run, test};

/// One test for each version.
pub(crate) fn tests() -> Vec<Trial> {
    let answers = match elsewhere::binaries() {
        Ok(answers) => answers,
        Err(why) => return vec![not_run("binaries::answers", why)],
    };
    Answer::versions(&answers)
        .into_iter()
        .map(|version| {
            let answers = answers.clone();
            test(format!("binaries::{version}"), move || {
                replay(&answers, version)
            })
        })
        .collect()
}

fn replay(answers: &Path, version: NcclVersion) -> Result<()> {
    let machines = Machine::home();
    let files: Vec<PathBuf> = Answer::list(answers, version)?;
    ensure!(!files.is_empty(), "no answers of {version}");
    let mut differing = Vec::new();
    for file in &files {
        let answer = Answer::read(file, answers)?;
        for (field, difference) in answer.replay(&machines) {
            let text = |difference| format!("{}: {}: {difference}", answer.name, field.name());
            differing.extend(difference.map(text));
        }
    }
    ensure!(
        differing.is_empty(),
        "{} of {} answers of {version}:\n{}",
        differing.len(),
        files.len(),
        differing.join("\n")
    );
    Ok(())
}
