//! Measured sizes, and the steps of the ladder of algorithms that they stand on.

use plan::Algorithm;
use program::Protocol;

use crate::results::published::Expected;

/// An algorithm and a protocol.
pub type Choice = (Algorithm, Protocol);

/// One size.
#[derive(Debug, Clone)]
pub struct ComparedRow {
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Time, µs: with two buffers, else with one.
    pub measured_us: f64,
    /// With one buffer, if that was measured too, µs.
    pub in_place_us: Option<f64>,
    /// Bus bandwidth, GB/s.
    pub bus_gbps: f64,
    /// Wrong elements, where they were counted.
    pub wrong: Option<u64>,
    /// The choice that ran.
    pub choice: Option<Choice>,
    /// The file names the choice; otherwise it is the plan's.
    pub is_logged: bool,
    /// The choice that ran in topo run's words, if it is no algorithm of NCCL's.
    pub ran: Option<String>,
    /// Channels.
    pub channels: Option<u32>,
    /// Predicted time, µs.
    pub predicted_us: Option<f64>,
    /// The share of the predicted time that is latency.
    pub latency_share: Option<f64>,
    /// The share of the bound that the bus bandwidth is.
    pub bound_share: Option<f64>,
    /// What a healthy machine reaches, if that was asked for and is known.
    pub expected: Option<Expected>,
}

impl ComparedRow {
    /// Measured by predicted time.
    pub fn ratio(&self) -> Option<f64> {
        let predicted = self.predicted_us.filter(|it| *it > 0.0)?;
        Some(self.measured_us / predicted)
    }
}

/// Sizes that follow each other with the same choice.
#[derive(Debug, Clone)]
pub struct Step {
    /// The choice.
    pub choice: Choice,
    /// The first and the last row.
    pub rows: (usize, usize),
    /// Fewest and most channels.
    pub channels: Option<(u32, u32)>,
    /// The median of measured by predicted time.
    pub ratio: Option<f64>,
    /// The row with the largest.
    pub worst: usize,
}

/// Neighboring rows with the same choice.
pub fn steps(rows: &[ComparedRow]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(choice) = row.choice else { continue };
        match steps.last_mut() {
            Some(last) if last.choice == choice && last.rows.1 + 1 == at => last.rows.1 = at,
            _ => steps.push(Step {
                choice,
                rows: (at, at),
                channels: None,
                ratio: None,
                worst: at,
            }),
        }
    }
    for step in &mut steps {
        let (first, last) = step.rows;
        let all = &rows[first..=last];
        let channels = || all.iter().filter_map(|it| it.channels);
        step.channels = channels().min().zip(channels().max());
        let mut ratios: Vec<(f64, usize)> = all
            .iter()
            .enumerate()
            .filter_map(|(at, it)| Some((it.ratio()?, first + at)))
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        step.ratio = ratios.get(ratios.len() / 2).map(|it| it.0);
        step.worst = ratios.last().map_or(first, |it| it.1);
    }
    steps
}
