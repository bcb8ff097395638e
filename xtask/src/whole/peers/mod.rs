//! `cargo xtask peers`: `topo run` beside Open MPI and MPICH on this machine.
//!
//! All run the same collectives with the same sizes, one after the other in each round, so that
//! other load affects all alike. The median over the rounds counts. With `--hosts`, ranks of `topo`
//! act as several hosts, and the peers use TCP only.

mod busy;
mod install;
mod own;
mod report;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::whole::measure;
use busy::Busy;
use install::Peer;
use own::run_topo;
use report::{Contest, Figures, Times};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    ranks: Vec<u32>,
    /// Hosts that the ranks act as, equally many on each; the peers then use TCP between all ranks
    #[arg(long, default_value_t = 1)]
    hosts: u32,
    /// Collectives
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all-reduce,all-gather,broadcast,reduce-scatter,all-to-all"
    )]
    collectives: Vec<String>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Smallest size, such as 8 or 1K
    #[arg(long, default_value = "8", value_parser = program::size::parse)]
    begin: u64,
    /// Largest size
    #[arg(long, default_value = "256M", value_parser = program::size::parse)]
    end: u64,
    /// Factor from one size to the next
    #[arg(long, default_value_t = 4)]
    factor: u64,
    /// Time for each figure, ms
    #[arg(long, default_value_t = 30)]
    time: u64,
    /// Longest run of one program, s; sizes that it did not reach are left out
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Only these peers: openmpi-4, openmpi-5, mpich-5
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also time topo with ranks as threads, not only as processes
    #[arg(long, conflicts_with = "hosts")]
    threads: bool,
    /// Whose memory topo's buffers are: `own` (the communicator's) or `caller`, as MPI's are
    #[arg(long, default_value = "own", value_parser = ["own", "caller"])]
    buffers: String,
    /// Threads that compute meanwhile, to see how the programs share the cores
    #[arg(long, default_value_t = 0)]
    busy: usize,
    /// The topo program; built if not given
    #[arg(long)]
    topo: Option<PathBuf>,
    /// Write the figures as JSON
    #[arg(short, long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let hosts = arguments.hosts;
    for ranks in &arguments.ranks {
        ensure!(
            hosts > 0 && *ranks > 0 && ranks.is_multiple_of(hosts),
            "{ranks} ranks cannot be {hosts} hosts with equally many ranks: give `--ranks` a multiple of `--hosts`"
        );
    }
    let topo = measure::topo(arguments.topo.as_deref())?;
    let peers = install::all(&arguments.only)?;
    ensure!(!peers.is_empty(), "no peer could be installed");
    let busy = Busy::start(arguments.busy);
    let mut contests = Vec::new();
    for ranks in &arguments.ranks {
        for collective in &arguments.collectives {
            let contest = contest(arguments, &topo, &peers, collective, *ranks)?;
            print!("{}", contest.table());
            contests.push(contest);
        }
    }
    drop(busy);
    print!("{}", report::summary(&contests));
    if let Some(path) = &arguments.output {
        let text = serde_json::to_string_pretty(&report::json(&contests))?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn contest(
    arguments: &Arguments,
    topo: &Path,
    peers: &[Peer],
    collective: &str,
    ranks: u32,
) -> Result<Contest> {
    let mut own = vec![("topo".to_owned(), Figures::default())];
    if arguments.threads {
        own.push(("topo-threads".to_owned(), Figures::default()));
    }
    let mut others: Vec<(String, Figures, u64)> = peers
        .iter()
        .map(|peer| (peer.name.to_owned(), Figures::default(), arguments.end))
        .collect();
    let programs = own.len() + peers.len();
    for round in 0..arguments.rounds {
        eprintln!(
            "{collective}, {ranks} ranks: round {} of {}",
            round + 1,
            arguments.rounds
        );
        for turn in 0..programs {
            // Each round begins with another program.
            let at = (turn + round) % programs;
            if let Some((_, figures)) = own.get_mut(at) {
                let threads = at == 1;
                let run = run_topo(arguments, topo, collective, ranks, (threads, false));
                figures.add(&run?.times);
                continue;
            }
            let at = at - own.len();
            let (_, figures, end) = &mut others[at];
            let found = run_peer(arguments, &peers[at], collective, ranks, *end)?;
            // A size that was not reached once is not tried again.
            if let Some((largest, _)) = found.last() {
                *end = (*end).min(*largest);
            }
            figures.add(&found);
        }
    }
    let chosen = run_topo(arguments, topo, collective, ranks, (false, true))?.chosen;
    Ok(Contest {
        chosen,
        collective: collective.to_owned(),
        ranks,
        hosts: arguments.hosts,
        own,
        peers: others
            .into_iter()
            .map(|(name, figures, _)| (name, figures))
            .collect(),
    })
}

fn run_peer(
    arguments: &Arguments,
    peer: &Peer,
    collective: &str,
    ranks: u32,
    end: u64,
) -> Result<Vec<(u64, Times)>> {
    let mut command = peer.command(ranks, arguments.hosts);
    command.arg(collective);
    for number in [arguments.begin, end, arguments.factor, arguments.time] {
        command.arg(number.to_string());
    }
    let (text, _) = capture(&mut command, Duration::from_secs(arguments.timeout))?;
    let line = |line: &str| {
        let (bytes, times) = line.split_once(' ')?;
        let times: Result<Vec<f64>, _> = times.split_whitespace().map(str::parse).collect();
        let [mean, p50, p99, _max] = times.ok()?.try_into().ok()?;
        Some((bytes.parse().ok()?, [mean, p50, p99]))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// The output of a program until it ends or the time is over, and whether it succeeded.
fn capture(command: &mut Command, longest: Duration) -> Result<(String, bool)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("running {program}"))?;
    let Some(mut stdout) = child.stdout.take() else {
        bail!("{program} has no standard output");
    };
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        // Output that cannot be read is treated as missing.
        let _ = stdout.read_to_string(&mut text);
        text
    });
    let began = Instant::now();
    let mut well = false;
    loop {
        if let Some(status) = child.try_wait()? {
            well = status.success();
            break;
        }
        if began.elapsed() > longest {
            // MPI's starters forward SIGTERM to their processes. They cannot forward SIGKILL.
            let asked = Command::new("kill").arg(child.id().to_string()).status();
            let _ = asked.context("asking a program to end")?;
            let patience = Instant::now();
            while child.try_wait()?.is_none() && patience.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = reader.join().unwrap_or_default();
    Ok((text, well))
}
