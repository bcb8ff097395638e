//! One attempt: all ways to string channels under given constraints, until the budget of steps runs out.

use plan::Pattern;
use topology::PathType;

use super::known_ends::{KnownEnd, KnownEnds, State};
use super::record::Record;
use super::residual::{PortsLeft, Residual};
use super::wiring::{NONE, Neighbour, Route, Wiring};

/// Steps for trying the GPUs in PCI order when a channel starts at a port.
const PCI_ORDER_BUDGET: i32 = 1 << 10;

/// How many GPUs a channel must lack for its ends to be worth remembering.
const LONG_END: i32 = 4;

/// A budget that says: nothing better can be found.
pub(super) const PERFECT: i32 = -1;

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

/// Where in a channel the port and the first GPU are met again; -1 is nowhere.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Step at which the channel leaves through a port.
    back: i32,
    /// Step after which it returns to its first GPU.
    close: i32,
}

/// The ports that an attempt may use.
#[derive(Debug, Default)]
pub(super) struct AttemptPorts {
    /// For starting a channel; `None` if a GPU reaches no port.
    pub all: Option<Vec<u32>>,
    /// For leaving from each GPU.
    pub of_gpu: Vec<Option<Vec<u32>>>,
}

/// What attempts share: what they may use, and their buffers.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The job leaves the system.
    pub inter: bool,
    /// `NCCL_MNNVL_RAIL_PER_HOST`.
    pub rail_per_host: bool,
    pub ports: AttemptPorts,
    pub ports_left: PortsLeft,
    /// For each channel the GPUs that are on it, as bits.
    pub used: Vec<u64>,
    /// Sorted candidates of all open steps, one list after the other.
    pub keys: Vec<u64>,
    pub known_ends: KnownEnds,
}

impl Scratch {
    /// Walks until there is nothing left to try or the budget is spent. Answers whether `best` was replaced, and the best
    /// that was seen.
    pub fn walk<R: Residual>(
        &mut self,
        wiring: &Wiring,
        nearby: &[Vec<Neighbour>],
        residual: &mut R,
        current: &mut Record,
        best: &mut Record,
        budget: &mut i32,
    ) -> (bool, Seen) {
        // Where a port loses bandwidth on the way, nothing comes back exactly.
        let lossless = wiring.closest_gpus.iter().all(|gpus| !gpus.is_empty());
        self.known_ends.clear(lossless && !current.same_channels);
        residual.keep_fingerprint(self.known_ends.is_on());
        let mut walk = Walk {
            wiring,
            nearby,
            ports: &self.ports,
            inter: self.inter,
            rail_per_host: self.rail_per_host,
            both_ways: current.uses_both_ways(),
            residual,
            ports_left: &mut self.ports_left,
            amounts: Amounts::of(current),
            current,
            best,
            words: wiring.gpus.div_ceil(64),
            used: &mut self.used,
            keys: &mut self.keys,
            known_ends: &mut self.known_ends,
            improved: false,
            seen: Seen::NOTHING,
        };
        walk.next_channel(budget);
        (walk.improved, walk.seen)
    }
}

/// One attempt on one kind of arithmetic.
struct Walk<'a, R: Residual> {
    wiring: &'a Wiring,
    /// For each GPU those that it may go on to, best connected first.
    nearby: &'a [Vec<Neighbour>],
    ports: &'a AttemptPorts,
    inter: bool,
    rail_per_host: bool,
    both_ways: bool,
    residual: &'a mut R,
    ports_left: &'a mut PortsLeft,
    amounts: Amounts<R>,
    current: &'a mut Record,
    best: &'a mut Record,
    used: &'a mut [u64],
    /// How many words of `used` a channel has.
    words: usize,
    keys: &'a mut Vec<u64>,
    known_ends: &'a mut KnownEnds,
    improved: bool,
    seen: Seen,
}

/// What an attempt asks for, ready to be taken.
struct Amounts<R: Residual> {
    intra: R::Amount,
    inter: R::Amount,
    half_inter: R::Amount,
}

/// One of the amounts of an attempt.
#[derive(Debug, Clone, Copy)]
enum Which {
    Intra,
    Inter,
    HalfInter,
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

/// The best that an attempt came across, whether or not it was better than what was known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Channels × bandwidth; below 0 when there was no solution.
    pub product: f32,
    /// Fewest links among solutions with that product.
    pub hops: i32,
    /// Most channels.
    pub channels: usize,
}

impl Seen {
    pub const NOTHING: Self = Self {
        product: -1.0,
        hops: i32::MAX,
        channels: 0,
    };

    fn note(&mut self, solution: &Record) {
        self.merge(Self {
            product: solution.product(),
            hops: solution.hops,
            channels: solution.channels,
        });
    }

    fn merge(&mut self, other: Self) {
        if other.product > self.product {
            (self.product, self.hops) = (other.product, other.hops);
        } else if other.product == self.product {
            self.hops = self.hops.min(other.hops);
        }
        self.channels = self.channels.max(other.channels);
    }

    /// With so many more links in front.
    const fn after(self, hops: i32) -> Self {
        Self {
            hops: self.hops.saturating_add(hops),
            ..self
        }
    }

    /// Whether one of the solutions could replace `best` in an attempt like `current`.
    pub fn could_replace(&self, current: &Record, best: &Record) -> bool {
        let product = best.product_as(current.pattern);
        self.product > product
            || match current.pattern {
                Pattern::Nvls => self.channels > best.channels,
                _ => {
                    self.product == product
                        && current.pattern == best.pattern
                        && current.cross_nic == best.cross_nic
                        && self.hops < best.hops
                }
            }
    }
}

impl<R: Residual> Walk<'_, R> {
    /// Starts the next channel.
    pub fn next_channel(&mut self, budget: &mut i32) {
        let gpus = self.wiring.gpus as i32;
        let shape = match (self.inter, self.current.pattern) {
            (true, Pattern::Ring) => Shape {
                back: gpus - 1,
                close: -1,
            },
            (true, Pattern::SplitTree) => Shape { back: 1, close: -1 },
            (true, _) => Shape { back: 0, close: -1 },
            (false, Pattern::Ring) => Shape {
                back: -1,
                close: gpus - 1,
            },
            (false, _) => Shape {
                back: -1,
                close: -1,
            },
        };
        if self.inter {
            self.start_at_ports(shape, budget);
        } else {
            self.start_at_gpus(shape, budget);
        }
    }

    fn start_at_gpus(&mut self, shape: Shape, budget: &mut i32) {
        let channel = self.current.channels;
        if self.current.pattern == Pattern::Nvls {
            self.start(channel as u32, shape, Order::Free, budget);
            return;
        }
        if channel == 0 {
            self.start(0, shape, Order::Pci, budget);
        } else {
            self.start(
                self.first_of_channel(channel - 1),
                shape,
                Order::Replay,
                budget,
            );
        }
        if !self.current.same_channels || channel == 0 {
            self.once_per_state(budget, |walk, budget| {
                for gpu in 0..walk.wiring.gpus as u32 {
                    walk.start(gpu, shape, Order::Free, budget);
                }
            });
        }
    }

    /// Walks on from the start of a channel, unless the same was walked before.
    fn once_per_state(&mut self, budget: &mut i32, go: impl FnOnce(&mut Self, &mut i32)) {
        match self.current.channels {
            0 => go(self, budget),
            _ => self.once(false, budget, |_, _| {}, go),
        }
    }

    /// Walks on unless the same was walked before and led to nothing that counts; then only its steps are taken off the
    /// budget. `go` must depend on nothing but the state of links and ports, the ports of the channel before where they
    /// bind the next one, and what `place` adds.
    fn once(
        &mut self,
        inside: bool,
        budget: &mut i32,
        place: impl FnOnce(&Self, &mut State),
        go: impl FnOnce(&mut Self, &mut i32),
    ) {
        let channel = self.current.channels;
        if !self.known_ends.pays(inside) || *budget <= 0 {
            return go(self, budget);
        }
        let Some(links) = self.residual.fingerprint() else {
            return go(self, budget);
        };
        let paired = self.current.pattern == Pattern::Ring
            && self.current.cross_nic == 2
            && channel % 2 == 1;
        let pair = if paired {
            self.current.inter[channel - 1]
        } else {
            [NONE; 2]
        };
        let mut state = State::new(links.with(self.ports_left.fingerprint()));
        state.add(channel as i64);
        state.add(i64::from(pair[0]));
        state.add(i64::from(pair[1]));
        place(self, &mut state);
        let hops = self.current.hops;
        if let Some(end) = self.known_ends.get(state, inside) {
            let seen = end.seen.after(hops);
            if !seen.could_replace(self.current, self.best) {
                self.seen.merge(seen);
                self.known_ends.saved(end.steps, inside);
                *budget = (*budget - end.steps).max(0);
                return;
            }
        }
        let seen_before = std::mem::replace(&mut self.seen, Seen::NOTHING);
        let budget_before = *budget;
        go(self, budget);
        let seen = self.seen;
        self.seen.merge(seen_before);
        // Only what was walked to its end is known.
        if *budget > 0 && !self.ports_left.drifted() {
            let end = KnownEnd {
                steps: budget_before - *budget,
                seen: seen.after(-hops),
            };
            self.known_ends.insert(state, end);
        }
    }

    fn first_of_channel(&self, channel: usize) -> u32 {
        self.current.intra[channel * self.wiring.gpus]
    }

    fn start_at_ports(&mut self, shape: Shape, budget: &mut i32) {
        self.once_per_state(budget, |walk, budget| {
            walk.start_at_each_port(shape, budget)
        });
    }

    fn start_at_each_port(&mut self, shape: Shape, budget: &mut i32) {
        let Some(ports) = &self.ports.all else { return };
        let wiring = self.wiring;
        let channel = self.current.channels;
        let pattern = self.current.pattern;
        let heads = matches!(pattern, Pattern::Nvls | Pattern::CollnetDirect);
        // Ports are charged whole GB/s.
        let whole_bw = self.current.bw_inter as i32;
        let mut found = false;
        for index in 0..ports.len() {
            if heads && found {
                break;
            }
            let number = ports[(channel + index) % ports.len()];
            let port = &wiring.ports[number as usize];
            if self.current.collnet && !port.coll || self.ports_left.get(number) < whole_bw as f32 {
                continue;
            }
            let in_pair =
                pattern == Pattern::Ring && self.current.cross_nic == 2 && channel % 2 == 1;
            if in_pair && port.canonical != self.current.inter[channel - 1][1] {
                continue;
            }
            self.current.inter[channel][0] = port.canonical;
            self.current.latency_inter = port.latency;
            self.ports_left.take(port, whole_bw);
            if heads {
                let head = port.local_gpu.filter(|head| {
                    channel < ports.len()
                        && (0..channel).all(|earlier| self.first_of_channel(earlier) != *head)
                });
                if let Some(head) = head {
                    self.start_from(number, head, shape, Order::Free, budget);
                    found = true;
                }
            } else if channel > 0 && self.current.same_channels {
                self.start_from(
                    number,
                    self.first_of_channel(channel - 1),
                    shape,
                    Order::Replay,
                    budget,
                );
            } else {
                if channel == 0 && !wiring.has_nvs {
                    let mut own_budget = PCI_ORDER_BUDGET;
                    self.start_from(number, 0, shape, Order::Pci, &mut own_budget);
                    if own_budget == PERFECT {
                        *budget = PERFECT;
                    }
                }
                if let Some(gpu) = port.local_gpu {
                    self.start_from(number, gpu, shape, Order::Free, budget);
                }
                let closest = &wiring.closest_gpus[number as usize];
                if closest.is_empty() {
                    // NCCL does not give the port's bandwidth back here.
                    continue;
                }
                for gpu in closest.iter().filter(|gpu| Some(**gpu) != port.local_gpu) {
                    self.start_from(number, *gpu, shape, Order::Free, budget);
                }
            }
            self.ports_left.take(port, -whole_bw);
        }
    }

    fn word(&self, gpu: u32) -> usize {
        self.current.channels * self.words + gpu as usize / 64
    }

    fn toggle(&mut self, gpu: u32) {
        let word = self.word(gpu);
        self.used[word] ^= 1 << (gpu % 64);
    }

    fn is_used(&self, gpu: u32) -> bool {
        self.used[self.word(gpu)] & 1 << (gpu % 64) != 0
    }

    /// A channel begins at a GPU.
    fn start(&mut self, gpu: u32, shape: Shape, order: Order, budget: &mut i32) {
        self.toggle(gpu);
        self.visit(Some(gpu), 0, shape, order, budget);
        self.toggle(gpu);
    }

    /// A channel begins at a port and goes to a GPU.
    fn start_from(&mut self, port: u32, gpu: u32, shape: Shape, order: Order, budget: &mut i32) {
        let route = self.wiring.port_to_gpu(port, gpu);
        if self.take(route, Which::Inter, self.current.type_inter) {
            self.start(gpu, shape, order, budget);
            self.give(route, Which::Inter);
        }
    }

    /// Takes an amount along a route that is no worse than `worst`.
    fn take(&mut self, route: &Route, which: Which, worst: PathType) -> bool {
        if !self.allows(route, worst)
            || !self
                .residual
                .take(self.wiring, route, self.amounts.get(which))
        {
            return false;
        }
        self.current.hops += route.hops as i32;
        true
    }

    fn give(&mut self, route: &Route, which: Which) {
        self.residual
            .give(self.wiring, route, self.amounts.get(which));
        self.current.hops -= route.hops as i32;
    }

    fn allows(&self, route: &Route, worst: PathType) -> bool {
        route.is_within(worst, self.both_ways)
    }

    /// Takes a share of the bandwidth inside the host. The type is only checked for a whole share.
    fn take_share(&mut self, route: &Route, share: f32) -> bool {
        if route.kind >= PathType::Dis
            || share == 1.0 && !self.allows(route, self.current.type_intra)
        {
            return false;
        }
        let taken = self.residual.take(
            self.wiring,
            route,
            &R::amount(self.current.bw_intra * share),
        );
        if taken {
            self.count_hops(route, share);
        }
        taken
    }

    fn give_share(&mut self, route: &Route, share: f32) {
        self.residual.give(
            self.wiring,
            route,
            &R::amount(self.current.bw_intra * share),
        );
        self.count_hops(route, -share);
    }

    /// Fractions are cut off each time, as in NCCL.
    fn count_hops(&mut self, route: &Route, share: f32) {
        self.current.hops = (self.current.hops as f32 + share * route.hops as f32) as i32;
    }

    /// The channel stands at a GPU (`None`: it is complete whatever the step).
    fn visit(&mut self, gpu: Option<u32>, step: i32, shape: Shape, order: Order, budget: &mut i32) {
        if *budget <= 0 {
            return;
        }
        *budget -= 1;
        let gpus = self.wiring.gpus as i32;
        let Some(gpu) = gpu.filter(|_| step < gpus) else {
            self.complete(budget);
            return;
        };
        let channel = self.current.channels;
        self.current.intra[channel * gpus as usize + step as usize] = gpu;
        if step == shape.back {
            self.leave(gpu, step, shape, order, budget);
        } else if self.current.pattern == Pattern::Nvls {
            self.through_switch(gpu, budget);
        } else if self.current.pattern == Pattern::CollnetDirect {
            self.to_all(gpu, budget);
        } else if step < gpus - 1 {
            self.go_on(gpu, step, shape, order, budget);
        } else if step == shape.close {
            let route = self.wiring.gpu_to_gpu(gpu, self.first_of_channel(channel));
            if self.take(route, Which::Intra, self.current.type_intra) {
                self.visit(None, step + 1, Shape { close: -1, ..shape }, order, budget);
                self.give(route, Which::Intra);
            }
        } else {
            self.visit(
                None,
                gpus,
                Shape {
                    back: -1,
                    close: -1,
                },
                order,
                budget,
            );
        }
    }

    fn complete(&mut self, budget: &mut i32) {
        self.current.channels += 1;
        if self.current.channels >= self.current.min_channels {
            self.seen.note(self.current);
        }
        if self.current.better_than(self.best, self.wiring.gpus) {
            self.best.assign(self.current, self.wiring.gpus);
            self.improved = true;
            if self.current.channels == self.current.max_channels {
                *budget = PERFECT;
            }
        }
        if self.current.channels < self.current.max_channels {
            self.next_channel(budget);
        }
        self.current.channels -= 1;
    }

    /// The channel goes out through a port.
    fn leave(&mut self, gpu: u32, step: i32, shape: Shape, order: Order, budget: &mut i32) {
        let ports = self.ports;
        let Some(Some(ports)) = ports.of_gpu.get(gpu as usize) else {
            return;
        };
        let channel = self.current.channels;
        let start = self.current.inter[channel][0];
        for number in ports {
            if !self.may_leave(start, *number, step) {
                continue;
            }
            let balanced = self.current.pattern == Pattern::BalancedTree;
            let back = if balanced && step == 0 { 1 } else { -1 };
            let which = if balanced {
                Which::HalfInter
            } else {
                Which::Inter
            };
            let route = self.wiring.gpu_to_port(gpu, *number);
            if self.take(route, which, self.current.type_inter) {
                self.current.inter[channel][1] = self.wiring.ports[*number as usize].canonical;
                self.visit(Some(gpu), step, Shape { back, ..shape }, order, budget);
                self.give(route, which);
            }
        }
    }

    /// Whether a channel that came in through port `start` may go out through `number`.
    fn may_leave(&self, start: u32, number: u32, step: i32) -> bool {
        let channel = self.current.channels;
        let (entry, exit) = (
            &self.wiring.ports[start as usize],
            &self.wiring.ports[number as usize],
        );
        if matches!((entry.plane, exit.plane), (Some(a), Some(b)) if a != b) {
            return false;
        }
        let pattern = self.current.pattern;
        if pattern == Pattern::Tree && exit.canonical != start {
            return false;
        }
        if pattern == Pattern::Ring && self.current.cross_nic == 2 {
            if channel % 2 == 1 && exit.canonical != self.current.inter[channel - 1][0] {
                return false;
            }
        } else if self.current.cross_nic == 0 {
            let same_rail = match (entry.rail, exit.rail) {
                (Some(a), Some(b)) => a == b,
                _ if self.rail_per_host && entry.host != exit.host => {
                    entry.pci_function == exit.pci_function && entry.port == exit.port
                }
                _ => entry.group == exit.group,
            };
            if !same_rail {
                return false;
            }
        }
        pattern != Pattern::BalancedTree
            || step == 0
            || exit.canonical == self.current.inter[channel][1]
    }

    /// The channel goes on to the next GPU.
    fn go_on(&mut self, gpu: u32, step: i32, shape: Shape, order: Order, budget: &mut i32) {
        // Which GPUs came before matters only to a channel that is replayed.
        let free = self.inter && order == Order::Free && self.wiring.gpus as i32 - step >= LONG_END;
        if !free || !self.known_ends.pays(true) {
            return self.go_on_from(gpu, step, shape, order, budget);
        }
        self.once(
            true,
            budget,
            |walk, state| {
                let [start, exit] = walk.current.inter[walk.current.channels];
                let exit = if walk.current.pattern == Pattern::BalancedTree {
                    exit
                } else {
                    NONE
                };
                for value in [gpu as i32, step, shape.back, start as i32, exit as i32] {
                    state.add(i64::from(value));
                }
                for used in &walk.used[walk.current.channels * walk.words..][..walk.words] {
                    state.add(*used as i64);
                }
            },
            |walk, budget| walk.go_on_from(gpu, step, shape, order, budget),
        );
    }

    fn go_on_from(&mut self, gpu: u32, step: i32, shape: Shape, order: Order, budget: &mut i32) {
        match order {
            Order::Pci => self.step_to(gpu, step as u32 + 1, step, shape, order, budget),
            Order::Replay => {
                let before = (self.current.channels - 1) * self.wiring.gpus;
                let next = self.current.intra[before + step as usize + 1];
                self.step_to(gpu, next, step, shape, order, budget);
            }
            Order::Free if self.wiring.has_nvs => self.go_on_by_switch(gpu, step, shape, budget),
            Order::Free => match shape.back {
                -1 => self.go_on_to_nearest(gpu, step, shape, budget),
                back => self.go_on_to_port(gpu, step, shape, back == step + 1, budget),
            },
        }
    }

    /// The best connected GPUs first.
    fn go_on_to_nearest(&mut self, gpu: u32, step: i32, shape: Shape, budget: &mut i32) {
        let nearby = self.nearby;
        for neighbour in &nearby[gpu as usize] {
            if !self.is_used(neighbour.gpu)
                && self
                    .residual
                    .may_have(&neighbour.route, &self.amounts.intra)
            {
                self.step_by(&neighbour.route, neighbour.gpu, step, shape, budget);
            }
        }
    }

    /// The GPUs that lie best on the way to the port first; `next` if the channel leaves from the next one.
    fn go_on_to_port(&mut self, gpu: u32, step: i32, shape: Shape, next: bool, budget: &mut i32) {
        let wiring = self.wiring;
        let nearby = self.nearby;
        let neighbours = &nearby[gpu as usize];
        let first = self.keys.len();
        for (number, neighbour) in neighbours.iter().enumerate() {
            // What cannot be reached need not be sorted.
            if !self.is_used(neighbour.gpu)
                && self
                    .residual
                    .may_have(&neighbour.route, &self.amounts.intra)
            {
                self.keys.push(number as u64);
            }
        }
        if self.keys.len() > first + 1 {
            let port = self.current.inter[self.current.channels][0];
            for at in first..self.keys.len() {
                let number = self.keys[at] as usize;
                let candidate = neighbours[number].gpu;
                let pci_bw = wiring.uplink[candidate as usize].map_or(-1, |(up, down)| {
                    self.residual.whole(up).min(self.residual.whole(down))
                });
                let key = wiring.port_key(port, candidate, pci_bw, number);
                // Insertion sort: there are few, and most are in order.
                let mut place = at;
                while place > first && self.keys[place - 1] > key {
                    self.keys[place] = self.keys[place - 1];
                    place -= 1;
                }
                self.keys[place] = key;
            }
            // Far from the port, and with nothing to choose by, NCCL goes the other way round.
            if !next && wiring.is_uniform(gpu, |other| self.is_used(other)) {
                self.keys[first..].reverse();
            }
        }
        for at in first..self.keys.len() {
            let neighbour = &neighbours[Wiring::neighbour_of(self.keys[at])];
            self.step_by(&neighbour.route, neighbour.gpu, step, shape, budget);
        }
        self.keys.truncate(first);
    }

    /// With an NVSwitch all GPUs are alike, and only the neighbours in number are tried.
    fn go_on_by_switch(&mut self, gpu: u32, step: i32, shape: Shape, budget: &mut i32) {
        let wiring = self.wiring;
        let gpus = wiring.gpus as u32;
        let (before, after) = ((gpu + gpus - 1) % gpus, (gpu + 1) % gpus);
        let wanted = match self.current.pattern {
            Pattern::Ring => [before, after],
            Pattern::SplitTree | Pattern::BalancedTree => [after, before],
            _ => [after, NONE],
        };
        let wanted = if wanted[0] == wanted[1] {
            &wanted[..1]
        } else {
            &wanted[..]
        };
        for wish in wanted {
            if *wish != NONE && !self.is_used(*wish) && wiring.gpu_to_gpu(gpu, *wish).hops > 0 {
                self.step_to(gpu, *wish, step, shape, Order::Free, budget);
            }
        }
    }

    fn step_to(
        &mut self,
        from: u32,
        to: u32,
        step: i32,
        shape: Shape,
        order: Order,
        budget: &mut i32,
    ) {
        let route = self.wiring.gpu_to_gpu(from, to);
        if self.take(route, Which::Intra, self.current.type_intra) {
            self.toggle(to);
            self.visit(Some(to), step + 1, shape, order, budget);
            self.toggle(to);
            self.give(route, Which::Intra);
        }
    }

    /// A step whose route is known to be allowed, and may have the bandwidth.
    fn step_by(&mut self, route: &Route, to: u32, step: i32, shape: Shape, budget: &mut i32) {
        if self
            .residual
            .take_known(self.wiring, route, &self.amounts.intra)
        {
            self.current.hops += route.hops as i32;
            self.toggle(to);
            self.visit(Some(to), step + 1, shape, Order::Free, budget);
            self.toggle(to);
            self.give(route, Which::Intra);
        }
    }

    /// NVLS: every GPU sends to and receives from the switch, the head twice.
    fn through_switch(&mut self, head: u32, budget: &mut i32) {
        let wiring = self.wiring;
        let gpus = wiring.gpus as u32;
        let share = |gpu| if gpu == head { 2.0 } else { 1.0 };
        let routes = (0..gpus)
            .map(|gpu| (wiring.nvs_to_gpu(gpu), share(gpu)))
            .chain((0..gpus).map(|gpu| (wiring.gpu_to_nvs(gpu), share(gpu))));
        self.with_all(routes, budget);
    }

    /// CollNet direct: the head exchanges its part with every other GPU.
    fn to_all(&mut self, head: u32, budget: &mut i32) {
        let wiring = self.wiring;
        let gpus = wiring.gpus as u32;
        let share = (1.0 / f64::from(gpus - 1)) as f32;
        let routes = (0..gpus)
            .map(|gpu| (wiring.gpu_to_gpu(head, gpu), share))
            .chain((0..gpus).map(|gpu| (wiring.gpu_to_gpu(gpu, head), share)));
        let base = self.current.channels * wiring.gpus;
        let others = (0..gpus).filter(|gpu| *gpu != head);
        for (place, gpu) in others.enumerate() {
            self.current.intra[base + 1 + place] = gpu;
        }
        self.with_all(routes, budget);
    }

    /// Reserves all routes, completes the channel if that worked, and gives everything back in reverse order.
    fn with_all<'r>(
        &mut self,
        routes: impl DoubleEndedIterator<Item = (&'r Route, f32)> + Clone,
        budget: &mut i32,
    ) {
        let mut reserved = 0;
        let mut all = true;
        for (route, share) in routes.clone() {
            if !self.take_share(route, share) {
                all = false;
                break;
            }
            reserved += 1;
        }
        if all {
            let gpus = self.wiring.gpus as i32;
            self.visit(
                None,
                gpus,
                Shape {
                    back: -1,
                    close: -1,
                },
                Order::Free,
                budget,
            );
        }
        let held: Vec<_> = routes.take(reserved).collect();
        for (route, share) in held.into_iter().rev() {
            self.give_share(route, share);
        }
    }
}
