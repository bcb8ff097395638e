//! Sets of rings beyond NCCL's search, which NCCL follows as a graph file.
//!
//! NCCL tries one ring after another, at a few bandwidths, and stops early. [`search`] looks at all
//! rings over the same paths, charged as NCCL charges them: the most that rings of any bandwidths
//! carry together bounds every set, and the best set of equal channels is searched below it.
//! [`replan`] plans the job again with such a set, and [`restate`] prices plans by what their rings
//! carry.

mod packing;
mod relaxation;
mod replan;
mod restate;
mod rows;
mod shortest;

use std::fmt;

use plan::certificate::Fraction;
use plan::{Graph, GraphChannel, GraphKind, nccl_graph};
use planner::search::hops::Hops;
use planner::{HostPlan, Planned};
use topology::PathType;

use packing::{Packing, pack, packing};
use relaxation::{Column, solve};
pub use replan::{ReplannedJob, replan, replan_with_chains};
pub use restate::restate;
use rows::Rows;

/// Units of bandwidth in a GB/s.
const UNITS: f64 = 10_000.0;

/// A set is better if it carries this many thousandths of NCCL's.
const BETTER: u64 = 1001;

/// The rings of a job: NCCL's, and the best that were found.
#[derive(Debug, Clone)]
pub struct RingSearch {
    /// Bandwidth that NCCL's plan states for all its rings, 0.1 MB/s.
    pub stated: u64,
    /// The bandwidth of these rings on the links, 0.1 MB/s.
    pub carried: u64,
    /// The bandwidth of the best rings, 0.1 MB/s.
    pub best: u64,
    /// No rings over NCCL's paths carry more together, 0.1 MB/s.
    pub bound: Fraction,
    /// How the best rings differ from NCCL's.
    pub outcome: Outcome,
    /// The best rings.
    pub graph: Graph,
    /// Bandwidth that each of them carries as a chain in both directions, for trees inside a host,
    /// GB/s; `None` if channels leave the host.
    pub chains: Option<f32>,
}

/// How the best rings differ from NCCL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// They are NCCL's.
    Same,
    /// They are NCCL's, but carry more than it states: it knows only some bandwidths. On measured
    /// links also less.
    Restated,
    /// They are others, which carry more.
    Better,
}

/// Why no rings are searched for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRings {
    /// Its hosts differ.
    DifferentHosts,
    /// NCCL uses the network between GPUs of a host.
    SeveralNodes,
    /// There is nothing to connect.
    OneRank,
    /// A host has more GPUs than are searched.
    TooManyGpus(usize),
    /// Some GPU has no path to others, or the numbers are too large.
    NoRing,
}

impl fmt::Display for NoRings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DifferentHosts => f.write_str(
                "the hosts differ; expected equal hosts, because all read one graph file",
            ),
            Self::SeveralNodes => f.write_str(
                "NCCL uses the network between GPUs of a host, so that no ring inside joins them; expected a \
                 host whose GPUs reach each other without the network (NCCL_NET_DISABLE_INTRA=1 may help)",
            ),
            Self::OneRank => f.write_str("one rank has no ring; expected at least two GPUs"),
            Self::TooManyGpus(gpus) => write!(
                f,
                "{gpus} GPUs have too many rings to search; expected at most {} on a host",
                shortest::MOST_GPUS
            ),
            Self::NoRing => f.write_str("no ring passes all GPUs on paths that NCCL allows"),
        }
    }
}

/// What each of NCCL's channels carries on a job's links, GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Carried {
    /// Of its rings; `None` where a hop has no path, or the hosts differ.
    pub ring: Option<f32>,
    /// Of its trees, which inside a host are chains, counted as NCCL's search counts them: once
    /// from end to end; `None` also where channels leave the host.
    pub tree: Option<f32>,
}

/// What NCCL's channels carry on a job's links: for links that are not what NCCL takes them for.
pub fn carried(planned: &Planned) -> Carried {
    let [machine] = planned.machines() else {
        return Carried::default();
    };
    let [node] = &machine.nodes[..] else {
        return Carried::default();
    };
    let hops = Hops::of(&node.view);
    let rows = Rows::new(&hops);
    let used = |kind| {
        let graph = planned.job.common().graph(kind)?;
        let mut own = node.graph(kind)?.clone();
        own.channels.truncate(graph.channels as usize);
        (!own.channels.is_empty() && hops.ranks.len() > 1).then_some(own)
    };
    let ring = used(GraphKind::Ring).and_then(|graph| {
        let channels = graph.channels.iter();
        let columns: Vec<Column> = channels
            .map(|it| column(&rows, &hops, it))
            .collect::<Option<_>>()?;
        let all = (0..columns.len()).collect();
        Some(packing(&rows, &columns, all, u64::MAX).speed)
    });
    let tree = used(GraphKind::Tree).and_then(|graph| speed_of_chains(&rows, &hops, &graph, 1));
    Carried {
        ring: ring.filter(|speed| *speed > 0).map(in_six_digits),
        tree: tree.filter(|speed| *speed > 0).map(in_six_digits),
    }
}

/// Searches the best rings of a planned job.
///
/// # Errors
/// The job is not one for which rings are searched.
pub fn search(planned: &Planned) -> Result<RingSearch, NoRings> {
    let [machine] = planned.machines() else {
        return Err(NoRings::DifferentHosts);
    };
    let [node] = &machine.nodes[..] else {
        return Err(NoRings::SeveralNodes);
    };
    let hops = Hops::of(&node.view);
    if planned.job.layout().ranks() < 2 {
        return Err(NoRings::OneRank);
    }
    if hops.ranks.len() > shortest::MOST_GPUS {
        return Err(NoRings::TooManyGpus(hops.ranks.len()));
    }
    let used = planned.job.common().graph(GraphKind::Ring);
    let used = used.map_or(0, |graph| graph.channels as usize);
    of_node(node, &hops, used).ok_or(NoRings::NoRing)
}

/// All rings that NCCL's search found, of which a job uses fewer because there are fewer trees;
/// with the bandwidth that they carry together. `None` if it uses all of them. `found` is the
/// answer of [`search`] for this job.
pub fn unused(planned: &Planned, found: &RingSearch) -> Option<RingSearch> {
    let node = planned.machines().first()?.nodes.first()?;
    let hops = Hops::of(&node.view);
    let nccl = node.graph(GraphKind::Ring)?;
    let used = planned.job.common().graph(GraphKind::Ring)?;
    if nccl.channels.len() <= used.channels as usize || nccl.cross_nic == 2 {
        return None;
    }
    let rows = Rows::new(&hops);
    let columns = nccl.channels.iter().map(|it| column(&rows, &hops, it));
    let columns: Vec<Column> = columns.collect::<Option<_>>()?;
    let all = (0..columns.len()).collect();
    let own = packing(&rows, &columns, all, units(hops.fastest));
    let graph = graph(nccl, &hops, &columns, &own);
    Some(RingSearch {
        carried: own.total(),
        best: own.total(),
        outcome: Outcome::Restated,
        chains: chain_speed(&rows, &hops, &graph).map(in_six_digits),
        graph,
        ..found.clone()
    })
}

fn of_node(node: &HostPlan, hops: &Hops, used: usize) -> Option<RingSearch> {
    let nccl = node.graph(GraphKind::Ring)?;
    let rows = Rows::new(hops);
    let fastest = units(hops.fastest);
    let channels = nccl.channels.iter().take(used);
    let known: Option<Vec<Column>> = channels.clone().map(|it| column(&rows, hops, it)).collect();
    // NCCL states a channel even where no path is allowed.
    let known = known.unwrap_or_default();
    let of_nccl = (0..known.len()).collect();
    let crosses = nccl.cross_nic != 0 && !hops.ports.is_empty();
    let relaxed = solve(&rows, known, crosses)?;
    let own = packing(&rows, &relaxed.columns, of_nccl, fastest);
    let each = match hops.ports.is_empty() {
        true => nccl.bw_intra,
        false => nccl.bw_intra.min(nccl.bw_inter),
    };
    let carried = own.total();
    let stated = units(each) * used as u64;
    let measured = node.view.routing().is_measured();
    // Rings in pairs, each of which uses the other's ports backward, are not searched.
    let found = match nccl.cross_nic {
        2 => None,
        _ => pack(&rows, &relaxed, fastest),
    };
    let found = found.filter(|found| better(found.total(), carried));
    let (outcome, packed) = match found {
        // On measured links NCCL's statement is no bandwidth that its rings reach.
        Some(found) if measured || better(found.total(), stated) => (Outcome::Better, found),
        _ if better(carried, stated) => (Outcome::Restated, own),
        _ if measured && better(stated, carried) => (Outcome::Restated, own),
        _ => (Outcome::Same, own),
    };
    let graph = match outcome {
        Outcome::Same => nccl.clone(),
        _ => graph(nccl, hops, &relaxed.columns, &packed),
    };
    Some(RingSearch {
        stated,
        carried,
        best: match measured {
            true => packed.total(),
            false => packed.total().max(stated),
        },
        bound: relaxed.bound,
        outcome,
        chains: chain_speed(&rows, hops, &graph).map(in_six_digits),
        graph,
    })
}

/// The bandwidth of each ring as a chain in both directions, 0.1 MB/s.
fn chain_speed(rows: &Rows, hops: &Hops, graph: &Graph) -> Option<u64> {
    speed_of_chains(rows, hops, graph, 2)
}

/// The bandwidth of each channel as a chain that is passed so many times, back every other time,
/// 0.1 MB/s.
fn speed_of_chains(rows: &Rows, hops: &Hops, graph: &Graph, times: usize) -> Option<u64> {
    if !hops.ports.is_empty() {
        return None;
    }
    let mut loads = vec![0; rows.capacities.len()];
    for channel in &graph.channels {
        let gpu = |rank: &i32| hops.ranks.iter().position(|other| other == rank);
        let mut stations: Vec<usize> = channel.ranks.iter().map(gpu).collect::<Option<_>>()?;
        for _ in 0..times {
            let (last, walk) = stations.split_last()?;
            let taken = rows.loads_to(walk, *last)?;
            loads.iter_mut().zip(taken).for_each(|(all, it)| *all += it);
            stations.reverse();
        }
    }
    Some(rows.speed(&loads))
}

const fn better(one: u64, other: u64) -> bool {
    one > other.saturating_mul(BETTER) / 1000
}

fn units(bandwidth: f32) -> u64 {
    (f64::from(bandwidth) * UNITS).round().max(0.0) as u64
}

/// A channel of NCCL's as a walk over stations; `None` if a hop of it has no path.
fn column(rows: &Rows, hops: &Hops, channel: &GraphChannel) -> Option<Column> {
    let gpu = |rank: &i32| hops.ranks.iter().position(|other| other == rank);
    let gpus: Option<Vec<usize>> = channel.ranks.iter().map(gpu).collect();
    let mut stations = gpus?;
    let Some(nets) = channel.nets.filter(|_| !hops.ports.is_empty()) else {
        let first = *stations.first()?;
        return Column::new(rows, stations, first);
    };
    let port = |id: i64| hops.ports.iter().position(|port| port.id == id);
    let [enter, leave] = [port(nets[0])?, port(nets[1])?].map(|it| it + hops.ranks.len());
    stations.insert(0, enter);
    Column::new(rows, stations, leave)
}

/// Channels as a graph of NCCL's.
fn graph(nccl: &Graph, hops: &Hops, columns: &[Column], packed: &Packing) -> Graph {
    let mut graph = Graph {
        cross_nic: 0,
        bw_intra: in_six_digits(packed.speed),
        bw_inter: in_six_digits(packed.speed),
        type_intra: PathType::Loc,
        channels: Vec::new(),
        ..nccl.clone()
    };
    for column in &packed.channels {
        let column = &columns[*column];
        let next = column.stations.iter().skip(1).chain([&column.last]);
        for (from, to) in column.stations.iter().zip(next) {
            let Some(hop) = hops.hop(*from, *to) else {
                continue;
            };
            let inside = (*from).max(*to) < hops.ranks.len();
            let kind = nccl_graph::type_with_text(hop.kind);
            match inside {
                true => graph.type_intra = graph.type_intra.max(kind),
                false => graph.type_inter = graph.type_inter.max(kind),
            }
        }
        let port = |station: &usize| hops.ports.get(station.checked_sub(hops.ranks.len())?);
        let nets = column
            .stations
            .first()
            .and_then(port)
            .zip(port(&column.last));
        if let Some((enter, leave)) = nets {
            graph.latency_inter = graph.latency_inter.max(enter.latency);
            graph.cross_nic |= i32::from(enter.id != leave.id);
        }
        graph.channels.push(GraphChannel {
            ranks: column
                .stations
                .iter()
                .filter_map(|it| hops.ranks.get(*it).copied())
                .collect(),
            nets: nets.map(|(enter, leave)| [enter.id, leave.id]),
        });
    }
    if nccl.cross_nic == 2 {
        graph.cross_nic = 2;
    }
    let first = graph.channels.first().map(|channel| channel.ranks.clone());
    let mut orders = graph.channels.iter().map(|channel| Some(&channel.ranks));
    graph.same_channels = orders.all(|ranks| ranks == first.as_ref());
    graph
}

/// GB/s, rounded down to the six digits that graph files have.
fn in_six_digits(speed: u64) -> f32 {
    let mut unit = 1;
    while speed / unit >= 1_000_000 {
        unit *= 10;
    }
    ((speed / unit * unit) as f64 / UNITS) as f32
}
