//! `topo run` while other programs use its cores.

use std::collections::HashMap;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{said, topo};

/// Binds the calling thread, and what it starts afterwards, to one core.
fn bind_to_one_core() {
    let all = sched_getaffinity(None).unwrap();
    let core = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).unwrap();
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).unwrap();
}

/// Runs a closure beside two threads that compute on its only core.
fn crowded<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // On a thread of its own, because the binding stays.
        let done = scope.spawn(|| {
            bind_to_one_core();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                let done = run();
                over.store(true, Ordering::Relaxed);
                done
            })
        });
        done.join().unwrap()
    })
}

/// How often a thread gave up its core: because it slept, or because it yielded or was preempted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Switches {
    asleep: u64,
    ready: u64,
}

/// The switches of all threads of a process and of its children, until it ends.
fn watch(child: &mut Child) -> Switches {
    let mut switches: HashMap<String, Switches> = HashMap::new();
    while child.try_wait().unwrap().is_none() {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let own = child.id().to_string();
        for process in children.split_whitespace().chain([own.as_str()]) {
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                // A thread that has ended keeps its last figures.
                let status = std::fs::read_to_string(task.path().join("status"));
                let status = status.unwrap_or_default();
                let count = |name: &str| {
                    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                    line.trim().parse().ok()
                };
                if let (Some(asleep), Some(ready)) = (
                    count("voluntary_ctxt_switches:"),
                    count("nonvoluntary_ctxt_switches:"),
                ) {
                    let task = task.file_name().into_string().unwrap();
                    switches.insert(task, Switches { asleep, ready });
                }
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let sum = |of: fn(&Switches) -> u64| switches.values().map(of).sum();
    Switches {
        asleep: sum(|it| it.asleep),
        ready: sum(|it| it.ready),
    }
}

/// Each launch takes the core from the other rank. A rank that yields instead of sleeping gives
/// whole time slices to the other programs.
#[test]
fn waiting_ranks_sleep_instead_of_yielding() {
    for processes in [&[][..], &["--processes"]] {
        let (switches, said) = crowded(|| {
            let mut child = topo()
                .args(["run", "--ranks", "2", "all-reduce", "-b", "8", "-e", "8"])
                .args(["--time", "700", "--no-in-place", "--json"])
                .args(processes)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let switches = watch(&mut child);
            let said = said(child.wait_with_output().unwrap());
            assert_eq!(said.status, Some(0), "{}", said.err);
            (switches, said)
        });
        let value: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(value["rows"][0]["out_of_place"]["wrong"], 0);
        assert!(
            switches.asleep > switches.ready,
            "{processes:?}: {switches:?}: the ranks yield more often than they sleep"
        );
        // Two of the three threads that compute are of other programs.
        let share = value["other_programs_share"].as_f64().unwrap();
        assert!(share > 0.3, "{processes:?}: {share}");
        assert!(
            said.err.contains("warning: other programs took"),
            "{}",
            said.err
        );
    }
}
