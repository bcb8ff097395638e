//! `--survive`: which ranks finish the job when others are lost.

use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};

use super::faults::{busy, signal};
use super::liar::{Socket, sockets};
use super::{LONG, Ranks, Said, all_say, check, folder};

/// Checks that the survivors finish with right results, and that the first of them prints a table
/// that names the lost ranks.
pub(crate) fn finish_right(said: &[Said], lost: &[usize]) -> Result<(), Failed> {
    let left: Vec<usize> = (0..said.len()).filter(|it| !lost.contains(it)).collect();
    let ranks = format!("all-reduce of {} processes", left.len());
    for rank in &left {
        let it = &said[*rank];
        check(it.status == Some(0), || format!("rank {rank}: {}", it.err))?;
        let names_all = lost
            .iter()
            .all(|lost| it.out.contains(&format!("rank {lost}: ")));
        let table = it.out.contains(&ranks) && names_all;
        let right = table && it.out.contains("every element is right");
        check(right == (*rank == left[0]), || {
            format!("rank {rank}: {}", it.out)
        })?;
    }
    Ok(())
}

pub(crate) fn survivors_finish() -> Result<Completion, Failed> {
    for victim in [0, 2] {
        let (_folder, place) = folder()?;
        let ranks = busy(4, &place, "400", &["--survive"])?;
        signal(&ranks.0[victim], "-KILL")?;
        finish_right(&ranks.finish()?, &[victim])?;
    }
    Ok(Completion::Completed)
}

/// Kills two ranks, the second one some milliseconds after the first one, in jobs of five ranks.
/// `time` is the job's `--time`; a job takes at least six times as long.
fn two_losses(time: &str, losses: &[(usize, usize, u64)]) -> Result<Completion, Failed> {
    for (first, second, after) in losses.iter().copied() {
        let (_folder, place) = folder()?;
        let ranks = busy(5, &place, time, &["--survive"])?;
        signal(&ranks.0[first], "-KILL")?;
        // The second loss is to meet another moment of what follows the first; each is right.
        std::thread::sleep(Duration::from_millis(after));
        signal(&ranks.0[second], "-KILL")?;
        let said = ranks.finish()?;
        let left: Vec<usize> = (0..5).filter(|it| ![first, second].contains(it)).collect();
        for rank in &left {
            let it = &said[*rank];
            let job = format!("{first}, {second} after {after} ms: rank {rank}");
            check(it.status == Some(0), || format!("{job}: {}", it.err))?;
            let table = it.out.contains("all-reduce of 3 processes")
                && it.out.contains("every element is right");
            check(table == (*rank == left[0]), || format!("{job}: {}", it.out))?;
        }
        let table = &said[left[0]].out;
        let lost = table
            .lines()
            .filter(|it| it.trim_start().starts_with("lost"));
        let lost: Vec<&str> = lost.collect();
        let named = |rank: usize| lost.iter().any(|it| it.contains(&rank.to_string()));
        check(named(first) && named(second), || table.clone())?;
    }
    Ok(Completion::Completed)
}

pub(crate) fn two_losses_at_once() -> Result<Completion, Failed> {
    two_losses("400", &[(1, 3, 0)])
}

/// The second loss comes at once, and while the survivors of the first one gather. Ranks that lead
/// are among the lost.
pub(crate) fn losses_one_after_the_other() -> Result<Completion, Failed> {
    two_losses("800", &[(1, 3, 0), (0, 1, 400), (4, 0, 900)])
}

pub(crate) fn a_loss_when_survivors_work_again() -> Result<Completion, Failed> {
    two_losses("2000", &[(3, 2, 5000)])
}

/// The others abandon a stopped rank after 15 s and close their connections with it. It continues
/// then, while they still work.
pub(crate) fn a_rank_that_was_stopped_while_the_others_work() -> Result<Completion, Failed> {
    const VICTIM: usize = 2;
    let (_folder, place) = folder()?;
    let ranks = busy(4, &place, "2500", &["--survive"])?;
    signal(&ranks.0[VICTIM], "-STOP")?;
    let until = Instant::now() + LONG;
    let is_connected = |it: &Socket| it.state == Socket::ESTABLISHED;
    while sockets(&ranks.0[VICTIM])?.iter().any(is_connected) {
        check(Instant::now() < until, || {
            "the others keep their connections with it".to_owned()
        })?;
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&ranks.0[VICTIM], "-CONT")?;
    let said = ranks.finish()?;
    finish_right(&said, &[VICTIM])?;
    stopped_says_so(&said, VICTIM)
}

pub(crate) fn a_rank_that_was_stopped_until_the_others_are_done() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let mut others = busy(4, &place, "400", &["--survive"])?;
    let stopped = Ranks(vec![others.0.remove(0)]);
    signal(&stopped.0[0], "-STOP")?;
    let mut said = others.finish()?;
    signal(&stopped.0[0], "-CONT")?;
    said.insert(0, stopped.finish()?.remove(0));
    finish_right(&said, &[0])?;
    stopped_says_so(&said, 0)
}

/// Checks the error of the rank that was stopped.
fn stopped_says_so(said: &[Said], victim: usize) -> Result<Completion, Failed> {
    let own = format!("rank {victim}: process");
    let words = [&own, "it did not run for", "the others abandoned it"];
    all_say(&said[victim..=victim], &[], &words)?;
    Ok(Completion::Completed)
}
