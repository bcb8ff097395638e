//! The end of a channel on its host.

use plan::Pattern;

use super::super::residual::Residual;
use super::{NEVER, Order, Walk, Which};

impl<R: Residual> Walk<'_, R> {
    /// The channel goes out through a port.
    #[inline(never)]
    pub(super) fn leave(&mut self, gpu: u32, step: u32, order: Order) {
        let ports = self.ports;
        let Some(Some(ports)) = ports.of_gpu.get(gpu as usize) else {
            return;
        };
        let channel = self.current.channels;
        let start = self.current.inter[channel][0];
        let balanced = self.current.pattern == Pattern::BalancedTree;
        let back = if balanced && step == 0 { 1 } else { NEVER };
        let which = if balanced {
            Which::HalfInter
        } else {
            Which::Inter
        };
        for number in ports {
            if !self.may_leave(start, *number, step) {
                continue;
            }
            let route = self.route_map.gpu_to_port(gpu, *number);
            if self.take(route, which, self.current.type_inter) {
                self.current.inter[channel][1] = self.route_map.ports[*number as usize].canonical;
                if order == Order::Free && self.sorts && step < self.last {
                    self.sort_for_port();
                }
                self.visit(gpu, step, back, order);
                self.give(route, which);
            }
        }
    }

    /// Whether a channel that came in through port `start` may go out through `number`.
    fn may_leave(&self, start: u32, number: u32, step: u32) -> bool {
        let channel = self.current.channels;
        let (entry, exit) = (
            &self.route_map.ports[start as usize],
            &self.route_map.ports[number as usize],
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
}
