//! Generated files, and the checks that commands write, run and read as their readers do: on hosts
//! that measure well, measure too little, fail, hang, or lack what is needed. A healthy host is
//! never drained, a bad one always, and one that cannot be measured never, but it is said.

mod action;
mod outputs;
mod readers;
mod runs;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::RwLock;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use readers::{Ended, READERS, Reader};
use runs::{Run, runs};

/// The fewest pairs of a generated file and a run.
const CELLS: usize = 120;

/// Good programs of a host, in the language of the shell.
const TOOLS: [(&str, &str); 4] = [
    ("scontrol", "printf '%s\\n' \"$*\" >>drained"),
    (
        "kubectl",
        "[ \"$1\" = get ] || printf '%s\\n' \"$*\" >>drained",
    ),
    (
        "nvidia-smi",
        "[ $1 = -i ] && case $2 in 0,1,2,3,4,5,6,7 | 4,5,6,7) ;; *) exit 6 ;; esac\n\
         case $* in *compute_cap,name*) for it in 1 2 3 4 5 6 7 8; do echo '9.0, NVIDIA H100 80GB HBM3'; done ;; esac",
    ),
    // A container sleeps when it is done.
    (
        "sleep",
        "case $1 in 3600 | infinity) echo \"$1\" >>slept ;; *) exec /bin/sleep \"$1\" ;; esac",
    ),
];

/// Names of hosts: usual, and an attacker's.
const HOSTS: [&str; 2] = ["n1", "n1; touch hacked; $(touch hacked)`touch hacked`'\""];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most wait for programs that hang.
    arguments.test_threads.get_or_insert(8);
    let mut trials = Vec::new();
    let runs: &'static [Run] = runs().leak();
    for reader in READERS {
        for run in runs.iter().filter(|run| reader.reads(run)) {
            let host = HOSTS[usize::from(run.name.starts_with("hostile"))];
            let name = format!("{}::{}", reader.name, run.name);
            let trial = Trial::ignorable_test(name, move || judged(reader, run, host));
            trials.push(trial);
        }
    }
    trials.extend(action::trials());
    assert!(
        trials.len() >= CELLS,
        "{} cells, expected {CELLS}",
        trials.len()
    );
    trials.extend(outputs::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn not_run(why: &str) -> Result<Completion, Failed> {
    Ok(Completion::ignored_with(format!("not run: {why}")))
}

/// The name of a topology file that commands in the languages of all files follow.
const HOSTILE_FILE: &str = "a@VISIBLE@touch hacked #@FLOORS@open('hacked', 'w') #.xml";

/// The file that `topo expect` writes about a topology file of this name.
fn written(format: &str, options: &[impl AsRef<OsStr>]) -> Result<String, Failed> {
    let folder = tempfile::tempdir()?;
    let known =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies/dgx-h100/topology.xml");
    std::fs::copy(known, folder.path().join(HOSTILE_FILE))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.current_dir(folder.path());
    command.args(["expect", HOSTILE_FILE, "--format", format]);
    if !options.iter().any(|it| it.as_ref() == "--sizes") {
        command.args(["--sizes", "8G"]);
    }
    let said = output(command.args(options).stdin(Stdio::null()))?;
    match said.status.success() {
        true => Ok(String::from_utf8(said.stdout)?),
        false => Err(text(&said).into()),
    }
}

/// Both streams of a program.
fn text(said: &Output) -> String {
    let [out, err] = [&said.stdout, &said.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{}\n{out}{err}", said.status)
}

/// A reader's verdict on a run, and whether it says that verdict and why.
fn judged(reader: &Reader, run: &Run, host: &str) -> Result<Completion, Failed> {
    let Some(ended) = read(reader, run, host)? else {
        return not_run(reader.lacks);
    };
    let verdict = (reader.verdict)(&ended, host);
    let expected = run.verdict.as_str();
    if verdict != Some(expected) {
        let told = &ended.told;
        return Err(format!("{verdict:?}, expected {expected:?}\n{}{told}", ended.text).into());
    }
    let says = match expected {
        "fail" => {
            let seen = ["233.1", "20.9", "wrong"];
            seen.iter().any(|it| ended.text.contains(it))
        }
        "pass" => !ended.text.contains("UNKNOWN"),
        word => ended.text.contains(&word.to_uppercase()) || ended.text.contains("error: "),
    };
    let why = run.says.iter().any(|it| ended.text.contains(it));
    // What is judged from its log alone has reasons of its own.
    let is_own = reader.format.is_none() && expected == "unknown";
    match says && (why || is_own || run.says.is_empty()) {
        true => Ok(Completion::Completed),
        false => Err(format!("expected one of {:?} in\n{}", run.says, ended.text).into()),
    }
}

/// Runs a reader in a folder of its own; `None` if it is not here.
fn read(reader: &Reader, run: &Run, host: &str) -> Result<Option<Ended>, Failed> {
    let folder = tempfile::tempdir()?;
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs)?;
    let tools = run
        .tools
        .iter()
        .map(|(name, script)| (name.as_str(), script.as_str()));
    for (name, script) in TOOLS.into_iter().chain(tools) {
        executable(&programs.join(name), script)?;
    }
    let variables = run.variables.iter();
    let variables = variables.map(|(name, it)| format!("{name}={it}"));
    let variables: Vec<String> = run.limits().chain(variables).collect();
    std::fs::write(folder.path().join("variables"), variables.join("\n"))?;
    if let Some(program) = &run.program {
        let path = programs.join("all_reduce_perf");
        executable(&path, program)?;
        if !reader.has.contains(&"programs") {
            let mut command = Command::new("timeout");
            command.args(["-k", "1", run.longest()]).arg(path);
            let said = output(command.env("READ", "1").stdin(Stdio::null()))?;
            std::fs::write(folder.path().join("all_reduce.log"), said.stdout)?;
        }
    }
    let file = reader
        .format
        .map(|it| written(it, &run.options))
        .transpose()?;
    let ended = (reader.run)(folder.path(), &file.unwrap_or_default(), host)?;
    match folder.path().join("hacked").exists() {
        true => Err("a name was run as a program".into()),
        false => Ok(ended),
    }
}

/// A process that starts while a program is written holds that file open, and until it has its own
/// program nothing can run the other one.
static PROGRAMS: RwLock<()> = RwLock::new(());

/// Writes a program in the language of the shell.
fn executable(path: &Path, script: &str) -> Result<(), Failed> {
    executable_text(path, &format!("#!/bin/sh\n{script}\n"))
}

/// Writes a program.
fn executable_text(path: &Path, text: &str) -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    let _alone = PROGRAMS.write();
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Runs a program to its end.
fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = {
        let _beside = PROGRAMS.read();
        command.spawn()
    };
    child?.wait_with_output()
}

/// The path of a program: that of a variable, that of `cargo xtask fetch readers`, or the
/// installed one.
fn program(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(named.into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path);
    std::iter::once(target.join("readers/bin"))
        .chain(folders)
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}
