//! States of living jobs, from sequences of polls: made up (`watch/sequences.txt`), and recorded.

use std::fs;
use std::path::Path;
use std::time::Duration;

use diagnose::watch::{Limits, Polled, Situation, Watch};
use libtest_mimic::{Arguments, Completion, Trial};
use records::evidence::ras::Rank;
use records::evidence::ras::answer::{self, Answer, Communicator, Launched, Missing};

/// A poll of a sequence: the second, and what became of it.
fn polls(line: &str) -> Vec<(u64, Polled)> {
    let (times, what) = line.split_once(' ').unwrap();
    let (range, step) = times.split_once('/').unwrap_or((times, "1"));
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    let times = (from..=to).step_by(step.parse().unwrap());
    times
        .map(|at| {
            let polled = match what {
                "refused" => Polled::Refused,
                "silent" => Polled::Silent,
                "none" => Polled::Answer(Answer::default()),
                _ => {
                    let all = what.split("; ").map(|it| communicator(it, at - from));
                    let communicators: Vec<_> = all.collect();
                    Polled::Answer(Answer {
                        all: communicators.len() as u64,
                        communicators,
                        ..Answer::default()
                    })
                }
            };
            (at, polled)
        })
        .collect()
}

/// A communicator some seconds after the begin of its line.
fn communicator(text: &str, seconds: u64) -> Communicator {
    let (name, ranks) = text.split_once(' ').unwrap();
    let (name, processes) = name.split_once('(').unwrap_or((name, ""));
    let processes = processes.trim_end_matches(')').split(',');
    let processes: Vec<(u64, Option<u32>)> = processes
        .map(|it| it.split_once('.').unwrap_or((it, "")))
        .filter_map(|(process, gpu)| Some((process.parse().ok()?, gpu.parse().ok())))
        .collect();
    let mut all = Communicator {
        name: name.to_owned(),
        ..Communicator::default()
    };
    for (at, word) in ranks.split_whitespace().enumerate() {
        let (process, device) = processes.get(at).copied().unwrap_or((at as u64 + 1, None));
        let rank = Rank {
            rank: at as u32,
            host: "h".to_owned(),
            process,
            device,
            line: 0,
        };
        all.size += 1;
        if word == "." || word == "x" {
            let is_silent = word == ".";
            all.missing.push(Missing { rank, is_silent });
            continue;
        }
        all.is_ending |= word.ends_with('!');
        let mut counts = word.trim_end_matches('!').split('/').map(|count| {
            let number: i64 = count.trim_end_matches('+').parse().unwrap();
            number
                + if count.ends_with('+') {
                    seconds as i64
                } else {
                    0
                }
        });
        let kinds = ["AllReduce", "AllGather"].map(str::to_owned).into_iter();
        all.launched.push(Launched {
            rank: Some(rank),
            ranks: 1,
            counts: kinds.map(|it| (it, counts.next().unwrap_or(0))).collect(),
        });
    }
    all
}

/// The state and the ranks it names, as `sequences.txt` has them.
fn short(situation: &Situation) -> String {
    let ranks = situation.ranks.iter().map(|it| format!(" {}", it.rank));
    let ended = if situation.ended { " ended" } else { "" };
    format!(
        "{}{}{ended}",
        situation.state.word(),
        ranks.collect::<String>()
    )
}

fn main() -> std::process::ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/spec/ras");
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let tests = vec![
        test("made_up_sequences", made_up_sequences),
        test("a_killed_rank", a_killed_rank),
        Trial::ignorable_test("recorded_sequences", move || match folder.is_dir() {
            true => {
                recorded_sequences(&folder);
                Ok(Completion::Completed)
            }
            false => Ok(Completion::ignored_with(format!(
                "not run: there is no {}",
                folder.display()
            ))),
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn made_up_sequences() {
    let text = include_str!("watch/sequences.txt");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for sequence in text.split("\n- ").skip(1) {
        let mut lines = sequence.lines().filter(|it| !it.is_empty());
        let name = lines.next().unwrap();
        let (mut all, mut expected, mut never) = (Vec::new(), Vec::new(), Vec::new());
        let mut limits = Limits::default();
        for line in lines {
            if let Some(line) = line.strip_prefix("= ") {
                let (at, state) = line.split_once(' ').unwrap();
                expected.push((at.parse::<u64>().unwrap(), state));
            } else if let Some(seconds) = line.strip_prefix("period ") {
                limits.period = Duration::from_secs(seconds.parse().unwrap());
            } else if let Some(states) = line.strip_prefix("never ") {
                never.extend(states.split(' '));
            } else {
                all.extend(polls(line));
            }
        }
        all.sort_by_key(|it| it.0);
        let mut watch = Watch::new(limits);
        let mut met = 0;
        for (at, polled) in all {
            watch.take(Duration::from_secs(at), "h", polled);
            let situation = watch.situation();
            let is = short(&situation);
            if never.contains(&situation.state.word()) {
                wrong.push(format!("{name}: {is} at {at} s"));
            }
            for (_, state) in expected.iter().filter(|it| it.0 == at) {
                met += 1;
                if is != *state {
                    let line = situation.line();
                    wrong.push(format!("{name}: {is} at {at} s, expected {state}: {line}"));
                }
            }
        }
        assert_eq!(met, expected.len(), "{name}: no poll at a time");
        checked += met;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 60);
}

/// Polls that unmodified NCCL answered: each line has the time, and the answer as it was sent.
fn replay(text: &str) -> Vec<(f64, Situation)> {
    let mut watch = Watch::new(Limits::default());
    let mut all = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (Some(at), Some(said)) = (line["t"].as_f64(), line["answer"].as_str()) else {
            continue;
        };
        let polled = answer::read(said.as_bytes()).map_or(Polled::Silent, Polled::Answer);
        watch.take(Duration::from_secs_f64(at), "h", polled);
        all.push((at, watch.situation()));
    }
    all
}

/// The state at the times of recordings (the last poll until then).
const RECORDED: &[(&str, &[(f64, &str)])] = &[
    (
        "2.27.7-late",
        &[
            (15.0, "unknown"),
            (20.0, "waits 2"),
            (36.0, "waits 2"),
            (44.0, "unknown"),
        ],
    ),
    (
        "2.28.9-kill",
        &[
            (13.0, "moves"),
            (17.0, "moves"),
            (43.0, "gone 3"),
            (92.0, "gone 3"),
        ],
    ),
    ("2.32.3-abort", &[(10.0, "unknown")]),
    ("2.32.3-destroy", &[(13.0, "unknown"), (17.0, "unknown")]),
    ("2.32.3-firsthang", &[(16.0, "unknown")]),
    (
        "2.32.3-late",
        &[
            (42.0, "unknown"),
            (46.0, "waits 2"),
            (62.0, "waits 2"),
            (70.0, "moves"),
        ],
    ),
    ("2.32.3-pause", &[(30.0, "unknown"), (42.0, "moves")]),
    ("2.32.3-split2", &[(12.0, "moves"), (16.0, "waits 3")]),
    (
        "2.32.3-stop",
        &[
            (13.0, "moves"),
            (37.0, "gone 3"),
            (97.0, "gone 3"),
            (111.0, "moves"),
            (125.0, "moves"),
        ],
    ),
    ("2.32.3-twohung", &[(9.0, "moves"), (19.0, "waits 2")]),
];

/// A rank was killed after 15 s; version 2.28.9 leaves out a comma then.
fn a_killed_rank() {
    let all = replay(include_str!("watch/2.28.9-killed.jsonl"));
    let states: Vec<String> = all.iter().map(|it| short(&it.1)).collect();
    let moves = "moves";
    let expected = [
        "unknown", moves, moves, moves, "unknown", "gone 3", "gone 3",
    ];
    assert_eq!(states, expected);
    assert!(all[6].1.is_verdict() && !all[5].1.is_verdict());
}

fn recorded_sequences(folder: &Path) {
    let mut wrong = Vec::new();
    for (name, states) in RECORDED {
        let file = folder.join(format!("sequence-{name}.jsonl"));
        let all = replay(&fs::read_to_string(&file).unwrap());
        for (at, state) in *states {
            let last = all.iter().rfind(|it| it.0 <= *at).unwrap();
            if short(&last.1) != *state {
                let (is, line) = (short(&last.1), last.1.line());
                wrong.push(format!("{name}: {is} at {at} s, expected {state}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
