//! Simulated exchanges of tokens as JSON.

use crate::JsonSchema;
use serde::Serialize;

use super::SimulatedExchange;
use crate::report::Report;

/// The result of exchanges of tokens.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpertsReport {
    ranks: u32,
    hosts: u32,
    /// The profile of NCCL's version.
    profile: String,
    exchanges: Vec<ExchangeRow>,
}

/// An exchange.
#[derive(Debug, Serialize, JsonSchema)]
struct ExchangeRow {
    /// `dispatch` or `combine`.
    exchange: &'static str,
    /// `all-to-all` or `two-stage`.
    schedule: &'static str,
    /// From the launch until the last rank has ended, µs.
    time_us: f64,
    /// Bytes that the rank which moves most gives to ranks of other NVLink domains (dispatch) or
    /// gets from them (combine).
    remote_bytes: u64,
    /// The same to or from other ranks of its domain, without what it passes on.
    local_bytes: u64,
    /// Bytes between domains per time, GB/s; null without any.
    remote_gbps: Option<f64>,
    /// The links that carried anything, the busiest first.
    links: Vec<BusyLink>,
}

/// The load of a link.
#[derive(Debug, Serialize, JsonSchema)]
struct BusyLink {
    name: String,
    /// Links with the same load, with this one.
    count: u32,
    /// GB/s; null if unlimited.
    gbps: Option<f64>,
    bytes: u64,
    /// The share of its capacity that was used over the whole time.
    used: f64,
}

impl Report for ExpertsReport {
    const FORMAT: &'static str = "topo-experts";
    const VERSION: u32 = 1;
}

impl ExpertsReport {
    /// The report of exchanges of one job.
    pub fn of(exchanges: &[SimulatedExchange]) -> Self {
        let first = exchanges.first();
        Self {
            ranks: first.map_or(0, |it| it.ranks),
            hosts: first.map_or(0, |it| it.hosts),
            profile: first.map_or_else(String::new, |it| it.profile.clone()),
            exchanges: exchanges.iter().map(ExchangeRow::of).collect(),
        }
    }
}

impl ExchangeRow {
    fn of(found: &SimulatedExchange) -> Self {
        let links = found.links.iter().map(|link| BusyLink {
            name: link.name.clone(),
            count: link.count,
            gbps: link.gbps.is_finite().then_some(link.gbps),
            bytes: link.bytes,
            used: link.used,
        });
        Self {
            exchange: found.exchange.name(),
            schedule: found.schedule.name(),
            time_us: found.time_us,
            remote_bytes: found.remote_bytes,
            local_bytes: found.local_bytes,
            remote_gbps: found.remote_gbps(),
            links: links.collect(),
        }
    }
}
