//! The `topo` program as a process, where a case file cannot describe a test.

mod artifacts;
mod compare;
mod crowded;
mod help;
mod machines;
mod pages;
mod renumber;
mod run;
mod tasks;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The exit status of every error.
const FAILED: i32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `topo` in the repository's root, without variables of NCCL.
fn topo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command
        .current_dir(root())
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR");
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NCCL_"))
    {
        command.env_remove(name);
    }
    command
}

struct Said {
    out: String,
    err: String,
    status: Option<i32>,
}

fn said(output: Output) -> Said {
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code(),
    }
}

fn run(arguments: &[&str]) -> Said {
    said(topo().args(arguments).output().unwrap())
}

fn ok(arguments: &[&str]) -> Said {
    let said = run(arguments);
    assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
    said
}

/// A temporary file.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

fn refused(arguments: &[&str]) -> Said {
    let said = run(arguments);
    assert_eq!(said.status, Some(FAILED), "{arguments:?}: {}", said.err);
    assert!(
        said.err.lines().any(|line| line.starts_with("error: ")),
        "{arguments:?}: {}",
        said.err
    );
    assert_eq!(said.out, "", "{arguments:?}");
    said
}
