//! Ranks of several processes and of two simulated hosts, and graphs: this program runs again for
//! each row. Each must use the transport of its row, and get every element right.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::child_process::{ProgramOutput, RunningProgram};
use crate::gpu_test::page::Page;
use crate::gpu_test::report::Outcome;
use crate::gpu_test::test::Test;

/// The starter of the ranks.
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
const COMMON: &str = "-b 64 -e 256K -f 64 --channels=2 --warm 0";

/// Longest time of a row, s.
const DEADLINE_S: u64 = 90;

/// Runs all rows.
pub(crate) fn run(page: &mut Page<'_>) -> Result<()> {
    page.section(
        "Transports",
        "Two ranks as threads, processes and hosts, and graphs, by the transport of the row; each \
         element was checked.",
    );
    for case in cases() {
        let name = format!("{}, {}", case.name, case.collective);
        match page.test.multicast(2) {
            Err(why) if case.arguments.contains(&NVLS) => page.leave_out(&name, &why)?,
            _ => page.check(&name, DEADLINE_S, |test, deadline, _| {
                one(test, &case, deadline)
            })?,
        }
    }
    Ok(())
}

/// How a row came out.
fn one(test: &Test<'_>, case: &ProcessCase, deadline: Duration) -> Result<Outcome> {
    let command = || {
        let mut command = test.own();
        command
            .args(["run", case.collective, "--backend", "cuda"])
            .args(COMMON.split_whitespace())
            .args(["--timeout", &test.options.timeout.to_string()])
            .args(&case.arguments);
        if !case.arguments.contains(&"-n") {
            command.args(["-n", "2"]);
        }
        command
    };
    let ranks = |more: &[&str]| {
        let mut command = command();
        command.args(["--ranks", "2"]).args(more);
        Ok(vec![crate::child_process::run(command, deadline)?])
    };
    let ended = match case.starter {
        Starter::Threads => ranks(&[]),
        Starter::Processes => ranks(&["--processes"]),
        Starter::Hosts => by_hand(&command, deadline),
    }?;
    if let Some(failed) = ended.iter().find(|it| !it.status.success()) {
        // This status says so.
        if failed.status.code() == Some(1) {
            bail!("elements are wrong");
        }
        bail!("{} ({})", failed.last_words(), failed.status);
    }
    let said = ended.first().map_or("", |it| it.out.as_str());
    if !said.contains(&format!("rank 0 reaches 1 by {}", case.transport)) {
        let reaches = said.lines().find(|line| line.starts_with("rank 0 reaches"));
        let found = reaches.unwrap_or("nothing is said of it");
        bail!("another transport: {found}");
    }
    let mut lines = said.lines();
    if let Some(why) = lines.find(|line| line.starts_with("launches are no graph")) {
        bail!("{why}");
    }
    Ok(Outcome::Right(format!("by {}", case.transport)))
}

/// Two processes that meet by a file. Each takes itself for a host.
fn by_hand(command: &dyn Fn() -> Command, deadline: Duration) -> Result<Vec<ProgramOutput>> {
    let folder = tempfile::tempdir()?;
    let meeting = format!("file:{}", folder.path().join("meeting").display());
    let start = |rank: &str| {
        let mut command = command();
        command
            .args(["--rank", rank, "--world", "2", "--rendezvous", &meeting])
            .env("NCCL_HOSTID", format!("host {rank}"))
            .env("NCCL_SOCKET_IFNAME", "=lo");
        RunningProgram::new(command)
    };
    let (first, second) = (start("0")?, start("1")?);
    Ok(vec![first.wait(deadline)?, second.wait(deadline)?])
}
