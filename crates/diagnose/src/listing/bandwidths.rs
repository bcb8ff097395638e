//! Measured bandwidths between GPUs: pairs that are slower than their like, or dead.

use std::collections::BTreeMap;

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::speed;
use records::Bandwidths;
use records::bandwidth::Direction;
use records::matrix::{Matrix, Nearness};

use super::{MOST_PAIRS, Shown, nearness};

/// A bandwidth below this share of what is usual is slow.
const SLOW: f32 = findings::check::SLOW as f32;

/// Bandwidths of one kind that are compared with each other; fewer are compared with the way back.
const ENOUGH: usize = 6;

/// Pairs over which no data went.
pub(super) fn dead(bandwidths: &Bandwidths) -> Option<Shown> {
    let pairs = || {
        bandwidths
            .pairs()
            .map(|(from, to, gbps)| ((from, to), gbps))
    };
    let dead: Vec<(usize, usize)> = pairs()
        .filter(|it| it.1 == 0.0)
        .map(|(pair, _)| pair)
        .collect();
    if !bandwidths.method.by_peer_access || dead.is_empty() {
        return None;
    }
    let text = format!(
        "{} of {} bandwidths are 0.00 GB/s: no data went between these GPUs ({} of {})",
        dead.len(),
        pairs().count(),
        bandwidths.method.test,
        bandwidths.method.program
    );
    let devices = names(bandwidths, &dead);
    Some(Shown::new(&speed::SLOW_PAIR, Likely, devices, &text))
}

/// The GPU that all pairs share, or the first pairs.
fn names(bandwidths: &Bandwidths, pairs: &[(usize, usize)]) -> Vec<String> {
    let mut gpus = 0..bandwidths.values.len();
    match gpus.find(|gpu| pairs.iter().all(|it| it.0 == *gpu || it.1 == *gpu)) {
        // Each direction of one pair shares both.
        Some(gpu) if pairs.len() > 2 => vec![format!("GPU {gpu}")],
        _ => {
            let pairs = pairs.iter().take(MOST_PAIRS);
            pairs
                .map(|it| format!("GPU {} to GPU {}", it.0, it.1))
                .collect()
        }
    }
}

/// Pairs that are slower than others which are joined alike.
pub(super) fn slow(bandwidths: &Bandwidths, matrix: Option<&Matrix>) -> Option<Shown> {
    // All pairs at once share links, which slows some of them on any machine.
    if !bandwidths.method.by_peer_access || bandwidths.direction == Direction::All {
        return None;
    }
    let mut kinds: BTreeMap<Option<Nearness>, Vec<(usize, usize, f32)>> = BTreeMap::new();
    for (from, to, value) in bandwidths.pairs().filter(|it| it.2 > 0.0) {
        let kind = matrix.and_then(|it| nearness(it, [from, to]));
        kinds.entry(kind).or_default().push((from, to, value));
    }
    let back = |from: usize, to: usize| bandwidths.values.get(to)?.get(from).copied().flatten();
    let mut found: Vec<(usize, usize, f32, f32)> = Vec::new();
    let mut is_known = true;
    for (kind, pairs) in &kinds {
        let mut sorted: Vec<f32> = pairs.iter().map(|it| it.2).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let usual = sorted[sorted.len() / 2];
        let alike = sorted.iter().filter(|it| (*it / usual - 1.0).abs() <= 0.15);
        // Without a kind, most pairs must be alike, or the machine has pairs of several kinds.
        let is_alike = alike.count() * 4 >= sorted.len() * 3;
        let slow = pairs.iter().filter_map(|(from, to, value)| {
            let usual = match pairs.len() < ENOUGH {
                true => back(*from, *to)?,
                false => usual,
            };
            (*value < SLOW * usual).then_some((*from, *to, *value, usual))
        });
        if is_alike || pairs.len() < ENOUGH {
            let before = found.len();
            found.extend(slow);
            is_known &= kind.is_some() || found.len() == before;
        }
    }
    let (_, _, least, usual) = *found
        .iter()
        .min_by(|a, b| (a.2 / a.3).total_cmp(&(b.2 / b.3)))?;
    let pairs: Vec<(usize, usize)> = found.iter().map(|it| (it.0, it.1)).collect();
    let devices = names(bandwidths, &pairs);
    let text = format!(
        "{} of {} bandwidths are slow, the slowest {least:.1} GB/s where {usual:.1} GB/s are usual ({} of {})",
        found.len(),
        bandwidths.pairs().count(),
        bandwidths.method.test,
        bandwidths.method.program
    );
    let certainty = if is_known { Likely } else { Possible };
    Some(Shown::new(&speed::SLOW_PAIR, certainty, devices, &text))
}
