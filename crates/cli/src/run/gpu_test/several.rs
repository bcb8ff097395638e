//! Ranks of several processes, on one host and on what stands for two, and graphs: this program, started again for each
//! row. Each must reach its peers by the transport of its row, and get every element right.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result};

/// Who starts the ranks.
#[derive(Debug, Clone, Copy)]
enum Ranks {
    /// They are threads of one process.
    Threads,
    /// One process starts the others.
    Processes,
    /// Each is started by hand, and takes itself for a host of its own.
    Hosts,
}

/// One row.
struct Case {
    name: &'static str,
    ranks: Ranks,
    collective: &'static str,
    arguments: &'static [&'static str],
    /// What is said of how rank 0 reaches the other one.
    reaches: &'static str,
}

const fn case(
    name: &'static str,
    ranks: Ranks,
    collective: &'static str,
    arguments: &'static [&'static str],
    reaches: &'static str,
) -> Case {
    Case {
        name,
        ranks,
        collective,
        arguments,
        reaches,
    }
}

/// By which NVLS is asked for.
const NVLS: &str = "nvls";

/// Nothing but P2P for direct transfers and NVLS; every transport with Simple and LL, P2P with LL128 too.
const CASES: [Case; 22] = [
    case(
        "P2P in one process",
        Ranks::Threads,
        "all-reduce",
        &[],
        "1 by P2P",
    ),
    case(
        "P2P by IPC, direct",
        Ranks::Processes,
        "all-reduce",
        &["--transfer", "direct"],
        "1 by P2P",
    ),
    case(
        "P2P by IPC, LL",
        Ranks::Processes,
        "all-reduce",
        &["--protocol", "ll"],
        "1 by P2P",
    ),
    case(
        "P2P by IPC, LL128",
        Ranks::Processes,
        "all-gather",
        &["--protocol", "ll128"],
        "1 by P2P",
    ),
    case(
        "P2P by IPC, Simple",
        Ranks::Processes,
        "all-reduce",
        &["--transfer", "fifo", "--protocol", "simple"],
        "1 by P2P",
    ),
    case(
        "P2P by CUDA IPC handles",
        Ranks::Processes,
        "broadcast",
        &["--set", "NCCL_CUMEM_ENABLE=0"],
        "1 by P2P",
    ),
    case(
        "P2P by descriptors",
        Ranks::Processes,
        "broadcast",
        &["--set", "NCCL_CUMEM_ENABLE=1"],
        "1 by P2P",
    ),
    case(
        "NVLS in one process",
        Ranks::Threads,
        "all-reduce",
        &["--algorithm", NVLS],
        "1 by P2P",
    ),
    case(
        "NVLS",
        Ranks::Processes,
        "all-reduce",
        &["--algorithm", NVLS],
        "1 by P2P",
    ),
    case(
        "NVLS",
        Ranks::Processes,
        "reduce-scatter",
        &["--algorithm", NVLS],
        "1 by P2P",
    ),
    case(
        "NVLS",
        Ranks::Processes,
        "all-gather",
        &["--algorithm", NVLS],
        "1 by P2P",
    ),
    case(
        "NVLS by descriptors",
        Ranks::Processes,
        "all-reduce",
        &["--algorithm", NVLS, "--set", "NCCL_CUMEM_ENABLE=1"],
        "1 by P2P",
    ),
    case(
        "SHM between threads",
        Ranks::Threads,
        "all-reduce",
        &["--set", "NCCL_P2P_DISABLE=1"],
        "1 by SHM",
    ),
    case(
        "SHM, LL",
        Ranks::Processes,
        "all-reduce",
        &["--set", "NCCL_P2P_DISABLE=1", "--protocol", "ll"],
        "1 by SHM",
    ),
    case(
        "SHM, Simple",
        Ranks::Processes,
        "all-gather",
        &["--set", "NCCL_P2P_DISABLE=1", "--protocol", "simple"],
        "1 by SHM",
    ),
    case(
        "SHM, transfers",
        Ranks::Processes,
        "send-recv",
        &["--set", "NCCL_P2P_DISABLE=1"],
        "1 by SHM",
    ),
    case(
        "NET, LL",
        Ranks::Hosts,
        "all-reduce",
        &["--protocol", "ll"],
        "1 by NET",
    ),
    case(
        "NET, LL128",
        Ranks::Hosts,
        "all-reduce",
        &["--protocol", "ll128"],
        "1 by NET",
    ),
    case(
        "NET, Simple",
        Ranks::Hosts,
        "all-gather",
        &["--protocol", "simple"],
        "1 by NET",
    ),
    case("NET, transfers", Ranks::Hosts, "send-recv", &[], "1 by NET"),
    case(
        "graphs of 8 launches, threads",
        Ranks::Threads,
        "all-reduce",
        &["--graph", "8", "-n", "20"],
        "1 by P2P",
    ),
    case(
        "graphs of 8 launches, processes",
        Ranks::Processes,
        "all-reduce",
        &["--graph", "8", "-n", "20"],
        "1 by P2P",
    ),
];

/// What every row runs besides: two ranks, short and middling messages.
const COMMON: [&str; 9] = [
    "-b",
    "64",
    "-e",
    "256K",
    "-f",
    "64",
    "--channels=2",
    "--timeout",
    "60",
];

/// Runs all rows, and answers how many were not right. `say` is told each. Those of NVLS are not run if `without_nvls` says
/// why they cannot be.
///
/// # Errors
/// This program cannot be started again.
pub fn run(backend: &str, without_nvls: Option<&str>, say: &mut dyn FnMut(&str)) -> Result<usize> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut wrong = 0;
    say("\nranks of several processes and hosts, and graphs: 2 ranks, each element checked\n");
    for case in &CASES {
        if let Some(why) = without_nvls.filter(|_| case.arguments.contains(&NVLS)) {
            say(&format!(
                "  {}, {}: not run: {why}\n",
                case.name, case.collective
            ));
            continue;
        }
        let problem = one(&program, backend, case)?;
        wrong += usize::from(problem.is_some());
        say(&match problem {
            None => format!("  {}, {}: right\n", case.name, case.collective),
            Some(problem) => format!("  {}, {}: {problem}\n", case.name, case.collective),
        });
    }
    Ok(wrong)
}

/// What is not right about a row, if anything is.
fn one(program: &Path, backend: &str, case: &Case) -> Result<Option<String>> {
    let command = || {
        let mut command = Command::new(program);
        command
            .args(["run", case.collective, "--backend", backend])
            .args(COMMON)
            .args(case.arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !case.arguments.contains(&"-n") {
            command.args(["-n", "2"]);
        }
        command
    };
    let outputs = match case.ranks {
        Ranks::Threads => vec![command().args(["--ranks", "2"]).output()?],
        Ranks::Processes => vec![command().args(["--ranks", "2", "--processes"]).output()?],
        Ranks::Hosts => by_hand(&command)?,
    };
    let Some(first) = outputs.first() else {
        return Ok(None);
    };
    if let Some(failed) = outputs.iter().find(|it| !it.status.success()) {
        let errors = String::from_utf8_lossy(&failed.stderr);
        let last = errors.lines().next_back().unwrap_or("it said nothing");
        return Ok(Some(format!("FAILED ({}): {last}", failed.status)));
    }
    let said = String::from_utf8_lossy(&first.stdout);
    if !said.contains(&format!("rank 0 reaches {}", case.reaches)) {
        let reaches = said.lines().find(|line| line.starts_with("rank 0 reaches"));
        let found = reaches.unwrap_or("nothing is said of it");
        return Ok(Some(format!("ANOTHER TRANSPORT: {found}")));
    }
    let graph = said
        .lines()
        .find(|line| line.starts_with("launches are no graph"));
    Ok(graph.map(|why| format!("right, but {why}")))
}

fn by_hand(command: &dyn Fn() -> Command) -> Result<Vec<Output>> {
    let folder = tempfile::tempdir()?;
    let meeting = format!("file:{}", folder.path().join("meeting").display());
    let start = |rank: &str| -> Result<Child> {
        let mut command = command();
        command
            .args(["--rank", rank, "--world", "2", "--rendezvous", &meeting])
            .env("NCCL_HOSTID", format!("host {rank}"))
            .env("NCCL_SOCKET_IFNAME", "=lo");
        Ok(command.spawn()?)
    };
    let children = [start("0")?, start("1")?];
    let ended = children.into_iter().map(|it| Ok(it.wait_with_output()?));
    ended.collect()
}
