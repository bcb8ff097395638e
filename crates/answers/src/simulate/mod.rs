//! A collective on a virtual clock.

mod choice;
pub mod experts;
mod inner;
mod page;
mod question;
pub mod trace;

use plan::expand::Expansion;
use plan::{GraphKind, Plan};
use planner::Planned;
use planner::explain::count;
use program::lower::{LowerError, Lowering, ProgramRequest};
use program::{
    Channels, ChannelsError, Collective, ElementType, MessageSize, Protocol, Schedule, Transfer,
};
use serde::Serialize;
use simulator::build::{BuildError, build};
use simulator::{
    Cause, Fabric, FabricError, Fifos, InnerLinks, PlainHosts, PlannedWiring, Simulation, Wiring,
};

use crate::JsonSchema;
use crate::measured::MeasuredLinks;
use crate::report::{Report, as_text};
use choice::SimulatedChoice;
pub use question::SimulateQuestion;

/// Why a job cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// It is no collective.
    #[error("send-recv is one transfer, which is not simulated; expected another collective")]
    Transfer,
    /// There is no program.
    #[error("no algorithm writes {}", .0.command_name())]
    NoAlgorithm(Collective),
    /// Hosts without a plan have ports of an unknown rate.
    #[error(
        "ranks without a plan need the ports' rate: `[network]` with `port-gbps` in the fabric file"
    )]
    NoRate,
    /// The fabric does not fit the job.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The routing of tokens does not fit the job.
    #[error("{0}")]
    Routing(String),
    /// There are no such channels.
    #[error(transparent)]
    Channels(#[from] ChannelsError),
    /// The plan has no channels.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// The algorithm cannot run it.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The job is too large, or its wiring is incomplete.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The simulation failed.
    #[error(transparent)]
    Simulate(#[from] simulator::simulate::SimulateError),
}

/// The result of a simulation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulateReport {
    /// The collective.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub collective: Collective,
    /// The algorithm.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub algorithm: Schedule,
    /// How data is moved.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub transfer: Transfer,
    /// The protocol of FIFOs.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub protocol: Protocol,
    /// Type of the elements.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub element: ElementType,
    /// The root.
    pub root: u32,
    /// Size of the message as it was run, a multiple of elements and blocks, bytes.
    pub bytes: u64,
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: u32,
    /// Channels.
    pub channels: u16,
    /// Data bytes of a FIFO slot.
    pub slot_bytes: u32,
    /// The network, in words.
    pub network: String,
    /// From the launch until the last rank has ended, µs.
    pub time_us: f64,
    /// Message bytes per time, GB/s; null if it took no time.
    pub algorithm_bandwidth: Option<f64>,
    /// The bus bandwidth of nccl-tests, GB/s; null if it took no time.
    pub bus_bandwidth: Option<f64>,
    /// Prediction of NCCL's cost model for the algorithm and protocol, µs; null if it has none.
    pub predicted_us: Option<f64>,
    /// The causes of the time of the chain of events that ended last.
    pub causes: Vec<CauseTime>,
    /// The part of these causes that transfers would not have taken alone on their links, µs.
    pub shared_us: f64,
    /// The time of lanes by activity, on average.
    pub lanes: LaneShares,
    /// The links that carried anything, the busiest first.
    pub links: Vec<LinkLoad>,
    /// Lanes of the job.
    pub lane_count: u64,
    /// How many of them were run, because the others do the same.
    pub simulated_lanes: u64,
    /// Steps of the job.
    pub steps: u64,
    /// How many of them were run.
    pub simulated_steps: u64,
    /// The profile of the plan, if there is one; absent if a binary has judged its version.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    profile: Option<String>,
    /// The model and its outcome.
    #[serde(skip)]
    pub simulated: Simulation,
    /// Notes for the reader.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Time that a cause took.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CauseTime {
    /// Its name.
    pub cause: &'static str,
    /// Time, µs.
    pub time_us: f64,
    /// The cause in words.
    #[serde(skip)]
    words: &'static str,
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
pub struct LinkLoad {
    /// Its name.
    pub name: String,
    /// Links with the same load for the same reasons, with this one.
    pub count: u32,
    /// Capacity, GB/s; null if unlimited.
    pub gbps: Option<f64>,
    /// Bytes over each of them.
    pub bytes: u64,
    /// The share of the capacity that was used over the whole time.
    pub used: f64,
}

impl Report for SimulateReport {
    const FORMAT: &'static str = "topo-simulate";
    const VERSION: u32 = 1;
}

impl CauseTime {
    fn of(cause: Cause, simulated: &Simulation) -> Self {
        let (name, words) = match cause {
            Cause::Start => ("start", "launch and late ranks"),
            Cause::Latency => ("latency", "latency"),
            Cause::Work => ("work", "reductions and copies"),
            Cause::NvLink => ("nvlink", "bandwidth of NVLink"),
            Cause::Pci => ("pci", "bandwidth of PCI Express and host memory"),
            Cause::Nic => ("nic", "bandwidth of NICs"),
            Cause::Fabric => ("fabric", "bandwidth between switches"),
        };
        Self {
            cause: name,
            time_us: simulated.outcome.path.of(cause).us(),
            words,
        }
    }
}

impl LaneShares {
    /// The shares of all lanes of a job.
    fn of(simulated: &Simulation) -> Self {
        let outcome = &simulated.outcome;
        let counts = simulated.lanes.iter().map(|(_, count)| f64::from(*count));
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

/// Simulates a job of hosts with one port each, as they are without a plan.
///
/// # Errors
/// The fabric does not say the ports' rate or does not fit the job, or no algorithm runs it.
pub fn without_plan(
    ranks: u32,
    question: &SimulateQuestion,
    fabric: &Fabric,
) -> Result<SimulateReport, SimulateError> {
    expect_collective(question)?;
    let Some(gbps) = fabric.network.port_gbps else {
        return Err(SimulateError::NoRate);
    };
    let channels = Channels::plain(ranks, question.channels.unwrap_or(1).into())?;
    let wiring = PlainHosts::new(ranks, gbps, fabric);
    let hosts = wiring.hosts();
    fabric.check(ranks, hosts, 1)?;
    let chosen = SimulatedChoice::without_plan(question, fabric, &channels)?;
    simulated(question, &chosen, &channels, &wiring, (hosts, fabric))
}

/// Simulates a planned job on the links of its machines, perhaps as they were measured.
///
/// # Errors
/// The fabric does not fit the job, or no algorithm runs it.
pub fn planned(
    planned: &Planned,
    measured: Option<&MeasuredLinks>,
    question: &SimulateQuestion,
    fabric: &Fabric,
) -> Result<SimulateReport, SimulateError> {
    of_plan(
        planned.plan(),
        inner::links(planned, measured),
        question,
        fabric,
    )
}

/// Simulates a plan, which does not hold the links that transfers share in PCI switches and between
/// CPUs.
///
/// # Errors
/// As [`planned`].
pub fn saved(
    plan: &Plan,
    question: &SimulateQuestion,
    fabric: &Fabric,
) -> Result<SimulateReport, SimulateError> {
    of_plan(plan, Vec::new(), question, fabric)
}

fn of_plan(
    plan: &Plan,
    inner: Vec<InnerLinks>,
    question: &SimulateQuestion,
    fabric: &Fabric,
) -> Result<SimulateReport, SimulateError> {
    expect_collective(question)?;
    let expansion = plan.expansion()?;
    let mut notes = Vec::new();
    let chosen = SimulatedChoice::of_plan(plan, expansion, question, fabric, &mut notes)?;
    let channels = channels(expansion, &chosen)?;
    let graph = match chosen.schedule {
        Schedule::Ring => Some(GraphKind::Ring),
        Schedule::Tree => Some(GraphKind::Tree),
        _ => None,
    };
    let fifos = Fifos {
        graph,
        latencies: chosen.latencies,
        expansion: chosen.expansion,
    };
    let wiring = PlannedWiring::new(plan, expansion, fifos, fabric, inner)?;
    let hosts = expansion.layout().hosts();
    let job = simulated(question, &chosen, &channels, &wiring, (hosts, fabric))?;
    Ok(SimulateReport {
        profile: Some(plan.profile.clone()),
        notes,
        ..job
    })
}

const fn expect_collective(question: &SimulateQuestion) -> Result<(), SimulateError> {
    match question.collective {
        Collective::SendRecv => Err(SimulateError::Transfer),
        _ => Ok(()),
    }
}

fn channels(expansion: &Expansion, chosen: &SimulatedChoice) -> Result<Channels, ChannelsError> {
    let all = expansion.program_channels()?;
    Ok(all.take(usize::from(chosen.channels)))
}

fn simulated(
    question: &SimulateQuestion,
    chosen: &SimulatedChoice,
    channels: &Channels,
    wiring: &dyn Wiring,
    (hosts, fabric): (u32, &Fabric),
) -> Result<SimulateReport, SimulateError> {
    let ranks = channels.ranks();
    let collective = question.collective;
    let request = ProgramRequest {
        collective,
        schedule: chosen.schedule,
        transfer: chosen.transfer,
        root: question.root,
        in_place: false,
        channels,
    };
    let lowering = Lowering::new(&request)?;
    let element_bytes = question.element.bytes();
    let blocks = collective.blocks(ranks);
    let count = (question.size / u64::from(element_bytes) / blocks).max(1);
    let message = MessageSize {
        count,
        element_bytes,
        slot_bytes: chosen.slot_bytes,
        piece_bytes: 0,
    };
    let model = build(&lowering, &message, wiring)?;
    let simulated = simulator::simulate(model, question.spans, !question.every_rank)?;
    let bytes = count * u64::from(element_bytes) * blocks;
    let outcome = &simulated.outcome;
    let time_us = outcome.time.us();
    let speed = (time_us > 0.0).then(|| bytes as f64 / time_us / 1000.0);
    let causes = Cause::ALL.map(|cause| CauseTime::of(cause, &simulated));
    Ok(SimulateReport {
        collective,
        algorithm: chosen.schedule,
        transfer: chosen.transfer,
        protocol: chosen.protocol,
        element: question.element,
        root: question.root,
        bytes,
        ranks,
        hosts,
        channels: channels.count(),
        slot_bytes: chosen.slot_bytes,
        network: network(hosts, fabric),
        time_us,
        algorithm_bandwidth: speed,
        bus_bandwidth: speed.map(|it| it * collective.bus_factor(ranks)),
        predicted_us: chosen.predicted_us,
        causes: causes.into(),
        shared_us: outcome.path.shared().us(),
        lanes: LaneShares::of(&simulated),
        links: loads(&simulated, wiring),
        lane_count: simulated.whole.0,
        simulated_lanes: simulated.model.lanes.len() as u64,
        steps: simulated.whole.1,
        simulated_steps: outcome.steps,
        profile: None,
        simulated,
        notes: Vec::new(),
    })
}

/// The network in words.
fn network(hosts: u32, fabric: &Fabric) -> String {
    let Some(leaf) = &fabric.leaf else {
        return match hosts {
            1 => "none, one host".to_owned(),
            _ => "one switch without contention".to_owned(),
        };
    };
    let leaves = match leaf.count(hosts) {
        1 => "1 leaf switch".to_owned(),
        leaves => format!("{leaves} leaf switches"),
    };
    let rails = if leaf.rails { " on each rail" } else { "" };
    let most = leaf.sizes(hosts).into_iter().max().unwrap_or(leaf.hosts);
    format!(
        "{leaves}{rails} with up to {}, {}:1 oversubscribed",
        count(most as usize, "host"),
        leaf.oversubscription
    )
}

/// The loads of all links that carried anything, the busiest first.
fn loads(simulated: &Simulation, wiring: &dyn Wiring) -> Vec<LinkLoad> {
    let outcome = &simulated.outcome;
    let links = simulated.model.links.iter().zip(&outcome.link_bytes);
    let links = links
        .zip(&simulated.links)
        .filter(|((_, bytes), _)| **bytes > 0);
    let mut loads: Vec<LinkLoad> = links
        .map(|((link, bytes), (number, count))| {
            // Rates are rounded to 15 bytes per second.
            let gbps = (link.capacity.gbps() * 1e7).round() / 1e7;
            let most = gbps * outcome.time.us() * 1000.0;
            LinkLoad {
                name: wiring.name(*number),
                count: *count,
                gbps: gbps.is_finite().then_some(gbps),
                bytes: *bytes,
                used: if most > 0.0 {
                    *bytes as f64 / most
                } else {
                    0.0
                },
            }
        })
        .collect();
    loads.sort_by(|one, other| other.used.total_cmp(&one.used));
    loads
}
