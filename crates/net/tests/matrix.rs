//! A sample of the correctness matrix over TCP: every collective by every algorithm and protocol,
//! with types, operations, sizes and numbers of channels drawn from a seed. Ranks are processes, in
//! network namespaces where those can be made, and on one machine that acts as several hosts.
//!
//! `SUITE_EACH=50 cargo test -p net --test matrix` draws 50 cases for each algorithm and protocol
//! instead of one; `SUITE_SEED` draws others.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use backend_cpu::{Cpu, Profile};
use bootstrap::interface::Wanted;
use bootstrap::member::Meeting;
use bootstrap::{Key, socket};
use executor::suite::{self, COUNTS, Case};
use executor::{Choice, Communicator, Settings};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use net::{Host, Hosts, Options};
use program::Transfer;

/// Set for processes that are ranks.
const IS_RANK: &str = "SUITE_IS_RANK";

/// How many cases for each collective, algorithm and protocol, and the seed to draw them with.
const EACH: &str = "SUITE_EACH";
const SEED: &str = "SUITE_SEED";

/// Where rank 0 listens, one above the port of the script.
const PORT: u16 = 29_501;

fn number(name: &str, otherwise: u64) -> u64 {
    let set = env::var(name).ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

/// Cases of every collective, algorithm and protocol between hosts.
fn cases(ranks: u32) -> Vec<Case> {
    let mut all = suite::cases(&[ranks], &COUNTS);
    all.retain(|it| it.choice.transfer == Transfer::Fifo);
    // Two hosts with different numbers of ranks exchange whole messages only.
    let hierarchical = suite::hierarchical(&[ranks], &COUNTS).into_iter();
    let even = ranks.is_multiple_of(2);
    all.extend(hierarchical.filter(|it| even || !it.collective.splits_message()));
    let group = |it: &Case| {
        let Choice {
            schedule,
            transfer,
            protocol,
            ..
        } = it.choice;
        (it.collective, schedule, transfer, protocol)
    };
    let mut drawn = Vec::new();
    let mut seed = number(SEED, 1).wrapping_mul(0x1_0000);
    while let Some(first) = all.first().map(group) {
        let (own, others): (Vec<Case>, Vec<Case>) =
            all.into_iter().partition(|it| group(it) == first);
        all = others;
        seed += 1;
        drawn.extend(suite::sample(&own, number(EACH, 1) as usize, seed));
    }
    drawn
}

/// Runs this process as a rank.
fn rank() -> Result<(), String> {
    let text = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
    let (rank, ranks) = (number("RANK", 0) as u32, number("WORLD_SIZE", 1) as u32);
    let root = format!("{}:{PORT}", text("MASTER_ADDR")?);
    let root = root.parse().map_err(|_| format!("{root} is no address"))?;
    let mut roots = Vec::new();
    if rank == 0 {
        roots.push((0, socket::listen(root).map_err(|it| it.to_string())?));
    }
    let hosts = Hosts::join(Options {
        roots,
        interfaces: Wanted {
            names: Some(text("NCCL_SOCKET_IFNAME")?),
            family: Some("AF_INET".to_owned()),
        },
        host: Host::this(env::var("NCCL_HOSTID").ok().as_deref()),
        sockets: 1 + (number(SEED, 1) % 2) as u16,
        checks: true,
        ..Options::new(
            rank,
            ranks,
            Key::of_secret(text(IS_RANK)?.as_bytes()),
            Meeting::Roots(vec![root]),
        )
    });
    let hosts = hosts.map_err(|it| it.to_string())?;
    let reached = hosts.reached().clone();
    let settings = Settings {
        longest_wait: Duration::from_secs(120),
        buffer_bytes: Some(64 << 20),
        ..Settings::default()
    };
    let backend = Cpu::new(Arc::new(Profile::default()));
    let communicator = Communicator::join(backend, Box::new(hosts), &settings);
    let mut communicator = communicator.map_err(|it| it.to_string())?;
    let cases = cases(ranks);
    for (done, case) in cases.iter().enumerate() {
        suite::run_rank(&mut communicator, case)
            .map_err(|it| format!("rank {rank}: case {done}, {case:?}: {it}"))?;
    }
    let of = |name: fn(&Case) -> String| cases.iter().map(name).collect::<BTreeSet<_>>().len();
    if rank == 0 {
        println!(
            "all right: {} cases, {} collectives, {} algorithms, {} protocols, {} types, {} operations, SHM for {}, NET for {}",
            cases.len(),
            of(|it| it.collective.to_string()),
            of(|it| it.choice.schedule.to_string()),
            of(|it| it.choice.protocol.to_string()),
            of(|it| format!("{:?}", it.element)),
            of(|it| format!("{:?}", it.reduction)),
            reached.shared,
            reached.remote,
        );
    }
    Ok(())
}

/// Processes that end with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Either fails for a process that has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The exit status of the rehearsal script where it cannot run.
const MISSING: i32 = 77;

/// Waits for all processes; the first prints what was run.
fn finish(mut running: Running, reached: &str) -> Result<Completion, Failed> {
    let mut said = String::new();
    for child in std::mem::take(&mut running.0) {
        let output = child.wait_with_output()?;
        let err = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(MISSING) {
            return Ok(Completion::ignored_with(err.trim().to_owned()));
        }
        if !output.status.success() {
            return Err(err.into_owned().into());
        }
        said += &String::from_utf8_lossy(&output.stdout);
    }
    if !(said.contains("all right") && said.contains(reached)) {
        return Err(said.into());
    }
    eprint!("{said}");
    Ok(Completion::Completed)
}

fn command(program: &Path, master: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env(IS_RANK, format!("a suite of {}", std::process::id()))
        .env("MASTER_ADDR", master)
        .env_remove("NCCL_HOSTID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs `ranks` ranks in each of `hosts` namespaces; `more` are arguments of the script.
fn namespaces(hosts: u32, ranks: u32, more: &[&str], reached: &str) -> Result<Completion, Failed> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/scripts/rehearse-hosts");
    let mut command = command(&script, "");
    command.env("NCCL_SOCKET_IFNAME", "eth");
    // The name of a bridge has at most 15 letters.
    let name = format!("s{}x{}", hosts * 10 + ranks, std::process::id());
    command.args(["--hosts", &hosts.to_string(), "--ranks", &ranks.to_string()]);
    command
        .args(more)
        .args(["--name", &name, "--"])
        .arg(env::current_exe()?);
    finish(Running(vec![command.spawn()?]), reached)
}

/// Runs ranks on one machine that acts as these hosts.
fn one_machine(hosts: &[&str], reached: &str) -> Result<Completion, Failed> {
    let process = std::process::id();
    let master = format!("127.{}.{}.7", 1 + process / 200 % 200, 1 + process % 200);
    let mut running = Running(Vec::new());
    for (rank, host) in hosts.iter().enumerate() {
        let mut command = command(&env::current_exe()?, &master);
        command
            .env("NCCL_SOCKET_IFNAME", "=lo")
            .env("NCCL_HOSTID", host)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", hosts.len().to_string());
        running.0.push(command.spawn()?);
    }
    finish(running, reached)
}

fn main() -> ExitCode {
    if env::var_os(IS_RANK).is_some() {
        return match rank() {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    // Each test uses all cores.
    arguments.test_threads.get_or_insert(1);
    type Test = fn() -> Result<Completion, Failed>;
    let tests: [(&str, Test); 5] = [
        ("deep::two_namespaces", || {
            namespaces(2, 1, &[], "SHM for 0, NET for 1")
        }),
        ("two_namespaces_of_two", || {
            namespaces(2, 2, &[], "SHM for 1, NET for 2")
        }),
        ("deep::four_namespaces", || {
            namespaces(4, 1, &[], "SHM for 0, NET for 3")
        }),
        ("deep::two_namespaces_20_ms_apart", || {
            namespaces(2, 1, &["--delay", "20"], "SHM for 0, NET for 1")
        }),
        ("three_ranks_of_two_hosts", || {
            one_machine(&["a", "a", "b"], "SHM for 1, NET for 1")
        }),
    ];
    let trials = tests.into_iter();
    let trials = trials.map(|(name, test)| {
        Trial::ignorable_test(name, test).with_ignored_flag(name.starts_with("deep::"))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
