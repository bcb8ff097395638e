//! Ranks that are started by hand, by launchers, and in network namespaces.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Completion, Failed};

use super::{
    MISSING, PORT, Ranks, SHORT, Said, address, all_right, all_say, check, clean, folder, id, meet,
    not_run, number,
};

pub(crate) fn by_hand_with_a_file() -> Result<Completion, Failed> {
    let (folder, place) = folder()?;
    // The file of an earlier job.
    let left = format!("topo1-{}@127.0.0.1:1\n", "ab".repeat(32));
    std::fs::write(folder.path().join("meeting"), left)?;
    let said = Ranks::start(3, |rank, command| {
        meet(command, rank, 3, &place);
        command.args(SHORT);
    })?
    .finish()?;
    check(
        said[0].out.contains("SHM for 1, NET for 1, TCP by lo"),
        || said[0].out.clone(),
    )?;
    check(!folder.path().join("meeting").exists(), || {
        "the file is left".to_owned()
    })?;
    all_right(&said)
}

/// Processes on hosts of their own, each with two ranks that are its threads.
pub(crate) fn threads_of_one_process_on_each_host() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let said = Ranks::start(2, |rank, command| {
        command.env("NCCL_HOSTID", format!("host{rank}"));
        command.args(SHORT).args(["-t", "2"]);
        meet(command, rank, 2, &place);
    })?;
    all_right(&said.finish()?)
}

pub(crate) fn by_hand_with_an_id() -> Result<Completion, Failed> {
    let id = id(&[&address(), &address()])?;
    let said = Ranks::start(4, |rank, command| {
        command.args(["--rank", &number(rank), "--world", "4", "--id", &id]);
        command.args(SHORT).args(["--sockets", "2", "--checksums"]);
    })?
    .finish()?;
    all_right(&said)
}

pub(crate) fn by_hand_with_an_address() -> Result<Completion, Failed> {
    let place = format!("tcp:{}:{PORT}", address());
    let said = Ranks::start(2, |rank, command| {
        meet(command, rank, 2, &place);
        command.args(SHORT);
    })?
    .finish()?;
    check(said[0].err.contains("TOPO_SECRET"), || said[0].err.clone())?;
    all_right(&said)
}

pub(crate) fn torchrun_variables() -> Result<Completion, Failed> {
    let address = address();
    let said = Ranks::start(2, |rank, command| {
        command
            .env("RANK", number(rank))
            .env("WORLD_SIZE", "2")
            .env("MASTER_ADDR", &address)
            .env("MASTER_PORT", "29500")
            .env("TOPO_SECRET", "3f9c0a77d1b84e62")
            .args(SHORT);
    })?
    .finish()?;
    check(said[0].out.contains("started by torchrun"), || {
        said[0].out.clone()
    })?;
    all_right(&said)
}

/// Returns whether a program is installed.
fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Runs a launcher that starts two ranks here.
fn launch(program: &Path, arguments: &[&str], by: &str) -> Result<Completion, Failed> {
    let mut command = Command::new(program);
    clean(&mut command);
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
        .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(arguments)
        .arg(env!("CARGO_BIN_EXE_topo"))
        .arg("run")
        .args(SHORT);
    let ended = Ranks(vec![command.spawn()?]).finish()?;
    let Said { out, err, status } = &ended[0];
    let well = *status == Some(0)
        && out.contains(&format!("started by {by}"))
        && out.contains("every element is right");
    check(well, || format!("{status:?}\n{out}\n{err}"))?;
    Ok(Completion::Completed)
}

/// Where `cargo xtask peers` installs what the system does not have.
fn peer(path: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_topo")).ancestors().nth(2);
    target.unwrap_or(Path::new(".")).join("peers").join(path)
}

pub(crate) fn torchrun() -> Result<Completion, Failed> {
    if !has("torchrun") {
        return not_run("torchrun is not installed");
    }
    let arguments = ["--nproc-per-node", "2", "--no-python"];
    launch(Path::new("torchrun"), &arguments, "torchrun")
}

pub(crate) fn open_mpi() -> Result<Completion, Failed> {
    // MPICH has a program of that name too.
    let version = Command::new("mpirun").arg("--version").output();
    let is_open = |it: &Output| String::from_utf8_lossy(&it.stdout).contains("Open MPI");
    if !version.as_ref().is_ok_and(is_open) {
        return not_run("Open MPI's mpirun is not installed");
    }
    launch(
        Path::new("mpirun"),
        &["--oversubscribe", "-n", "2"],
        "Open MPI",
    )
}

pub(crate) fn mpich() -> Result<Completion, Failed> {
    let program = if has("mpiexec.hydra") {
        PathBuf::from("mpiexec.hydra")
    } else {
        peer("mpich/bin/mpiexec.hydra")
    };
    if program.is_absolute() && !program.is_file() {
        return not_run("MPICH's mpiexec.hydra is not installed");
    }
    launch(&program, &["-n", "2"], "MPICH")
}

pub(crate) fn srun() -> Result<Completion, Failed> {
    let works = Command::new("srun").args(["-n", "1", "true"]).output();
    if !works.is_ok_and(|it| it.status.success()) {
        return not_run("there is no Slurm to run steps of");
    }
    launch(Path::new("srun"), &["-n", "2"], "srun")
}

pub(crate) fn a_plan_for_two_hosts() -> Result<Completion, Failed> {
    let (folder, place) = folder()?;
    let plan = folder.path().join("plan.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    clean(&mut command);
    let made = command
        .args([
            "plan",
            "topologies/dgx-a100",
            "--gpus",
            "0,1",
            "--hosts",
            "2",
            "-o",
        ])
        .arg(&plan)
        .output()?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned().into());
    }
    let said = Ranks::start(4, |rank, command| {
        command.arg(&plan).args(SHORT);
        meet(command, rank, 4, &place);
    })?
    .finish()?;
    all_right(&said)?;
    // The same plan with each host's ranks apart.
    let said = Ranks::start(4, |rank, command| {
        command.env("NCCL_HOSTID", format!("host{}", rank % 2));
        command.arg(&plan).args(SHORT);
        meet(command, rank, 4, &place);
    })?
    .finish()?;
    all_say(&said, &[], &["the plan is for other machines"])?;
    // Too few ranks.
    let said = Ranks::start(2, |rank, command| {
        command.arg(&plan).args(SHORT);
        meet(command, rank, 2, &place);
    })?
    .finish()?;
    all_say(&said, &[], &["4 ranks", "2 were started"])?;
    Ok(Completion::Completed)
}

pub(crate) fn network_namespaces() -> Result<Completion, Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("xtask/scripts/rehearse-hosts"));
    clean(&mut command);
    let name = format!("topo{}", std::process::id());
    command
        .env("NCCL_SOCKET_IFNAME", "eth")
        .env("TOPO_SECRET", "3f9c0a77d1b84e62")
        .args(["--hosts", "2", "--ranks", "2", "--name", &name, "--"])
        .arg(env!("CARGO_BIN_EXE_topo"))
        .args([
            "run",
            "all-reduce",
            "-b",
            "8",
            "-e",
            "1M",
            "-f",
            "64",
            "-n",
            "2",
        ]);
    let said = Ranks(vec![command.spawn()?]).finish()?;
    let Said { out, err, status } = &said[0];
    if *status == Some(MISSING) {
        return not_run(err.trim().trim_start_matches("not run: "));
    }
    let well = *status == Some(0)
        && out.contains("SHM for 1, NET for 2, TCP by eth0")
        && out.contains("every element is right");
    check(well, || format!("{status:?}\n{out}\n{err}"))?;
    Ok(Completion::Completed)
}

/// The average bus bandwidth of an all-gather of two hosts of four ranks whose link has 100 Mbit/s,
/// GB/s; `None` if there are no network namespaces, with the reason.
fn over_a_slow_link(plan: &Path, algorithm: &str) -> Result<Result<f64, String>, Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("xtask/scripts/rehearse-hosts"));
    clean(&mut command);
    let name = format!("slow{}", std::process::id());
    command
        .env("NCCL_SOCKET_IFNAME", "eth")
        .env("TOPO_SECRET", "3f9c0a77d1b84e62")
        .args(["--hosts", "2", "--ranks", "4", "--rate", "100mbit"])
        .args(["--name", &name, "--"])
        .arg(env!("CARGO_BIN_EXE_topo"))
        .arg("run")
        .arg(plan)
        .args(["all-gather", "-b", "2M", "-e", "2M", "-n", "4", "-w", "1"])
        .args(["--no-in-place", "--transfer", "fifo"])
        .args(["--algorithm", algorithm]);
    let said = Ranks(vec![command.spawn()?]).finish()?;
    let Said { out, err, status } = &said[0];
    if *status == Some(MISSING) {
        return Ok(Err(err.trim().trim_start_matches("not run: ").to_owned()));
    }
    let average = out.lines().find_map(|line| {
        let value = line.strip_prefix("# Avg bus bandwidth    : ")?;
        value.trim().parse::<f64>().ok()
    });
    let well = *status == Some(0) && out.contains("every element is right");
    check(well, || format!("{algorithm} {status:?}\n{out}\n{err}"))?;
    average.map(Ok).ok_or_else(|| Failed::from(out.clone()))
}

/// Where hosts are joined by a slow link, trees take each rank's data over it once, and a ring
/// almost all of it: 7 of 8 blocks instead of 4.
pub(crate) fn forest_over_a_slow_link() -> Result<Completion, Failed> {
    let (folder, _) = folder()?;
    let plan = folder.path().join("plan.json");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    clean(&mut command);
    command
        .arg("plan")
        .arg(root.join("topologies/ac922-power9"))
        .args(["--hosts", "2", "--strategy", "forest", "-o"])
        .arg(&plan);
    let said = Ranks(vec![command.spawn()?]).finish()?;
    check(said[0].status == Some(0), || said[0].err.clone())?;
    let forest = match over_a_slow_link(&plan, "forest")? {
        Ok(forest) => forest,
        Err(missing) => return not_run(&missing),
    };
    let ring = match over_a_slow_link(&plan, "ring")? {
        Ok(ring) => ring,
        Err(missing) => return not_run(&missing),
    };
    // The bound says 1.75.
    check(forest >= 1.3 * ring, || {
        format!("forest {forest} GB/s, ring {ring} GB/s; expected 1.3 times as much")
    })?;
    Ok(Completion::Completed)
}
