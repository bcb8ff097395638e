//! Rings and trees of a log, as text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plan::ranges;

use crate::nccl_log::decisions::Neighbors;

/// Rings that are equal, with their channels; `cut_rings` lack their last ranks.
pub fn rings(rings: &BTreeMap<u32, Vec<u32>>, cut_rings: &BTreeSet<u32>) -> Vec<(String, String)> {
    let mut equal: Vec<(String, Vec<i32>)> = Vec::new();
    for (channel, ring) in rings {
        let mut text = list(ring);
        if cut_rings.contains(channel) {
            text.push_str(" …");
        }
        add(&mut equal, text, *channel);
    }
    named(equal)
}

/// Trees that are equal, with their channels, as chains: `0 → 1 → 2; 0 → 8`.
pub fn trees(trees: &BTreeMap<(u32, u32), Neighbors>) -> Vec<(String, String)> {
    let mut below: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    let mut roots: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ((channel, rank), neighbors) in trees {
        let of_channel = below.entry(*channel).or_default();
        of_channel.insert(*rank, neighbors.down.into_iter().flatten().collect());
        if neighbors.up.is_none() {
            roots.entry(*channel).or_default().push(*rank);
        }
    }
    let mut equal = Vec::new();
    for (channel, below) in &below {
        let text = match roots.get(channel) {
            None => "the root's line is missing".to_owned(),
            Some(roots) => chains(roots, below),
        };
        add(&mut equal, text, *channel);
    }
    named(equal)
}

/// Chains from the roots. A damaged log may have circles: no rank is followed twice.
fn chains(roots: &[u32], below: &BTreeMap<u32, Vec<u32>>) -> String {
    let mut seen = BTreeSet::new();
    let mut begins: VecDeque<Vec<u32>> = roots.iter().map(|root| vec![*root]).collect();
    let mut chains = Vec::new();
    while let Some(mut chain) = begins.pop_front() {
        while let Some(last) = chain.last().copied().filter(|last| seen.insert(*last)) {
            let Some((first, others)) = below.get(&last).and_then(|it| it.split_first()) else {
                break;
            };
            begins.extend(others.iter().map(|other| vec![last, *other]));
            chain.push(*first);
        }
        let ranks: Vec<String> = chain.iter().map(u32::to_string).collect();
        chains.push(ranks.join(" → "));
    }
    chains.join("; ")
}

fn list(ranks: &[u32]) -> String {
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    ranks.join(" ")
}

fn add(equal: &mut Vec<(String, Vec<i32>)>, text: String, channel: u32) {
    let channel = i32::try_from(channel).unwrap_or(i32::MAX);
    match equal.iter_mut().find(|(known, _)| *known == text) {
        Some((_, channels)) => channels.push(channel),
        None => equal.push((text, vec![channel])),
    }
}

fn named(equal: Vec<(String, Vec<i32>)>) -> Vec<(String, String)> {
    let named = equal.into_iter();
    named
        .map(|(text, channels)| (ranges(&channels, " "), text))
        .collect()
}
