//! A simulated job as JSON.

use crate::JsonSchema;
use serde::Serialize;
use simulator::Cause;

use super::SimulatedJob;
use crate::report::Report;

/// The result of a simulation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulateReport {
    collective: String,
    algorithm: String,
    transfer: String,
    protocol: String,
    /// Type of the elements.
    element: String,
    root: u32,
    /// Size of the message, bytes.
    bytes: u64,
    ranks: u32,
    hosts: u32,
    channels: u16,
    /// Data bytes of a FIFO slot.
    slot_bytes: u32,
    /// The network, in words.
    network: String,
    /// From the launch until the last rank has ended, µs.
    time_us: f64,
    /// Message bytes per time, GB/s; null if it took no time.
    algorithm_bandwidth: Option<f64>,
    /// The bus bandwidth of nccl-tests, GB/s; null if it took no time.
    bus_bandwidth: Option<f64>,
    /// Prediction of NCCL's cost model for the algorithm and protocol, µs; null if it has none.
    predicted_us: Option<f64>,
    /// The causes of the time of the chain of events that ended last.
    causes: Vec<CauseRow>,
    /// The part of these causes that transfers would not have taken alone on their links, µs.
    shared_us: f64,
    /// The time of lanes by activity, on average.
    lanes: LaneShares,
    /// The links that carried anything, the busiest first.
    links: Vec<LinkRow>,
    /// Lanes of the job, and how many of them were run because the others do the same.
    lane_count: u64,
    simulated_lanes: u64,
    /// Steps of the job, and how many of them were run.
    steps: u64,
    simulated_steps: u64,
}

/// Time that a cause took.
#[derive(Debug, Serialize, JsonSchema)]
struct CauseRow {
    cause: &'static str,
    time_us: f64,
}

/// Shares of the lanes' time, from 0 to 1.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LaneShares {
    /// In steps.
    pub busy: f64,
    /// Waiting for data of another rank.
    pub data: f64,
    /// Waiting for a free slot.
    pub slot: f64,
    /// Waiting for a signal.
    pub signal: f64,
    /// Before the first step, or after the last.
    pub idle: f64,
}

/// The load of a link.
#[derive(Debug, Serialize, JsonSchema)]
struct LinkRow {
    name: String,
    /// Links with the same load, with this one.
    count: u32,
    /// Capacity, GB/s; null if unlimited.
    gbps: Option<f64>,
    /// Bytes over each of them.
    bytes: u64,
    /// The share of the capacity that was used over the whole time.
    used: f64,
}

impl Report for SimulateReport {
    const FORMAT: &'static str = "topo-simulate";
    const VERSION: u32 = 1;
}

/// The name of a cause in JSON.
const fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Start => "start",
        Cause::Latency => "latency",
        Cause::Work => "work",
        Cause::NvLink => "nvlink",
        Cause::Pci => "pci",
        Cause::Nic => "nic",
        Cause::Fabric => "fabric",
    }
}

impl LaneShares {
    /// The shares of all lanes of a job.
    pub fn of(job: &SimulatedJob) -> Self {
        let outcome = &job.simulated.outcome;
        let counts = job
            .simulated
            .lanes
            .iter()
            .map(|(_, count)| f64::from(*count));
        let (mut sums, mut all) = ([0.0; 4], 0.0);
        for (lane, count) in outcome.lanes.iter().zip(counts) {
            all += count * outcome.time.us();
            let times = [lane.busy, lane.data, lane.slot, lane.signal];
            for (sum, time) in sums.iter_mut().zip(times) {
                *sum += count * time.us();
            }
        }
        let [busy, data, slot, signal] = sums.map(|sum| if all > 0.0 { sum / all } else { 0.0 });
        Self {
            busy,
            data,
            slot,
            signal,
            idle: (1.0 - busy - data - slot - signal).max(0.0),
        }
    }
}

impl SimulateReport {
    /// The report of a job.
    pub fn of(job: &SimulatedJob) -> Self {
        let outcome = &job.simulated.outcome;
        let causes = Cause::ALL.into_iter().map(|cause| CauseRow {
            cause: name(cause),
            time_us: outcome.path.of(cause).us(),
        });
        let links = job.links.iter().map(|link| LinkRow {
            name: link.name.clone(),
            count: link.count,
            gbps: link.gbps.is_finite().then_some(link.gbps),
            bytes: link.bytes,
            used: link.used,
        });
        let (lane_count, steps) = job.simulated.whole;
        Self {
            collective: job.collective.to_string(),
            algorithm: job.schedule.to_string(),
            transfer: job.transfer.to_string(),
            protocol: job.protocol.to_string(),
            element: job.element.to_string(),
            root: job.root,
            bytes: job.bytes,
            ranks: job.ranks,
            hosts: job.hosts,
            channels: job.channels,
            slot_bytes: job.slot_bytes,
            network: job.network.clone(),
            time_us: job.time_us(),
            algorithm_bandwidth: job.algorithm_bandwidth(),
            bus_bandwidth: job.bus_bandwidth(),
            predicted_us: job.predicted_us,
            causes: causes.collect(),
            shared_us: outcome.path.shared().us(),
            lanes: LaneShares::of(job),
            links: links.collect(),
            lane_count,
            simulated_lanes: job.simulated.model.lanes.len() as u64,
            steps,
            simulated_steps: outcome.steps,
        }
    }
}
