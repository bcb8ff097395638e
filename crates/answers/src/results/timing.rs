//! Calls of a job beside what is expected of their collective.

use pages::numbers::count;
use records::results::Table;
use records::results::ladder::ComparedRow;
use records::results::shortfall::{Kind, Shortfall};
use records::results::values::{Call, Timing};

/// Fewest calls before and after a change from which one is told.
const ENOUGH: usize = 8;

/// Most hosts that a sentence names.
const MOST_HOSTS: usize = 8;

/// What a reader must know of these times.
pub(super) fn note(timing: &Timing, ranks: u32) -> String {
    let calls: usize = timing.calls.iter().map(Vec::len).sum();
    let waits = match timing.ranks < ranks {
        true => "; those that wait for the others take longer",
        false => "",
    };
    let launched = match timing.launched {
        0 => String::new(),
        calls => format!("; {calls} times of the processor's clock are left out"),
    };
    format!(
        "{} of communicator {} in a job, beside its computation, by the times of {} of {ranks} \
         ranks{waits}{launched}",
        count(calls, "call"),
        timing.communicator,
        timing.ranks
    )
}

/// A shortfall with the share of what is expected, since when, and where.
pub(super) fn with_place(
    timing: &Timing,
    mut shortfall: Shortfall,
    table: &Table,
    rows: &[ComparedRow],
) -> Shortfall {
    let sizes = shortfall.from_bytes..=shortfall.to_bytes;
    let all = rows.iter().zip(&timing.calls);
    let all = all.filter(|(row, _)| sizes.contains(&row.bytes) && row.expected_gbps.is_some());
    let share = |row: &ComparedRow| row.expected_share();
    let worst = all.min_by(|a, b| share(a.0).total_cmp(&share(b.0)));
    let (Some((row, calls)), Kind::BelowFloor) = (worst, shortfall.kind) else {
        return shortfall;
    };
    let factor = table.collective.zip(table.ranks);
    let factor = factor.map_or(1.0, |(collective, ranks)| collective.bus_factor(ranks));
    let floor = row.floor_gbps.unwrap_or(0.0);
    let is_low = |it: &Call| factor * row.bytes as f64 / it.time_us / 1e3 < floor;
    let since = since(calls, is_low).map_or(String::new(), |(since, last)| {
        let (hour, minute) = (since / 3600 % 24, since / 60 % 60);
        let hours = (last - since) as f64 / 3600.0;
        format!(" since {hour:02}:{minute:02} UTC, {hours:.1} h before the last call")
    });
    let more = timing.hosts.len().saturating_sub(MOST_HOSTS);
    let mut hosts = timing.hosts[..timing.hosts.len() - more].join(", ");
    if more > 0 {
        hosts += &format!(" and {more} more");
    }
    let on = if hosts.is_empty() { "" } else { ", on " };
    let share = 100.0 * share(row);
    shortfall.text += &format!("; {share:.0} % of that{since}{on}{hosts}");
    shortfall
}

/// When calls became slow and stayed so, and when the last one was, s since 1970: of those before
/// at most a tenth is slow, of those after at least nine tenths. None if they were written at once.
fn since(calls: &[Call], is_low: impl Fn(&Call) -> bool) -> Option<(u64, u64)> {
    let low: Vec<bool> = calls.iter().map(is_low).collect();
    let slow = |part: &[bool]| part.iter().filter(|it| **it).count();
    let last = calls.len().checked_sub(ENOUGH)?;
    let is_change = |at: &usize| {
        let (before, after) = low.split_at(*at);
        low[*at] && 10 * slow(before) <= before.len() && 10 * slow(after) >= 9 * after.len()
    };
    let at = (ENOUGH..=last).find(is_change)?;
    let (before, since) = (calls[at - 1].when, calls[at].when);
    (before < since).then_some((since, calls.last()?.when))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_where_calls_stay_slow() {
        let calls = |low: &[bool]| -> Vec<Call> {
            let call = |(at, low): (usize, &bool)| Call {
                when: 1000 + at as u64,
                time_us: if *low { 2.0 } else { 1.0 },
                ranks: 1,
            };
            low.iter().enumerate().map(call).collect()
        };
        let of = |low: &[bool]| since(&calls(low), |it| it.time_us > 1.5);
        let (fast, slow) = (vec![false; 10], vec![true; 10]);
        assert_eq!(
            of(&[fast.clone(), slow.clone()].concat()),
            Some((1010, 1019))
        );
        assert_eq!(of(&[slow.clone(), slow.clone()].concat()), None);
        assert_eq!(of(&[slow.clone(), fast.clone()].concat()), None);
        assert_eq!(of(&[fast.clone(), slow, fast].concat()), None);
        assert_eq!(of(&[]), None);
    }
}
