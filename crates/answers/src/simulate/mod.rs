//! A collective on a virtual clock.

mod choice;
pub mod experts;
mod inner;
pub mod json;

use plan::expand::Expansion;
use plan::{GraphKind, Plan};
use planner::Planned;
use planner::explain::count;
use program::lower::{LowerError, Lowering, ProgramRequest};
use program::{
    Channels, ChannelsError, Collective, ElementType, MessageSize, Protocol, Schedule, Transfer,
};
use simulator::build::{BuildError, build};
use simulator::{
    Fabric, FabricError, Fifos, InnerLinks, PlainHosts, PlannedWiring, Simulation, Wiring,
};

use crate::measured::MeasuredLinks;
use choice::SimulatedChoice;
pub use json::{LaneShares, SimulateReport};

/// A collective to run on the virtual clock.
#[derive(Debug, Clone)]
pub struct SimulateQuestion {
    /// The collective.
    pub collective: Collective,
    /// Size of the message, bytes; of the larger side where a collective gathers or scatters.
    pub size: u64,
    /// The algorithm; none: what NCCL takes, ring or tree; without a plan ring.
    pub algorithm: Option<Schedule>,
    /// The protocol; none: what NCCL takes; without a plan Simple.
    pub protocol: Option<Protocol>,
    /// How a mesh moves data; none: the first that the algorithm has.
    pub transfer: Option<Transfer>,
    /// Most channels; none: as many as NCCL; without a plan 1.
    pub channels: Option<u16>,
    /// Type of the elements.
    pub element: ElementType,
    /// The root.
    pub root: u32,
    /// Also ranks that do the same as others are run.
    pub every_rank: bool,
    /// Steps and network transfers that are kept for a trace.
    pub spans: usize,
}

impl SimulateQuestion {
    /// A collective as NCCL runs it.
    pub const fn of(collective: Collective, size: u64) -> Self {
        Self {
            collective,
            size,
            algorithm: None,
            protocol: None,
            transfer: None,
            channels: None,
            element: ElementType::F32,
            root: 0,
            every_rank: false,
            spans: 0,
        }
    }
}

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

/// A job that was simulated.
#[derive(Debug)]
pub struct SimulatedJob {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub schedule: Schedule,
    /// How data is moved.
    pub transfer: Transfer,
    /// The protocol of FIFOs.
    pub protocol: Protocol,
    /// Type of the elements.
    pub element: ElementType,
    /// The root.
    pub root: u32,
    /// The message as it was run: a multiple of elements and blocks, bytes.
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
    /// The profile of the plan, if there is one.
    pub profile: Option<String>,
    /// Prediction of NCCL's cost model for the algorithm and protocol, µs.
    pub predicted_us: Option<f64>,
    /// The links that carried anything, the busiest first.
    pub links: Vec<LinkLoad>,
    /// The model and its outcome.
    pub simulated: Simulation,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The load of a link.
#[derive(Debug)]
pub struct LinkLoad {
    /// Its name.
    pub name: String,
    /// Links with the same load for the same reasons, with this one.
    pub count: u32,
    /// GB/s; infinite if unlimited.
    pub gbps: f64,
    /// The load, bytes.
    pub bytes: u64,
    /// The share of its capacity that was used over the whole time.
    pub used: f64,
}

impl SimulatedJob {
    /// The time of the collective, µs.
    pub fn time_us(&self) -> f64 {
        self.simulated.outcome.time.us()
    }

    /// Message bytes per time, GB/s; `None` if it took no time.
    pub fn algorithm_bandwidth(&self) -> Option<f64> {
        let time = self.time_us();
        (time > 0.0).then(|| self.bytes as f64 / time / 1000.0)
    }

    /// The bus bandwidth, GB/s, as nccl-tests reports it; `None` if it took no time.
    pub fn bus_bandwidth(&self) -> Option<f64> {
        let factor = self.collective.bus_factor(self.ranks);
        Some(self.algorithm_bandwidth()? * factor)
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
) -> Result<SimulatedJob, SimulateError> {
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
) -> Result<SimulatedJob, SimulateError> {
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
) -> Result<SimulatedJob, SimulateError> {
    of_plan(plan, Vec::new(), question, fabric)
}

fn of_plan(
    plan: &Plan,
    inner: Vec<InnerLinks>,
    question: &SimulateQuestion,
    fabric: &Fabric,
) -> Result<SimulatedJob, SimulateError> {
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
    Ok(SimulatedJob {
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
) -> Result<SimulatedJob, SimulateError> {
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
    Ok(SimulatedJob {
        collective,
        schedule: chosen.schedule,
        transfer: chosen.transfer,
        protocol: chosen.protocol,
        element: question.element,
        root: question.root,
        bytes: count * u64::from(element_bytes) * blocks,
        ranks,
        hosts,
        channels: channels.count(),
        slot_bytes: chosen.slot_bytes,
        network: network(hosts, fabric),
        profile: None,
        predicted_us: chosen.predicted_us,
        links: loads(&simulated, wiring),
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
                gbps,
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
