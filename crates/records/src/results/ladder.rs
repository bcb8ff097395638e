//! Measured sizes, and the steps of the ladder of algorithms that they stand on.

use plan::Algorithm;
use program::Protocol;
use serde::Serialize;

use crate::JsonSchema;

/// An algorithm and a protocol.
pub type Choice = (Algorithm, Protocol);

/// One size.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ComparedRow {
    /// Bytes of the whole message.
    pub bytes: u64,
    /// Time with two buffers, else with one, µs.
    pub measured_us: f64,
    /// Time with one buffer, if both were measured, µs.
    pub in_place_us: Option<f64>,
    /// Bus bandwidth, GB/s.
    #[serde(rename = "bus_bandwidth_gbps")]
    pub bus_gbps: f64,
    /// Wrong elements; null if they were not counted.
    pub wrong: Option<u64>,
    /// The algorithm that ran.
    pub algorithm: Option<Algorithm>,
    /// Its protocol.
    pub protocol: Option<Protocol>,
    /// The file names the choice; otherwise it is the plan's.
    #[serde(rename = "logged")]
    pub is_logged: bool,
    /// The algorithm that topo run names.
    pub ran: Option<String>,
    /// Channels.
    pub channels: Option<u32>,
    /// Predicted time, µs.
    pub predicted_us: Option<f64>,
    /// Measured by predicted time.
    pub ratio: Option<f64>,
    /// The share of the predicted time that is latency.
    pub latency_share: Option<f64>,
    /// Bus bandwidth by bound.
    pub bound_share: Option<f64>,
    /// What a healthy machine reaches, GB/s, if that was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_gbps: Option<f64>,
    /// The least of a healthy machine, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_gbps: Option<f64>,
    /// Why nothing is expected, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The published run from which that comes.
    #[serde(skip)]
    pub like: Option<&'static str>,
}

impl ComparedRow {
    /// The choice that ran.
    pub fn choice(&self) -> Option<Choice> {
        self.algorithm.zip(self.protocol)
    }

    /// The bus bandwidth by what a healthy machine reaches; not a number if that is unknown.
    pub fn expected_share(&self) -> f64 {
        self.bus_gbps / self.expected_gbps.unwrap_or(f64::NAN)
    }
}

/// Sizes that follow each other with the same algorithm and protocol.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Its first size, bytes.
    pub from_bytes: u64,
    /// Its last size, bytes.
    pub to_bytes: u64,
    /// Fewest and most channels.
    pub channels: Option<(u32, u32)>,
    /// The median of measured by predicted time.
    pub ratio: Option<f64>,
    /// The largest.
    pub worst_ratio: Option<f64>,
    /// The size that has it, bytes.
    pub worst_bytes: u64,
    /// The share of its predicted time that is latency.
    #[serde(skip)]
    pub worst_latency_share: Option<f64>,
    /// Rows that were measured.
    #[serde(skip)]
    pub rows: usize,
}

/// Neighboring rows with the same choice.
pub fn steps(rows: &[ComparedRow]) -> Vec<Step> {
    let steps = rows.chunk_by(|one, next| one.choice() == next.choice());
    steps.filter_map(step).collect()
}

/// The step of rows with the same choice.
fn step(rows: &[ComparedRow]) -> Option<Step> {
    let (first, last) = (rows.first()?, rows.last()?);
    let (algorithm, protocol) = first.choice()?;
    let channels = || rows.iter().filter_map(|it| it.channels);
    let ratios = rows.iter().filter_map(|it| Some((it.ratio?, it)));
    let mut ratios: Vec<(f64, &ComparedRow)> = ratios.collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worst = ratios.last().map_or(first, |it| it.1);
    Some(Step {
        algorithm,
        protocol,
        from_bytes: first.bytes,
        to_bytes: last.bytes,
        channels: channels().min().zip(channels().max()),
        ratio: ratios.get(ratios.len() / 2).map(|it| it.0),
        worst_ratio: worst.ratio,
        worst_bytes: worst.bytes,
        worst_latency_share: worst.latency_share,
        rows: rows.len(),
    })
}
