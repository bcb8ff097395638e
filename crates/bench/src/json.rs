//! The JSON of `topo run`.

use crate::JsonSchema;
use backend_cpu::choose::ExplainedChoice;
use executor::Choice;
use net::Reachability;
use program::Transfer;
use serde::Serialize;

use crate::figures::{algorithm, average_bandwidth, bus};
use crate::report::{LaunchReport, RunReport};
use crate::row::{FigureTiming, Launches, RunRow};
use answers::report::Report;

/// The run, and the measurement of each size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunJson {
    collective: &'static str,
    ranks: u32,
    /// Each rank was a process; otherwise all were threads of one.
    processes: bool,
    /// The launcher that started the ranks; null if topo did.
    launcher: Option<&'static str>,
    /// Ranks of each process that a launcher started.
    process_ranks: Option<u32>,
    /// Time until all ranks that a launcher started had met, s.
    joined_s: Option<f64>,
    /// Names of the hosts of ranks that a launcher started.
    hosts: Option<Vec<String>>,
    /// The network between ranks that a launcher started.
    net: Option<NetJson>,
    /// Ranks that a launcher started and that were lost.
    lost: Option<Vec<u32>>,
    /// Type of the elements.
    #[serde(rename = "type")]
    element: &'static str,
    /// The operation; null if the collective does not reduce.
    op: Option<&'static str>,
    /// The root; null if the collective has none.
    root: Option<u32>,
    /// Name of the plan whose rings and trees were used.
    plan: Option<String>,
    /// Share of the time of the ranks' cores that other programs took, 0 to 1; null if unknown.
    other_programs_share: Option<f64>,
    /// Mean bus bandwidth over all rows and both placements, GB/s.
    average_bus_bandwidth_gbps: Option<f64>,
    rows: Vec<RowJson>,
}

impl Report for RunJson {
    const FORMAT: &'static str = "topo-run";
    const VERSION: u32 = 1;
}

/// The carrier of data between hosts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "by")]
enum NetJson {
    #[serde(rename = "net plug-in")]
    Plugin {
        /// The name that it reports.
        name: String,
        /// Version of the plug-in interface.
        abi: u32,
        /// File of its library.
        library: String,
        devices: Vec<NicJson>,
    },
    #[serde(rename = "TCP")]
    Tcp {
        devices: Vec<InterfaceJson>,
        /// Why a net plug-in that was found is not used.
        fallen_back: Option<String>,
    },
}

/// A NIC of a net plug-in.
#[derive(Debug, Serialize, JsonSchema)]
struct NicJson {
    name: String,
    /// Its path in `/sys`, if it is a PCI device.
    pci_path: Option<String>,
    /// Speed of its port, Mbit/s; 0 if unknown.
    speed_mbps: u32,
    /// Its rail, if the plug-in says so.
    rail: Option<i16>,
    /// Its plane, if the plug-in says so.
    plane: Option<i16>,
}

/// A network interface.
#[derive(Debug, Serialize, JsonSchema)]
struct InterfaceJson {
    name: String,
}

/// The measurement of one size.
#[derive(Debug, Serialize, JsonSchema)]
struct RowJson {
    /// Size of the message as nccl-tests counts it, bytes.
    bytes: u64,
    /// Elements of a block.
    count: u64,
    out_of_place: PlacementJson,
    /// Null if the collective does not run in place, or was not asked to.
    in_place: Option<PlacementJson>,
    /// Time that the cost profile predicts out of place, µs.
    predicted_us: Option<f64>,
    /// The fastest of all choices, measured in turns with the taken one; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestJson>,
    /// Algorithm and protocol of the plan, which are for GPUs.
    planned: Option<String>,
    /// The choices with the least expected times, the fastest first; only if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explained: Vec<ExplainedJson>,
}

/// What runs.
#[derive(Debug, Serialize, JsonSchema)]
struct ChoiceJson {
    algorithm: &'static str,
    transfer: &'static str,
    /// Protocol of the FIFOs; null for a direct transfer.
    protocol: Option<&'static str>,
    channels: u16,
}

/// The fastest of all choices.
#[derive(Debug, Serialize, JsonSchema)]
struct BestJson {
    #[serde(flatten)]
    choice: ChoiceJson,
    /// Time of a launch on the slowest rank, µs.
    time_us: f64,
    /// The time of the choice that was taken by this one, at least 1.
    factor: f64,
}

/// A choice and its expected time.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedJson {
    #[serde(flatten)]
    choice: ChoiceJson,
    /// The whole time, µs.
    time_us: f64,
    /// Its parts, if a model predicts it; null if it was measured for the cost profile.
    parts: Option<PartsJson>,
    /// FIFO slots and signals that all ranks send, if each message fits in one slot; null for an
    /// algorithm without a model.
    messages: Option<f64>,
}

/// Parts of a predicted time, which follow each other, µs.
#[derive(Debug, Serialize, JsonSchema)]
struct PartsJson {
    /// Waiting for other ranks, µs.
    waits_us: f64,
    /// Sending and receiving slots and signals, besides their bytes, µs.
    messages_us: f64,
    /// Moving and reducing bytes in memory, µs.
    bytes_us: f64,
    /// Sending to other hosts and receiving from them, µs.
    network_us: f64,
}

/// The measurement with two buffers, or with one.
#[derive(Debug, Serialize, JsonSchema)]
struct PlacementJson {
    #[serde(flatten)]
    choice: ChoiceJson,
    /// Time of a launch on the slowest rank, µs.
    time_us: f64,
    /// Times of launches that were timed one by one; null on GPUs.
    latency_us: Option<LatencyJson>,
    /// Size by time, GB/s.
    algorithm_bandwidth_gbps: f64,
    /// Load of the busiest link as nccl-tests computes it, GB/s.
    bus_bandwidth_gbps: f64,
    /// Wrong elements on all ranks; null if they were not checked.
    wrong: Option<u64>,
    launches: Launches,
}

/// Times of single launches on the slowest rank, µs.
#[derive(Debug, Serialize, JsonSchema)]
struct LatencyJson {
    /// The time that half of the launches do not exceed, µs.
    p50: f64,
    /// The time that 99 % of the launches do not exceed, µs.
    p99: f64,
    /// The longest, µs.
    max: f64,
    /// Launches that were timed.
    launches: u64,
}

impl RunJson {
    /// The JSON of a run.
    pub fn of(report: &RunReport) -> Self {
        let spec = &report.spec;
        let launch = report.launch.as_ref();
        let lost = |it: &LaunchReport| {
            let ranks = it.lost.iter().flat_map(|(ranks, _)| ranks);
            ranks.copied().collect()
        };
        let rows = report.rows.iter().enumerate();
        Self {
            collective: spec.collective.command_name(),
            ranks: spec.ranks,
            processes: spec.processes,
            launcher: launch.map(|it| it.by),
            process_ranks: launch.map(|it| it.threads),
            joined_s: launch.map(|it| it.joined.as_secs_f64()),
            hosts: launch.map(|it| it.reached.hosts.clone()),
            net: launch.map(|it| NetJson::of(&it.reached)),
            lost: launch.map(lost),
            element: spec.element.name(),
            op: spec.collective.reduces().then(|| spec.op.name()),
            root: spec.collective.has_root().then_some(spec.root),
            plan: report.planned.as_ref().map(|it| it.name.clone()),
            other_programs_share: report.cores().share(),
            average_bus_bandwidth_gbps: average_bandwidth(report),
            rows: rows.map(|(at, row)| RowJson::of(report, at, row)).collect(),
        }
    }
}

impl NetJson {
    fn of(reached: &Reachability) -> Self {
        let interfaces = reached.interfaces.iter();
        match &reached.plugin {
            Some(plugin) => Self::Plugin {
                name: plugin.name.clone(),
                abi: plugin.version,
                library: plugin.path.clone(),
                devices: plugin
                    .devices
                    .iter()
                    .map(|nic| NicJson {
                        name: nic.name.clone(),
                        pci_path: nic.pci_path.clone(),
                        speed_mbps: nic.speed_mbps,
                        rail: nic.rail,
                        plane: nic.plane,
                    })
                    .collect(),
            },
            None => Self::Tcp {
                devices: interfaces
                    .map(|(name, _)| InterfaceJson { name: name.clone() })
                    .collect(),
                fallen_back: reached.plugin_fallen_back.clone(),
            },
        }
    }
}

impl RowJson {
    fn of(report: &RunReport, at: usize, row: &RunRow) -> Self {
        let placement = |timing, choice| PlacementJson::of(report, row.bytes, timing, choice);
        let in_place = row.in_place.zip(row.choice_in_place);
        let planned = report.planned.as_ref();
        Self {
            bytes: row.bytes,
            count: row.count,
            out_of_place: placement(row.separate, row.choice),
            in_place: in_place.map(|(timing, choice)| placement(timing, choice)),
            predicted_us: row.predicted_us,
            best: row.best().map(BestJson::of),
            planned: planned.and_then(|it| it.choices.get(at).cloned().flatten()),
            explained: row.explained.iter().map(ExplainedJson::of).collect(),
        }
    }
}

impl BestJson {
    fn of((choice, time_us, factor): (Choice, f64, f64)) -> Self {
        Self {
            choice: ChoiceJson::of(choice),
            time_us,
            factor,
        }
    }
}

impl ExplainedJson {
    fn of(explained: &ExplainedChoice) -> Self {
        Self {
            choice: ChoiceJson::of(explained.choice),
            time_us: explained.time_us,
            parts: explained.parts.map(|it| PartsJson {
                waits_us: it.waits_us,
                messages_us: it.messages_us,
                bytes_us: it.bytes_us,
                network_us: it.network_us,
            }),
            messages: explained.messages,
        }
    }
}

impl ChoiceJson {
    fn of(choice: Choice) -> Self {
        let has_fifos = choice.transfer != Transfer::Direct;
        Self {
            algorithm: choice.schedule.name(),
            transfer: choice.transfer.name(),
            protocol: has_fifos.then(|| choice.protocol.name()),
            channels: choice.channels,
        }
    }
}

impl PlacementJson {
    fn of(report: &RunReport, bytes: u64, timing: FigureTiming, choice: Choice) -> Self {
        Self {
            choice: ChoiceJson::of(choice),
            time_us: timing.time_us,
            latency_us: timing.latency.map(|it| LatencyJson {
                p50: it.p50_us,
                p99: it.p99_us,
                max: it.max_us,
                launches: it.launches,
            }),
            algorithm_bandwidth_gbps: algorithm(bytes, timing.time_us),
            bus_bandwidth_gbps: bus(report, bytes, timing.time_us),
            wrong: timing.wrong,
            launches: timing.launches,
        }
    }
}
