//! Sentences about listings in which nothing is wrong.

use std::collections::BTreeMap;

use records::Listings;
use records::adapter::Adapter;
use records::bandwidth::Direction;
use records::links::Links;
use records::outputs::{self, Gid, Metric, Outputs};
use records::peers::Peers;

use super::{MOST_PAIRS, without_cable};

/// What the listings of one input say.
pub(crate) fn notes(facts: &Listings) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(links(&facts.links));
    notes.extend(facts.peers.as_ref().and_then(peers));
    notes.extend(gains(facts));
    notes.extend(ports(&facts.adapters));
    notes.extend(gids(&facts.outputs.gids));
    notes.extend(counters(&facts.outputs));
    notes.extend(limits(&facts.outputs));
    notes.extend(metrics(&facts.outputs.metrics));
    notes.extend(tests(&facts.outputs.tests));
    notes.extend(facts.kernel.iommu_translates.map(|translates| {
        match translates {
            true => "the IOMMU translates addresses of devices",
            false => "the IOMMU does not translate addresses of devices, as GPUs that access each other want",
        }
        .to_owned()
    }));
    notes
}

/// `GPU 0, 1 and 3`.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let shown = names.iter().take(MOST_PAIRS).cloned();
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MOST_PAIRS) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// The slowest and the fastest rank by the Inspector.
fn metrics(all: &[Metric]) -> Vec<String> {
    let mut alike: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
    for it in all {
        alike.entry(&it.of).or_default().push(it);
    }
    let notes = alike.into_iter().filter_map(|(of, ranks)| {
        let by_speed = |one: &&&Metric, other: &&&Metric| one.gbps.total_cmp(&other.gbps);
        let least = ranks.iter().min_by(by_speed)?;
        let most = ranks.iter().max_by(by_speed)?;
        Some(format!(
            "{of}: bus bandwidth {} GB/s (rank {}) to {} (rank {})",
            least.gbps, least.rank, most.gbps, most.rank
        ))
    });
    notes.take(MOST_PAIRS).collect()
}

/// GPUs by the links that they have up.
fn links(all: &[Links]) -> Vec<String> {
    let mut alike: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for it in all.iter().filter(|it| it.up | it.down != 0) {
        let key = (it.up.count_ones(), (it.up | it.down).count_ones());
        alike.entry(key).or_default().push(it.gpu);
    }
    let notes = alike.into_iter().map(|((up, links), gpus)| {
        let speeds = all.iter().filter(|it| gpus.contains(&it.gpu));
        let fastest = speeds.filter_map(|it| it.fastest).reduce(f32::max);
        let speed = fastest.map_or(String::new(), |it| format!(", {it} GB/s each"));
        let gpus = crate::verdict::ranges(&gpus);
        format!("{up} of {links} NVLinks up on GPU {gpus}{speed}")
    });
    notes.collect()
}

/// Whether all pairs may access each other.
fn peers(peers: &Peers) -> Option<String> {
    let gpus = peers.gpus.len();
    let pairs = gpus * gpus.saturating_sub(1) / 2;
    let none = peers.refused().next().is_none() && pairs > 0;
    none.then(|| format!("all {pairs} pairs of {gpus} GPUs may access each other's memory"))
}

/// What peer access adds, as p2pBandwidthLatencyTest measured.
fn gains(facts: &Listings) -> Option<String> {
    let mean = |by_peer_access: bool, direction: Direction| {
        let mut all = facts.bandwidths.iter().filter(|it| {
            it.method.program == "p2pBandwidthLatencyTest"
                && it.method.by_peer_access == by_peer_access
                && it.direction == direction
        });
        let values: Vec<f32> = all.next()?.pairs().map(|it| it.2).collect();
        let count = values.len();
        (count > 0).then(|| values.iter().sum::<f32>() / count as f32)
    };
    let one = mean(true, Direction::One).zip(mean(false, Direction::One))?;
    let both = mean(true, Direction::Both).zip(mean(false, Direction::Both));
    let text = |(with, without): (f32, f32)| {
        format!("{with:.1} GB/s with peer access, {without:.1} without")
    };
    let adds = |it: (f32, f32)| it.0 >= 1.1 * it.1;
    let means = match (adds(one), both.is_some_and(adds)) {
        (true, _) => "peer access is at work",
        (false, true) => {
            "peer access adds nothing one way, as where few lanes limit both (`lspci -vv`)"
        }
        (false, false) => {
            "peer access adds nothing: it is not at work, or few lanes limit both (`lspci -vv`)"
        }
    };
    let both = both.map_or(String::new(), |it| format!("; both ways {}", text(it)));
    Some(format!(
        "mean of all pairs one way {}{both}: {means}",
        text(one)
    ))
}

/// Ports that are up, and those that are not.
fn ports(adapters: &[Adapter]) -> Vec<String> {
    let known = || adapters.iter().filter(|it| it.is_active.is_some());
    let up = || known().filter(|it| it.is_active == Some(true));
    let (all, active) = (known().count(), up().count());
    if all == 0 {
        return Vec::new();
    }
    let name = |it: &Adapter| {
        let speed = it.speed.map(|it| format!("{} Gb/s", it / 1000));
        let more: Vec<String> = it.interface.clone().into_iter().chain(speed).collect();
        match more.is_empty() {
            true => it.name.clone(),
            false => format!("{} ({})", it.name, more.join(", ")),
        }
    };
    let mut notes = vec![format!(
        "{active} of {all} ports up: {}",
        listed(up().map(name))
    )];
    let empty = without_cable(adapters);
    if !empty.is_empty() {
        notes.push(format!(
            "no link at any port of one connector, as without a cable: {}",
            listed(empty.iter().map(|it| it.name.clone()))
        ));
    }
    notes
}

/// The index of RoCE v2 with IPv4 on each device.
fn gids(all: &[Gid]) -> Option<String> {
    let mut devices: BTreeMap<&str, Option<u32>> = BTreeMap::new();
    for it in all {
        let index = devices.entry(&it.device).or_default();
        if it.is_v2 && it.has_ipv4 {
            index.get_or_insert(it.index);
        }
    }
    let mut indexes: Vec<u32> = devices.values().flatten().copied().collect();
    indexes.sort_unstable();
    indexes.dedup();
    let names = |index: Option<u32>| {
        let such = devices.iter().filter(move |it| *it.1 == index);
        listed(such.map(|it| (*it.0).to_owned()))
    };
    let lacking = match devices.values().any(Option::is_none) {
        true => format!("; none on {}", names(None)),
        false => String::new(),
    };
    Some(match indexes.as_slice() {
        [] if devices.is_empty() => return None,
        [] => "no GID of RoCE v2 with an IPv4 address".to_owned(),
        [index] => format!(
            "RoCE v2 with IPv4 has GID index {index} on {}{lacking}: NCCL takes it by itself since 2.21, \
             before with NCCL_IB_GID_INDEX={index}",
            names(Some(*index))
        ),
        many => {
            let of = many
                .iter()
                .map(|it| format!("{it} on {}", names(Some(*it))));
            format!(
                "RoCE v2 with IPv4 has GID index {}{lacking}: no NCCL_IB_GID_INDEX fits all",
                of.collect::<Vec<_>>().join(", ")
            )
        }
    })
}

/// Ports without errors. The others have a cause.
fn counters(outputs: &Outputs) -> Vec<String> {
    let notes = outputs.counters.iter().filter(|it| it.count > 0).map(|it| {
        let port = &it.port;
        match (it.known, it.set.is_empty()) {
            (0, _) => format!(
                "{port}: {} counters, none of errors, drops or pauses: give all of them",
                it.count
            ),
            (known, true) => format!("{port}: clean, {known} counters of errors and waits are 0"),
            (known, false) => format!(
                "{port}: {} of {known} counters of errors and waits are not 0",
                it.set.len()
            ),
        }
    });
    notes.take(MOST_PAIRS).collect()
}

fn limits(outputs: &Outputs) -> Option<String> {
    let text = |it: u64, unit: &str| match it {
        u64::MAX => "unlimited".to_owned(),
        _ => format!("{it}{unit}"),
    };
    let locked = outputs
        .locked_memory
        .map(|it| format!("locked memory {}", text(it, " KiB")));
    let files = outputs
        .open_files
        .map(|it| format!("open files {}", text(it, "")));
    let all: Vec<String> = locked.into_iter().chain(files).collect();
    (!all.is_empty()).then(|| format!("limits: {}", all.join(", ")))
}

/// How many tests of DCGM passed, and which did not.
fn tests(tests: &[outputs::Test]) -> Option<String> {
    use outputs::Verdict::{Failed, Passed, Skipped, Warned};
    let of = |verdict| tests.iter().filter(move |it| it.verdict == verdict);
    let parts = [
        (Passed, "passed"),
        (Warned, "warned"),
        (Failed, "failed"),
        (Skipped, "skipped"),
    ];
    let parts = parts.into_iter().filter_map(|(verdict, word)| {
        let count = of(verdict).count();
        let names = match verdict {
            Warned | Failed => format!(" ({})", listed(of(verdict).map(|it| it.name.clone()))),
            _ => String::new(),
        };
        (count > 0).then(|| format!("{count} {word}{names}"))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("DCGM: of {} tests {}", tests.len(), parts.join(", ")))
}
