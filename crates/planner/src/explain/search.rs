//! The search for channels: in a few sentences, or attempt by attempt.

use plan::{Attempt, Next, SearchEnd, Summary, Trail};
use topology::PathType;

use super::words::{self, count, gbps};

/// The budget left of an attempt that stopped early because nothing better is possible.
const PERFECT: i32 = -1;

/// One attempt of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptStory {
    /// The constraints.
    pub asks: String,
    /// The effort and the best solution.
    pub found: String,
    /// How the first pass ended, after its last attempt.
    pub first_pass: Option<String>,
    /// The next constraints, and why.
    pub next: Option<String>,
}

/// Tells a search in a few sentences, with what it had to relax.
pub fn search(trail: &Trail) -> String {
    if trail.attempts.is_empty() {
        return format!("{}.", end(trail));
    }
    let first_pass = trail
        .attempts
        .iter()
        .filter(|attempt| attempt.pass == 1)
        .count();
    let second_pass = trail.attempts.len() - first_pass;
    let mut text = format!("{}: {}", count(trail.attempts.len(), "attempt"), end(trail));
    let relaxed: Vec<String> = RELAXATIONS
        .iter()
        .filter_map(|(next, what)| {
            let times = trail
                .attempts
                .iter()
                .filter(|attempt| attempt.next == *next)
                .count();
            (times > 0).then(|| {
                if times == 1 {
                    (*what).to_owned()
                } else {
                    format!("{what} ({times}×)")
                }
            })
        })
        .collect();
    if !relaxed.is_empty() {
        text.push_str(&format!(". Given up on the way: {}", relaxed.join(", ")));
    }
    if let Some(split) = trail.duplicated {
        text.push_str(&format!(
            ". Each channel was split: {} became {}",
            split.from, split.to
        ));
    }
    if second_pass > 0 {
        let raised = trail
            .attempts
            .iter()
            .any(|attempt| attempt.pass == 2 && attempt.improved);
        let outcome = if raised {
            "raised the bandwidth"
        } else {
            "could not raise the bandwidth"
        };
        text.push_str(&format!(". A second pass of {second_pass} {outcome}"));
    }
    text.push('.');
    text
}

const RELAXATIONS: [(Next, &str); 6] = [
    (Next::DifferentChannels, "one order for all channels"),
    (Next::SimplerTree, "the balanced tree"),
    (Next::WorseIntraType, "the path between GPUs"),
    (Next::WorseInterType, "the path to the NIC"),
    (Next::CrossNic, "one NIC per channel"),
    (Next::LessBandwidth, "the bandwidth"),
];

fn end(trail: &Trail) -> &'static str {
    match trail.end {
        SearchEnd::Perfect => "ended with as many channels as are allowed",
        SearchEnd::AllBandwidth => "ended because all bandwidth of the best-connected GPU is used",
        SearchEnd::NothingBetterBelow => {
            "ended because lower bandwidths per channel cannot beat what was found"
        }
        SearchEnd::OutOfBudget => "ended because the budget of all attempts together ran out",
        SearchEnd::Fallback => "found nothing; one slow channel through all GPUs stands in",
        SearchEnd::NotFound => "found nothing",
        SearchEnd::Given => "nothing was searched: the graph was given",
        SearchEnd::NotSearched => "nothing was searched: the machine cannot have such channels",
    }
}

/// Tells every attempt of a search. `inter`: the job leaves the node.
pub fn attempts(trail: &Trail, inter: bool) -> Vec<AttemptStory> {
    let tell = |(index, attempt): (usize, &Attempt)| {
        let next = trail.attempts.get(index + 1);
        let first_pass_ends = attempt.pass == 1 && next.is_none_or(|next| next.pass == 2);
        AttemptStory {
            asks: asks(attempt, inter),
            found: format!("{}. {}.", effort(attempt), found(attempt, inter)),
            first_pass: first_pass_ends.then(|| end_of_first_pass(trail)),
            next: (!first_pass_ends || attempt.next != Next::Stop)
                .then(|| step(attempt, next, inter)),
        }
    };
    trail.attempts.iter().enumerate().map(tell).collect()
}

fn asks(attempt: &Attempt, inter: bool) -> String {
    let mut parts = vec![format!("{} GB/s per channel", gbps(attempt.bw_intra))];
    if inter && attempt.bw_inter != attempt.bw_intra {
        parts.push(format!("{} to the network", gbps(attempt.bw_inter)));
    }
    parts.push(format!("GPU–GPU up to {}", attempt.type_intra));
    if inter {
        parts.push(format!("GPU–NIC up to {}", attempt.type_inter));
        parts.push(words::cross_nic(attempt.cross_nic).to_owned());
    }
    parts.push(
        if attempt.same_channels {
            "one order for all channels"
        } else {
            "channels may differ"
        }
        .to_owned(),
    );
    if attempt.min_channels > 1 {
        parts.push(format!("at least {} channels", attempt.min_channels));
    }
    format!("{}: {}", attempt.pattern, parts.join(", "))
}

fn effort(attempt: &Attempt) -> String {
    let budget = attempt.budget;
    match attempt.budget_left {
        PERFECT => "Stopped early: nothing better is possible".to_owned(),
        0 => format!("Gave up after its {budget} steps"),
        left => format!(
            "Went through everything in {} of {budget} steps",
            budget - left
        ),
    }
}

fn found(attempt: &Attempt, inter: bool) -> String {
    let best = graph(&attempt.best, inter);
    match (attempt.improved, attempt.best.channels) {
        (true, _) => format!("Better than before: {best}"),
        (false, 0) => "Still nothing".to_owned(),
        (false, _) => format!("Nothing better; the best is still {best}"),
    }
}

fn graph(best: &Summary, inter: bool) -> String {
    let channels = count(best.channels as usize, "channel");
    let inside = format!(
        "{channels} of {} GB/s over {}",
        gbps(best.bw_intra),
        best.type_intra
    );
    let outside = if inter {
        format!(
            ", {} to the network over {}",
            gbps(best.bw_inter),
            best.type_inter
        )
    } else {
        String::new()
    };
    format!(
        "{inside}{outside}, {} in all",
        count(usize::try_from(best.hops).unwrap_or(0), "hop")
    )
}

fn end_of_first_pass(trail: &Trail) -> String {
    let mut text = format!("The first pass {}", end(trail));
    text.push_str(&match trail.budget_left {
        left if left < 0 => format!(
            "; the common budget was overdrawn by {}",
            count(left.unsigned_abs() as usize, "step")
        ),
        left => format!(
            "; {} of the common budget were left",
            count(left as usize, "step")
        ),
    });
    if let Some(split) = trail.duplicated {
        text.push_str(&format!(
            ". One channel cannot drive so much alone, so each was split: {} became {}",
            split.from, split.to
        ));
    }
    text.push('.');
    text
}

/// Says what was tried next, and why.
fn step(attempt: &Attempt, next: Option<&Attempt>, inter: bool) -> String {
    let bw = |next: &Attempt| (gbps(next.bw_intra), gbps(next.bw_inter));
    let so_far = |limit: PathType| match attempt.best.channels {
        0 => format!("nothing was found up to {limit}"),
        _ => format!("what was found up to {limit} may not be the best"),
    };
    match (attempt.next, next) {
        (Next::DifferentChannels, _) => "allows channels that differ, because one order for all is the strictest wish".to_owned(),
        (Next::SimplerTree, _) => "tries a plain tree, whose first GPU holds parent and children, so that the second needs no path to the NIC".to_owned(),
        (Next::WorseIntraType, Some(next)) => {
            format!("allows {} between GPUs: {}", next.type_intra, so_far(attempt.type_intra))
        }
        (Next::WorseInterType, Some(next)) => {
            format!("allows {} to the NIC: {}", next.type_inter, so_far(attempt.type_inter))
        }
        (Next::CrossNic, _) if !inter => "lets channels cross NICs in pairs, which changes nothing inside one host".to_owned(),
        (Next::CrossNic, _) => "lets channels leave through the NIC that another one entered through, in pairs".to_owned(),
        (Next::LessBandwidth, Some(next)) => {
            format!("asks only {} GB/s per channel: at {} there is nothing left to relax", bw(next).0, bw(attempt).0)
        }
        (Next::MoreBandwidth, Some(next)) => {
            format!("tries {} GB/s with the {} found", bw(next).0, count(attempt_channels(next), "channel"))
        }
        (Next::MoreInterBandwidth, Some(next)) => {
            format!("tries {} GB/s to the network with the {} found", bw(next).1, count(attempt_channels(next), "channel"))
        }
        (Next::MoreIntraBandwidth, Some(next)) => {
            format!("tries {} GB/s inside the host with the {} found", bw(next).0, count(attempt_channels(next), "channel"))
        }
        _ => "ends: there is no more bandwidth to try".to_owned(),
    }
}

const fn attempt_channels(attempt: &Attempt) -> usize {
    attempt.min_channels as usize
}
