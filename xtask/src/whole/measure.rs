//! The common parts of chores that time programs: building `topo`, measuring processes, medians,
//! tables. Also `cargo xtask measure -- COMMAND`, which prints the time and peak memory of a
//! process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use xtask::workspace::{cargo, target};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Time and memory of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCosts {
    /// From start to end, s.
    pub seconds: f64,
    /// Peak memory, MB.
    pub megabytes: f64,
}

/// Runs the command without its output, and prints seconds and megabytes.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (program, rest) = arguments.command.split_first().context("no command")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(rest)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", program.to_string_lossy()))?;
    let seconds = start.elapsed().as_secs_f64();
    let program = program.to_string_lossy();
    ensure!(status.success(), "{program} ended with {status}");
    // On Linux, `maxrss` is in kilobytes.
    let kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    println!("{seconds} {}", kilobytes as f64 / 1024.0);
    Ok(ExitCode::SUCCESS)
}

/// Measures a command through another process of this program, because the system reports peak
/// memory for all finished children together.
///
/// # Errors
/// The command fails.
pub(crate) fn once(command: &[OsString]) -> Result<ProcessCosts> {
    let output = Command::new(std::env::current_exe()?)
        .args(["measure", "--"])
        .args(command)
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.lines().last().unwrap_or("it failed"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(seconds)), Some(Ok(megabytes))) = (numbers.next(), numbers.next()) else {
        bail!("expected seconds and megabytes, found {text:?}");
    };
    Ok(ProcessCosts { seconds, megabytes })
}

/// A command line: a program, arguments, and a path at the end.
pub(crate) fn command(program: &Path, arguments: &[&str], path: Option<&Path>) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![program.into()];
    command.extend(arguments.iter().map(OsString::from));
    command.extend(path.map(OsString::from));
    command
}

/// The median; `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The given program, or `topo`, which is built in the profile `dist`.
///
/// # Errors
/// It does not build. Without cargo the existing program is used.
pub(crate) fn topo(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let program = target().join("dist/topo");
    let built = cargo()
        .args(["build", "--quiet", "--profile", "dist", "--package", "topo"])
        .status();
    if let Ok(built) = built {
        ensure!(built.success(), "topo does not build");
    }
    ensure!(program.is_file(), "{} is not there", program.display());
    Ok(program)
}

/// A Markdown table. Columns are as wide as their heads, and right-aligned except the first.
pub(crate) struct Table(Vec<usize>);

impl Table {
    /// Creates a table of these columns. Returns it with its first two lines. The first column has
    /// room for `first` characters.
    pub(crate) fn new(first: usize, heads: &[&str]) -> (Self, String) {
        let width =
            |(at, head): (usize, &&str)| head.chars().count().max(if at == 0 { first } else { 7 });
        let table = Self(heads.iter().enumerate().map(width).collect());
        let rule = |(at, width): (usize, &usize)| {
            let dashes = "-".repeat(*width - 1);
            if at == 0 {
                format!("-{dashes}")
            } else {
                format!("{dashes}:")
            }
        };
        let rules: Vec<String> = table.0.iter().enumerate().map(rule).collect();
        let text = table.row(heads) + "\n" + &table.row(&rules);
        (table, text)
    }

    /// A row.
    pub(crate) fn row(&self, cells: &[impl AsRef<str>]) -> String {
        let mut text = "|".to_owned();
        for (at, (cell, width)) in cells.iter().zip(&self.0).enumerate() {
            let cell = cell.as_ref();
            text += &match at {
                0 => format!(" {cell:<width$} |"),
                _ => format!(" {cell:>width$} |"),
            };
        }
        text
    }
}

/// A number of a table; a dash for none.
pub(crate) fn cell(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "–".to_owned(), |it| format!("{it:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let (table, head) = Table::new(6, &["name", "topo probe"]);
        let text = head + "\n" + &table.row(&["a", &cell(Some(1.26), 1)]);
        assert_eq!(
            text,
            "| name   | topo probe |\n| ------ | ---------: |\n| a      |        1.3 |"
        );
        assert_eq!((median([3.0, 1.0, 2.0]), median([])), (Some(2.0), None));
    }
}
