//! `cargo xtask fuzz`: builds the targets in `xtask/fuzz/`, runs each for some time from its seeds,
//! and prints how far inputs came.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::workspace::{exit, repository, triple};

/// Most memory of a fuzzer with its corpus, MB. The sanitizer multiplies what the code under test
/// uses.
const MEMORY_MB: u32 = 1024;

/// Most memory of one allocation, MB.
const ALLOCATION_MB: u32 = 256;

/// Longest time of one input with pauses of the machine, s. The targets limit its processor time.
const INPUT_SECONDS: u32 = 600;

/// Longest input, bytes.
const INPUT_BYTES: u32 = 64 << 10;

/// Most bytes of committed inputs of one target.
const KEPT_BYTES: u64 = 20 << 10;

/// Largest input to commit, bytes.
const LARGEST_KEPT: u64 = 4 << 10;

/// Arguments of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these targets
    targets: Vec<String>,
    /// Processor time of each target, minutes
    #[arg(long, default_value_t = 0.5)]
    minutes: f32,
    /// Start from nothing instead of the seeds and the corpus, to see how much the seeds help
    #[arg(long)]
    empty: bool,
    /// Then copy small inputs that reach code that no seed reaches to xtask/fuzz/seeds
    #[arg(long)]
    keep: bool,
}

/// Builds and runs the targets.
///
/// # Errors
/// There is no such target, cargo-fuzz cannot be installed, or a target cannot be built or started.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        arguments.minutes > 0.0,
        "--minutes {}: expected more than 0",
        arguments.minutes
    );
    let all = targets()?;
    for name in &arguments.targets {
        if !all.contains(name) {
            bail!(
                "there is no target {name}; expected one of {}",
                all.join(", ")
            );
        }
    }
    install()?;
    build()?;
    let wanted = |name: &&String| arguments.targets.is_empty() || arguments.targets.contains(name);
    let mut rows = Vec::new();
    for name in all.iter().filter(wanted) {
        let target = Target::new(name)?;
        rows.push(target.fuzz(arguments)?);
        if arguments.keep {
            target.keep()?;
        }
    }
    println!("{HEAD}");
    for row in &rows {
        println!("{}", row.text());
    }
    let crashed = rows.iter().any(|row| !row.crashes.is_empty());
    Ok(exit(!crashed))
}

fn folder() -> PathBuf {
    repository().join("xtask/fuzz")
}

/// The names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let mut names: Vec<String> = files(&folder().join("fuzz_targets"))?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths.collect::<Result<_>>()
}

/// Installs cargo-fuzz if it is missing.
fn install() -> Result<()> {
    let there = Command::new("cargo")
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    println!("cargo-fuzz is missing: `cargo install cargo-fuzz --locked`");
    let status = Command::new("cargo")
        .args(["install", "cargo-fuzz", "--locked"])
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "cargo-fuzz cannot be installed");
    Ok(())
}

fn build() -> Result<()> {
    let status = Command::new("cargo")
        .args(["fuzz", "build"])
        .current_dir(folder().join(".."))
        // A stable compiler needs this for the sanitizer's flags.
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .context("starting cargo fuzz")?;
    ensure!(status.success(), "the targets cannot be built");
    Ok(())
}

/// A target that is built.
struct Target {
    name: String,
    program: PathBuf,
    /// Inputs made of files of the repository.
    made: PathBuf,
    /// Committed inputs of earlier runs.
    kept: PathBuf,
    /// Inputs of earlier runs on this machine.
    corpus: PathBuf,
    /// Inputs that crashed or took too much time or memory.
    crashes: PathBuf,
}

impl Target {
    fn new(name: &str) -> Result<Self> {
        let fuzz = folder();
        let triple = triple();
        let target = Self {
            name: name.to_owned(),
            program: fuzz.join(format!("target/{triple}/release/{name}")),
            made: fuzz.join(format!("target/seeds/{name}")),
            kept: fuzz.join(format!("seeds/{name}")),
            corpus: fuzz.join(format!("corpus/{name}")),
            crashes: fuzz.join(format!("artifacts/{name}")),
        };
        for folder in [&target.made, &target.kept, &target.corpus, &target.crashes] {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let status = target
            .command()
            .env("TOPO_FUZZ_SEEDS", &target.made)
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("starting {}", target.program.display()))?;
        ensure!(status.success(), "{name} cannot write its seeds");
        Ok(target)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The sanitizer counts freed memory that it keeps.
        command.env(
            "ASAN_OPTIONS",
            "detect_odr_violation=0:quarantine_size_mb=16",
        );
        command
    }

    /// Runs the target for the time in `arguments`.
    fn fuzz(&self, arguments: &Arguments) -> Result<Row> {
        let before = files(&self.crashes)?;
        let nothing = tempfile::tempdir()?;
        let seconds = (arguments.minutes * 60.0).ceil();
        let mut command = self.command();
        command
            .args([
                format!("-rss_limit_mb={MEMORY_MB}"),
                format!("-malloc_limit_mb={ALLOCATION_MB}"),
                format!("-timeout={INPUT_SECONDS}"),
                format!("-report_slow_units={INPUT_SECONDS}"),
                format!("-max_len={INPUT_BYTES}"),
                // Each mutation of a document may break it.
                "-mutate_depth=2".to_owned(),
                format!("-artifact_prefix={}/", self.crashes.display()),
            ])
            .env("TOPO_FUZZ_SECONDS", format!("{seconds}"))
            .stderr(Stdio::piped());
        let dictionary = folder().join(format!("dictionaries/{}.dict", self.name));
        if dictionary.is_file() {
            let mut argument = OsString::from("-dict=");
            argument.push(dictionary);
            command.arg(argument);
        }
        if arguments.empty {
            command.arg(nothing.path());
        } else {
            command.args([&self.corpus, &self.kept, &self.made]);
        }
        let output = command.output().context("starting the target")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let mut crashes = files(&self.crashes)?;
        crashes.retain(|path| !before.contains(path));
        if !output.status.success() {
            // The stack trace, or why the sanitizer did not start.
            eprintln!("{text}");
            ensure!(
                !crashes.is_empty(),
                "{} ended: {}",
                self.name,
                output.status
            );
        }
        Ok(Row::read(&self.name, &text, crashes))
    }

    /// Copies small inputs that reach code that no seed reaches.
    fn keep(&self) -> Result<()> {
        let merged = tempfile::tempdir()?;
        for folder in [&self.made, &self.kept] {
            for path in files(folder)? {
                fs::copy(
                    &path,
                    merged.path().join(path.file_name().unwrap_or_default()),
                )?;
            }
        }
        let before = files(merged.path())?;
        let status = self
            .command()
            .args(["-merge=1", &format!("-max_len={LARGEST_KEPT}")])
            .args([merged.path(), &self.corpus])
            .stderr(Stdio::null())
            .status()?;
        ensure!(
            status.success(),
            "the corpus of {} cannot be merged",
            self.name
        );
        let mut new = Vec::new();
        for path in files(merged.path())? {
            let bytes = fs::metadata(&path)?.len();
            if !before.contains(&path) && bytes <= LARGEST_KEPT {
                new.push((bytes, path));
            }
        }
        new.sort();
        let mut room = KEPT_BYTES.saturating_sub(
            files(&self.kept)?
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |it| it.len()))
                .sum(),
        );
        let mut kept = 0;
        for (bytes, path) in new {
            let Some(rest) = room.checked_sub(bytes) else {
                break;
            };
            room = rest;
            fs::copy(&path, self.kept.join(path.file_name().unwrap_or_default()))?;
            kept += 1;
        }
        println!(
            "{}: kept {kept} inputs in {}",
            self.name,
            self.kept.display()
        );
        Ok(())
    }
}

const HEAD: &str =
    "target           runs  outside   inside accepted  edges: seeds    end  features  crashes";

/// The result of a run.
#[derive(Default)]
struct Row {
    name: String,
    /// Executions by how far they came.
    reached: [u64; 3],
    /// Covered edges of the program after the seeds, and at the end.
    edges: [u64; 2],
    features: u64,
    crashes: Vec<PathBuf>,
}

impl Row {
    /// Reads the output of libFuzzer and of the target.
    fn read(name: &str, text: &str, crashes: Vec<PathBuf>) -> Self {
        let mut row = Self {
            name: name.to_owned(),
            crashes,
            ..Self::default()
        };
        for line in text.lines() {
            let words: Vec<&str> = line
                .split([' ', '\t', ','])
                .filter(|it| !it.is_empty())
                .collect();
            let after = |word: &str| {
                let at = words.iter().position(|it| *it == word)?;
                words.get(at + 1)?.parse::<u64>().ok()
            };
            if let (Some(edges), Some(features)) = (after("cov:"), after("ft:")) {
                if words.contains(&"INITED") {
                    row.edges[0] = edges;
                }
                (row.edges[1], row.features) = (edges, features);
            }
            if words.first() == Some(&"reached:") {
                row.reached = ["outside", "inside", "accepted"].map(|it| after(it).unwrap_or(0));
            }
        }
        row
    }

    fn text(&self) -> String {
        let runs: u64 = self.reached.iter().sum();
        let share = |count: u64| 100.0 * count as f64 / runs.max(1) as f64;
        let [outside, inside, accepted] = self.reached.map(share);
        let mut text = format!(
            "{:12} {runs:8}  {outside:5.1} %  {inside:5.1} %  {accepted:5.1} %  {:12} {:6}  {:8}  {:7}",
            self.name,
            self.edges[0],
            self.edges[1],
            self.features,
            self.crashes.len()
        );
        for crash in &self.crashes {
            text.push_str(&format!("\n  {}", crash.display()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_a_program() {
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        for name in targets().unwrap() {
            let lines = format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"");
            assert!(manifest.contains(&lines), "{name}");
        }
    }
}
