//! Transfers that share links fairly: max-min rates, kept up to date as transfers begin and end.
//!
//! Every link has a *share*: the rate of the transfers that it limits, or no limit if its transfers
//! do not fill it. A transfer's rate is the least share on its route. When transfers begin or end,
//! only the shares that really change are computed again, from link to link; the others keep their
//! values. At the fixed point every transfer is limited by a link that is full and on which no
//! other transfer is faster, which is the definition of max-min fairness.

use crate::ends::Ends;
use crate::model::{Connection, Model};
#[cfg(test)]
use crate::units::Rate;
use crate::units::{MOST_BYTES, Time, UNITS_PER_BYTE};

/// Rates that differ by no more are equal but for roundings: each link rounds down once, and what
/// it leaves to others is divided among them. Without this, two links with equal shares could each
/// give the rest of a division to the other's transfers, and the result would depend on their
/// order.
const ROUNDING: u64 = 64;

/// A transfer of one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Units that are left of the part that is counted now.
    left: u64,
    /// Bytes beyond that part.
    more: u64,
    rate: u64,
    /// When `left` was computed.
    since: Time,
    /// When the part ends at this rate.
    end: Time,
    active: bool,
    touched: bool,
}

#[derive(Debug, Clone, Default)]
struct SharedLink {
    capacity: u64,
    share: u64,
    /// Active transfers and how often each counts.
    active: Vec<(u32, u32)>,
    queued: bool,
}

/// The transfers of all connections, at most one of each.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    /// When transfers end, or earlier: an end that moved to a later time is found when it comes.
    ends: Ends,
    links: Vec<SharedLink>,
    /// For each connection its links that can be full, as a range of `routes`.
    route_of: Vec<(u32, u32)>,
    routes: Vec<(u32, u32)>,
    limits: Vec<u64>,
    /// Links whose share is to be computed.
    queue: Vec<u32>,
    /// Flows whose rate may have changed.
    touched: Vec<u32>,
    scratch: Vec<(u64, u32)>,
}

impl Flows {
    /// No transfers yet. Links that all their connections together cannot fill are left out.
    pub(crate) fn new(model: &Model) -> Self {
        let alone = |connection: &Connection| model.alone(connection).0.0;
        let mut most = vec![0u64; model.links.len()];
        for connection in &model.connections {
            let rate = alone(connection);
            for (link, weight) in model.route(connection) {
                let sum = &mut most[*link as usize];
                *sum = sum.saturating_add(rate.saturating_mul(u64::from(*weight)));
            }
        }
        let mut flows = Self {
            flows: vec![Flow::default(); model.connections.len()],
            ends: Ends::new(model.connections.len()),
            links: Vec::with_capacity(model.links.len()),
            route_of: Vec::with_capacity(model.connections.len()),
            routes: Vec::new(),
            limits: Vec::with_capacity(model.connections.len()),
            queue: Vec::new(),
            touched: Vec::new(),
            scratch: Vec::new(),
        };
        for link in &model.links {
            flows.links.push(SharedLink {
                capacity: link.capacity.0,
                share: u64::MAX,
                ..SharedLink::default()
            });
        }
        for connection in &model.connections {
            let first = flows.routes.len() as u32;
            let route = model.route(connection).iter();
            let full = |link: u32| most[link as usize] > model.links[link as usize].capacity.0;
            flows
                .routes
                .extend(route.copied().filter(|(link, _)| full(*link)));
            flows.route_of.push((first, flows.routes.len() as u32));
            flows.limits.push(alone(connection));
        }
        flows
    }

    fn route(&self, connection: u32) -> std::ops::Range<usize> {
        let (first, end) = self.route_of[connection as usize];
        first as usize..end as usize
    }

    /// Begins a transfer. Its rate is known after [`Flows::settle`].
    pub(crate) fn begin(&mut self, connection: u32, bytes: u64, now: Time) {
        let part = bytes.min(MOST_BYTES);
        let flow = &mut self.flows[connection as usize];
        flow.left = part * UNITS_PER_BYTE;
        flow.more = bytes - part;
        flow.rate = 0;
        flow.since = now;
        flow.active = true;
        self.touch(connection);
        for at in self.route(connection) {
            let (link, weight) = self.routes[at];
            self.links[link as usize].active.push((connection, weight));
            self.enqueue(link);
        }
    }

    /// When the next transfer ends, if rates do not change before.
    pub(crate) fn next(&mut self) -> Option<Time> {
        loop {
            let (time, connection) = self.ends.first()?;
            let end = self.flows[connection as usize].end;
            if end <= time {
                return Some(time);
            }
            self.ends.set(connection, end);
        }
    }

    /// Ends the transfer that ends next, which is now. Returns its connection, and the link that
    /// limits it; `None` if another part of a long transfer begins.
    pub(crate) fn end_next(&mut self, now: Time) -> Option<(u32, Option<u32>)> {
        let (_, connection) = self.ends.first()?;
        self.ends.remove_first();
        let flow = &mut self.flows[connection as usize];
        if flow.more > 0 {
            let part = flow.more.min(MOST_BYTES);
            flow.more -= part;
            flow.left = part * UNITS_PER_BYTE;
            flow.since = now;
            // Another rate than any, so that the end is computed.
            flow.rate = 0;
            self.touch(connection);
            return None;
        }
        flow.active = false;
        let rate = flow.rate;
        let mut limits = self.route(connection).map(|at| self.routes[at].0);
        let limit = limits.find(|link| self.links[*link as usize].share <= rate);
        for at in self.route(connection) {
            let (link, _) = self.routes[at];
            let active = &mut self.links[link as usize].active;
            let place = active.iter().position(|(other, _)| *other == connection);
            if let Some(place) = place {
                active.swap_remove(place);
            }
            self.enqueue(link);
        }
        Some((connection, limit))
    }

    fn touch(&mut self, connection: u32) {
        let flow = &mut self.flows[connection as usize];
        if !flow.touched {
            flow.touched = true;
            self.touched.push(connection);
        }
    }

    fn enqueue(&mut self, link: u32) {
        let shared = &mut self.links[link as usize];
        if !shared.queued {
            shared.queued = true;
            self.queue.push(link);
        }
    }

    /// Whether rates must be computed before time passes.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.touched.is_empty() || !self.queue.is_empty()
    }

    /// Computes the rates that changed.
    pub(crate) fn settle(&mut self, now: Time) {
        let mut at = 0;
        while at < self.queue.len() {
            let link = self.queue[at];
            at += 1;
            self.links[link as usize].queued = false;
            self.share(link);
        }
        self.queue.clear();
        let mut touched = std::mem::take(&mut self.touched);
        for connection in touched.drain(..) {
            let rate = self.rate(connection);
            let flow = &mut self.flows[connection as usize];
            flow.touched = false;
            if !flow.active || flow.rate == rate {
                continue;
            }
            let passed = (now - flow.since).0;
            flow.left = flow.left.saturating_sub(flow.rate.saturating_mul(passed));
            flow.since = now;
            flow.rate = rate;
            flow.end = now + Time(flow.left.div_ceil(rate));
            let end = flow.end;
            if self.ends.of(connection).is_none_or(|known| end < known) {
                self.ends.set(connection, end);
            }
        }
        self.touched = touched;
    }

    fn rate(&self, connection: u32) -> u64 {
        let shares = self.route(connection).map(|at| self.routes[at].0);
        let least = shares.map(|link| self.links[link as usize].share).min();
        let limit = self.limits[connection as usize];
        least.map_or(limit, |least| least.min(limit)).max(1)
    }

    /// The rate of a transfer if one of its links had no limit.
    fn elsewhere(&self, connection: u32, link: u32) -> u64 {
        let others = self.route(connection).map(|at| self.routes[at].0);
        let others = others.filter(|other| *other != link);
        let least = others.map(|other| self.links[other as usize].share).min();
        let limit = self.limits[connection as usize];
        least.map_or(limit, |least| least.min(limit))
    }

    /// Computes a link's share. If it changed, the other links of its transfers follow.
    fn share(&mut self, link: u32) {
        let mut limits = std::mem::take(&mut self.scratch);
        limits.clear();
        let shared = &self.links[link as usize];
        let active = shared.active.iter();
        limits.extend(active.map(|(flow, weight)| (self.elsewhere(*flow, link), *weight)));
        let share = level(shared.capacity, &mut limits);
        self.scratch = limits;
        let shared = &mut self.links[link as usize];
        let changed = shared.share != share;
        shared.share = share;
        if !changed {
            return;
        }
        for place in 0..self.links[link as usize].active.len() {
            let connection = self.links[link as usize].active[place].0;
            self.touch(connection);
            for at in self.route(connection) {
                let other = self.routes[at].0;
                if other != link {
                    self.enqueue(other);
                }
            }
        }
    }

    /// The current rate of a connection's transfer.
    #[cfg(test)]
    fn rate_of(&self, connection: u32) -> Rate {
        Rate(self.flows[connection as usize].rate)
    }
}

/// The rate at which transfers with these limits and weights fill a capacity; no limit if they
/// cannot.
fn level(capacity: u64, limits: &mut [(u64, u32)]) -> u64 {
    if let [(limit, weight)] = limits {
        let fair = capacity / u64::from((*weight).max(1));
        return if *limit <= fair { u64::MAX } else { fair };
    }
    limits.sort_unstable();
    let most = limits.last().map_or(0, |(limit, _)| *limit);
    let mut weights: u64 = limits.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut left = capacity;
    for (limit, weight) in limits.iter() {
        let fair = left / weights.max(1);
        if limit.saturating_add(ROUNDING) > fair {
            // Limits like this one are what roundings leave of equal shares of other links.
            return if most <= fair { u64::MAX } else { fair.max(1) };
        }
        left -= limit * u64::from(*weight);
        weights -= u64::from(*weight);
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Link, LinkKind, Transport};

    /// A model without lanes: links of these GB/s, and connections over them.
    fn model(links: &[f64], routes: &[&[u32]]) -> Model {
        let mut model = Model::default();
        model.links.extend(links.iter().map(|gbps| Link {
            kind: LinkKind::Nic,
            capacity: Rate::from_gbps(*gbps),
        }));
        for route in routes {
            let first = model.routes.len() as u32;
            model.routes.extend(route.iter().map(|link| (*link, 1)));
            model.connections.push(Connection {
                sender: 0,
                sender_end: 0,
                receiver: 0,
                receiver_end: 0,
                transport: Transport::Access,
                route: (first, model.routes.len() as u32),
                limit: Rate::UNLIMITED,
                limit_kind: LinkKind::Nic,
                latency: Time::ZERO,
                slots: 8,
                header: 0,
                expansion: (1, 1),
            });
        }
        model
    }

    fn rates(flows: &Flows, count: u32) -> Vec<f64> {
        let rates = (0..count).map(|at| flows.rate_of(at).gbps());
        rates.map(|rate| (rate * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn rates_are_max_min_fair() {
        // A long flow and short ones; the narrow link leaves bandwidth on the wide one.
        let model = model(&[10.0, 4.0, 6.0], &[&[0, 1], &[0], &[1, 2], &[2], &[1]]);
        let mut flows = Flows::new(&model);
        for connection in 0..5 {
            flows.begin(connection, 1 << 20, Time::ZERO);
        }
        flows.settle(Time::ZERO);
        // Link 1: three flows of 1.333; link 0: the rest of 10; link 2: the rest of 6.
        assert_eq!(rates(&flows, 5), [1.333, 8.667, 1.333, 4.667, 1.333]);
    }

    #[test]
    fn an_ended_transfer_leaves_its_bandwidth() {
        let model = model(&[10.0, 4.0], &[&[0, 1], &[0], &[1]]);
        let mut flows = Flows::new(&model);
        flows.begin(0, 2_000_000, Time::ZERO);
        flows.begin(1, 800_000, Time::ZERO);
        flows.begin(2, 400_000, Time::ZERO);
        flows.settle(Time::ZERO);
        assert_eq!(rates(&flows, 3), [2.0, 8.0, 2.0]);
        let mut ended = Vec::new();
        while let Some(now) = flows.next() {
            let end = flows.end_next(now).expect("short transfers");
            ended.push(((now.us()).round(), end));
            flows.settle(now);
        }
        // At 100 µs transfer 1 leaves link 0, which nobody fills then; at 200 µs transfer 2 leaves
        // link 1 to transfer 0, which has 1.6 MB of its 2 MB left.
        let expected = [
            (100.0, (1, Some(0))),
            (200.0, (2, Some(1))),
            (600.0, (0, None)),
        ];
        assert_eq!(ended[..2], expected[..2]);
        assert_eq!((ended[2].0, ended[2].1.0), (600.0, 0));
    }

    #[test]
    fn long_transfers_are_counted_in_parts() {
        let model = model(&[1.0], &[&[0]]);
        let mut flows = Flows::new(&model);
        let bytes = 3 * MOST_BYTES + 1000;
        flows.begin(0, bytes, Time::ZERO);
        flows.settle(Time::ZERO);
        let (mut now, mut parts) = (Time::ZERO, 0);
        while let Some(next) = flows.next() {
            now = next;
            parts += 1;
            flows.end_next(now);
            flows.settle(now);
        }
        assert_eq!(parts, 4);
        let exact = Rate::from_gbps(1.0).time(bytes).0;
        assert!(now.0.abs_diff(exact) <= 4, "{now:?} {exact}");
    }
}
