//! The checks of what was made: for old systems, and usable where nothing else is installed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::build::{Platform, Tools, run};
use xtask::workspace::repository;

/// A program that uses the package.
const USES: &str = "import toporing; plan = toporing.plan('dgx-h100', hosts=2); \
                    assert plan.cost('all-reduce', 1 << 20).time_us > 0; print(plan.name, plan.ranks)";

/// The first message of a client to the server for agents.
const ASKS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"dist","version":"1"}}}"#;

/// What each program of a package does.
const STARTS: [&str; 4] = [
    "--version",
    "plan dgx-h100",
    "run --ranks 2 all-reduce -b 8 -e 1M -f 64 -n 5",
    "run --ranks 4 all-to-all -b 1K -e 1M -f 32 -n 5",
];

/// A file of each kind that the program writes, below the prefix of an installation.
const PAGES: [&str; 2] = [
    "share/man/man1/topo-plan.1",
    "share/bash-completion/completions/topo",
];

/// Most bytes of the program, which people copy to machines with GPUs.
const MOST_BYTES: u64 = 30_000_000;

/// Looks at everything that was made. Returns a sentence for each fault.
pub(super) fn all(
    tools: &Tools,
    platform: &Platform,
    program: &Path,
    made: &[PathBuf],
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let bytes = fs::metadata(program)?.len();
    println!("{}: {bytes} bytes", program.display());
    if bytes > MOST_BYTES {
        problems.push(format!(
            "{} has {bytes} bytes; at most {MOST_BYTES} are expected",
            program.display()
        ));
    }
    for file in made {
        let folder = tempfile::tempdir()?;
        let place = folder.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let ends = |end: &str| name.ends_with(end);
        let checked = if ends(".whl") {
            is_for_old_systems(tools, platform, file).and_then(|()| installs(platform, file, place))
        } else if ends(".deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(file).arg(place))
                .and_then(|()| starts(platform, &place.join("usr")))
        } else if ends(".tar.gz") {
            let mut tar = Command::new("tar");
            tar.args(["--strip-components", "1", "-C"]).arg(place);
            run(tar.arg("-xf").arg(file))
                .and_then(|()| starts(platform, place))
                .and_then(|()| match ends("-static.tar.gz") {
                    true => is_static(&place.join("bin/topo")),
                    false => Ok(()),
                })
        } else if ends("Containerfile") {
            runs_as_container(platform, file)
        } else {
            Ok(())
        };
        match checked {
            Ok(()) => println!("{name}: checked"),
            Err(why) => problems.push(format!("{name}: {why:#}")),
        }
    }
    Ok(problems)
}

/// An error if a wheel needs a newer system than it says.
fn is_for_old_systems(tools: &Tools, platform: &Platform, package: &Path) -> Result<()> {
    if platform.is_native {
        return Ok(());
    }
    let said = tools
        .command("auditwheel")
        .arg("show")
        .arg(package)
        .output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_old =
        (17..=28).any(|at| flat.contains(&format!("\"manylinux_2_{at}_{}\"", platform.arch)));
    ensure!(
        is_old,
        "auditwheel does not say that it is manylinux_2_28: {said}"
    );
    Ok(())
}

/// An error if the program below a prefix does not run, or lacks its pages.
fn starts(platform: &Platform, prefix: &Path) -> Result<()> {
    for arguments in STARTS {
        let Some(mut command) = platform.command(&prefix.join("bin/topo")) else {
            return Ok(());
        };
        succeeds(command.args(arguments.split(' ')))?;
    }
    for page in PAGES {
        ensure!(prefix.join(page).is_file(), "there is no {page}");
    }
    Ok(())
}

/// An error if a program of 64 bits names a loader of shared libraries.
fn is_static(program: &Path) -> Result<()> {
    let content = fs::read(program)?;
    let number = |at: usize, bytes: usize| {
        let bytes = content.get(at..at + bytes).unwrap_or_default();
        bytes
            .iter()
            .rfold(0, |number, &it| number << 8 | usize::from(it))
    };
    // The program headers of ELF: where they begin, the bytes of each, how many; PT_INTERP is 3.
    let (first, bytes, count) = (number(32, 8), number(54, 2), number(56, 2));
    let is_dynamic = (0..count).any(|it| number(first + it * bytes, 4) == 3);
    ensure!(
        count > 0 && !is_dynamic,
        "{} is not static",
        program.display()
    );
    Ok(())
}

/// What a command prints, which must succeed.
fn succeeds(command: &mut Command) -> Result<String> {
    let ended = command.output().with_context(|| format!("{command:?}"))?;
    let (said, errors) = (&ended.stdout, String::from_utf8_lossy(&ended.stderr));
    ensure!(
        ended.status.success(),
        "{command:?}: {}: {errors}",
        ended.status
    );
    Ok(String::from_utf8_lossy(said).into_owned())
}

/// Builds the container, and lets it plan.
fn runs_as_container(platform: &Platform, file: &Path) -> Result<()> {
    let works = |it: &&&str| {
        Command::new(it)
            .arg("info")
            .output()
            .is_ok_and(|it| it.status.success())
    };
    let Some(tool) = ["podman", "docker"]
        .iter()
        .find(works)
        .filter(|_| platform.is_here())
    else {
        println!(
            "not run: the container file: there is no podman or docker that works, or the processor is another one"
        );
        return Ok(());
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let tag = "topo-dist-check";
    succeeds(
        Command::new(tool)
            .args(["build", "--tag", tag, "--file"])
            .arg(file)
            .arg(folder),
    )?;
    succeeds(Command::new(tool).args(["run", "--rm", tag, "plan", "dgx-h100"])).map(drop)
}

/// Installs the wheel into an empty environment and uses all of it.
fn installs(platform: &Platform, package: &Path, folder: &Path) -> Result<()> {
    if !platform.is_here() {
        println!(
            "not run: the wheel for {}, which does not run here",
            platform.arch
        );
        return Ok(());
    }
    let place = folder.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let bin = |name: &str| {
        let mut command = Command::new(place.join("bin").join(name));
        command.current_dir(folder);
        command
    };
    run(bin("pip")
        .args(["install", "--quiet", "--no-index"])
        .arg(package))?;
    starts(platform, &place)?;
    succeeds(bin("python").args(["-c", USES]))?;
    let arrays = repository().join("crates/python/tests/programs/arrays.py");
    succeeds(bin("python").arg(arrays.canonicalize()?).arg("2"))?;
    let extra = format!("{}[mcp]", package.display());
    let installed = bin("pip").args(["install", "--quiet", &extra]).output()?;
    if !installed.status.success() {
        let why = String::from_utf8_lossy(&installed.stderr).into_owned();
        println!("not run: toporing mcp: pip does not install the package mcp: {why}");
        return Ok(());
    }
    let mut command = bin("toporing");
    command
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut server = command.spawn()?;
    // The server ends with its input.
    let mut input = server.stdin.take().context("no input")?;
    writeln!(input, "{ASKS}")?;
    drop(input);
    let said = server.wait_with_output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.contains("serverInfo"), "toporing mcp answers: {said}");
    Ok(())
}
