//! The reports of the other ranks when a rank fails.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};

use super::{
    LONG, PORT, Ranks, SHORT, address, all_right, all_say, check, folder, id, meet, number,
};

/// Starts ranks, two on each host, that work for long. Returns when all have met.
pub(crate) fn busy(world: u32, place: &str, time: &str, more: &[&str]) -> Result<Ranks, Failed> {
    busy_with(world, place, &["all-reduce"], time, more)
}

/// The same with a plan.
pub(crate) fn busy_with(
    world: u32,
    place: &str,
    what: &[&str],
    time: &str,
    more: &[&str],
) -> Result<Ranks, Failed> {
    let ranks = Ranks::start(world, |rank, command| {
        meet(command, rank, world, place);
        command
            .args(what)
            .args(["-b", "64K", "-e", "64K", "--time", time])
            .args(more);
    })?;
    // Rank 0 removes the file when all have met.
    let file = PathBuf::from(place.trim_start_matches("file:"));
    let until = Instant::now() + LONG;
    for there in [true, false] {
        while file.exists() != there {
            check(Instant::now() < until, || {
                "the ranks do not meet".to_owned()
            })?;
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
    Ok(ranks)
}

pub(crate) fn signal(child: &Child, name: &str) -> Result<(), Failed> {
    let done = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()?;
    check(done.success(), || format!("kill {name} does not work"))
}

pub(crate) fn a_killed_rank_is_named() -> Result<Completion, Failed> {
    // While they connect to each other, and when they work.
    for (victim, after) in [(0, 0), (3, 0), (1, 20), (2, 60), (1, 200), (3, 700)] {
        let (_folder, place) = folder()?;
        let ranks = busy(4, &place, "2000", &[])?;
        // The loss is to meet another moment of the work; each is right.
        std::thread::sleep(Duration::from_millis(after));
        signal(&ranks.0[victim], "-KILL")?;
        let said = ranks.finish()?;
        all_say(
            &said,
            &[victim],
            &[&format!("rank {victim}: process"), "on host"],
        )?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn a_stopped_rank_is_named() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let ranks = busy(4, &place, "60000", &[])?;
    signal(&ranks.0[2], "-STOP")?;
    let mut ranks = ranks;
    let stopped = ranks.0.remove(2);
    let stopped = Ranks(vec![stopped]);
    let said = ranks.finish()?;
    drop(stopped);
    all_say(&said, &[], &["rank 2: process", "on host"])?;
    Ok(Completion::Completed)
}

pub(crate) fn a_missing_rank_is_named() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let said = Ranks::start(2, |rank, command| {
        meet(command, rank, 3, &place);
        command.args(SHORT).args(["--join-timeout", "3"]);
    })?
    .finish()?;
    all_say(&said, &[], &["rank 2: it did not come within 3 s"])?;
    Ok(Completion::Completed)
}

pub(crate) fn two_ranks_with_one_number() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let said = Ranks::start(3, |rank, command| {
        let rank = number(rank.min(1));
        command.args(["--rank", &rank, "--world", "3", "--rendezvous", &place]);
        command.args(SHORT);
    })?
    .finish()?;
    all_say(
        &said,
        &[],
        &["rank 1: two processes say that they are this rank"],
    )?;
    Ok(Completion::Completed)
}

pub(crate) fn a_wrong_token() -> Result<Completion, Failed> {
    let address = address();
    let (right, wrong) = (id(&[&address])?, id(&[&address])?);
    let said = Ranks::start(2, |rank, command| {
        let id = if rank == 0 { &right } else { &wrong };
        command.args(["--rank", &number(rank), "--world", "2", "--id", id]);
        command.args(SHORT).args(["--join-timeout", "3"]);
    })?
    .finish()?;
    all_say(&said[..1], &[], &["rank 1: it did not come"])?;
    all_say(&said[1..], &[], &["another token"])?;
    Ok(Completion::Completed)
}

pub(crate) fn a_taken_port() -> Result<Completion, Failed> {
    let address = address();
    let _taken = TcpListener::bind((address.as_str(), PORT))?;
    let id = id(&[&address])?;
    let said = Ranks::start(1, |_, command| {
        command
            .args(["--rank", "0", "--world", "2", "--id", &id])
            .args(SHORT);
    })?
    .finish()?;
    all_say(&said, &[], &["rank 0 holds the root", "cannot listen"])?;
    Ok(Completion::Completed)
}

pub(crate) fn another_plan() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let said = Ranks::start(2, |rank, command| {
        meet(command, rank, 2, &place);
        command.args(SHORT).args(["--channels", &number(rank + 1)]);
    })?
    .finish()?;
    all_say(
        &said,
        &[],
        &["runs something else", "give all ranks the same plan"],
    )?;
    Ok(Completion::Completed)
}

pub(crate) fn a_garbage_client() -> Result<Completion, Failed> {
    use std::io::Write;
    let address = address();
    let id = id(&[&address])?;
    let ranks = Ranks::start(2, |rank, command| {
        command
            .args(["--rank", &number(rank), "--world", "2", "--id", &id])
            .args(SHORT);
    })?;
    // As soon as the root listens, or after it has ended.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if let Ok(mut stream) = TcpStream::connect((address.as_str(), PORT)) {
            // The root may close the connection before all is written.
            let _ = stream.write_all(&[0xa5; 300_000]);
            break;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    all_right(&ranks.finish()?)
}
