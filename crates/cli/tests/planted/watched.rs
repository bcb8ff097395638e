//! Living jobs of unmodified NCCL, and what `topo watch` says of them.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, thread};

use libtest_mimic::{Completion, Failed};
use serde::Deserialize;

use super::kind::{self, Kind};
use super::{VERSIONS, job, library};

/// The file with the kinds.
const FILE: &str = "tests/planted/watched.toml";

/// The version that answers with text alone.
const TEXT: &str = "2.27.7";

/// When ranks must be named, and a hang be called one, after it began; a busy machine adds 5 s.
const WAITS: Duration = Duration::from_secs(20);
const HANG: Duration = Duration::from_secs(80);

/// Jobs at a time: they rest most of the time.
const AT_ONCE: usize = 8;

/// A line of `topo watch --json`.
#[derive(Deserialize)]
struct Line {
    elapsed_s: f64,
    state: String,
    ranks: Vec<Rank>,
    what: String,
    ended: bool,
}

#[derive(Deserialize)]
struct Rank {
    rank: u32,
}

impl Line {
    /// The state and its ranks.
    fn short(&self) -> String {
        let mut ranks: Vec<u32> = self.ranks.iter().map(|it| it.rank).collect();
        ranks.sort_unstable();
        let ranks = ranks.iter().map(|it| format!(" {it}"));
        format!("{}{}", self.state, ranks.collect::<String>())
    }
}

/// Whether what was said of a job is right; else why not. With the seconds to `waits` and `hang`.
type Judged = Result<Vec<(String, f64)>, String>;

/// Runs all kinds in the newest version.
pub(crate) fn test() -> Result<Completion, Failed> {
    let newest = VERSIONS[VERSIONS.len() - 1];
    if library(newest).is_none() {
        return Ok(Completion::ignored_with(
            "not run: no such NCCL is here; cargo xtask fetch nccl fetches it",
        ));
    }
    match are_right(&[newest.to_owned()])? {
        true => Ok(Completion::Completed),
        false => Err("see above".into()),
    }
}

/// Runs the kinds whose name has one of the words in all versions or those among the words, and
/// prints what came of each.
pub(crate) fn table(words: &[String]) -> ExitCode {
    match are_right(words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", error.message().unwrap_or_default());
            ExitCode::from(2)
        }
    }
}

fn are_right(words: &[String]) -> Result<bool, Failed> {
    let (only, words): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|it| VERSIONS.contains(&it.as_str()));
    let kinds = kind::read(FILE)?;
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|it| name.contains(*it));
    let versions = VERSIONS.iter().filter(|it| library(it).is_some());
    let versions = versions.filter(|it| only.is_empty() || only.iter().any(|o| o == *it));
    let cases = kinds.iter().filter(|it| is_wanted(it.0));
    let cases: Vec<_> = cases
        .flat_map(|kind| versions.clone().map(move |version| (kind, *version)))
        .collect();
    let waiting = Mutex::new(cases.iter());
    let right = Mutex::new(0);
    let work = || {
        while let Some(((name, kind), version)) = waiting.lock().ok().and_then(|mut it| it.next()) {
            let said = match run(kind, version) {
                Ok(Ok(times)) => {
                    if let Ok(mut right) = right.lock() {
                        *right += 1;
                    }
                    let times = times.iter().map(|(state, s)| format!(" {state}: {s:.1} s"));
                    format!("right{}", times.collect::<String>())
                }
                Ok(Err(why)) => format!("WRONG {why}"),
                Err(error) => format!("failed {}", error.message().unwrap_or_default()),
            };
            println!("{name:24} {version:8} {said}");
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let right = right.into_inner().unwrap_or(0);
    println!("{right} of {} right", cases.len());
    Ok(right == cases.len())
}

fn run(kind: &Kind, version: &str) -> Result<Judged, Failed> {
    let scratch = tempfile::tempdir()?;
    let job = job::of(kind, version, scratch.path())?;
    let watch = |hosts: Vec<SocketAddr>| {
        let began = Instant::now();
        let program =
            env::var_os("TOPO_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_topo").into());
        let output = Command::new(program)
            .args(["watch", "--json", "--time-limit", &kind.seconds.to_string()])
            .args(hosts.iter().map(SocketAddr::to_string))
            .output();
        (began, output)
    };
    let ((began, output), begun) = job.watched(watch)?;
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|error| format!("{error}: {text}"))?;
    // All ranks stand in their last step since then.
    let planted = begun.iter().max().ok_or("no process")?;
    let planted = planted.saturating_duration_since(began).as_secs_f64();
    let judged = judge(kind, version, &lines, planted);
    Ok(judged.map_err(|why| {
        let lines = lines.iter().map(|it| {
            let (at, what) = (it.elapsed_s, &it.what);
            format!(
                "\n    {at:.1} s {}{}: {what}",
                it.short(),
                if it.ended { " ended" } else { "" }
            )
        });
        let error = String::from_utf8_lossy(&output.stderr);
        format!("{why}{}\n    {error}", lines.collect::<String>())
    }))
}

fn judge(kind: &Kind, version: &str, lines: &[Line], planted: f64) -> Judged {
    let mut states = kind.states.clone();
    if version == TEXT {
        states.retain(|it| it != "moves");
        states = kind.text_states.clone().unwrap_or(states);
    }
    if let Some(line) = lines.iter().find(|it| kind.never.contains(&it.state)) {
        return Err(format!("{} came", line.short()));
    }
    let mut times = Vec::new();
    let mut rest = lines.iter();
    for state in &states {
        // Text leaves out the names of many ranks.
        let is_it = |it: &&Line| it.short() == *state || it.ranks.is_empty() && it.state == *state;
        let Some(line) = rest.find(is_it) else {
            return Err(format!("{state} did not come"));
        };
        let took = line.elapsed_s - planted;
        let limit = match line.state.as_str() {
            "waits" => WAITS,
            "hang" => HANG,
            _ => continue,
        };
        if states.iter().any(|it| it.starts_with("hang")) {
            times.push((line.state.clone(), took));
            if took > limit.as_secs_f64() {
                return Err(format!("{state} came after {took:.0} s"));
            }
        }
    }
    let last = lines.last().map(Line::short).unwrap_or_default();
    match states.last() {
        Some(state) if state.starts_with("hang") && *state != last => {
            Err(format!("it ended with {last}"))
        }
        _ => Ok(times),
    }
}
