//! Files of other people's machines. Each loads and stays equal when written, or is refused with a
//! message that helps to correct it.
//!
//! `crates/cli/tests/corpus.rs` tests the program's output for these files.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use libtest_mimic::Trial;
use testkit::elsewhere::{self, files};
use topology::System;
use topology::xml::{Document, parse, write};

use crate::{not_run, test};

/// More warnings than a user reads.
const MOST_WARNINGS: usize = 60;

pub(crate) fn tests() -> Result<Vec<Trial>> {
    let mut tests = match elsewhere::corpus() {
        Ok(corpus) => [
            files(&corpus.join("nccl"), "xml")?,
            files(&corpus.join("rccl"), "xml")?,
        ]
        .concat()
        .into_iter()
        .map(|path| {
            test(format!("corpus::{}", name(&path)), move || {
                loads_or_says_why(&path)
            })
        })
        .collect(),
        Err(why) => vec![not_run("corpus::files_load_or_say_why", why)],
    };
    tests.push(match elsewhere::golden() {
        Ok(golden) => test("corpus::golden_topologies_load", move || {
            files(&golden.join("topologies"), "xml")?
                .iter()
                .try_for_each(|path| loads(path))
        }),
        Err(why) => not_run("corpus::golden_topologies_load", why),
    });
    Ok(tests)
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn loads_or_says_why(path: &PathBuf) -> Result<()> {
    let bytes = std::fs::read(path)?;
    let error = match parse(&name(path), &bytes) {
        Ok(document) => {
            survives_writing(&document)?;
            match System::from_document(&document) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // A user needs these parts to correct the file.
    ensure!(error.place.position.line > 0, "{error}: without a line");
    for part in [&error.problem, &error.found, &error.expected] {
        ensure!(!part.trim().is_empty(), "{error}: says too little");
    }
    Ok(())
}

/// A file that NCCL planned loads without a warning that NCCL refuses it, and stays equal when
/// written.
fn loads(path: &Path) -> Result<()> {
    let document = parse(&name(path), &std::fs::read(path)?)?;
    if let Some(warning) = document
        .warnings
        .iter()
        .find(|warning| warning.message.contains("refuses this file"))
    {
        bail!("{warning}");
    }
    survives_writing(&document)
}

fn survives_writing(document: &Document) -> Result<()> {
    let warnings = document.warnings.len();
    ensure!(
        warnings < MOST_WARNINGS,
        "{}: {warnings} warnings are too many to read",
        document.file
    );
    let text = write(document);
    let again = parse(&document.file, text.as_bytes())?;
    ensure!(
        document.root.same_as(&again.root),
        "{} changed when written:\n{text}",
        document.file
    );
    ensure!(
        document.version == again.version,
        "{}: another version",
        document.file
    );
    Ok(())
}
