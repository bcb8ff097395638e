//! Tables and a summary of the measured times.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::whole::measure::{self, Table, cell};

/// A peer that is faster by more than this factor at one size misses the target.
const TOLERANCE: f64 = 1.15;

/// Statistics of the launches of one size: the mean of launches in a row; the median and the 99th
/// percentile of launches that were timed one by one.
const STATISTICS: [&str; 3] = ["mean", "p50", "p99"];

/// Times of the launches of one size by statistic, µs.
pub(super) type Times = [f64; STATISTICS.len()];

/// Times by size, one per round.
#[derive(Default)]
pub(super) struct Figures {
    times: BTreeMap<u64, Vec<Times>>,
}

impl Figures {
    /// Adds a round.
    pub(super) fn add(&mut self, round: &[(u64, Times)]) {
        for (bytes, times) in round {
            self.times.entry(*bytes).or_default().push(*times);
        }
    }

    /// The median over the rounds, µs.
    fn median(&self, bytes: u64, statistic: usize) -> Option<f64> {
        let times = self.times.get(&bytes)?.iter();
        measure::median(times.map(|it| it[statistic]))
    }
}

/// One collective on one number of ranks, with the times of all programs by name.
pub(super) struct Contest {
    pub collective: String,
    pub ranks: u32,
    /// Hosts that the ranks act as.
    pub hosts: u32,
    /// `topo` with ranks as processes, and as threads if requested.
    pub own: Vec<(String, Figures)>,
    pub peers: Vec<(String, Figures)>,
    /// The choices of `topo` with ranks as processes.
    pub chosen: Vec<Chosen>,
}

/// The choice of `topo` at a size, beside the fastest of all, which one run measured in turns.
pub(super) struct Chosen {
    pub bytes: u64,
    pub choice: String,
    pub best: String,
    /// The time of the choice by that of the fastest.
    pub factor: f64,
}

/// One size.
struct Size {
    bytes: u64,
    own: Vec<Option<f64>>,
    peers: Vec<Option<f64>>,
    /// The fastest peer and its time.
    best: Option<(usize, f64)>,
}

impl Size {
    /// Speed relative to the best peer.
    fn ratio(&self, own: usize) -> Option<f64> {
        Some(self.best?.1 / self.own[own]?)
    }
}

impl Contest {
    /// Its ranks, for tables.
    fn ranks(&self) -> String {
        match self.hosts {
            1 => format!("{} ranks", self.ranks),
            hosts => format!("{} ranks on {hosts} hosts", self.ranks),
        }
    }

    fn sizes(&self, statistic: usize) -> Vec<Size> {
        let sizes = self.own.iter().flat_map(|(_, it)| it.times.keys());
        let mut sizes: Vec<u64> = sizes.copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        let size = |bytes: u64| {
            let medians = |all: &[(String, Figures)]| {
                let all = all.iter();
                all.map(|(_, it)| it.median(bytes, statistic)).collect()
            };
            let peers: Vec<Option<f64>> = medians(&self.peers);
            let timed = peers.iter().enumerate();
            let timed = timed.filter_map(|(at, time)| Some((at, (*time)?)));
            let best = timed.min_by(|one, other| one.1.total_cmp(&other.1));
            Size {
                bytes,
                own: medians(&self.own),
                peers,
                best,
            }
        };
        sizes.into_iter().map(size).collect()
    }

    /// Speeds relative to the best peer.
    fn ratios(&self, own: usize, statistic: usize) -> Vec<f64> {
        let sizes = self.sizes(statistic);
        sizes.iter().filter_map(|size| size.ratio(own)).collect()
    }

    /// Tables of times in µs.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for (statistic, name) in STATISTICS.iter().enumerate() {
            let (collective, ranks) = (&self.collective, self.ranks());
            let _ = writeln!(text, "\n{collective}, {ranks}, {name}, µs");
            let mut heads = vec!["bytes".to_owned()];
            heads.extend(self.own.iter().chain(&self.peers).map(|it| it.0.clone()));
            heads.extend(self.own.iter().map(|it| format!("best/{}", it.0)));
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            let (table, head) = Table::new(12, &heads);
            let _ = writeln!(text, "{head}");
            for size in self.sizes(statistic) {
                let mut cells = vec![size.bytes.to_string()];
                cells.extend(size.own.iter().chain(&size.peers).map(|it| cell(*it, 2)));
                cells.extend((0..self.own.len()).map(|own| cell(size.ratio(own), 2)));
                let _ = writeln!(text, "{}", table.row(&cells));
            }
        }
        text.push_str(&self.choices());
        text
    }

    /// The choice at each size, and how far it is from the fastest.
    fn choices(&self) -> String {
        let mut text = format!(
            "\n{}, {}, choices: the time of each by that of the fastest\n",
            self.collective,
            self.ranks()
        );
        for it in &self.chosen {
            let best = match it.best == it.choice {
                true => String::new(),
                false => format!(", fastest {}", it.best),
            };
            let (bytes, choice, factor) = (it.bytes, &it.choice, it.factor);
            let _ = writeln!(text, "{bytes:>12}  {factor:5.2}  {choice}{best}");
        }
        text
    }
}

fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logs: f64 = ratios.iter().map(|it| it.ln()).sum();
    (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp())
}

/// Means, and every size with a faster peer.
pub(super) fn summary(contests: &[Contest]) -> String {
    let mut text =
        "\nTimes as fast as the best peer: geometric mean over sizes, least\n".to_owned();
    let mut losses = String::new();
    for contest in contests {
        for (at, (name, _)) in contest.own.iter().enumerate() {
            let _ = write!(
                text,
                "  {:<16}{}  {name:<14}",
                contest.collective,
                contest.ranks()
            );
            for (statistic, name) in STATISTICS.iter().enumerate() {
                let ratios = contest.ratios(at, statistic);
                let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let mean = cell(geometric_mean(&ratios), 2);
                let _ = write!(text, "  {name} {mean:>7}, {least:>7.2}");
            }
            text.push('\n');
            losses.push_str(&contest.losses(at));
        }
    }
    if losses.is_empty() {
        text.push_str("No size at which a peer is faster\n");
    } else {
        text.push_str("Sizes at which a peer is faster\n");
        text.push_str(&losses);
    }
    text
}

impl Contest {
    /// Every size with a faster peer.
    fn losses(&self, own: usize) -> String {
        let mut text = String::new();
        for (statistic, name) in STATISTICS.iter().enumerate() {
            for size in self.sizes(statistic) {
                let (Some(ratio), Some((best, time)), Some(own_time)) =
                    (size.ratio(own), size.best, size.own[own])
                else {
                    continue;
                };
                if ratio >= 1.0 {
                    continue;
                }
                let mark = match ratio * TOLERANCE < 1.0 {
                    true => "  beyond 1.15",
                    false => "",
                };
                let _ = writeln!(
                    text,
                    "  {:<16}{} {:>12} bytes  {:>4}  {} {own_time:.2} µs, {} {time:.2} µs: {ratio:.2}{mark}",
                    self.collective,
                    self.ranks(),
                    size.bytes,
                    name,
                    self.own[own].0,
                    self.peers[best].0
                );
            }
        }
        text
    }
}

/// All medians.
pub(super) fn json(contests: &[Contest]) -> Value {
    let contest = |contest: &Contest| {
        let sizes = contest.sizes(0);
        let programs = || contest.own.iter().chain(&contest.peers);
        let size = |bytes: u64| {
            let times = programs().map(|(name, figures)| {
                let times = [0, 1, 2].map(|it| (STATISTICS[it], figures.median(bytes, it)));
                (name.as_str(), BTreeMap::from(times))
            });
            json!({ "bytes": bytes, "us": times.collect::<BTreeMap<_, _>>() })
        };
        json!({
            "collective": contest.collective,
            "ranks": contest.ranks,
            "hosts": contest.hosts,
            "chosen": contest.chosen.iter().map(|it| json!({
                "bytes": it.bytes,
                "choice": it.choice,
                "best": it.best,
                "factor": it.factor,
            })).collect::<Vec<_>>(),
            "sizes": sizes.iter().map(|it| size(it.bytes)).collect::<Vec<_>>(),
        })
    };
    contests.iter().map(contest).collect()
}
