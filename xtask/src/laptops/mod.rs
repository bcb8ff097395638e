//! `cargo xtask laptops`: what plans, compares, reads and draws, on systems that are not Linux.
//!
//! In reading order: this file (targets, and what is compiled for each), `wine` (the program and
//! the tests of Windows, started here).

mod wine;

use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result};
use clap::Args;
use xtask::workspace::{cargo, exit, target};

/// Crates without a system: they compute.
const PURE: [&str; 10] = [
    "toporing-topology",
    "toporing-program",
    "toporing-plan",
    "toporing-planner",
    "bounds",
    "pages",
    "findings",
    "simulator",
    "records",
    "tuner-plugin",
];

/// Crates that read and write files, besides `topo`.
const WITH_FILES: [&str; 4] = ["files", "probe", "testkit", "nccl-binary"];

/// The work for a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The program and its crates are compiled, with their tests.
    Compiled,
    /// They are linked, too, and started.
    Started,
    /// The pure crates and the page's planner are compiled.
    Page,
}

const TARGETS: [(&str, Kind); 4] = [
    ("aarch64-apple-darwin", Kind::Compiled),
    ("x86_64-apple-darwin", Kind::Compiled),
    (wine::TARGET, Kind::Started),
    ("wasm32-unknown-unknown", Kind::Page),
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these targets
    targets: Vec<String>,
    /// Compile only, start nothing
    #[arg(long)]
    check: bool,
}

/// The result for a target: a sentence, and whether it is well.
struct TargetResult {
    well: bool,
    said: String,
}

impl TargetResult {
    fn well(said: impl Into<String>) -> Self {
        Self {
            well: true,
            said: said.into(),
        }
    }

    fn failed(said: impl Into<String>) -> Self {
        Self {
            well: false,
            said: said.into(),
        }
    }
}

/// Compiles for all targets, and starts what can be started here.
///
/// # Errors
/// Cargo cannot be started, or a target is unknown.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let known = |name: &String| TARGETS.iter().any(|(known, _)| known == name);
    if let Some(unknown) = arguments.targets.iter().find(|it| !known(it)) {
        let names = TARGETS.map(|(name, _)| name).join(", ");
        anyhow::bail!("there is no target `{unknown}`; expected one of {names}");
    }
    let mut well = true;
    for (name, kind) in TARGETS {
        if !arguments.targets.is_empty() && !arguments.targets.iter().any(|it| it == name) {
            continue;
        }
        if let Err(why) = install(name) {
            println!("not run: {name}: {why}");
            continue;
        }
        let done = match kind {
            Kind::Page => compile_page(name)?,
            Kind::Started if !arguments.check => wine::run()?,
            Kind::Started | Kind::Compiled => compile(name)?,
        };
        println!("{name}: {}", done.said);
        well &= done.well;
    }
    Ok(exit(well))
}

/// Installs the standard library of a target, or says in a few words why that cannot be done.
fn install(name: &str) -> Result<(), String> {
    let rustup = |arguments: &[&str]| {
        let done = Command::new("rustup").args(arguments).output();
        done.map_err(|_| "rustup is not installed".to_owned())
    };
    let installed = rustup(&["target", "list", "--installed"])?;
    let installed = String::from_utf8_lossy(&installed.stdout);
    if installed.lines().any(|line| line == name) {
        return Ok(());
    }
    match rustup(&["target", "add", name])?.status.success() {
        true => Ok(()),
        false => Err(format!("rustup target add {name} failed")),
    }
}

/// Cargo for a target. What it builds is in a folder of its own and without debug information,
/// because nobody keeps it.
fn cargo_for(name: &str, arguments: &[&str]) -> Command {
    let mut command = cargo();
    command
        .args(arguments)
        .args(["--quiet", "--locked", "--target", name])
        .env("CARGO_TARGET_DIR", target().join("laptops"))
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0");
    command
}

fn packages(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().flat_map(|name| ["-p", name]).collect()
}

/// Compiles crates, their tests and the program.
fn compile(name: &str) -> Result<TargetResult> {
    let crates = [PURE.as_slice(), &WITH_FILES].concat();
    let mut check = cargo_for(name, &["check", "--lib"]);
    // The tests of these call what only Linux has.
    let tested = tested();
    let mut tests = cargo_for(name, &["check", "--tests"]);
    let program = ["check", "-p", "topo", "--bin", "topo"];
    let mut program_tests = cargo_for(name, &[&program[..], &["--profile", "test"]].concat());
    let mut program = cargo_for(name, &program);
    check.args(packages(&crates));
    tests.args(packages(&tested));
    for command in [&mut check, &mut tests, &mut program, &mut program_tests] {
        if let Some(failed) = failure(command)? {
            return Ok(failed);
        }
    }
    Ok(TargetResult::well(format!(
        "topo, {} crates and the tests of {} were compiled; nothing was linked or started",
        crates.len(),
        tested.len()
    )))
}

/// Crates whose tests run on every system.
fn tested() -> Vec<&'static str> {
    let linux = ["tuner-plugin"];
    let mut tested = PURE.to_vec();
    tested.retain(|name| !linux.contains(name));
    tested.push("files");
    tested
}

/// Compiles the pure crates and the page's planner.
fn compile_page(name: &str) -> Result<TargetResult> {
    let mut command = cargo_for(name, &["check", "--lib", "-p", "web"]);
    command.args(packages(&PURE));
    Ok(failure(&mut command)?.unwrap_or_else(|| {
        TargetResult::well(format!(
            "web and {} crates were compiled; cargo xtask web links them",
            PURE.len()
        ))
    }))
}

/// Runs cargo. `None` if it did what it should.
fn failure(command: &mut Command) -> Result<Option<TargetResult>> {
    let output = command.output().context("starting cargo")?;
    Ok((!output.status.success()).then(|| TargetResult::failed(text(&output))))
}

/// The output of a program.
fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("failed\n{out}{err}")
}
