//! `--survive`: who goes on when ranks are lost, and who does not.

use std::time::Duration;

use libtest_mimic::{Completion, Failed};

use super::faults::{busy, signal};
use super::{Ranks, Said, all_say, check, folder};

/// Those that were not lost finish with right results; the first of them prints the table, which names who was lost.
pub fn finish_right(said: &[Said], lost: &[usize]) -> Result<(), Failed> {
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

pub fn survivors_finish() -> Result<Completion, Failed> {
    for victim in [0, 2] {
        let (_folder, place) = folder()?;
        let ranks = busy(4, &place, "2000", &["--survive"])?;
        signal(&ranks.0[victim], "-KILL")?;
        finish_right(&ranks.finish()?, &[victim])?;
    }
    Ok(Completion::Completed)
}

/// At once, while the others gather, and when they are at work again; among them those that lead.
pub fn losses_one_after_the_other() -> Result<Completion, Failed> {
    for (first, second, after) in [(1, 3, 0), (0, 1, 400), (4, 0, 900), (3, 2, 5000)] {
        let (_folder, place) = folder()?;
        let ranks = busy(5, &place, "3000", &["--survive"])?;
        signal(&ranks.0[first], "-KILL")?;
        std::thread::sleep(Duration::from_millis(after));
        signal(&ranks.0[second], "-KILL")?;
        let said = ranks.finish()?;
        let left: Vec<usize> = (0..5).filter(|it| ![first, second].contains(it)).collect();
        for rank in &left {
            let it = &said[*rank];
            check(it.status == Some(0), || {
                format!(
                    "{first}, {second} after {after} ms: rank {rank}: {}",
                    it.err
                )
            })?;
            let table = it.out.contains("all-reduce of 3 processes")
                && it.out.contains("every element is right");
            check(table == (*rank == left[0]), || {
                format!(
                    "{first}, {second} after {after} ms: rank {rank}: {}",
                    it.out
                )
            })?;
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

/// A rank is stopped until the others have given it up, and goes on while they work, or when they are done.
pub fn a_stopped_rank_stays_out() -> Result<Completion, Failed> {
    for (victim, others_are_done) in [(2, false), (0, true)] {
        let (_folder, place) = folder()?;
        let ranks = busy(4, &place, "4000", &["--survive"])?;
        signal(&ranks.0[victim], "-STOP")?;
        if others_are_done {
            let mut others = Ranks(Vec::new());
            let mut stopped = Ranks(Vec::new());
            let mut all = ranks;
            for (rank, child) in std::mem::take(&mut all.0).into_iter().enumerate() {
                if rank == victim {
                    stopped.0.push(child);
                } else {
                    others.0.push(child);
                }
            }
            let mut said = others.finish()?;
            signal(&stopped.0[0], "-CONT")?;
            said.insert(victim, stopped.finish()?.remove(0));
            finish_right(&said, &[victim])?;
            stopped_says_so(&said, victim)?;
        } else {
            // The others give it up after 15 s.
            std::thread::sleep(Duration::from_secs(22));
            signal(&ranks.0[victim], "-CONT")?;
            let said = ranks.finish()?;
            finish_right(&said, &[victim])?;
            stopped_says_so(&said, victim)?;
        }
    }
    Ok(Completion::Completed)
}

fn stopped_says_so(said: &[Said], victim: usize) -> Result<(), Failed> {
    let own = format!("rank {victim}: process");
    all_say(
        &said[victim..=victim],
        &[],
        &[&own, "it did not run for", "the others gave it up"],
    )
}
