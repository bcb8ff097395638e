//! Containers: ranks of one host that cannot open each other's memory, and limits on memory.

use std::process::{Command, Stdio};

use libtest_mimic::{Completion, Failed};

use super::{Ranks, SHORT, Said, all_right, all_say, check, clean, folder, meet, not_run};

/// Starts the command by another program.
fn through(command: &mut Command, program: &str, arguments: &[&str]) {
    let mut outer = Command::new(program);
    clean(&mut outer);
    outer.args(arguments).arg(command.get_program());
    outer.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    *command = outer;
}

/// A rank in a namespace of its own is reached by the network, although all ranks are on one host.
/// The table shows it.
fn apart(unshare: &[&str]) -> Result<Completion, Failed> {
    let mut tried = Command::new("unshare");
    tried.args(unshare).arg("true").stdin(Stdio::null());
    let works = tried.output();
    if !works.is_ok_and(|it| it.status.success()) {
        return not_run(&format!(
            "unshare {} is not allowed here",
            unshare.join(" ")
        ));
    }
    let (_folder, place) = folder()?;
    let said = Ranks::start(3, |rank, command| {
        command.env("NCCL_HOSTID", "one host");
        meet(command, rank, 3, &place);
        command.args(SHORT);
        if rank == 1 {
            through(command, "unshare", unshare);
        }
    })?
    .finish()?;
    all_right(&said)?;
    let table = &said[0].out;
    let falls = table.contains("SHM for 1, NET for 1")
        && table.contains("fallback")
        && table.contains("shared memory of process");
    check(falls, || table.clone())?;
    Ok(Completion::Completed)
}

pub(crate) fn another_namespace_of_processes() -> Result<Completion, Failed> {
    apart(&["--pid", "--fork", "--kill-child", "--mount-proc"])
}

pub(crate) fn another_namespace_of_users() -> Result<Completion, Failed> {
    apart(&["--user"])
}

/// Runs ranks of which one has a limit, by the shell's `ulimit`.
fn limited(limit: &str) -> Result<Vec<Said>, Failed> {
    let (_folder, place) = folder()?;
    Ranks::start(3, |rank, command| {
        command.env("NCCL_HOSTID", "one host");
        meet(command, rank, 3, &place);
        command.args(SHORT);
        if rank == 1 {
            let script = format!("{limit} && exec \"$0\" \"$@\"");
            through(command, "bash", &["-c", &script]);
        }
    })?
    .finish()
}

/// Memory is enough to test whether ranks can share any, but not for the job.
pub(crate) fn shared_memory_is_full() -> Result<Completion, Failed> {
    let said = limited("ulimit -f 16")?;
    all_say(
        &said,
        &[],
        &[
            "rank 1: shared memory",
            "files of this process may have 16384 bytes",
        ],
    )?;
    Ok(Completion::Completed)
}

/// Without any shared memory, the network is used.
pub(crate) fn no_shared_memory_at_all() -> Result<Completion, Failed> {
    let said = limited("ulimit -f 0")?;
    let table = &said[0].out;
    let falls = table.contains("SHM for 1, NET for 1") && table.contains("RLIMIT_FSIZE");
    check(falls, || table.clone())?;
    all_right(&said)
}
