//! Ranks of several processes and of two simulated hosts, and graphs: this program runs again for
//! each row. Each must use the transport of its row, and get every element right.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result};

/// Who starts the ranks.
#[derive(Debug, Clone, Copy)]
enum Starter {
    /// They are threads of one process.
    Threads,
    /// One process starts the others.
    Processes,
    /// Each is started by hand, and takes itself for a host of its own.
    Hosts,
}

struct ProcessCase {
    name: &'static str,
    starter: Starter,
    collective: &'static str,
    /// How rank 0 must reach the other one.
    transport: &'static str,
    arguments: Vec<&'static str>,
}

/// The algorithm of the rows that need a multicast.
const NVLS: &str = "nvls";

/// Name, who starts the ranks, collective, expected transport, further arguments. P2P for direct
/// transfers and NVLS; every transport with Simple and LL, P2P with LL128 too. A fabric may join
/// the hosts, so NET needs P2P to be off.
const CASES: &str = "\
P2P in one process              | threads   | all-reduce     | P2P |
P2P by IPC, direct              | processes | all-reduce     | P2P | --transfer direct
P2P by IPC, LL                  | processes | all-reduce     | P2P | --protocol ll
P2P by IPC, LL128               | processes | all-gather     | P2P | --protocol ll128
P2P by IPC, Simple              | processes | all-reduce     | P2P | --transfer fifo --protocol simple
P2P by CUDA IPC handles         | processes | broadcast      | P2P | --set NCCL_CUMEM_ENABLE=0
P2P by descriptors              | processes | broadcast      | P2P | --set NCCL_CUMEM_ENABLE=1
NVLS in one process             | threads   | all-reduce     | P2P | --algorithm nvls
NVLS                            | processes | all-reduce     | P2P | --algorithm nvls
NVLS                            | processes | reduce-scatter | P2P | --algorithm nvls
NVLS                            | processes | all-gather     | P2P | --algorithm nvls
NVLS by descriptors             | processes | all-reduce     | P2P | --algorithm nvls --set NCCL_CUMEM_ENABLE=1
SHM between threads             | threads   | all-reduce     | SHM | --set NCCL_P2P_DISABLE=1
SHM, LL                         | processes | all-reduce     | SHM | --set NCCL_P2P_DISABLE=1 --protocol ll
SHM, Simple                     | processes | all-gather     | SHM | --set NCCL_P2P_DISABLE=1 --protocol simple
SHM, transfers                  | processes | send-recv      | SHM | --set NCCL_P2P_DISABLE=1
NET, LL                         | hosts     | all-reduce     | NET | --protocol ll --set NCCL_P2P_DISABLE=1
NET, LL128                      | hosts     | all-reduce     | NET | --protocol ll128 --set NCCL_P2P_DISABLE=1
NET, Simple                     | hosts     | all-gather     | NET | --protocol simple --set NCCL_P2P_DISABLE=1
NET, transfers                  | hosts     | send-recv      | NET | --set NCCL_P2P_DISABLE=1
graphs of 8 launches, threads   | threads   | all-reduce     | P2P | --graph 8 -n 20
graphs of 8 launches, processes | processes | all-reduce     | P2P | --graph 8 -n 20
";

/// The rows of [`CASES`].
fn cases() -> impl Iterator<Item = ProcessCase> {
    CASES.lines().map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let mut next = || cells.next().unwrap_or_default();
        ProcessCase {
            name: next(),
            starter: match next() {
                "threads" => Starter::Threads,
                "hosts" => Starter::Hosts,
                _ => Starter::Processes,
            },
            collective: next(),
            transport: next(),
            arguments: next().split_whitespace().collect(),
        }
    })
}

/// What every row runs besides: two ranks, short and middling messages.
const COMMON: &str = "-b 64 -e 256K -f 64 --channels=2 --timeout 60";

/// Runs all rows and returns how many failed. `without_nvls` is why NVLS cannot run.
///
/// # Errors
/// This program cannot be started again.
pub fn run(backend: &str, without_nvls: Option<&str>, say: &mut dyn FnMut(&str)) -> Result<usize> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut wrong = 0;
    say("\nranks of several processes and hosts, and graphs: 2 ranks, each element checked\n");
    for case in cases() {
        if let Some(why) = without_nvls.filter(|_| case.arguments.contains(&NVLS)) {
            say(&format!(
                "  {}, {}: not run: {why}\n",
                case.name, case.collective
            ));
            continue;
        }
        let problem = one(&program, backend, &case)?;
        wrong += usize::from(problem.is_some());
        say(&match problem {
            None => format!("  {}, {}: right\n", case.name, case.collective),
            Some(problem) => format!("  {}, {}: {problem}\n", case.name, case.collective),
        });
    }
    Ok(wrong)
}

/// What is not right about a row, if anything is.
fn one(program: &Path, backend: &str, case: &ProcessCase) -> Result<Option<String>> {
    let command = || {
        let mut command = Command::new(program);
        command
            .args(["run", case.collective, "--backend", backend])
            .args(COMMON.split_whitespace())
            .args(&case.arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !case.arguments.contains(&"-n") {
            command.args(["-n", "2"]);
        }
        command
    };
    let outputs = match case.starter {
        Starter::Threads => vec![command().args(["--ranks", "2"]).output()?],
        Starter::Processes => vec![command().args(["--ranks", "2", "--processes"]).output()?],
        Starter::Hosts => by_hand(&command)?,
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
    if !said.contains(&format!("rank 0 reaches 1 by {}", case.transport)) {
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
