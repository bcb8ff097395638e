//! Jobs of several processes: started by hand, by launchers, in network namespaces, with failures.
//! A test that cannot run here is reported as not run.

mod carriers;
mod faults;
mod flips;
mod launchers;
mod liar;
mod limits;
mod plugins;
mod survival;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Longer than any process needs, even on a busy machine.
const LONG: Duration = Duration::from_secs(600);

const SHORT: [&str; 9] = ["all-reduce", "-b", "8", "-e", "256K", "-f", "64", "-n", "2"];

type Test = fn() -> Result<Completion, Failed>;

/// Pairs tests with their names.
macro_rules! tests {
    ($($module:ident::$test:ident,)*) => {
        [$((concat!(stringify!($module), "::", stringify!($test)), $module::$test as Test)),*]
    };
}

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Most tests wait most of the time, so more of them run at a time than there are cores.
    arguments.test_threads.get_or_insert(4);
    let tests = tests![
        // Those that take long come first.
        survival::a_rank_that_was_stopped_until_the_others_are_done,
        liar::a_connection_that_stalls,
        faults::a_stopped_rank_is_named,
        survival::two_losses_at_once,
        launchers::by_hand_with_a_file,
        launchers::by_hand_with_an_id,
        launchers::threads_of_one_process_on_each_host,
        launchers::by_hand_with_an_address,
        launchers::torchrun_variables,
        launchers::torchrun,
        launchers::open_mpi,
        launchers::mpich,
        launchers::srun,
        launchers::a_plan_for_two_hosts,
        launchers::network_namespaces,
        launchers::forest_over_a_slow_link,
        faults::a_killed_rank_is_named,
        carriers::they_are_right_and_named,
        carriers::a_killed_one_is_named,
        carriers::survivors_finish_without_one,
        survival::survivors_finish,
        liar::an_oversized_message,
        liar::an_oversized_slot,
        liar::garbage_at_every_port,
        limits::another_namespace_of_processes,
        limits::another_namespace_of_users,
        limits::shared_memory_is_full,
        limits::no_shared_memory_at_all,
        faults::a_missing_rank_is_named,
        faults::two_ranks_with_one_number,
        faults::a_wrong_token,
        faults::a_taken_port,
        faults::another_plan,
        faults::a_garbage_client,
        flips::a_wrong_element_ends_every_rank_with_1,
        flips::no_flip_is_silent,
        plugins::version_8,
        plugins::version_9,
        plugins::version_10,
        plugins::version_11,
        plugins::version_12,
        plugins::every_protocol_and_json,
        plugins::the_default_library,
        plugins::a_plugin_that_does_not_start,
        plugins::a_plugin_that_hangs,
        plugins::ranks_that_disagree,
        plugins::a_failure_in_the_middle,
        plugins::messages_that_never_come,
        plugins::a_killed_rank_and_those_that_are_left,
    ];
    let deep = tests![
        survival::a_rank_that_was_stopped_while_the_others_work,
        survival::a_loss_when_survivors_work_again,
        survival::losses_one_after_the_other,
    ];
    let trial = |(name, test): (&str, Test)| Trial::ignorable_test(name, test);
    let deep = deep.into_iter().map(|(name, test)| {
        Trial::ignorable_test(format!("deep::{name}"), test).with_ignored_flag(true)
    });
    let trials = tests.into_iter().map(trial).chain(deep);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn not_run(why: &str) -> Result<Completion, Failed> {
    Ok(Completion::ignored_with(format!("not run: {why}")))
}

/// `topo run` on the loopback interface, without the variables of launchers.
fn topo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    clean(&mut command);
    command.args(["run"]);
    command
}

fn clean(command: &mut Command) {
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        let prefixes = [
            "NCCL_",
            "OMPI_",
            "PMI",
            "SLURM_",
            "TORCHELASTIC_",
            "MASTER_",
            "TOPO_",
        ];
        let names = [
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "COLUMNS",
        ];
        if prefixes.iter().any(|it| text.starts_with(it)) || names.contains(&text.as_str()) {
            command.env_remove(name);
        }
    }
    command
        .env("NCCL_SOCKET_IFNAME", "=lo")
        .env("NCCL_SOCKET_FAMILY", "AF_INET")
        .env("NCCL_NET_PLUGIN", "none")
        .env("COLUMNS", "200");
}

/// Processes that are killed at the end of the test.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Both fail if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Said {
    out: String,
    err: String,
    status: Option<i32>,
}

impl Ranks {
    /// Starts ranks; `make` completes each command.
    fn start(ranks: u32, make: impl Fn(u32, &mut Command)) -> Result<Self, Failed> {
        let mut all = Self(Vec::new());
        for rank in 0..ranks {
            let mut command = topo();
            // Two ranks on each host.
            command.env("NCCL_HOSTID", format!("host{}", rank / 2));
            make(rank, &mut command);
            all.0.push(command.spawn()?);
        }
        Ok(all)
    }

    /// Waits for all ranks, and returns what they printed. A rank that hangs is a failure.
    fn finish(mut self) -> Result<Vec<Said>, Failed> {
        let until = Instant::now() + LONG;
        let mut said = Vec::new();
        for (rank, child) in self.0.iter_mut().enumerate() {
            let status = loop {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                if Instant::now() > until {
                    return Err(format!("rank {rank} hangs").into());
                }
                std::thread::yield_now();
                std::thread::park_timeout(Duration::from_millis(5));
            };
            let (mut out, mut err) = (String::new(), String::new());
            if let Some(pipe) = &mut child.stdout {
                pipe.read_to_string(&mut out)?;
            }
            if let Some(pipe) = &mut child.stderr {
                pipe.read_to_string(&mut err)?;
            }
            said.push(Said {
                out,
                err,
                status: status.code(),
            });
        }
        Ok(said)
    }
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Checks that rank 0 printed the table, and that all elements were right.
fn all_right(said: &[Said]) -> Result<Completion, Failed> {
    for (rank, it) in said.iter().enumerate() {
        check(it.status == Some(0), || format!("rank {rank}: {}", it.err))?;
        let table = it.out.contains("every element is right");
        check(table == (rank == 0), || format!("rank {rank}: {}", it.out))?;
    }
    Ok(Completion::Completed)
}

/// Checks that all ranks except `but` ended with an error that has these words.
fn all_say(said: &[Said], but: &[usize], words: &[&str]) -> Result<(), Failed> {
    for (rank, it) in said
        .iter()
        .enumerate()
        .filter(|(rank, _)| !but.contains(rank))
    {
        let says = words.iter().all(|words| it.err.contains(words));
        check(it.status == Some(2) && says, || {
            format!("rank {rank} ended with {:?}: {}", it.status, it.err)
        })?;
    }
    Ok(())
}

fn folder() -> Result<(tempfile::TempDir, String), Failed> {
    let folder = tempfile::tempdir()?;
    let place = format!("file:{}", folder.path().join("meeting").display());
    Ok((folder, place))
}

/// Tells a rank its number and where the ranks meet.
fn meet(command: &mut Command, rank: u32, world: u32, place: &str) {
    command.args(["--rank", &number(rank), "--world", &number(world)]);
    command.args(["--rendezvous", place]);
}

fn number(of: u32) -> String {
    of.to_string()
}

/// A loopback address that no other test uses now.
fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let process = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "127.{}.{}.{next}",
        1 + process / 200 % 200,
        1 + process % 200
    )
}

/// A port that no program takes by chance at such an address.
const PORT: u16 = 29_400;

fn id(addresses: &[&str]) -> Result<String, Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    let roots: Vec<String> = addresses.iter().map(|it| format!("{it}:{PORT}")).collect();
    let output = command
        .args(["run", "--new-id", &roots.join(",")])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The exit status of `xtask/scripts/rehearse-hosts` where it cannot run.
const MISSING: i32 = 77;
