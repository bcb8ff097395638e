//! The shortest closed walk over all GPUs, for any lengths of links (Held and Karp 1962).

use std::ops::Range;

use super::rows::Rows;

/// Most GPUs for which walks are searched; the work doubles with each.
pub(super) const MOST_GPUS: usize = 16;

/// No walk is that long.
const NEVER: u64 = u64::MAX;

/// A walk over all GPUs, from the first back to it, or from a port to a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Walk {
    /// The sum of the lengths of its links, each as often as it is loaded.
    pub length: u64,
    /// The stations. A port is the first.
    pub stations: Vec<usize>,
    /// Where the last hop leads: the first station, or another port.
    pub last: usize,
}

/// The shortest walks for lengths of rows: for each station that walks can begin at, and each GPU
/// before it, the shortest one. The first is the shortest of all; none if there is no walk. With
/// `crosses`, walks may leave through another port than they enter.
pub(super) fn shortest(rows: &Rows, lengths: &[u64], crosses: bool) -> Vec<Walk> {
    let gpus = rows.gpus;
    let begins = match rows.stations > gpus {
        true => gpus..rows.stations,
        false => 0..1,
    };
    let matrix: Vec<u64> = (0..rows.stations * rows.stations)
        .map(|pair| {
            let leg = rows.leg(pair / rows.stations, pair % rows.stations);
            leg.map_or(NEVER, |leg| {
                leg.iter().fold(0u64, |sum, (row, parts)| {
                    sum.saturating_add(lengths[*row as usize].saturating_mul(*parts))
                })
            })
        })
        .collect();
    let mut walks = Vec::new();
    for begin in begins {
        let others: Vec<usize> = (0..gpus).filter(|gpu| *gpu != begin).collect();
        let ports = gpus..rows.stations;
        let lasts = if crosses { ports } else { begin..begin + 1 };
        from_station(&matrix, rows.stations, (begin, lasts), &others, &mut walks);
    }
    walks.sort_unstable();
    walks
}

/// Adds the shortest walks from a station over all others.
fn from_station(
    matrix: &[u64],
    stations: usize,
    (begin, lasts): (usize, Range<usize>),
    others: &[usize],
    walks: &mut Vec<Walk>,
) {
    let count = others.len();
    let hop = |from: usize, to: usize| matrix[from * stations + to];
    // For each set of other stations and the last of them, the shortest walk from `begin`.
    let mut best = vec![NEVER; count << count];
    for (at, other) in others.iter().enumerate() {
        best[(1 << at) * count + at] = hop(begin, *other);
    }
    for set in 1..1usize << count {
        for last in (0..count).filter(|last| set >> last & 1 == 1) {
            let length = best[set * count + last];
            if length == NEVER {
                continue;
            }
            for next in (0..count).filter(|next| set >> next & 1 == 0) {
                let longer = length.saturating_add(hop(others[last], others[next]));
                let known = &mut best[(set | 1 << next) * count + next];
                *known = longer.min(*known);
            }
        }
    }
    let all = (1usize << count) - 1;
    for end in 0..count {
        let back = lasts.clone().map(|last| (hop(others[end], last), last));
        let Some((back, last_station)) = back.min() else {
            continue;
        };
        let length = best[all * count + end].saturating_add(back);
        if length == NEVER {
            continue;
        }
        let mut reversed = vec![others[end]];
        let (mut set, mut last) = (all, end);
        while set != 1 << last {
            let before = set ^ 1 << last;
            let found = (0..count).filter(|it| before >> it & 1 == 1).find(|it| {
                let length = best[before * count + it];
                let length = length.saturating_add(hop(others[*it], others[last]));
                length != NEVER && length == best[set * count + last]
            });
            // The table was filled from such a station.
            let Some(earlier) = found else { break };
            reversed.push(others[earlier]);
            (set, last) = (before, earlier);
        }
        reversed.push(begin);
        reversed.reverse();
        walks.push(Walk {
            length,
            stations: reversed,
            last: last_station,
        });
    }
}
