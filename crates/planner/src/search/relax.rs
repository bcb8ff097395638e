//! The outer loop of the search: what is tried first, what is relaxed next, when it ends.

use plan::{Attempt, Duplication, Graph, GraphKind, Next, Pattern, SearchEnd, Trail};
use topology::{NodeType, PathType, System};

use super::record::Record;
use super::walk::PERFECT;
use super::{Searcher, WantedGraph, speeds};
use crate::error::Error;
use crate::routing::Routing;

/// Steps of all attempts of one search together.
const GLOBAL_BUDGET: i64 = 1 << 19;

/// Steps of one attempt.
const BUDGET: i32 = 1 << 14;

/// Steps of one attempt in which all channels have the same order.
const SAME_CHANNELS_BUDGET: i32 = 1 << 8;

/// Most heads of an NVLS graph.
const NVLS_MAX_HEADS: usize = 32;

/// Most heads of a CollNet-direct graph.
const COLLNET_DIRECT_MAX_HEADS: usize = 8;

/// A lower bandwidth is tried only while it is more than this part of the one found: two channels
/// of it could win.
const WORTH_TRYING: f64 = 0.49;

/// Bandwidth of the fallback channel when nothing was found, GB/s.
const FALLBACK_BW: f32 = 0.1;

/// Runs one search from the strictest constraints to the end.
pub(super) fn search(
    searcher: &mut Searcher<'_>,
    wanted: WantedGraph,
) -> Result<(Graph, Trail), Error> {
    Relaxation::new(searcher, wanted).run()
}

struct Relaxation<'s, 'a> {
    searcher: &'s mut Searcher<'a>,
    kind: GraphKind,
    /// The attempt that is tried.
    tmp: Record,
    /// The best found.
    best: Record,
    /// Channels begin with the same order.
    try_same: bool,
    /// `NCCL_CROSS_NIC` where it matters, else 0.
    cross_nic: i64,
    intra_types: (PathType, PathType),
    inter_types: (PathType, PathType),
    speeds: &'static [f32],
    speed: usize,
    pass: u8,
    budget_left: i64,
    trail: Trail,
}

impl<'s, 'a> Relaxation<'s, 'a> {
    fn new(searcher: &'s mut Searcher<'a>, wanted: WantedGraph) -> Self {
        let view = searcher.view;
        let system = view.system();
        let gpus = searcher.route_map.gpus;
        let sm_min = searcher.sm_min;
        let mut best = Record::new(
            wanted.pattern,
            wanted.collnet,
            wanted.min_channels,
            wanted.max_channels,
            gpus,
        );
        let crossing = matches!(
            wanted.pattern,
            Pattern::Ring | Pattern::BalancedTree | Pattern::SplitTree
        );
        let cross_nic = match view.routing().settings().cross_nic {
            mode if system.count(NodeType::Net) > 1 && crossing => mode,
            _ => 0,
        };
        best.cross_nic = i32::from(cross_nic == 1);
        let (mut intra_types, mut inter_types) = (
            (PathType::Loc, PathType::Sys),
            (PathType::Pix, PathType::Sys),
        );
        if gpus > 1 {
            intra_types = type_range(view.routing(), NodeType::Gpu);
        }
        if view.inter {
            inter_types = type_range(view.routing(), NodeType::Net);
            intra_types.1 = inter_types.1;
        }
        let rules = view.routing().settings().rules;
        if sm_min < 90 && rules.widens_inter_types {
            inter_types.1 = PathType::Sys;
        }
        best.type_intra = intra_types.0;
        best.type_inter = inter_types.0;
        let try_same = wanted.pattern != Pattern::Nvls;
        best.same_channels = try_same;
        let trail = Trail {
            kind: wanted.kind,
            attempts: Vec::new(),
            end: SearchEnd::NotSearched,
            duplicated: None,
            budget_left: GLOBAL_BUDGET,
        };
        Self {
            kind: wanted.kind,
            tmp: best.clone(),
            best,
            try_same,
            cross_nic,
            intra_types,
            inter_types,
            speeds: speeds::table(rules.version(), view.inter, sm_min),
            speed: 0,
            pass: 1,
            budget_left: GLOBAL_BUDGET,
            trail,
            searcher,
        }
    }

    fn run(mut self) -> Result<(Graph, Trail), Error> {
        if let Some(given) = self.searcher.given(self.kind)? {
            if !given.channels.is_empty() {
                self.trail.end = SearchEnd::Given;
                return Ok((given, self.trail));
            }
            self.best.follow(&given);
        }
        if !self.begin() {
            return Ok((self.searcher.to_graph(self.kind, &self.best), self.trail));
        }
        loop {
            let budget = if self.tmp.same_channels {
                SAME_CHANNELS_BUDGET
            } else {
                BUDGET
            };
            let mut left = budget;
            self.budget_left -= i64::from(budget);
            let improved = self
                .searcher
                .attempt(&mut self.tmp, &mut self.best, &mut left);
            self.note(budget, left, improved);
            let next = if self.pass == 1 {
                match self.end_of_first_pass(left) {
                    None => match self.relax(left) {
                        Ok(next) => next,
                        Err(end) => self.finish(end),
                    },
                    Some(end) => self.finish(end),
                }
            } else {
                self.raise(left)
            };
            if let Some(attempt) = self.trail.attempts.last_mut() {
                attempt.next = next;
            }
            if next == Next::Stop {
                break;
            }
        }
        self.fall_back()?;
        let mut graph = self.searcher.to_graph(self.kind, &self.best);
        let rules = self.searcher.view.routing().settings().rules;
        if self.trail.end == SearchEnd::Fallback && !rules.falls_back_to_near_ports {
            for channel in &mut graph.channels {
                channel.nets = channel.nets.map(|_| [0; 2]);
            }
        }
        Ok((graph, self.trail))
    }

    /// Sets the first constraints. Returns `false` if this machine cannot have such a graph.
    fn begin(&mut self) -> bool {
        let searcher = &*self.searcher;
        let view = searcher.view;
        let gpus = searcher.route_map.gpus;
        if self.best.pattern == Pattern::Nvls
            && (!searcher.route_map.has_nvs || searcher.sm_min < 90)
        {
            return false;
        }
        match self.best.pattern {
            Pattern::Nvls => self.best.max_channels = gpus.min(NVLS_MAX_HEADS),
            Pattern::CollnetDirect => self.best.max_channels = gpus.min(COLLNET_DIRECT_MAX_HEADS),
            _ => {}
        }
        if gpus == 1 && self.best.pattern != Pattern::Ring {
            self.best.pattern = Pattern::Tree;
        }
        if !view.inter && self.best.pattern == Pattern::Nvls {
            self.best.min_channels = self.best.max_channels;
        }
        if self.best.pattern == Pattern::Ring
            && self.best.max_channels >= 2
            && self.best.min_channels == 1
            && is_split_nvlink(view.routing())
        {
            self.best.min_channels = 2;
        }
        self.tmp.assign(&self.best, gpus);
        let devices = view.system().count(NodeType::Dev);
        let mut total = view.total_bw;
        if devices > 1 && self.best.pattern != Pattern::Ring {
            total = (f64::from(total) * (devices as f64 / (devices as f64 - 1.0))) as f32;
        }
        let last = self.speeds.len() - 1;
        let too_fast =
            |speed: f32| speed > view.max_bw || speed * self.best.min_channels as f32 > total;
        while too_fast(self.speeds[self.speed]) && self.speed < last {
            self.speed += 1;
        }
        self.tmp.set_bw(self.speeds[self.speed]);
        true
    }

    fn note(&mut self, budget: i32, budget_left: i32, improved: bool) {
        let tmp = &self.tmp;
        self.trail.attempts.push(Attempt {
            pass: self.pass,
            pattern: tmp.pattern,
            cross_nic: tmp.cross_nic,
            same_channels: tmp.same_channels,
            type_intra: tmp.type_intra,
            type_inter: tmp.type_inter,
            bw_intra: tmp.bw_intra,
            bw_inter: tmp.bw_inter,
            min_channels: tmp.min_channels as u32,
            budget,
            budget_left,
            improved,
            best: self.best.summary(),
            next: Next::Stop,
        });
    }

    fn end_of_first_pass(&self, left: i32) -> Option<SearchEnd> {
        if left == PERFECT {
            Some(SearchEnd::Perfect)
        } else if self.best.channels as f32 * self.best.bw_inter >= self.searcher.view.total_bw {
            Some(SearchEnd::AllBandwidth)
        } else {
            None
        }
    }

    /// Relaxes one constraint, or says how the first pass ended.
    fn relax(&mut self, left: i32) -> Result<Next, SearchEnd> {
        let inter = self.searcher.view.inter;
        let (tmp, best) = (&mut self.tmp, &self.best);
        if tmp.same_channels && !(self.searcher.amd && tmp.type_intra == PathType::Sys) {
            tmp.same_channels = false;
            return Ok(Next::DifferentChannels);
        }
        tmp.same_channels = self.try_same;
        self.budget_left += i64::from(left);
        if self.budget_left < 0 && best.channels > 0 {
            return Err(SearchEnd::OutOfBudget);
        }
        if self.searcher.sm_min >= 90 && tmp.pattern == Pattern::BalancedTree {
            tmp.pattern = Pattern::Tree;
            return Ok(Next::SimplerTree);
        }
        tmp.pattern = best.pattern;
        let found = best.channels > 0;
        let intra_limit = if inter {
            tmp.type_inter
        } else {
            self.intra_types.1
        };
        if tmp.type_intra < intra_limit
            && (!found || tmp.type_intra < best.type_intra)
            && let Some(worse) = tmp.type_intra.next().filter(|worse| *worse < PathType::Dis)
        {
            tmp.type_intra = worse;
            return Ok(Next::WorseIntraType);
        }
        tmp.type_intra = self.intra_types.0;
        if inter
            && tmp.type_inter < self.inter_types.1
            && (!found || tmp.type_inter < best.type_inter || tmp.type_inter < PathType::Pxn)
            && let Some(worse) = tmp.type_inter.next().filter(|worse| *worse < PathType::Dis)
        {
            tmp.type_inter = worse;
            return Ok(Next::WorseInterType);
        }
        tmp.type_inter = self.inter_types.0;
        let pairs = matches!(best.pattern, Pattern::Ring | Pattern::BalancedTree);
        if self.cross_nic == 2 && tmp.cross_nic == 0 && pairs {
            tmp.cross_nic = 2;
            return Ok(Next::CrossNic);
        }
        tmp.cross_nic = i32::from(self.cross_nic == 1);
        if let Some(slower) = self.speeds.get(self.speed + 1)
            && (!found || f64::from(*slower / best.bw_inter) > WORTH_TRYING)
        {
            self.speed += 1;
            self.tmp.set_bw(*slower);
            return Ok(Next::LessBandwidth);
        }
        Err(if found {
            SearchEnd::NothingBetterBelow
        } else {
            SearchEnd::NotFound
        })
    }

    /// Ends the first pass and begins the second.
    fn finish(&mut self, end: SearchEnd) -> Next {
        self.trail.end = end;
        self.trail.budget_left = self.budget_left;
        self.duplicate();
        self.tmp.assign(&self.best, self.searcher.route_map.gpus);
        self.speed = self.speed_at_most(self.best.bw_inter);
        self.tmp.set_bw(self.speeds[self.speed]);
        self.tmp.min_channels = self.best.channels;
        self.pass = 2;
        self.raise(PERFECT)
    }

    fn speed_at_most(&self, bw: f32) -> usize {
        self.speeds
            .iter()
            .position(|speed| *speed <= bw)
            .unwrap_or(self.speeds.len() - 1)
    }

    /// Second pass: asks for more bandwidth with the channels that were found.
    fn raise(&mut self, left: i32) -> Next {
        if left == 0 || self.speed == 0 {
            return Next::Stop;
        }
        let faster = self.speeds[self.speed - 1];
        let (tmp, best) = (&mut self.tmp, &self.best);
        let next = if best.pattern == Pattern::Ring {
            tmp.set_bw(faster);
            Next::MoreBandwidth
        } else if best.pattern == Pattern::Nvls
            && tmp.bw_inter == best.bw_inter
            && tmp.bw_inter < tmp.bw_intra * 2.0
        {
            tmp.min_channels = best.channels;
            tmp.max_channels = best.channels;
            tmp.bw_inter = faster;
            Next::MoreInterBandwidth
        } else if tmp.bw_intra == best.bw_intra && tmp.bw_intra < tmp.bw_inter * 2.0 {
            tmp.bw_intra = faster;
            Next::MoreIntraBandwidth
        } else {
            return Next::Stop;
        };
        self.speed -= 1;
        next
    }

    /// Splits fast channels in two, because one channel cannot drive so much.
    fn duplicate(&mut self) {
        let gpus = self.searcher.route_map.gpus;
        let sm_min = self.searcher.sm_min;
        let best = &mut self.best;
        let channels = best.channels;
        if channels == 0
            || best.pattern == Pattern::Nvls
            || best.bw_intra < 25.0
            || sm_min > 80 && best.bw_intra < 50.0 && channels > 4
        {
            return;
        }
        let wanted = (channels * 2).min(best.max_channels);
        if wanted <= channels {
            return;
        }
        best.intra
            .copy_within(..(wanted - channels) * gpus, channels * gpus);
        best.inter.copy_within(..wanted - channels, channels);
        let parts = wanted.div_ceil(channels) as f32;
        best.bw_intra /= parts;
        best.bw_inter /= parts;
        best.channels = wanted;
        self.trail.duplicated = Some(Duplication {
            from: channels as u32,
            to: wanted as u32,
        });
    }

    /// When nothing was found, one slow channel through all GPUs.
    fn fall_back(&mut self) -> Result<(), Error> {
        if self.best.channels > 0 || self.best.collnet || self.best.pattern == Pattern::Nvls {
            return Ok(());
        }
        let searcher = &*self.searcher;
        let routing = searcher.view.routing();
        let gpus = searcher.route_map.gpus;
        let best = &mut self.best;
        for gpu in 0..gpus {
            best.intra[gpu] = gpu as u32;
        }
        best.channels = 1;
        best.bw_intra = FALLBACK_BW;
        best.type_intra = PathType::Sys;
        self.trail.end = SearchEnd::Fallback;
        if !routing.settings().rules.falls_back_to_near_ports {
            // Through the port whose id is 0, whether there is one or not.
            best.inter[0] = [super::NONE; 2];
            best.bw_inter = FALLBACK_BW;
            best.type_inter = PathType::Sys;
            return Ok(());
        }
        let port = |gpu| {
            let ports = searcher.port_order.select(routing, None, Some(gpu));
            ports.map(|ports| {
                ports
                    .first()
                    .map(|port| searcher.route_map.ports[*port as usize].canonical)
            })
        };
        match (port(0)?, port(gpus as u32 - 1)?) {
            (Some(enter), Some(leave)) => {
                best.inter[0] = [enter, leave];
                best.bw_inter = FALLBACK_BW;
                best.type_inter = PathType::Sys;
            }
            _ => {
                best.inter[0] = [super::NONE; 2];
                best.bw_inter = 0.0;
                best.type_inter = PathType::Dis;
            }
        }
        Ok(())
    }
}

/// The best and the worst path from any GPU to any node of a type.
fn type_range(routing: &Routing, kind: NodeType) -> (PathType, PathType) {
    let system = routing.system();
    let table = routing.table();
    let (mut best, mut worst) = (PathType::Sys, PathType::Loc);
    for gpu in system
        .nodes(NodeType::Gpu)
        .filter(|gpu| table.reaches(*gpu, kind))
    {
        for other in system.nodes(kind).filter(|other| *other != gpu) {
            let path = table.kind(gpu, other);
            best = best.min(path);
            worst = worst.max(path);
        }
    }
    (best, worst)
}

/// Whether the GPUs fall into exactly two groups that are joined by NVLink inside.
fn is_split_nvlink(routing: &Routing) -> bool {
    let system: &System = routing.system();
    let gpus: Vec<_> = system.nodes(NodeType::Gpu).collect();
    let mut domain: Vec<usize> = (0..gpus.len()).collect();
    for gpu in 0..gpus.len() {
        for other in gpu + 1..gpus.len() {
            if routing.table().kind(gpus[gpu], gpus[other]) == PathType::Nvl {
                domain[other] = domain[gpu];
            }
        }
    }
    let size = |wanted: &usize| domain.iter().filter(|other| *other == wanted).count();
    (0..gpus.len()).filter(|group| size(group) > 1).count() == 2
}
