//! The begin of a channel.

use plan::Pattern;

use super::super::known_ends::{KnownEnd, WalkState};
use super::super::residual::Residual;
use super::super::route_map::NONE;
use super::super::seen::BestSolution;
use super::{NEVER, Order, PERFECT, Walk, Which};

/// Steps for trying the GPUs in PCI order when a channel starts at a port.
const PCI_ORDER_BUDGET: i32 = 1 << 10;

impl<R: Residual> Walk<'_, R> {
    /// Begins the next channel.
    pub(super) fn next_channel(&mut self) {
        if self.inter {
            let back = match self.current.pattern {
                Pattern::Ring => self.last,
                Pattern::SplitTree => 1,
                _ => 0,
            };
            self.once_per_state(|walk| walk.begin_at_ports(back));
        } else {
            self.begin_at_gpus();
        }
    }

    fn begin_at_gpus(&mut self) {
        let channel = self.current.channels;
        if self.current.pattern == Pattern::Nvls {
            self.begin(channel as u32, NEVER, Order::Free);
            return;
        }
        if channel == 0 {
            self.begin(0, NEVER, Order::Pci);
        } else {
            self.begin(self.first_of_channel(channel - 1), NEVER, Order::Replay);
        }
        if !self.current.same_channels || channel == 0 {
            self.once_per_state(|walk| {
                for gpu in 0..walk.route_map.gpus as u32 {
                    walk.begin(gpu, NEVER, Order::Free);
                }
            });
        }
    }

    /// Begins a channel, unless an equal walk led to no better solution; then only its steps are
    /// taken off the budget. `go` must depend only on the state of links and ports, and on the
    /// ports of the previous channel where they bind the next one.
    fn once_per_state(&mut self, go: impl FnOnce(&mut Self)) {
        let channel = self.current.channels;
        if channel == 0 || !self.known_ends.is_on() || self.budget <= 0 {
            return go(self);
        }
        let Some(links) = self.residual.fingerprint() else {
            return go(self);
        };
        let pair = if self.is_second_of_pair() {
            self.current.inter[channel - 1]
        } else {
            [NONE; 2]
        };
        let state = WalkState {
            left: links.with(self.ports_left.fingerprint()),
            channel: channel as u32,
            pair,
        };
        let hops = self.current.hops;
        if let Some(end) = self.known_ends.get(&state) {
            let seen = end.seen.after(hops);
            if !seen.could_replace(self.current, self.best) {
                self.seen.merge(seen);
                self.budget = (self.budget - end.steps).max(0);
                return;
            }
        }
        let seen_before = std::mem::replace(&mut self.seen, BestSolution::NOTHING);
        let budget_before = self.budget;
        go(self);
        let seen = self.seen;
        self.seen.merge(seen_before);
        // Only complete walks are remembered.
        if self.budget > 0 && !self.ports_left.drifted() {
            let end = KnownEnd {
                steps: budget_before - self.budget,
                seen: seen.after(-hops),
            };
            self.known_ends.insert(state, end);
        }
    }

    /// Whether the channel must use the ports of the previous channel in reverse.
    pub(super) fn is_second_of_pair(&self) -> bool {
        self.current.pattern == Pattern::Ring
            && self.current.cross_nic == 2
            && self.current.channels % 2 == 1
    }

    fn begin_at_ports(&mut self, back: u32) {
        let Some(ports) = &self.ports.all else { return };
        let route_map = self.route_map;
        let channel = self.current.channels;
        // Ports are charged whole GB/s.
        let whole_bw = self.current.bw_inter as i32;
        let in_pair = self.is_second_of_pair();
        let mut found = false;
        for index in 0..ports.len() {
            if self.has_heads && found {
                break;
            }
            let number = ports[(channel + index) % ports.len()];
            let port = &route_map.ports[number as usize];
            if self.current.collnet && !port.coll || self.ports_left.get(number) < whole_bw as f32 {
                continue;
            }
            if in_pair && port.canonical != self.current.inter[channel - 1][1] {
                continue;
            }
            self.current.inter[channel][0] = port.canonical;
            self.current.latency_inter = port.latency;
            self.ports_left.take(port, whole_bw);
            if self.has_heads {
                let head = port.local_gpu.filter(|head| {
                    channel < ports.len()
                        && (0..channel).all(|earlier| self.first_of_channel(earlier) != *head)
                });
                if let Some(head) = head {
                    self.begin_from(number, head, back, Order::Free);
                    found = true;
                }
            } else if channel > 0 && self.current.same_channels {
                let first = self.first_of_channel(channel - 1);
                self.begin_from(number, first, back, Order::Replay);
            } else {
                if channel == 0 && !route_map.has_nvs {
                    self.begin_in_pci_order(number, back);
                }
                if let Some(gpu) = port.local_gpu {
                    self.begin_from(number, gpu, back, Order::Free);
                }
                let closest = &route_map.closest_gpus[number as usize];
                if closest.is_empty() {
                    // NCCL does not give the port's bandwidth back here.
                    continue;
                }
                for gpu in closest.iter().filter(|gpu| Some(**gpu) != port.local_gpu) {
                    self.begin_from(number, *gpu, back, Order::Free);
                }
            }
            self.ports_left.take(port, -whole_bw);
        }
    }

    /// The GPUs in PCI order have a budget of their own.
    fn begin_in_pci_order(&mut self, port: u32, back: u32) {
        let budget = std::mem::replace(&mut self.budget, PCI_ORDER_BUDGET);
        self.begin_from(port, 0, back, Order::Pci);
        if self.budget != PERFECT {
            self.budget = budget;
        }
    }

    /// A channel begins at a port and goes to a GPU.
    fn begin_from(&mut self, port: u32, gpu: u32, back: u32, order: Order) {
        let route = self.route_map.port_to_gpu(port, gpu);
        if self.take(route, Which::Inter, self.current.type_inter) {
            if order == Order::Free && self.sorts {
                self.sort_for_port();
            }
            self.begin(gpu, back, order);
            self.give(route, Which::Inter);
        }
    }

    /// A channel begins at a GPU.
    fn begin(&mut self, gpu: u32, back: u32, order: Order) {
        self.toggle(gpu);
        self.visit(gpu, 0, back, order);
        self.toggle(gpu);
    }
}
