//! One attempt: tries all orders of GPUs and ports under given constraints, until the budget of
//! steps runs out.
//!
//! A walk is a depth-first recursion through [`Walk::visit`], which is a step. [`begin`] chooses
//! the first GPU of a channel, [`onward`] the next one, [`leave`] the port; [`heads`] is for graphs
//! whose channels are heads.

mod begin;
mod heads;
mod leave;
mod onward;

use plan::Pattern;
use topology::PathType;

use super::known_ends::KnownEnds;
use super::layout::Which;
use super::nearby::Nearby;
use super::record::Record;
use super::residual::{PortsLeft, Residual};
use super::route_map::{RouteMap, SearchRoute};
use super::seen::BestSolution;

/// The value of the budget when nothing better can be found.
pub(super) const PERFECT: i32 = -1;

/// No step of a channel.
const NEVER: u32 = u32::MAX;

/// In which order GPUs are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By position.
    Pci,
    /// As in the channel before.
    Replay,
    /// Best first.
    Free,
}

/// The ports that an attempt may use.
#[derive(Debug, Default)]
pub(super) struct AttemptPorts {
    /// For starting a channel; `None` if a GPU reaches no port.
    pub all: Option<Vec<u32>>,
    /// For leaving from each GPU.
    pub of_gpu: Vec<Option<Vec<u32>>>,
}

/// The common state of attempts: links that they may use, and buffers.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The job leaves the system.
    pub inter: bool,
    /// `NCCL_MNNVL_RAIL_PER_HOST`.
    pub rail_per_host: bool,
    pub ports_left: PortsLeft,
    /// For each channel the GPUs that are on it, as bits.
    pub used: Vec<u64>,
    /// Sorted candidates of all open steps, one list after the other.
    pub keys: Vec<u64>,
    /// For each channel the order of GPUs by their paths to its port.
    pub port_keys: Vec<u64>,
    pub known_ends: KnownEnds,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkEnd {
    /// The remaining budget, or [`PERFECT`].
    pub budget_left: i32,
    /// The best solution was replaced.
    pub improved: bool,
    pub seen: BestSolution,
}

impl Scratch {
    #[allow(clippy::too_many_arguments, reason = "the parts of an attempt")]
    /// Walks until there is nothing left to try or the budget is spent.
    pub(super) fn walk<R: Residual>(
        &mut self,
        route_map: &RouteMap,
        nearby: &[Nearby],
        ports: &AttemptPorts,
        residual: &mut R,
        current: &mut Record,
        best: &mut Record,
        budget: i32,
    ) -> WalkEnd {
        // Where a port loses bandwidth by rounding, states do not return exactly.
        let lossless = route_map.closest_gpus.iter().all(|gpus| !gpus.is_empty());
        self.known_ends.clear(lossless && !current.same_channels);
        residual.begin();
        let mut walk = Walk {
            route_map,
            nearby,
            ports,
            inter: self.inter,
            rail_per_host: self.rail_per_host,
            both_directions: current.uses_both_directions(),
            closes: !self.inter && current.pattern == Pattern::Ring,
            has_heads: matches!(current.pattern, Pattern::Nvls | Pattern::CollnetDirect),
            last: route_map.gpus as u32 - 1,
            base: 0,
            base_word: 0,
            residual,
            ports_left: &mut self.ports_left,
            amounts: Amounts::of(current),
            current,
            best,
            used: &mut self.used,
            keys: &mut self.keys,
            port_keys: &mut self.port_keys,
            sorts: self.inter && !route_map.has_nvs && route_map.private_uplinks,
            known_ends: &mut self.known_ends,
            budget,
            improved: false,
            seen: BestSolution::NOTHING,
        };
        walk.next_channel();
        WalkEnd {
            budget_left: walk.budget,
            improved: walk.improved,
            seen: walk.seen,
        }
    }
}

/// One attempt on one kind of arithmetic.
struct Walk<'a, R: Residual> {
    route_map: &'a RouteMap,
    /// For each GPU the possible next GPUs.
    nearby: &'a [Nearby],
    ports: &'a AttemptPorts,
    inter: bool,
    rail_per_host: bool,
    both_directions: bool,
    /// Channels return to their first GPU.
    closes: bool,
    /// A channel is one GPU, the head, and what all others exchange with it.
    has_heads: bool,
    /// The last step of a channel.
    last: u32,
    /// Where the GPUs of the channel begin in the record, and in `used`.
    base: usize,
    base_word: usize,
    residual: &'a mut R,
    ports_left: &'a mut PortsLeft,
    amounts: Amounts<R>,
    current: &'a mut Record,
    best: &'a mut Record,
    used: &'a mut [u64],
    keys: &'a mut Vec<u64>,
    port_keys: &'a mut [u64],
    /// The order of GPUs is prepared for each channel.
    sorts: bool,
    known_ends: &'a mut KnownEnds,
    /// Steps left.
    budget: i32,
    improved: bool,
    seen: BestSolution,
}

/// The amounts that an attempt asks for, ready to be taken.
struct Amounts<R: Residual> {
    intra: R::Amount,
    inter: R::Amount,
    half_inter: R::Amount,
}

impl<R: Residual> Amounts<R> {
    const fn get(&self, which: Which) -> &R::Amount {
        match which {
            Which::Intra => &self.intra,
            Which::Inter => &self.inter,
            Which::HalfInter => &self.half_inter,
        }
    }

    fn of(record: &Record) -> Self {
        Self {
            intra: R::amount(record.bw_intra),
            inter: R::amount(record.bw_inter),
            half_inter: R::amount(record.bw_inter / 2.0),
        }
    }
}

impl<R: Residual> Walk<'_, R> {
    fn first_of_channel(&self, channel: usize) -> u32 {
        self.current.intra[channel * self.route_map.gpus]
    }

    fn toggle(&mut self, gpu: u32) {
        self.used[self.base_word + gpu as usize / 64] ^= 1 << (gpu % 64);
    }

    fn is_used(&self, gpu: u32) -> bool {
        self.used[self.base_word + gpu as usize / 64] & 1 << (gpu % 64) != 0
    }

    /// Takes an amount along a route that is no worse than `worst`.
    fn take(&mut self, route: &SearchRoute, which: Which, worst: PathType) -> bool {
        if !self.allows(route, worst)
            || !self
                .residual
                .take(self.route_map, route, self.amounts.get(which))
        {
            return false;
        }
        self.current.hops += route.hops as i32;
        true
    }

    fn give(&mut self, route: &SearchRoute, which: Which) {
        self.residual
            .give(self.route_map, route, self.amounts.get(which));
        self.current.hops -= route.hops as i32;
    }

    fn allows(&self, route: &SearchRoute, worst: PathType) -> bool {
        route.is_within(worst, self.both_directions)
    }

    /// A step: the channel stands at a GPU. `back` is the step at which it leaves through a port.
    fn visit(&mut self, gpu: u32, step: u32, back: u32, order: Order) {
        if self.budget <= 0 {
            return;
        }
        self.budget -= 1;
        self.current.intra[self.base + step as usize] = gpu;
        if step == back {
            self.leave(gpu, step, order);
        } else if self.has_heads {
            self.exchange(gpu);
        } else if step < self.last {
            self.go_on(gpu, step, back, order);
        } else if self.closes {
            let route = self
                .route_map
                .gpu_to_gpu(gpu, self.current.intra[self.base]);
            if self.take(route, Which::Intra, self.current.type_intra) {
                self.end();
                self.give(route, Which::Intra);
            }
        } else {
            self.end();
        }
    }

    /// The last step of a channel: it is complete.
    #[inline(never)]
    fn end(&mut self) {
        if self.budget <= 0 {
            return;
        }
        self.budget -= 1;
        self.current.channels += 1;
        if self.current.channels >= self.current.min_channels {
            self.seen.note(self.current);
        }
        if self.current.better_than(self.best, self.route_map.gpus) {
            self.best.assign(self.current, self.route_map.gpus);
            self.improved = true;
            if self.current.channels == self.current.max_channels {
                self.budget = PERFECT;
            }
        }
        if self.current.channels < self.current.max_channels {
            self.base += self.route_map.gpus;
            self.base_word += self.route_map.words;
            self.next_channel();
            self.base -= self.route_map.gpus;
            self.base_word -= self.route_map.words;
        }
        self.current.channels -= 1;
    }
}
