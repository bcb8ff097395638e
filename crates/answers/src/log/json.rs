//! The content of a log, as JSON.

use std::collections::{BTreeMap, BTreeSet};

use crate::JsonSchema;
use nccl_log::log::{Graph, HostFacts, Oddity, RankFacts};
use nccl_log::statement::Stage;
use nccl_log::{Communicator, Log};
use pages::Page;
use serde::Serialize;

use super::{Comparison, is_odd, pattern, rebuilt};
use crate::report::Report;

/// The content of NCCL's log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogReport {
    /// The files.
    files: Vec<String>,
    /// NCCL warns, or a host or rank is odd or not ready.
    odd: bool,
    /// More was said than is kept.
    incomplete: bool,
    /// Numbers of lines.
    lines: LinesReport,
    /// NCCL's versions.
    versions: Vec<String>,
    /// Facts of each host.
    hosts: Vec<HostReport>,
    /// GPUs, as nccl-tests lists them.
    gpus: Vec<GpuReport>,
    /// Communicators.
    communicators: Vec<CommunicatorReport>,
    /// Collectives that were called, and how often.
    operations: BTreeMap<String, u64>,
    /// Hosts that differ from most.
    odd_hosts: Vec<OddReport>,
    /// Kinds of warnings.
    warnings: Vec<WarningReport>,
    /// Rings, trees and channels in an unknown form, the first ones: `file:line: text`.
    broken: Vec<String>,
    /// Kinds of lines that are not known, and how often; numbers are `#`.
    unknown: Vec<(String, u64)>,
    /// The comparison with a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comparison: Option<Comparison>,
    /// The log.
    #[serde(skip)]
    pub log: Log,
}

/// Numbers of lines.
#[derive(Debug, Serialize, JsonSchema)]
struct LinesReport {
    /// Lines.
    all: u64,
    /// Bytes.
    bytes: u64,
    /// Messages that were read.
    read: u64,
    /// Messages of no interest.
    ignored: u64,
    /// Messages that are not known.
    unknown: u64,
    /// Warnings.
    warnings: u64,
    /// Lines of other programs.
    others: u64,
    /// Rings, trees and channels that were read.
    channels: u64,
    /// Those that other output or the end of the log cut.
    damaged_channels: u64,
    /// Those in an unknown form.
    broken_channels: u64,
}

/// Facts of a host.
#[derive(Debug, Serialize, JsonSchema)]
struct HostReport {
    /// Its name.
    name: String,
    /// Processes.
    processes: usize,
    /// By name what is said: version, driver, network, ports, interface.
    values: BTreeMap<&'static str, BTreeSet<String>>,
    /// By variable its values.
    settings: BTreeMap<String, BTreeSet<String>>,
    /// Whether GPUDirect RDMA is used.
    gdr: Vec<GdrReport>,
    /// Functions of NCCL that failed.
    failed: Vec<FailedReport>,
}

/// Whether a device uses GPUDirect RDMA.
#[derive(Debug, Serialize, JsonSchema)]
struct GdrReport {
    /// A port, or a pair of GPU and port.
    device: String,
    /// It is used.
    enabled: bool,
    /// Why, in NCCL's words.
    why: String,
}

/// A function that failed.
#[derive(Debug, Serialize, JsonSchema)]
struct FailedReport {
    /// In NCCL's sources.
    place: String,
    /// NCCL's number of the error.
    code: u32,
    /// How often.
    count: u64,
}

/// A GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct GpuReport {
    /// The rank.
    rank: u32,
    /// The host.
    host: String,
    /// The model.
    model: String,
}

/// A communicator.
#[derive(Debug, Serialize, JsonSchema)]
struct CommunicatorReport {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Its ranks.
    ranks: u32,
    /// Its nodes.
    nodes: u32,
    /// Ranks in the log.
    members: Vec<MemberReport>,
    /// Numbers of channels: of collectives, of NVLS, point to point, per peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<[u32; 4]>,
    /// By channel the ranks of the ring.
    rings: BTreeMap<u32, Vec<u32>>,
    /// Channels whose ring lacks its last ranks.
    cut_rings: BTreeSet<u32>,
    /// Trees: channels, and the chains from the root.
    trees: Vec<(String, String)>,
    /// By head of NVLS its rank in each node.
    nvls_heads: BTreeMap<u32, Vec<u32>>,
    /// The graphs of the search.
    graphs: Vec<GraphReport>,
    /// NCCL's view of the machine.
    system: Vec<String>,
    /// Costs: collective, algorithm, protocol, latency (µs), bandwidth (GB/s).
    costs: Vec<(String, String, String, f32, f32)>,
    /// Choices: collective, bytes, algorithm, protocol.
    choices: Vec<(String, u64, String, String)>,
    /// Ranks that differ from most.
    odd_ranks: Vec<OddReport>,
}

/// A rank.
#[derive(Debug, Serialize, JsonSchema)]
struct MemberReport {
    /// The rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    /// The host.
    host: String,
    /// The process.
    process: u32,
    /// The process's number of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<u32>,
    /// The GPU's bus id as NCCL's number, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    bus_id: Option<String>,
    /// How far it came: start, shape, ready, destroyed, aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    /// Algorithms whose connections exist.
    connected: Vec<String>,
    /// Time of the initialisation, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f32>,
    /// By phase, s.
    phases: Vec<(String, f32)>,
    /// Connections by what carries them.
    transports: BTreeMap<String, u64>,
    /// Network, port, connections with GPUDirect RDMA and without.
    ports: Vec<(String, i32, u64, u64)>,
}

/// A graph of the search.
#[derive(Debug, Serialize, JsonSchema)]
struct GraphReport {
    /// The pattern.
    pattern: &'static str,
    /// Number of channels.
    channels: u32,
    /// Channels may leave through another port than they entered.
    cross_nic: bool,
    /// Bandwidth of a channel inside a node and between nodes, GB/s.
    bandwidths: [f32; 2],
    /// Path types inside a node and to the network.
    types: String,
    /// The devices of each channel.
    devices: Vec<String>,
}

/// A value that differs.
#[derive(Debug, Serialize, JsonSchema)]
struct OddReport {
    /// What.
    what: String,
    /// The value of most.
    usual: String,
    /// How many have it.
    usual_count: usize,
    /// Other values, and who has them.
    others: Vec<(String, Vec<String>)>,
}

/// A kind of warning.
#[derive(Debug, Serialize, JsonSchema)]
struct WarningReport {
    /// The first one.
    text: String,
    /// How many.
    count: u64,
    /// The file of the first.
    file: String,
    /// The line of the first.
    line: u64,
    /// In NCCL's sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Its meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    /// Advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    /// Hosts and GPUs.
    sources: Vec<(String, Option<u32>)>,
}

impl Report for LogReport {
    const FORMAT: &'static str = "topo-log";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

impl LogReport {
    /// The report of a log, and of its comparison if there is one.
    pub fn of(log: Log, comparison: Option<Comparison>) -> Self {
        let counts = &log.counts;
        let gpus = log.gpus.iter().map(|(rank, (host, model))| GpuReport {
            rank: *rank,
            host: host.clone(),
            model: model.clone(),
        });
        Self {
            files: log.files.clone(),
            odd: is_odd(&log),
            incomplete: log.is_full,
            lines: LinesReport {
                all: counts.lines,
                bytes: counts.bytes,
                read: counts.recognized,
                ignored: counts.ignored,
                unknown: counts.unknown,
                warnings: counts.warnings,
                others: counts.others,
                channels: counts.channels,
                damaged_channels: counts.damaged,
                broken_channels: counts.broken,
            },
            versions: log.versions.keys().cloned().collect(),
            hosts: log
                .hosts
                .iter()
                .map(|(name, facts)| host(name, facts))
                .collect(),
            gpus: gpus.collect(),
            communicators: log.communicators.iter().map(communicator).collect(),
            operations: log.operations.clone(),
            odd_hosts: log.odd_hosts.iter().map(odd).collect(),
            warnings: log.warnings.iter().map(warning).collect(),
            broken: log
                .broken
                .iter()
                .map(|it| format!("{}:{}: {}", it.file, it.line, it.text))
                .collect(),
            unknown: log.unknown.clone(),
            comparison,
            log,
        }
    }
}

fn host(name: &str, facts: &HostFacts) -> HostReport {
    let gdr = facts.gdr.iter().map(|(device, (enabled, why))| GdrReport {
        device: device.clone(),
        enabled: *enabled,
        why: why.clone(),
    });
    let failed = facts
        .failed
        .iter()
        .map(|((place, code), count)| FailedReport {
            place: place.clone(),
            code: *code,
            count: *count,
        });
    HostReport {
        name: name.to_owned(),
        processes: facts.processes,
        values: facts.values.clone(),
        settings: facts.settings.clone(),
        gdr: gdr.collect(),
        failed: failed.collect(),
    }
}

fn communicator(it: &Communicator) -> CommunicatorReport {
    let decisions = &it.decisions;
    let costs = decisions
        .model
        .iter()
        .map(|((collective, algorithm, protocol), cost)| {
            let [latency, bandwidth] = *cost;
            let names = (
                collective.to_string(),
                algorithm.to_string(),
                protocol.to_string(),
            );
            (names.0, names.1, names.2, latency, bandwidth)
        });
    let choices = decisions
        .choices
        .iter()
        .map(|((collective, bytes), (algorithm, protocol))| {
            let names = (algorithm.to_string(), protocol.to_string());
            (collective.to_string(), *bytes, names.0, names.1)
        });
    CommunicatorReport {
        id: it.id.clone(),
        ranks: it.ranks,
        nodes: it.nodes,
        members: it.members.iter().map(member).collect(),
        channels: decisions
            .counts
            .map(|it| [it.collectives, it.nvls, it.p2p, it.per_peer]),
        rings: decisions.rings.clone(),
        cut_rings: decisions.cut_rings.clone(),
        trees: rebuilt::trees(decisions),
        nvls_heads: decisions.nvls_heads.clone(),
        graphs: decisions.graphs.iter().map(graph).collect(),
        system: decisions.system.clone(),
        costs: costs.collect(),
        choices: choices.collect(),
        odd_ranks: it.odd_ranks.iter().map(odd).collect(),
    }
}

fn member(it: &RankFacts) -> MemberReport {
    let ports = it
        .ports
        .iter()
        .map(|((network, port), [with, without])| (network.clone(), *port, *with, *without));
    MemberReport {
        rank: it.rank,
        host: it.host.clone(),
        process: it.process,
        gpu: it.gpu,
        bus_id: it.bus_id.map(|it| format!("{it:x}")),
        stage: it.stage.map(|stage| match stage {
            Stage::Start => "start",
            Stage::Shape => "shape",
            Stage::Complete => "ready",
            Stage::Destroyed => "destroyed",
            Stage::Aborted => "aborted",
        }),
        connected: it.connected.clone(),
        seconds: it.seconds,
        phases: it.phases.clone(),
        transports: it.transports.clone(),
        ports: ports.collect(),
    }
}

fn graph(it: &Graph) -> GraphReport {
    GraphReport {
        pattern: pattern(it.pattern),
        channels: it.channels,
        cross_nic: it.cross_nic != 0,
        bandwidths: it.bandwidths,
        types: it.types.clone(),
        devices: it.devices.clone(),
    }
}

fn odd(it: &Oddity) -> OddReport {
    OddReport {
        what: it.what.clone(),
        usual: it.usual.clone(),
        usual_count: it.usual_count,
        others: it.others.clone(),
    }
}

fn warning(it: &nccl_log::collect::Warning) -> WarningReport {
    WarningReport {
        text: it.text.clone(),
        count: it.count,
        file: it.first.0.clone(),
        line: it.first.1,
        place: it.place.clone(),
        means: it.meaning.map(|it| it.means),
        advice: it.meaning.map(|it| it.advice),
        sources: it.sources.clone(),
    }
}
