//! The algorithm, protocol and channels that are simulated, and what they cost.

use plan::cost::TunedOperation;
use plan::expand::Expansion;
use plan::{Algorithm, GraphKind, NcclVersion, Plan};
use planner::Settings;
use planner::cost::profile::Hardware;
use planner::cost::{CostProfile, net_overhead_us};
use program::{Channels, Collective, Protocol, Schedule, Transfer};
use simulator::{Fabric, Latencies, hosts};
use topology::{CpuArch, CpuVendor};

use super::{SimulateError, SimulateQuestion};
use crate::names::algorithms;

/// Slots of a connection's buffer (`NCCL_STEPS`).
const SLOTS: i64 = 8;

/// The simulated choice, with its cost.
pub(super) struct SimulatedChoice {
    pub schedule: Schedule,
    pub transfer: Transfer,
    pub protocol: Protocol,
    pub channels: u16,
    pub slot_bytes: u32,
    pub latencies: Latencies<f64>,
    /// Bytes on the links per byte of data, as a fraction.
    pub expansion: (u32, u32),
    /// Prediction of NCCL's cost model, µs.
    pub predicted_us: Option<f64>,
}

/// NCCL's algorithm with the same rings or trees.
const fn of_nccl(schedule: Schedule) -> Option<Algorithm> {
    match schedule {
        Schedule::Ring => Some(Algorithm::Ring),
        Schedule::Tree => Some(Algorithm::Tree),
        Schedule::Nvls => Some(Algorithm::Nvls),
        _ => None,
    }
}

/// The transfer that was asked for, or the first that the algorithm has.
fn transfer(schedule: Schedule, run: &SimulateQuestion) -> Transfer {
    let serves = |it: &Transfer| schedule.serves(run.collective, *it);
    let first = || Transfer::ALL.into_iter().find(serves);
    run.transfer.or_else(first).unwrap_or(Transfer::Fifo)
}

impl SimulatedChoice {
    /// As `topo run` does it on processors.
    pub(super) fn without_plan(
        run: &SimulateQuestion,
        fabric: &Fabric,
        channels: &Channels,
    ) -> Result<Self, SimulateError> {
        let Some(schedule) = run.algorithm.or(algorithms(run.collective).next()) else {
            return Err(SimulateError::NoAlgorithm(run.collective));
        };
        let protocol = run.protocol.unwrap_or(Protocol::Simple);
        Ok(Self {
            schedule,
            transfer: transfer(schedule, run),
            protocol,
            channels: channels.count(),
            slot_bytes: fabric.slot_bytes(protocol, hosts::slot_bytes(protocol)),
            latencies: Latencies::default(),
            expansion: (1, 1),
            predicted_us: None,
        })
    }

    /// NCCL's choice for the job, within the limits of the question.
    pub(super) fn of_plan(
        plan: &Plan,
        expansion: &Expansion,
        run: &SimulateQuestion,
        fabric: &Fabric,
        notes: &mut Vec<String>,
    ) -> Result<Self, SimulateError> {
        let nccl = nccl_choice(plan, run);
        let schedule = run.algorithm.or(nccl.map(|(schedule, ..)| schedule));
        let schedule = schedule.or(algorithms(run.collective).next());
        let Some(schedule) = schedule else {
            return Err(SimulateError::NoAlgorithm(run.collective));
        };
        if nccl.is_none() && run.algorithm.is_none() && of_tuned(run.collective) {
            notes.push(format!(
                "the plan prices neither ring nor tree for {}; {schedule} is simulated",
                run.collective.command_name()
            ));
        }
        let nccl = nccl.filter(|(found, ..)| *found == schedule);
        let protocol = run.protocol.or(nccl.map(|(_, protocol, _)| protocol));
        let protocol = protocol.unwrap_or(Protocol::Simple);
        let all = u16::try_from(expansion.channels()).unwrap_or(u16::MAX);
        let usual = nccl.map_or(all, |_| {
            let sized = plan
                .costs
                .as_ref()
                .and_then(|costs| Some(costs.size(run.size, of_nccl(schedule)?, protocol).0));
            sized
                .and_then(|count| u16::try_from(count).ok())
                .unwrap_or(all)
        });
        let transfer = transfer(schedule, run);
        let usual_latencies = latencies(plan, schedule, protocol);
        Ok(Self {
            schedule,
            transfer,
            protocol,
            channels: run.channels.unwrap_or(usual).clamp(1, all.max(1)),
            slot_bytes: fabric.slot_bytes(protocol, slot_bytes(expansion, protocol)),
            latencies: usual_latencies.or(&fabric.latency),
            expansion: match (transfer, protocol) {
                // Flags beside the data.
                (Transfer::Direct | Transfer::Staged, _) | (_, Protocol::Simple) => (1, 1),
                (_, Protocol::Ll) => (2, 1),
                (_, Protocol::Ll128) => (16, 15),
            },
            predicted_us: nccl
                .map(|(_, _, time)| time)
                .filter(|_| transfer != Transfer::Hierarchical),
        })
    }
}

/// Whether NCCL's cost model prices a collective.
fn of_tuned(collective: Collective) -> bool {
    Collective::TUNED.contains(&collective)
}

/// The fastest of NCCL's rings and trees (of NVLS, if it is asked for), its protocol, and the time
/// that its cost model predicts, µs.
fn nccl_choice(plan: &Plan, run: &SimulateQuestion) -> Option<(Schedule, Protocol, f64)> {
    let costs = plan.costs.as_ref()?;
    let operation = TunedOperation::new(run.collective, run.size);
    let candidates = costs.candidates(&operation).into_iter();
    let candidates = candidates.filter_map(|((algorithm, protocol), time)| {
        let wanted = run.algorithm.map_or_else(
            || vec![Schedule::Ring, Schedule::Tree],
            |schedule| vec![schedule],
        );
        let mut wanted = wanted.into_iter();
        let schedule = wanted.find(|schedule| of_nccl(*schedule) == Some(algorithm))?;
        Some((schedule, protocol, f64::from(time)))
    });
    candidates
        .filter(|(_, protocol, _)| run.protocol.is_none_or(|asked| asked == *protocol))
        .min_by(|one, other| one.2.total_cmp(&other.2))
}

/// Data bytes of a FIFO slot: an eighth of the connection's buffer, without flags.
fn slot_bytes(expansion: &Expansion, protocol: Protocol) -> u32 {
    let buffers = &expansion.common().buffers;
    let bytes = match protocol {
        Protocol::Ll => buffers.ll / SLOTS / 2,
        Protocol::Ll128 => buffers.ll128 / SLOTS / 16 * 15,
        Protocol::Simple => buffers.simple / SLOTS,
    };
    u32::try_from(bytes.clamp(64, 64 << 20)).unwrap_or(u32::MAX)
}

/// NCCL's latencies of a step, as its cost model adds them up for rings and trees.
fn latencies(plan: &Plan, schedule: Schedule, protocol: Protocol) -> Latencies<f64> {
    let version = NcclVersion::of_profile(&plan.profile).unwrap_or_default();
    let profile = CostProfile::of(version);
    let (algorithm, kind) = match schedule {
        Schedule::Tree => (Algorithm::Tree, GraphKind::Tree),
        _ => (Algorithm::Ring, GraphKind::Ring),
    };
    let step = |hardware| {
        let table = profile.hardware_latency_us.of(hardware);
        table.of(algorithm, protocol)
    };
    let common = plan.common.as_ref();
    let port = common.and_then(|common| common.graph(kind));
    let port = port.map_or(0.0, |graph| f64::from(graph.latency_inter));
    let messages = match protocol {
        Protocol::Simple => 2.0,
        _ => 1.0,
    };
    // What the processor does for messages bounds the steps of a ring between hosts.
    let several = plan.hosts.iter().map(|run| run.count).sum::<u32>() > 1;
    let overhead = match several && algorithm == Algorithm::Ring {
        false => 0.0,
        true => {
            let mut processors = plan.machines.iter().map(|it| &it.cpu);
            let amd = processors.any(|it| it.arch == CpuArch::X86 && it.vendor == CpuVendor::Amd);
            let set = plan.settings.iter().map(|it| (&it.name, &it.value));
            let set = set.map(|(name, value)| (name.clone(), value.clone()));
            let tuning = Settings::with_variables(version, set).tuning;
            f64::from(net_overhead_us(&profile.latency, &tuning, amd, protocol))
        }
    };
    Latencies {
        start: profile.base_latency_us.of(algorithm, protocol),
        nvlink: step(Hardware::Nvlink).max(overhead),
        pci: step(Hardware::Pci).max(overhead),
        network: step(Hardware::Net) + messages * port,
    }
}
