//! Files of other people's machines, where they are there: the program shows or refuses each of them like any other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use test_support::elsewhere::{self, files};

/// Something was wrong with the file, and was said.
const REFUSED: i32 = 2;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let tests = match elsewhere::corpus() {
        Ok(corpus) => list(&corpus),
        Err(why) => vec![Trial::ignorable_test("corpus::files", move || {
            Ok(Completion::ignored_with(format!("not run: {why}")))
        })],
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn list(corpus: &Path) -> Vec<Trial> {
    let mut tests = Vec::new();
    for folder in ["nccl", "rccl"] {
        for file in files(&corpus.join(folder), "xml").unwrap_or_default() {
            let name = format!(
                "{folder}::{}",
                file.file_name().unwrap_or_default().to_string_lossy()
            );
            tests.push(Trial::test(name, move || topology(&file)));
        }
    }
    for file in files(&corpus.join("graphs"), "xml").unwrap_or_default() {
        let name = format!(
            "graphs::{}",
            file.file_name().unwrap_or_default().to_string_lossy()
        );
        tests.push(Trial::test(name, move || graph(&file)));
    }
    tests
}

/// `show`, `plan` and a plan of two hosts end with an answer, or with one error that names the file or a device.
fn topology(file: &PathBuf) -> Result<(), Failed> {
    for arguments in [
        &["show"][..],
        &["plan"],
        &["plan", "--hosts", "2"],
        &["plan", "--format", "json"],
    ] {
        check(
            Command::new(env!("CARGO_BIN_EXE_topo"))
                .args(arguments)
                .arg(file),
        )?;
    }
    Ok(())
}

/// A graph file of another machine: it is taken, or refused, but the program stays upright.
fn graph(file: &PathBuf) -> Result<(), Failed> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies/dgx-h100");
    check(
        Command::new(env!("CARGO_BIN_EXE_topo"))
            .arg("plan")
            .arg(machine)
            .env("NCCL_GRAPH_FILE", file),
    )
}

fn check(command: &mut Command) -> Result<(), Failed> {
    let output = command.stdin(Stdio::null()).output()?;
    let (out, err) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    let errors: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    let well = match output.status.code() {
        Some(0) => errors.is_empty() && !out.is_empty(),
        // A sentence: what is wrong, where, and what was expected or what to do.
        Some(REFUSED) => {
            out.is_empty() && matches!(errors.as_slice(), [error] if error.split(' ').count() > 8)
        }
        _ => false,
    };
    let odd = err
        .lines()
        .find(|line| !line.starts_with("warning: ") && !line.starts_with("error: "));
    if well && odd.is_none() {
        return Ok(());
    }
    Err(Failed::from(format!(
        "{command:?}: {:?}\n{err}",
        output.status
    )))
}
