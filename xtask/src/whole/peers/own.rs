//! Runs `topo`: on one host, or with processes that act as several.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use xtask::workspace::target;

use super::report::{Chosen, Times};
use super::{Arguments, capture};

/// The times by size, and with `best` how far each choice is from the fastest one.
pub(super) struct Timed {
    pub times: Vec<(u64, Times)>,
    pub chosen: Vec<Chosen>,
}

/// Times a collective.
///
/// # Errors
/// The program cannot be run, fails, or does not end in time.
pub(super) fn run_topo(
    arguments: &Arguments,
    topo: &Path,
    collective: &str,
    ranks: u32,
    (threads, best): (bool, bool),
) -> Result<Timed> {
    let timed = || {
        let mut command = timed(arguments, topo, collective);
        command.args(best.then_some("--best"));
        command
    };
    let mut command = timed();
    let mut others = Others(Vec::new());
    if arguments.hosts > 1 {
        let meeting = target().join("peers/meeting");
        let meeting = format!("file:{}", meeting.display());
        let act = |command: &mut Command, rank: u32| {
            let host = rank / (ranks / arguments.hosts);
            command.env("NCCL_HOSTID", format!("host{host}"));
            command.args(["--rendezvous", &meeting]);
            command.args(["--rank", &rank.to_string(), "--world", &ranks.to_string()]);
        };
        act(&mut command, 0);
        for rank in 1..ranks {
            let mut command = timed();
            act(&mut command, rank);
            others.start(&mut command)?;
        }
    } else {
        command.args(["--ranks", &ranks.to_string()]);
        if !threads {
            command.arg("--processes");
        }
    }
    let (text, ended) = capture(&mut command, Duration::from_secs(arguments.timeout * 4))?;
    ensure!(ended, "topo run {collective} did not end in time or failed");
    others.end()?;
    rows(arguments, &text)
}

/// The command that times a collective.
fn timed(arguments: &Arguments, topo: &Path, collective: &str) -> Command {
    let mut command = Command::new(topo);
    command.args(["run", collective, "--json", "--no-in-place"]);
    command.args(["--check", "0", "--buffers", &arguments.buffers]);
    command.args(["--time", &arguments.time.to_string()]);
    command.args(["--begin", &arguments.begin.to_string()]);
    command.args(["--end", &arguments.end.to_string()]);
    command.args(["--factor", &arguments.factor.to_string()]);
    if collective == "broadcast" {
        command.arg("--reply");
    }
    command
}

/// The times by size that the program printed, and its choices.
fn rows(arguments: &Arguments, text: &str) -> Result<Timed> {
    let value: Value = serde_json::from_str(text).context("reading what topo run said")?;
    let rows = value["rows"].as_array().context("topo run gave no rows")?;
    // Rows have the requested sizes, although a block has at least one element.
    let asked = std::iter::successors(Some(arguments.begin), |size| {
        size.checked_mul(arguments.factor)
    });
    let choice = |it: &Value| {
        let words = ["algorithm", "transfer", "protocol"].map(|name| it[name].as_str());
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let chosen = rows.iter().zip(asked.clone()).filter_map(|(row, bytes)| {
        Some(Chosen {
            bytes,
            choice: choice(&row["out_of_place"]),
            best: choice(&row["best"]),
            factor: row["best"]["factor"].as_f64()?,
        })
    });
    let figure = |(row, size): (&Value, u64)| {
        let timing = &row["out_of_place"];
        let number = |it: &Value| it.as_f64().context("a row without a time");
        let (mean, single) = (&timing["time_us"], &timing["latency_us"]);
        let times = [
            number(mean)?,
            number(&single["p50"])?,
            number(&single["p99"])?,
        ];
        Ok((size, times))
    };
    Ok(Timed {
        chosen: chosen.collect(),
        times: rows.iter().zip(asked).map(figure).collect::<Result<_>>()?,
    })
}

/// The processes of the ranks but rank 0. They are killed if they are not awaited.
struct Others(Vec<Child>);

impl Others {
    fn start(&mut self, command: &mut Command) -> Result<()> {
        let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = silent.stdin(Stdio::null()).spawn();
        self.0.push(child.context("running a rank of topo")?);
        Ok(())
    }

    /// Waits until all have ended, after rank 0 has.
    fn end(mut self) -> Result<()> {
        for mut child in self.0.drain(..) {
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
