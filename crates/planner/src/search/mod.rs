//! The search for channels: which GPUs in which order, through which ports, at what bandwidth.
//!
//! [`Searcher::search`] is NCCL's search: it starts with the strictest constraints and the highest
//! bandwidth, and relaxes one thing after another in a fixed order until nothing better can be
//! expected. Effort is counted in steps, never in time, so the result depends on the input alone.
//! Every attempt is noted in the [`Trail`].

mod attempt;
mod fingerprint;
pub mod hops;
mod known_ends;
#[cfg(test)]
mod laws;
mod layout;
mod memo;
mod nearby;
mod nets;
mod packed;
mod ports;
mod record;
mod relax;
mod residual;
mod route_map;
mod seen;
mod speeds;
mod thousandths;
mod walk;

use plan::{Graph, GraphChannel, GraphKind, Pattern, Trail};
use topology::{CpuArch, CpuVendor};

use crate::error::Error;
use crate::view::View;
use attempt::{AttemptLayouts, FEW_WORDS, MANY_WORDS};
use known_ends::KnownEnds;
use memo::Memo;
use nearby::AllNearby;
use nets::PortOrder;
use packed::PackedLinks;
use record::Record;
use residual::{Floats, PortsLeft};
use route_map::{NONE, RouteMap};
use thousandths::Thousandths;
use walk::{AttemptPorts, Scratch};

/// A graph to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedGraph {
    /// Which family.
    pub kind: GraphKind,
    /// The pattern to begin with.
    pub pattern: Pattern,
    /// Only ports that can reduce.
    pub collnet: bool,
    /// Fewest channels.
    pub min_channels: usize,
    /// Most channels.
    pub max_channels: usize,
}

/// Searches graphs on one view. Bandwidths are given back between searches, but stay rounded.
pub struct Searcher<'a> {
    view: &'a View,
    route_map: RouteMap,
    port_order: PortOrder,
    floats: Floats,
    thousandths: Thousandths,
    few_words: PackedLinks<FEW_WORDS>,
    many_words: PackedLinks<MANY_WORDS>,
    layouts: AttemptLayouts,
    scratch: Scratch,
    sm_min: i32,
    /// The first CPU is an x86 AMD.
    amd: bool,
    /// Lists of ports, by the limits on them that matter, and which of them is in use.
    ports: Vec<(u16, AttemptPorts)>,
    ports_at: usize,
    memo: Memo,
    nearby: AllNearby,
    before: (Floats, PortsLeft),
    warnings: Vec<topology::Warning>,
}

impl<'a> Searcher<'a> {
    /// Prepares searches on a view.
    pub fn new(view: &'a View) -> Self {
        let system = view.system();
        let route_map = RouteMap::new(view.routing());
        let links = (0..system.link_count())
            .map(|link| system.link(topology::LinkId(link as u32)).bw)
            .collect();
        let floats = Floats::new(links);
        let ports_left = PortsLeft::new(&route_map.ports);
        Self {
            memo: Memo::new(view.inter, route_map.kinds()),
            thousandths: Thousandths::new(&route_map, &floats, |link| {
                route_map::never_binds(system, link)
            }),
            few_words: PackedLinks::new(),
            many_words: PackedLinks::new(),
            layouts: AttemptLayouts::default(),
            nearby: AllNearby::default(),
            warnings: Vec::new(),
            before: (floats.clone(), ports_left.clone()),
            floats,
            scratch: Scratch {
                inter: view.inter,
                rail_per_host: view.routing().settings().mnnvl_rail_per_host,
                ports_left,
                used: vec![0; route_map.words * record::MAX_CHANNELS],
                keys: Vec::new(),
                port_keys: vec![0; route_map.gpus * record::MAX_CHANNELS],
                known_ends: KnownEnds::default(),
            },
            sm_min: system.devs().map(|(_, dev)| dev.sm).min().unwrap_or(0),
            amd: system
                .cpus()
                .next()
                .is_some_and(|(_, cpu)| cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Amd),
            port_order: PortOrder::new(view.routing()),
            ports: Vec::new(),
            ports_at: 0,
            route_map,
            view,
        }
    }

    /// Searches one graph.
    ///
    /// # Errors
    /// Nothing was found and the fallback channel has no port, or the graph file does not fit the
    /// machine.
    pub fn search(&mut self, wanted: WantedGraph) -> Result<(Graph, Trail), Error> {
        relax::search(self, wanted)
    }

    /// The graph file's entry for a search, if there is one.
    fn given(&mut self, kind: GraphKind) -> Result<Option<Graph>, Error> {
        let settings = self.view.routing().settings();
        let Some(file) = &settings.graphs else {
            return Ok(None);
        };
        let gpus = self.view.gpu_addresses();
        let found = file.graph(kind, &gpus, settings.cross_nic != 0)?;
        self.warnings.extend(found.warnings);
        Ok(found.graph)
    }

    /// The oddities of the graph file.
    pub fn into_warnings(self) -> Vec<topology::Warning> {
        self.warnings
    }

    fn to_graph(&self, kind: GraphKind, record: &Record) -> Graph {
        let system = self.view.system();
        let gpus = self.route_map.gpus;
        let ranks: Vec<i32> = system.gpus().map(|(_, gpu)| gpu.rank).collect();
        let port_id = |port: u32| match port {
            NONE => -1,
            _ => system.node(self.route_map.ports[port as usize].node).id.0 as i64,
        };
        let shown = if record.pattern == Pattern::Nvls {
            1
        } else {
            gpus
        };
        let channels = (0..record.channels)
            .map(|channel| GraphChannel {
                ranks: record.intra[channel * gpus..channel * gpus + shown]
                    .iter()
                    .map(|gpu| ranks[*gpu as usize])
                    .collect(),
                nets: self.view.inter.then(|| record.inter[channel].map(port_id)),
            })
            .collect();
        Graph {
            kind,
            pattern: record.pattern,
            cross_nic: record.cross_nic,
            same_channels: record.same_channels,
            bw_intra: record.bw_intra,
            bw_inter: record.bw_inter,
            latency_inter: record.latency_inter,
            type_intra: record.type_intra,
            type_inter: record.type_inter,
            channels,
        }
    }
}
