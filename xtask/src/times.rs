//! `cargo xtask times`: what a newcomer and a developer wait for, from a fresh clone.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use xtask::workspace::{exit, repository};

/// The machine that the README's first command plans.
const MACHINE: &str = "topologies/dgx-h100";

/// Arguments of `cargo xtask times`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these rows; all if left out
    rows: Vec<Row>,
    /// Times that each is measured; the median is printed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    repeat: u32,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// The README's first command from a fresh clone
    FirstPlan,
    /// Packages that the program is made of
    Packages,
    /// The repository's rules, with nothing compiled
    Tidy,
    /// All quick tests from a fresh clone, and once more
    Tests,
    /// The deep tests after the quick ones
    Deep,
    /// What continuous integration runs, from a fresh clone
    Ci,
    /// The shipped program: its size, and what planning takes in it and in the quick one
    Dist,
}

impl Row {
    const ALL: [Self; 7] = [
        Self::FirstPlan,
        Self::Packages,
        Self::Tidy,
        Self::Tests,
        Self::Deep,
        Self::Ci,
        Self::Dist,
    ];
}

/// Prints the rows as a table. Downloads are done before the times begin.
///
/// # Errors
/// A command cannot be started or fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wanted = |row: &Row| arguments.rows.is_empty() || arguments.rows.contains(row);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; load before: {}", load.trim());
    println!("| what | wall time | processor time |\n|---|--:|--:|");
    for row in Row::ALL.iter().filter(|row| wanted(row)) {
        let mut runs = Vec::new();
        for _ in 0..arguments.repeat {
            let clone = Clone::new()?;
            runs.push(clone.measure(*row)?);
        }
        for at in 0..runs[0].len() {
            let mut same: Vec<&Line> = runs.iter().filter_map(|run| run.get(at)).collect();
            same.sort_by(|a, b| a.cost.wall_s.total_cmp(&b.cost.wall_s));
            println!("{}", same[same.len() / 2].text());
        }
    }
    Ok(exit(true))
}

/// What a command took, s.
#[derive(Debug, Default, Clone, Copy)]
struct Cost {
    wall_s: f64,
    processor_s: f64,
}

/// A line of the table: a cost, or something counted.
#[derive(Debug)]
struct Line {
    what: String,
    cost: Cost,
    counted: Option<String>,
}

impl Line {
    fn counted(what: &str, number: impl ToString) -> Self {
        Self {
            what: what.to_owned(),
            cost: Cost::default(),
            counted: Some(number.to_string()),
        }
    }

    fn text(&self) -> String {
        let Cost {
            wall_s,
            processor_s,
        } = self.cost;
        match &self.counted {
            Some(number) => format!("| {} | {number} | |", self.what),
            None => format!("| {} | {wall_s:.0} s | {processor_s:.0} s |", self.what),
        }
    }
}

/// A fresh clone of the repository's last commit.
struct Clone {
    folder: tempfile::TempDir,
}

impl Clone {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("making a folder for a clone")?;
        let clone = Self { folder };
        let mut git = Command::new("git");
        git.args(["clone", "--quiet"]).arg(repository());
        finish(git.arg(clone.folder.path()))?;
        finish(clone.cargo().args(["fetch", "--quiet", "--locked"]))?;
        Ok(clone)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command in the clone, which compiles into a folder of its own.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        command.env_remove("CARGO_TARGET_DIR").stdin(Stdio::null());
        command
    }

    fn cargo(&self) -> Command {
        self.command("cargo")
    }

    fn measure(&self, row: Row) -> Result<Vec<Line>> {
        let timed = |what: &str, command: &mut Command| -> Result<Line> {
            Ok(Line {
                what: what.to_owned(),
                cost: cost(command)?,
                counted: None,
            })
        };
        Ok(match row {
            Row::FirstPlan => vec![timed("first plan", &mut self.plan("release"))?],
            Row::Packages => vec![Line::counted("packages behind `topo`", self.packages()?)],
            Row::Tidy => vec![timed(
                "`cargo xtask tidy`, first time",
                self.cargo().args(["xtask", "tidy"]),
            )?],
            Row::Tests => vec![
                timed("all quick tests", self.cargo().args(["xtask", "test"]))?,
                timed(
                    "all quick tests, warm",
                    self.cargo().args(["xtask", "test"]),
                )?,
            ],
            Row::Deep => {
                finish(self.cargo().args(["xtask", "test", "no-schema"]))?;
                vec![timed(
                    "deep tests, compiled before",
                    self.cargo().args(["xtask", "deep"]),
                )?]
            }
            Row::Ci => vec![timed("`.ci/run`", &mut self.command(".ci/run"))?],
            Row::Dist => self.dist()?,
        })
    }

    /// The README's first command, compiled with a profile.
    fn plan(&self, profile: &str) -> Command {
        let mut cargo = self.cargo();
        cargo.args(["run", "--quiet", "--locked", "--package", "topo"]);
        cargo.args(["--profile", profile, "--", "plan", MACHINE]);
        cargo
    }

    /// The packages that are compiled for the program, with those of macros and build scripts.
    fn packages(&self) -> Result<usize> {
        let mut cargo = self.cargo();
        cargo.args(["tree", "--locked", "--package", "topo"]);
        cargo.args(["--edges", "normal,build", "--prefix", "none"]);
        let said = finish(&mut cargo)?;
        let mut names: Vec<&str> = said
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names.len())
    }

    fn dist(&self) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        let mut planning = Vec::new();
        for profile in ["dist", "release"] {
            lines.push(Line {
                what: format!("`topo` in the profile `{profile}`"),
                cost: cost(&mut self.plan(profile))?,
                counted: None,
            });
            let program = self.path().join("target").join(profile).join("topo");
            let bytes = fs::metadata(&program)?.len();
            let size = format!("{:.1} MB", bytes as f64 / 1e6);
            lines.push(Line::counted(&format!("its size, `{profile}`"), size));
            planning.push(self.instructions(&program)?);
        }
        if let [Some(dist), Some(quick)] = planning[..] {
            let text = format!("{dist} / {quick} = 1 / {:.2}", quick as f64 / dist as f64);
            let what = "instructions of `topo plan`, `dist` / `release`";
            lines.push(Line::counted(what, text));
        } else {
            println!("not run: instructions of `topo plan`, which need valgrind");
        }
        Ok(lines)
    }

    /// The instructions of planning, if valgrind is there.
    fn instructions(&self, program: &Path) -> Result<Option<u64>> {
        let mut valgrind = self.command("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(program).args(["plan", MACHINE]);
        let Ok(output) = valgrind.output() else {
            return Ok(None);
        };
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{valgrind:?}: {said}");
        let number = said.split("Collected :").nth(1);
        let number = number.and_then(|rest| rest.split_whitespace().next());
        let number = number.context("valgrind names no number of instructions")?;
        Ok(Some(number.parse()?))
    }
}

/// Runs a command to its end. Returns what it printed.
fn finish(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "{command:?} ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&said)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, and measures it with all processes that it waits for.
fn cost(command: &mut Command) -> Result<Cost> {
    let before = children_s()?;
    let began = Instant::now();
    finish(command)?;
    Ok(Cost {
        wall_s: began.elapsed().as_secs_f64(),
        processor_s: children_s()? - before,
    })
}

/// Processor time of all ended processes that this one and its children waited for, s.
fn children_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    ticks(&text)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        .context("/proc/self/stat: expected the times of children in the fields 16 and 17")
}

/// The fields `cutime` and `cstime` of `/proc/PID/stat` (proc_pid_stat(5)), added.
fn ticks(stat: &str) -> Option<u64> {
    // The second field is a name in parentheses, which may hold spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_children_are_read() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 130 7 20 0";
        assert_eq!(ticks(stat), Some(137));
        assert_eq!(ticks("42 (a"), None);
        assert!(children_s().is_ok());
    }
}
