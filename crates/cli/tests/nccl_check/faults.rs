//! NCCL's own log and RAS of jobs with a planted fault, given to `topo diagnose`.
//!
//! Hosts are processes with the phantom GPUs of a machine; bootstrap and RAS are NCCL's own, over
//! the loopback interface. Kernels do nothing: a rank that would hang in one stands still instead.

use std::fs;
use std::io::{stdin, stdout};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use nccl_binary::message::Network;
use nccl_binary::scripted::job::ScriptedHost;
use nccl_binary::scripted::{Evidence, ScriptedJob, Step, serve};
use serde_json::Value;

use super::obeyed::document;
use super::{check, library, not_fetched};

/// The argument of a host's process.
pub(crate) const HOST: &str = "scripted-host";

/// Deadline of a job, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// How long ranks wait before the evidence is taken: NCCL's threads have then said what they know.
const PAUSE: Duration = Duration::from_secs(2);

/// A host's process.
pub(crate) fn host() -> ExitCode {
    match serve(&mut stdin().lock(), &mut stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A fault, and the verdict that names it.
pub(crate) struct Fault {
    pub name: &'static str,
    job: fn(&Path) -> Result<ScriptedJob, Failed>,
    cause: &'static str,
    ranks: &'static [u32],
    hosts: &'static [&'static str],
}

/// The faults.
pub(crate) const FAULTS: [Fault; 7] = [
    Fault {
        name: "healthy",
        job: healthy,
        cause: "",
        ranks: &[],
        hosts: &[],
    },
    Fault {
        name: "a_rank_that_never_comes",
        job: never_comes,
        cause: "rank-missing",
        ranks: &[2],
        hosts: &[],
    },
    Fault {
        name: "a_rank_that_calls_nothing",
        job: calls_nothing,
        cause: "rank-missing",
        ranks: &[2],
        hosts: &["host-2"],
    },
    Fault {
        name: "a_nic_without_gdr",
        job: no_gdr,
        cause: "gdr-no-module",
        ranks: &[],
        hosts: &["host-1"],
    },
    Fault {
        name: "two_groups_in_other_orders",
        job: other_orders,
        cause: "group-order",
        ranks: &[],
        hosts: &[],
    },
    Fault {
        name: "too_many_communicators",
        job: many_communicators,
        cause: "nvls-slots",
        ranks: &[],
        hosts: &["host-0"],
    },
    Fault {
        name: "a_killed_rank",
        job: killed,
        cause: "rank-silent",
        ranks: &[1],
        hosts: &["host-1"],
    },
];

fn topology(machine: &str) -> Result<String, Failed> {
    let document = document(machine)?;
    let (complete, _) = nccl_binary::machine::complete(&document);
    Ok(topology::xml::write(&complete))
}

/// Hosts of one GPU and one NIC each, which do the same.
fn same(library: &Path, count: u32, steps: &[Step]) -> Result<ScriptedJob, Failed> {
    let host = ScriptedHost {
        topology: topology("gh200")?,
        gpus: 1,
        steps: steps.to_vec(),
        variables: Vec::new(),
        waits_in: None,
    };
    Ok(ScriptedJob {
        program: std::env::current_exe()?,
        arguments: vec![HOST.into()],
        library: library.to_owned(),
        network: Network::Plugin,
        ids: 2,
        multicast: None,
        hosts: vec![host; count as usize],
        killed: Vec::new(),
        pause: PAUSE,
        deadline: DEADLINE,
    })
}

fn make(id: u32, ranks: &[u32]) -> Step {
    let ranks = ranks.to_vec();
    Step::Make { id, ranks }
}

const ALL: [u32; 4] = [0, 1, 2, 3];

fn call(id: u32) -> Step {
    Step::AllReduce { id, elements: 1024 }
}

fn healthy(library: &Path) -> Result<ScriptedJob, Failed> {
    same(library, 4, &[make(0, &ALL), call(0), call(0)])
}

fn never_comes(library: &Path) -> Result<ScriptedJob, Failed> {
    let mut job = same(library, 4, &[make(0, &ALL)])?;
    for host in &mut job.hosts {
        host.waits_in = Some(0);
    }
    job.hosts[2].steps.clear();
    job.hosts[2].waits_in = None;
    Ok(job)
}

fn calls_nothing(library: &Path) -> Result<ScriptedJob, Failed> {
    let mut job = healthy(library)?;
    job.hosts[2].steps.pop();
    Ok(job)
}

fn no_gdr(library: &Path) -> Result<ScriptedJob, Failed> {
    let mut job = healthy(library)?;
    let text = &mut job.hosts[1].topology;
    *text = text.replace(
        "maxconn=\"131072\" gdr=\"1\"",
        "maxconn=\"131072\" gdr=\"0\"",
    );
    Ok(job)
}

/// Ranks 0 and 2 make one group first, ranks 1 and 3 another one.
fn other_orders(library: &Path) -> Result<ScriptedJob, Failed> {
    let mut job = same(library, 4, &[make(0, &ALL), make(1, &[0, 1, 2, 3])])?;
    for (number, host) in job.hosts.iter_mut().enumerate() {
        if number % 2 == 1 {
            host.steps.reverse();
        }
        host.waits_in = Some(0);
    }
    Ok(job)
}

/// Communicators of all GPUs of a host, until the switches have no multicast group left.
fn many_communicators(library: &Path) -> Result<ScriptedJob, Failed> {
    let ranks: Vec<u32> = (0..8).collect();
    let steps: Vec<Step> = (0..6).map(|id| make(id, &ranks)).collect();
    let mut job = same(library, 1, &steps)?;
    job.hosts[0].topology = topology("dgx-h100")?;
    job.hosts[0].gpus = 8;
    job.ids = 6;
    job.multicast = Some(4);
    Ok(job)
}

fn killed(library: &Path) -> Result<ScriptedJob, Failed> {
    let mut job = healthy(library)?;
    job.killed = vec![1];
    Ok(job)
}

/// Writes the evidence as users have it.
fn write(evidence: &Evidence, folder: &Path) -> Result<(), Failed> {
    for (host, log) in evidence.logs.iter().enumerate() {
        fs::write(folder.join(format!("host-{host}.log")), log.join("\n"))?;
    }
    for (number, report) in evidence.ras.iter().enumerate() {
        for (kind, text) in [("txt", &report.text), ("json", &report.json)] {
            if let Some(text) = text {
                fs::write(folder.join(format!("ras-{number}.{kind}")), text)?;
            }
        }
    }
    Ok(())
}

/// Runs a job with a fault, and diagnoses what is left of it.
pub(crate) fn is_named(version: &str, fault: &Fault) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let evidence = (fault.job)(&library)?.run()?;
    let folder = tempfile::tempdir()?;
    // The evidence stays in this folder if one is named.
    let kept = std::env::var_os("TOPO_KEEP_EVIDENCE");
    let folder = match &kept {
        Some(kept) => {
            let folder = Path::new(kept).join(format!("{}_{version}", fault.name));
            fs::create_dir_all(&folder)?;
            folder
        }
        None => folder.path().to_owned(),
    };
    write(&evidence, &folder)?;
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args(["diagnose", "--json"])
        .arg(&folder)
        .output()?;
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let text = || serde_json::to_string_pretty(&answer).unwrap_or_default();
    let verdicts = answer["verdicts"].as_array().cloned().unwrap_or_default();
    if fault.cause.is_empty() {
        check(verdicts.is_empty(), text)?;
        return Ok(Completion::Completed);
    }
    let is_it = |it: &&Value| {
        it["cause"] == fault.cause
            && it["ranks"] == serde_json::json!(fault.ranks)
            && it["hosts"] == serde_json::json!(fault.hosts)
    };
    check(verdicts.iter().any(|it| is_it(&it)), || {
        format!("{:?}: {}", evidence.ends, text())
    })?;
    Ok(Completion::Completed)
}
