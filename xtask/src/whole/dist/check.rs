//! The checks of a wheel: for old systems, and usable where nothing else is
//! installed.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::build::{Platform, Tools, run};
use xtask::workspace::repository;

/// A program that uses the package.
const USES: &str = "import toporing; plan = toporing.plan('dgx-h100', hosts=2); \
                    assert plan.cost('all-reduce', 1 << 20).time_us > 0; print(plan.name, plan.ranks)";

/// Most bytes of the program, which people copy to machines with GPUs.
const MOST_BYTES: u64 = 30_000_000;

/// Returns a sentence for each fault.
pub(super) fn all(
    tools: &Tools,
    platform: &Platform,
    program: &Path,
    package: &Path,
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let bytes = std::fs::metadata(program)?.len();
    println!("{}: {bytes} bytes", program.display());
    if bytes > MOST_BYTES {
        problems.push(format!(
            "{} has {bytes} bytes; at most {MOST_BYTES} are expected",
            program.display()
        ));
    }
    if !platform.is_native {
        let said = tools
            .command("auditwheel")
            .arg("show")
            .arg(package)
            .output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        print!("{said}");
        let tag = format!("\"manylinux_2_28_{}\"", platform.arch);
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let older =
            (17..28).any(|at| flat.contains(&format!("\"manylinux_2_{at}_{}\"", platform.arch)));
        if !flat.contains(&tag) && !older {
            problems.push(format!("auditwheel does not say that the wheel is {tag}"));
        }
    }
    if platform.runs_here() {
        problems.extend(install(package)?);
    } else {
        println!(
            "not run: the wheel for {}, which does not run here",
            platform.arch
        );
        problems.extend(emulate(platform, program)?);
    }
    Ok(problems)
}

/// Runs the program of another processor in an emulator, if there is one.
fn emulate(platform: &Platform, program: &Path) -> Result<Vec<String>> {
    let emulator = format!("qemu-{}", platform.arch);
    if Command::new(&emulator).arg("--version").output().is_err() {
        println!("not run: the program for {}: no {emulator}", platform.arch);
        return Ok(Vec::new());
    }
    let mut problems = Vec::new();
    for arguments in [
        "--version",
        "plan dgx-h100",
        "run --ranks 2 all-reduce -b 8 -e 1M -f 64 -n 5",
        "run --ranks 4 all-to-all -b 1K -e 1M -f 32 -n 5",
    ] {
        let mut command = Command::new(&emulator);
        // Where Debian installs the C library of another processor.
        command.arg("-L");
        command.arg(format!("/usr/{}-linux-gnu", platform.arch));
        command.arg(program).args(arguments.split(' '));
        let ended = command.output()?;
        match ended.status.success() {
            true => println!("{emulator}: topo {arguments}: ok"),
            false => problems.push(format!(
                "{emulator}: topo {arguments}: {}: {}",
                ended.status,
                String::from_utf8_lossy(&ended.stderr)
            )),
        }
    }
    Ok(problems)
}

/// Installs the wheel into an empty environment and uses it.
fn install(package: &Path) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let bin = |name: &str| Command::new(place.join("bin").join(name));
    let mut pip = bin("pip");
    run(pip.args(["install", "--quiet", "--no-index"]).arg(package))?;
    let arrays = repository()
        .join("crates/python/tests/programs/arrays.py")
        .canonicalize()?;
    let mut tries = [
        ("the program", bin("topo")),
        ("the server for agents", bin("toporing")),
        ("the package", bin("python")),
        ("two ranks", bin("python")),
    ];
    tries[0].1.arg("--version");
    tries[1].1.arg("--help");
    tries[2].1.args(["-c", USES]);
    tries[3].1.arg(arrays).arg("2");
    let mut problems = Vec::new();
    for (what, command) in &mut tries {
        command.current_dir(folder.path());
        if let Err(why) = run(command) {
            problems.push(format!("the installed wheel: {what}: {why}"));
        }
    }
    Ok(problems)
}
