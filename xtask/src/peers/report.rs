//! What the figures come to.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

/// Slower than the best peer by more than this at one size counts against the target.
const TOLERANCE: f64 = 1.15;

/// Times by size, one for each round.
#[derive(Default)]
pub struct Figures {
    times: BTreeMap<u64, Vec<f64>>,
}

impl Figures {
    /// Adds a round.
    pub fn add(&mut self, round: &[(u64, f64)]) {
        for (bytes, time) in round {
            self.times.entry(*bytes).or_default().push(*time);
        }
    }

    /// The median over the rounds, µs.
    fn median(&self, bytes: u64) -> Option<f64> {
        let mut times = self.times.get(&bytes)?.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }
}

/// One collective on one number of ranks.
pub struct Contest {
    pub collective: String,
    pub ranks: u32,
    pub own: Figures,
    pub peers: Vec<(String, Figures)>,
}

/// One size of a contest.
struct Size {
    bytes: u64,
    own: f64,
    peers: Vec<Option<f64>>,
    /// Which peer is the fastest, and its time.
    best: Option<(usize, f64)>,
}

impl Size {
    /// How many times as fast as the best peer.
    fn ratio(&self) -> Option<f64> {
        Some(self.best?.1 / self.own)
    }
}

impl Contest {
    fn sizes(&self) -> Vec<Size> {
        let size = |bytes: &u64| {
            let peers: Vec<Option<f64>> =
                self.peers.iter().map(|(_, it)| it.median(*bytes)).collect();
            let timed = peers.iter().enumerate();
            let timed = timed.filter_map(|(at, time)| Some((at, (*time)?)));
            let best = timed.min_by(|one, other| one.1.total_cmp(&other.1));
            Some(Size {
                bytes: *bytes,
                own: self.own.median(*bytes)?,
                peers,
                best,
            })
        };
        self.own.times.keys().filter_map(size).collect()
    }

    /// The geometric mean of the ratios to the best peer.
    fn mean(&self) -> Option<f64> {
        let logs: Vec<f64> = self
            .sizes()
            .iter()
            .filter_map(|size| Some(size.ratio()?.ln()))
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }

    /// A table of times in µs.
    pub fn table(&self) -> String {
        let mut text = format!(
            "\n{}, {} ranks, µs\n{:>12}{:>12}",
            self.collective, self.ranks, "bytes", "topo"
        );
        for (name, _) in &self.peers {
            let _ = write!(text, "{name:>12}");
        }
        text.push_str("   best/topo\n");
        for size in self.sizes() {
            let _ = write!(text, "{:>12}{:>12.2}", size.bytes, size.own);
            for time in &size.peers {
                let time = time.map_or_else(|| "–".to_owned(), |time| format!("{time:.2}"));
                let _ = write!(text, "{time:>12}");
            }
            let ratio = size
                .ratio()
                .map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"));
            let _ = writeln!(text, "{ratio:>12}");
        }
        if let Some(mean) = self.mean() {
            let _ = writeln!(text, "{:>24} geometric mean {mean:.2}", "");
        }
        text
    }
}

/// Means, and every size at which a peer is faster.
pub fn summary(contests: &[Contest]) -> String {
    let mut text = "\nTimes as fast as the best peer, geometric mean over sizes\n".to_owned();
    for contest in contests {
        let mean = contest
            .mean()
            .map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"));
        let _ = writeln!(
            text,
            "  {:<16}{} ranks  {mean:>6}",
            contest.collective, contest.ranks
        );
    }
    let mut losses = String::new();
    for contest in contests {
        for size in contest.sizes() {
            let (Some(ratio), Some((at, best))) = (size.ratio(), size.best) else {
                continue;
            };
            if ratio < 1.0 {
                let mark = if ratio * TOLERANCE < 1.0 {
                    "  beyond 1.15"
                } else {
                    ""
                };
                let _ = writeln!(
                    losses,
                    "  {:<16}{} ranks {:>12} bytes  topo {:.2} µs, {} {best:.2} µs: {ratio:.2}{mark}",
                    contest.collective, contest.ranks, size.bytes, size.own, contest.peers[at].0
                );
            }
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

/// All medians.
pub fn json(contests: &[Contest]) -> Value {
    let contest = |contest: &Contest| {
        let size = |size: Size| {
            let peers = contest.peers.iter().zip(&size.peers);
            let peers: BTreeMap<&str, Option<f64>> = peers
                .map(|((name, _), time)| (name.as_str(), *time))
                .collect();
            json!({ "bytes": size.bytes, "topo_us": size.own, "peers_us": peers })
        };
        json!({
            "collective": contest.collective,
            "ranks": contest.ranks,
            "sizes": contest.sizes().into_iter().map(size).collect::<Vec<_>>(),
        })
    };
    contests.iter().map(contest).collect()
}
