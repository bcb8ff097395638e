//! Graphs whose channels are heads: one GPU of each channel exchanges with all others.

use plan::Pattern;
use topology::PathType;

use super::super::residual::Residual;
use super::super::route_map::SearchRoute;
use super::Walk;

impl<R: Residual> Walk<'_, R> {
    /// Tries a GPU as head of the channel.
    #[inline(never)]
    pub(super) fn exchange(&mut self, head: u32) {
        if self.current.pattern == Pattern::Nvls {
            self.through_switch(head);
        } else {
            self.join_all(head);
        }
    }

    /// NVLS: every GPU sends to and receives from the switch, the head twice.
    fn through_switch(&mut self, head: u32) {
        let route_map = self.route_map;
        let gpus = route_map.gpus as u32;
        let share = |gpu| if gpu == head { 2.0 } else { 1.0 };
        let routes = (0..gpus)
            .map(|gpu| (route_map.nvs_to_gpu(gpu), share(gpu)))
            .chain((0..gpus).map(|gpu| (route_map.gpu_to_nvs(gpu), share(gpu))));
        self.with_all(routes);
    }

    /// CollNet direct: the head exchanges its part with every other GPU.
    fn join_all(&mut self, head: u32) {
        let route_map = self.route_map;
        let gpus = route_map.gpus as u32;
        let share = (1.0 / f64::from(gpus - 1)) as f32;
        let routes = (0..gpus)
            .map(|gpu| (route_map.gpu_to_gpu(head, gpu), share))
            .chain((0..gpus).map(|gpu| (route_map.gpu_to_gpu(gpu, head), share)));
        let others = (0..gpus).filter(|gpu| *gpu != head);
        for (place, gpu) in others.enumerate() {
            self.current.intra[self.base + 1 + place] = gpu;
        }
        self.with_all(routes);
    }

    /// Reserves all routes, completes the channel if that worked, and gives everything back in
    /// reverse order.
    fn with_all<'r>(
        &mut self,
        routes: impl DoubleEndedIterator<Item = (&'r SearchRoute, f32)> + Clone,
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
            self.end();
        }
        let held: Vec<_> = routes.take(reserved).collect();
        for (route, share) in held.into_iter().rev() {
            self.give_share(route, share);
        }
    }

    /// Takes a share of the bandwidth inside the host. The type is only checked for a whole share.
    fn take_share(&mut self, route: &SearchRoute, share: f32) -> bool {
        if route.kind >= PathType::Dis
            || share == 1.0 && !self.allows(route, self.current.type_intra)
        {
            return false;
        }
        let taken = self.residual.take(
            self.route_map,
            route,
            &R::amount(self.current.bw_intra * share),
        );
        if taken {
            self.count_hops(route, share);
        }
        taken
    }

    fn give_share(&mut self, route: &SearchRoute, share: f32) {
        self.residual.give(
            self.route_map,
            route,
            &R::amount(self.current.bw_intra * share),
        );
        self.count_hops(route, -share);
    }

    /// Fractions are cut off each time, as in NCCL.
    fn count_hops(&mut self, route: &SearchRoute, share: f32) {
        self.current.hops = (self.current.hops as f32 + share * route.hops as f32) as i32;
    }
}
