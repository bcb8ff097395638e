//! Windows: linked by mingw, started under Wine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use xtask::workspace::{cargo, repository, target};

use super::{TargetResult, cargo_for, compile, failure, packages, tested, text};

pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// The linker, and how Debian calls its package.
const LINKER: (&str, &str) = ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64");

/// Links the program, and runs the tests of crates and the cases of the program.
pub(super) fn run() -> Result<TargetResult> {
    let (linker, package) = LINKER;
    if !starts(linker) {
        let mut done = compile(TARGET)?;
        done.said += &format!("\nnot run: linking for {TARGET}: install {package}");
        return Ok(done);
    }
    if let Some(failed) = failure(&mut cargo_for(
        TARGET,
        &["build", "-p", "topo", "--bin", "topo"],
    ))? {
        return Ok(failed);
    }
    if !starts("wine") {
        return Ok(TargetResult::well(format!(
            "topo was compiled and linked\nnot run: tests for {TARGET}: install wine"
        )));
    }
    let wine = Wine::make()?;
    let crates = tested();
    let mut tests = cargo_for(TARGET, &["test", "--lib", "--tests", "--no-fail-fast"]);
    tests.args(packages(&crates));
    let tests = wine.tests(tests)?;
    let program = wine.tests(cargo_for(TARGET, &["test", "-p", "topo", "--bin", "topo"]))?;
    let cases = cargo()
        .args(["test", "--quiet", "--locked", "-p", "topo"])
        .args(["--features", "emulator", "--test", "cases"])
        .env("TOPO_PROGRAM", wine.script()?)
        .output()
        .context("starting cargo")?;
    for output in [&tests, &program, &cases] {
        if !output.status.success() {
            return Ok(TargetResult::failed(text(output)));
        }
    }
    let [passed, inside] = [&tests, &program].map(|it| counts(it)[0]);
    let [printed, linux] = counts(&cases);
    Ok(TargetResult::well(format!(
        "topo was compiled and linked; under Wine {passed} tests of {} crates, {inside} of topo and {printed} of its cases passed \
         ({linux} cases need Linux)",
        crates.len()
    )))
}

fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    let quiet = command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|it| it.success())
}

/// Tests that passed and tests that were ignored.
fn counts(output: &Output) -> [u64; 2] {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with("test result:"));
    let mut sums = [0; 2];
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let number = pair[0].parse().unwrap_or(0);
            match pair[1] {
                "passed;" => sums[0] += number,
                "ignored;" => sums[1] += number,
                _ => {}
            }
        }
    }
    sums
}

/// A folder with what Wine needs.
struct Wine {
    folder: PathBuf,
}

impl Wine {
    /// Makes the folder, with a library that some versions of Wine lack.
    fn make() -> Result<Self> {
        let folder = target().join("laptops").join("wine");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let folder = folder.canonicalize()?;
        let source = repository().join("xtask/scripts/wine-random.c");
        let compiled = Command::new(LINKER.0)
            .args(["-shared", "-O1", "-o"])
            .arg(folder.join("bcryptprimitives.dll"))
            .arg(&source)
            .arg("-ladvapi32")
            .status()
            .with_context(|| format!("starting {}", LINKER.0))?;
        ensure!(compiled.success(), "{} does not compile", source.display());
        Ok(Self { folder })
    }

    /// Variables of a program that Wine starts.
    fn variables(&self) -> [(&'static str, String); 4] {
        let inside = |name: &str| self.folder.join(name).display().to_string();
        [
            ("HOME", inside("")),
            ("WINEPREFIX", inside("prefix")),
            ("WINEDEBUG", "-all".to_owned()),
            // Drive Z is the file system of this machine.
            ("WINEPATH", format!("Z:{}", inside("").replace('/', "\\"))),
        ]
    }

    /// Runs tests that cargo builds.
    fn tests(&self, mut command: Command) -> Result<Output> {
        // Cargo has its home elsewhere.
        command.envs(self.variables().into_iter().skip(1));
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine");
        command.output().context("starting cargo")
    }

    /// A script that starts the program.
    fn script(&self) -> Result<PathBuf> {
        let program = self.program().display().to_string();
        let mut text = "#!/bin/sh\n".to_owned();
        for (name, value) in self.variables() {
            text += &format!("export {name}='{value}'\n");
        }
        text += &format!("exec wine '{program}' \"$@\"\n");
        let path = self.folder.join("topo");
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    fn program(&self) -> PathBuf {
        let laptops = self.folder.parent().unwrap_or(Path::new("."));
        laptops.join(TARGET).join("debug").join("topo.exe")
    }
}
