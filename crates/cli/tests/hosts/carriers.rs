//! Plans in which the proxy of one rank forwards data of another one (NCCL's PXN).

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Completion, Failed};

use super::faults::{busy_with, signal};
use super::survival::finish_right;
use super::{Ranks, Said, all_right, all_say, check, clean, folder, meet};

/// A plan for two hosts of two GPUs, each with a NIC. Point to point, rank 0 sends to rank 3 by the
/// NIC of rank 1, and the other ranks alike.
fn plan(folder: &Path) -> Result<String, Failed> {
    let file = folder.join("plan.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    clean(&mut command);
    command.args(["plan", "topologies/dgx-h100", "--gpus", "0,1"]);
    command.args(["--hosts", "2", "-o"]).arg(&file);
    let made = command.output()?;
    check(made.status.success(), || {
        String::from_utf8_lossy(&made.stderr).into_owned()
    })?;
    Ok(file.display().to_string())
}

fn sweep(plan: &str, place: &str, collective: &str, pxn: bool) -> Result<Vec<Said>, Failed> {
    Ranks::start(4, |rank, command| {
        command.args([plan, collective, "-b", "8", "-e", "1M", "--time", "1"]);
        meet(command, rank, 4, place);
        if !pxn {
            command.env("NCCL_PXN_DISABLE", "1");
        }
    })?
    .finish()
}

pub(crate) fn they_are_right_and_named() -> Result<Completion, Failed> {
    let (folder, place) = folder()?;
    let plan = plan(folder.path())?;
    for collective in ["all-to-all", "all-reduce", "broadcast"] {
        let said = sweep(&plan, &place, collective, true)?;
        all_right(&said)?;
        check(said[0].out.contains("NET for 2 (1 by rank 1: PXN)"), || {
            said[0].out.clone()
        })?;
    }
    let said = sweep(&plan, &place, "all-to-all", false)?;
    all_right(&said)?;
    check(!said[0].out.contains("PXN"), || said[0].out.clone())?;
    Ok(Completion::Completed)
}

/// Every rank forwards data of another one, so each loss ends connections of other ranks too.
pub(crate) fn a_killed_one_is_named() -> Result<Completion, Failed> {
    for (victim, after) in [(1, 0), (0, 30), (3, 300)] {
        let (folder, place) = folder()?;
        let plan = plan(folder.path())?;
        let ranks = busy_with(4, &place, &[&plan, "all-to-all"], "3000", &[])?;
        // The loss is to meet another moment of the work; each is right.
        std::thread::sleep(std::time::Duration::from_millis(after));
        signal(&ranks.0[victim], "-KILL")?;
        let said = ranks.finish()?;
        let name = format!("rank {victim}: process");
        all_say(&said, &[victim], &[&name, "on host"])?;
    }
    Ok(Completion::Completed)
}

/// The survivors send by themselves what the lost rank forwarded for them.
pub(crate) fn survivors_finish_without_one() -> Result<Completion, Failed> {
    let (folder, place) = folder()?;
    let plan = plan(folder.path())?;
    let what = [plan.as_str(), "all-reduce"];
    let ranks = busy_with(4, &place, &what, "400", &["--survive"])?;
    signal(&ranks.0[1], "-KILL")?;
    finish_right(&ranks.finish()?, &[1])?;
    Ok(Completion::Completed)
}
