//! `cargo xtask test`: all tests, several test programs at a time, the longest first; `cargo xtask
//! deep`: the deep tests, which take more time than one waits for while one works.
//!
//! Cargo runs one test program after the other. Many of ours wait for deadlines of ranks, hosts and
//! drivers; others keep all cores busy. Beside each other they take less time.
//!
//! A deep test is an ignored one with [`DEEP`] in its name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use xtask::workspace::{cargo, exit, repository, target, write_beside};

/// What all tests are compiled with.
const WHOLE: [&str; 4] = [
    "--workspace",
    "--features",
    "emulator,schema,whole",
    "--locked",
];

/// What the names of deep tests contain.
const DEEP: &str = "deep";

/// Begins the last line of a test program, with its counts.
const RESULT: &str = "test result: ";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only test programs whose name contains one of these, such as `planner` or `topo::cases`
    programs: Vec<String>,
    /// Test programs that run at a time; one more than there are cores if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
}

/// Which tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Quick,
    Deep,
}

/// A program that cargo compiled of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestProgram {
    /// Package and target: `topo::cases`.
    name: String,
    executable: PathBuf,
    /// The package's folder, in which it runs.
    folder: PathBuf,
}

/// How a test program ended.
struct Outcome {
    passed: bool,
    counts: Counts,
}

/// Numbers of tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Compiles all tests, runs the quick ones, and prints a line for each test program and all that a
/// failed one printed.
///
/// # Errors
/// The tests do not compile, or cargo or a test program cannot be started.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    run_tests(arguments, Depth::Quick)
}

/// Compiles all tests, runs the deep ones, and names each.
///
/// # Errors
/// The tests do not compile, or cargo or a test program cannot be started.
pub(crate) fn deep(arguments: &Arguments) -> Result<ExitCode> {
    run_tests(arguments, Depth::Deep)
}

fn run_tests(arguments: &Arguments, depth: Depth) -> Result<ExitCode> {
    let began = Instant::now();
    let mut programs = compile()?;
    let compiled = began.elapsed().as_secs();
    let wanted = |program: &TestProgram| {
        let named = |part: &String| program.name.contains(part.as_str());
        arguments.programs.is_empty() || arguments.programs.iter().any(named)
    };
    programs.retain(wanted);
    ensure!(!programs.is_empty(), "no test program has such a name");
    let file = target().join(match depth {
        Depth::Quick => "test-seconds.json",
        Depth::Deep => "deep-test-seconds.json",
    });
    let mut seconds = read_seconds(&file);
    // Programs whose time is unknown come first: a long one among them would end last.
    let time = |program: &TestProgram| seconds.get(&program.name).copied().unwrap_or(u64::MAX);
    programs.sort_by_key(|program| std::cmp::Reverse(time(program)));
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let jobs = arguments.jobs.map_or(cores + 1, |jobs| jobs as usize);
    let (mut counts, mut failed) = run_all(&programs, jobs, depth, &mut seconds)?;
    if depth == Depth::Quick && arguments.programs.is_empty() {
        let examples = run_examples()?;
        counts.add(examples.counts);
        if !examples.passed {
            failed.push("examples of documentation comments".to_owned());
        }
    }
    write_beside(&file, &serde_json::to_vec_pretty(&seconds)?)?;
    for name in &failed {
        println!("failed: {name}");
    }
    let all = began.elapsed().as_secs();
    println!("compiled in {compiled} s, run in {} s", all - compiled);
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let Counts {
        passed,
        failed: wrong,
        ignored,
    } = counts;
    println!("{RESULT}{word}. {passed} passed; {wrong} failed; {ignored} ignored");
    Ok(exit(failed.is_empty()))
}

/// Compiles all tests, and returns their programs.
fn compile() -> Result<Vec<TestProgram>> {
    let mut command = cargo();
    command.arg("test").args(WHOLE).arg("--no-run");
    command.arg("--message-format=json-render-diagnostics");
    let mut compiler = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo")?;
    let said = compiler.stdout.take().context("cargo's output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(said).lines() {
        programs.extend(test_program(&line.context("reading cargo's output")?));
    }
    let status = compiler.wait().context("waiting for cargo")?;
    ensure!(status.success(), "the tests do not compile");
    Ok(programs)
}

/// The test program of a message of cargo; `None` of other messages.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message.pointer("/profile/test")?.as_bool()? {
        return None;
    }
    let executable = PathBuf::from(message.get("executable")?.as_str()?);
    let folder = Path::new(message.get("manifest_path")?.as_str()?)
        .parent()?
        .to_owned();
    let of = message.pointer("/target/name")?.as_str()?;
    let package = folder.file_name()?.to_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let name = match kind {
        "test" => format!("{package}::{of}"),
        _ => format!("{package} ({kind})"),
    };
    Some(TestProgram {
        name,
        executable,
        folder,
    })
}

/// Runs the programs, `jobs` at a time. Returns the sum of their tests and the failed ones.
fn run_all(
    programs: &[TestProgram],
    jobs: usize,
    depth: Depth,
    seconds: &mut BTreeMap<String, u64>,
) -> Result<(Counts, Vec<String>)> {
    let waiting = Mutex::new(programs.iter());
    let next = || waiting.lock().ok()?.next();
    let done = Mutex::new((Counts::default(), Vec::new(), seconds));
    let work = || -> Result<()> {
        while let Some(program) = next() {
            let began = Instant::now();
            let outcome = run_one(program, depth).with_context(|| program.name.clone())?;
            let took = began.elapsed().as_secs();
            let Ok(mut done) = done.lock() else { break };
            done.0.add(outcome.counts);
            done.2.insert(program.name.clone(), took);
            if !outcome.passed {
                done.1.push(program.name.clone());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .map(|it| it.unwrap_or_else(|_| bail!("a thread that runs test programs panicked")))
            .collect::<Result<Vec<()>>>()
    })?;
    let (counts, failed, _) = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((counts, failed))
}

/// Runs one program, and prints one line of it, or all if it fails.
fn run_one(program: &TestProgram, depth: Depth) -> Result<Outcome> {
    let began = Instant::now();
    let folder = target().join("test-output");
    fs::create_dir_all(&folder)?;
    let (ending, arguments): (_, &[&str]) = match depth {
        Depth::Quick => (".txt", &[]),
        Depth::Deep => (".deep.txt", &["--ignored", DEEP]),
    };
    let file = folder.join(program.name.replace("::", "-") + ending);
    let output = File::create(&file).with_context(|| file.display().to_string())?;
    let status = Command::new(&program.executable)
        .args(arguments)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()?;
    let printed = fs::read(&file)?;
    let printed = String::from_utf8_lossy(&printed);
    // Programs that a failed test started may have printed results before.
    let result = printed.lines().rfind(|line| line.starts_with(RESULT));
    let counts = Counts::of(result.unwrap_or_default());
    let took = began.elapsed().as_secs();
    if depth == Depth::Deep && counts.ran() == 0 && status.success() {
        return Ok(Outcome {
            passed: true,
            counts,
        });
    }
    let mut out = io::stdout().lock();
    let Counts {
        passed,
        failed,
        ignored,
    } = counts;
    writeln!(
        out,
        "{}: {passed} passed; {failed} failed; {ignored} ignored, {took} s",
        program.name
    )?;
    let is_test = |line: &str| depth == Depth::Deep && line.starts_with("test ");
    let said = |line: &&str| !status.success() || line.contains("not run: ") || is_test(line);
    for line in printed.lines().filter(said) {
        writeln!(out, "  {line}")?;
    }
    if !status.success() {
        writeln!(
            out,
            "  {} ended with {status}",
            program.executable.display()
        )?;
    }
    Ok(Outcome {
        passed: status.success(),
        counts,
    })
}

/// Runs the examples of documentation comments.
fn run_examples() -> Result<Outcome> {
    let mut command = cargo();
    command.arg("test").args(WHOLE).args(["--doc", "--quiet"]);
    command.current_dir(repository());
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("starting cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Outcome {
        passed: output.status.success(),
        counts: Counts::of(&printed),
    })
}

/// The seconds that each program took last time. A file that cannot be read has none.
fn read_seconds(file: &Path) -> BTreeMap<String, u64> {
    let bytes = files::read(file, 1 << 20).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

impl Counts {
    /// The sum of the result lines of an output.
    fn of(printed: &str) -> Self {
        let mut counts = Self::default();
        for line in printed.lines().filter_map(|line| line.strip_prefix(RESULT)) {
            let number = |name: &str| {
                let before = line.split(name).next().unwrap_or_default();
                before
                    .rsplit([' ', ';'])
                    .find_map(|word| word.parse().ok())
                    .unwrap_or(0)
            };
            counts.add(Self {
                passed: number(" passed"),
                failed: number(" failed"),
                ignored: number(" ignored"),
            });
        }
        counts
    }

    const fn ran(self) -> u64 {
        self.passed + self.failed + self.ignored
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added() {
        let printed = "test a ... ok\ntest result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; \
                       0 filtered out; finished in 0.01s\ntest result: FAILED. 1 passed; 2 failed; \
                       0 ignored\n";
        let counts = Counts::of(printed);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (13, 2, 3));
    }

    #[test]
    fn only_messages_of_test_programs_are_taken() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/cli/Cargo.toml",
            "target":{"kind":["test"],"name":"cases"},"profile":{"test":true},"executable":"/t/cases-1"}"#;
        let program = test_program(message).unwrap();
        assert_eq!(program.name, "cli::cases");
        assert_eq!(program.folder, Path::new("/r/crates/cli"));
        for other in [
            message.replace("\"test\":true", "\"test\":false"),
            message.replace("\"/t/cases-1\"", "null"),
            "{\"reason\":\"build-finished\"}".to_owned(),
            "no JSON".to_owned(),
        ] {
            assert_eq!(test_program(&other), None, "{other}");
        }
    }
}
