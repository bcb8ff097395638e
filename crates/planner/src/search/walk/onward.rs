//! The next GPU of a channel.

use plan::Pattern;

use super::super::residual::Residual;
use super::super::route_map::{NONE, Neighbour, RouteMap};
use super::{NEVER, Order, Walk, Which};

impl<R: Residual> Walk<'_, R> {
    /// Extends the channel by the next GPU.
    pub(super) fn go_on(&mut self, gpu: u32, step: u32, back: u32, order: Order) {
        match order {
            Order::Pci => self.step_to(gpu, step + 1, step, back, order),
            Order::Replay => {
                let before = self.base - self.route_map.gpus;
                let next = self.current.intra[before + step as usize + 1];
                self.step_to(gpu, next, step, back, order);
            }
            Order::Free if self.route_map.has_nvs => self.go_on_by_switch(gpu, step, back),
            Order::Free if back == NEVER => self.go_on_to_nearest(gpu, step),
            Order::Free => self.go_on_to_port(gpu, step, back),
        }
    }

    /// The best connected GPUs first.
    fn go_on_to_nearest(&mut self, gpu: u32, step: u32) {
        let nearby = self.nearby;
        for neighbour in &nearby[gpu as usize].list {
            if !self.is_used(neighbour.gpu)
                && self
                    .residual
                    .take(self.route_map, &neighbour.route, &self.amounts.intra)
            {
                self.step_along(neighbour, step, NEVER);
            }
        }
    }

    /// Prepares the order of GPUs towards the channel's port. The bandwidth left on the PCI links
    /// of GPUs that are not yet on the channel does not change while the channel grows.
    pub(super) fn sort_for_port(&mut self) {
        let route_map = self.route_map;
        let port = self.current.inter[self.current.channels][0];
        let keys = &mut self.port_keys[self.base..][..route_map.gpus];
        for (gpu, key) in keys.iter_mut().enumerate() {
            let pci_bw = self.residual.uplink(route_map, gpu);
            *key = route_map.port_key(port, gpu, pci_bw);
        }
    }

    /// Tries the GPUs best connected to the port first.
    fn go_on_to_port(&mut self, gpu: u32, step: u32, back: u32) {
        let route_map = self.route_map;
        if !route_map.private_uplinks {
            self.sort_for_port();
        }
        let nearby = self.nearby;
        let nearby = &nearby[gpu as usize];
        let first_route = route_map.first_route(gpu);
        let first = self.keys.len();
        let keys = &mut *self.keys;
        let port_keys = &self.port_keys[self.base..];
        let used = &self.used[self.base_word..];
        for (word, (near, used)) in nearby.mask.iter().zip(used).enumerate() {
            let mut candidates = near & !used;
            while candidates != 0 {
                let other = word * 64 + candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                // GPUs that cannot be reached need not be sorted.
                let route = first_route + other as u32;
                if !self.residual.may_have(route, &self.amounts.intra) {
                    continue;
                }
                let key = port_keys[other] | u64::from(nearby.ranks[other]);
                keys.push(key);
                // Insertion sort: there are few.
                let sorted = &mut keys[first..];
                let mut place = sorted.len() - 1;
                while place > 0 && sorted[place - 1] > key {
                    sorted[place] = sorted[place - 1];
                    place -= 1;
                }
                sorted[place] = key;
            }
        }
        let end = keys.len();
        // Far from the port, and with nothing to choose by, NCCL tries GPUs in reverse order.
        if end > first + 1
            && back != step + 1
            && route_map.is_uniform(gpu, |other| self.is_used(other))
        {
            self.keys[first..].reverse();
        }
        for at in first..end {
            let neighbour = &nearby.list[RouteMap::rank_in(self.keys[at])];
            if self
                .residual
                .take_known(route_map, &neighbour.route, &self.amounts.intra)
            {
                self.step_along(neighbour, step, back);
            }
        }
        self.keys.truncate(first);
    }

    /// With an NVSwitch all GPUs are alike, so only the neighbors by number are tried.
    fn go_on_by_switch(&mut self, gpu: u32, step: u32, back: u32) {
        let route_map = self.route_map;
        let gpus = route_map.gpus as u32;
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
            if *wish != NONE && !self.is_used(*wish) && route_map.gpu_to_gpu(gpu, *wish).hops > 0 {
                self.step_to(gpu, *wish, step, back, Order::Free);
            }
        }
    }

    fn step_to(&mut self, from: u32, to: u32, step: u32, back: u32, order: Order) {
        let route = self.route_map.gpu_to_gpu(from, to);
        if self.take(route, Which::Intra, self.current.type_intra) {
            self.toggle(to);
            self.visit(to, step + 1, back, order);
            self.toggle(to);
            self.give(route, Which::Intra);
        }
    }

    /// A step whose bandwidth was taken; gives it back.
    #[inline]
    fn step_along(&mut self, neighbour: &Neighbour, step: u32, back: u32) {
        let hops = neighbour.route.hops as i32;
        self.current.hops += hops;
        self.toggle(neighbour.gpu);
        self.visit(neighbour.gpu, step + 1, back, Order::Free);
        self.toggle(neighbour.gpu);
        self.current.hops -= hops;
        self.residual
            .give(self.route_map, &neighbour.route, &self.amounts.intra);
    }
}
