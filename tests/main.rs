//! Tests of the repository as a whole. They are made from data: new data is a new test.
//!
//! | module | what it tests |
//! |---|---|
//! | [`machines`] | each folder of `topologies/` is planned as NCCL answered, or as blessed |
//! | [`agreement`] | all golden cases agree with NCCL, section by section (if they are there) |
//! | [`binaries`] | answers of NCCL's binaries agree, version by version (if they are there) |
//! | [`corpus`] | files of other people's machines load or are refused (if they are there) |
//! | [`house`] | the rules that no compiler checks |
//! | [`documents`] | pictures, tables, commands and links of the documents |
//!
//! A test that cannot run is shown as ignored, with the reason.

mod agreement;
mod binaries;
mod corpus;
mod documents;
mod house;
mod machines;

use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The top of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A test that always runs.
fn test(
    name: impl Into<String>,
    run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> Trial {
    Trial::test(name, || {
        run().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// A test that cannot run, and why.
fn not_run(name: &str, why: String) -> Trial {
    Trial::ignorable_test(name, move || {
        Ok(Completion::ignored_with(format!("not run: {why}")))
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = [
        machines::tests(),
        agreement::tests(),
        Ok(binaries::tests()),
        corpus::tests(),
        house::tests(),
        documents::tests(),
    ];
    match tests.into_iter().collect::<anyhow::Result<Vec<_>>>() {
        Ok(tests) => {
            libtest_mimic::run(&arguments, tests.into_iter().flatten().collect()).exit_code()
        }
        Err(error) => {
            eprintln!("error: the tests cannot be listed: {error:#}");
            ExitCode::FAILURE
        }
    }
}
