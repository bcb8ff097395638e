//! Switches taken out of a graph of units, so that only ranks remain.
//!
//! Where as much enters a switch w as leaves it, units of arcs u → w → t can be moved to arcs u → t
//! until w has none left, and every rank still receives the units of all roots (Bang-Jensen, Frank,
//! Jackson 1995). How much may be moved is found by trying.

use crate::units::{Demands, UnitArc, UnitGraph};

impl UnitGraph {
    /// Takes all switches out. `None` if units remain at one, or a rank could receive less.
    pub(crate) fn without_switches(mut self, demands: &Demands) -> Option<Self> {
        for switch in self.ranks..self.vertices {
            // First in equal shares, which makes low trees, then as much as is possible.
            for shares in [true, false] {
                self.empty(switch, shares, demands);
            }
            let touches = |arc: &UnitArc| arc.from == switch || arc.to == switch;
            if self.arcs.iter().any(|arc| touches(arc) && arc.units() > 0) {
                return None;
            }
            self.arcs.retain(|arc| !touches(arc));
        }
        self.vertices = self.ranks;
        self.serves(demands).then_some(self)
    }

    fn empty(&mut self, switch: usize, shares: bool, demands: &Demands) {
        let all = 0..self.arcs.len();
        let ins: Vec<usize> = all
            .clone()
            .filter(|it| self.arcs[*it].to == switch)
            .collect();
        let outs: Vec<usize> = all.filter(|it| self.arcs[*it].from == switch).collect();
        let total: i128 = outs.iter().map(|out| self.arcs[*out].units()).sum();
        let whole: Vec<i128> = self.arcs.iter().map(UnitArc::units).collect();
        for enter in &ins {
            for leave in &outs {
                let room = self.arcs[*enter].units().min(self.arcs[*leave].units());
                let wanted = match shares {
                    true => room.min(whole[*enter] * whole[*leave] / total.max(1)),
                    false => room,
                };
                let amount = self.movable(*enter, *leave, wanted, demands);
                if amount > 0 {
                    *self = self.moved(*enter, *leave, amount);
                }
            }
        }
    }

    /// The most units, up to `most`, that may be moved past a switch.
    fn movable(&self, enter: usize, leave: usize, most: i128, demands: &Demands) -> i128 {
        if most == 0 {
            return most;
        }
        let mut units: Vec<i128> = self.arcs.iter().map(UnitArc::units).collect();
        let (from, to) = (self.arcs[enter].from, self.arcs[leave].to);
        let known = self
            .arcs
            .iter()
            .position(|arc| arc.from == from && arc.to == to);
        let more = (from != to && known.is_none()).then_some((from, to));
        units.extend(more.map(|_| 0));
        let joined = (from != to).then_some(known.unwrap_or(self.arcs.len()));
        let mut deliveries = self.deliveries(more);
        let mut fits = |amount: i128| {
            let mut units = units.clone();
            units[enter] -= amount;
            units[leave] -= amount;
            if let Some(joined) = joined {
                units[joined] += amount;
            }
            deliveries.serve(&units, demands)
        };
        if fits(most) {
            return most;
        }
        let (mut least, mut fails) = (0, most);
        while fails - least > 1 {
            let middle = least + (fails - least) / 2;
            match fits(middle) {
                true => least = middle,
                false => fails = middle,
            }
        }
        least
    }

    /// The graph with units of two arcs in a row moved to one that joins their ends.
    fn moved(&self, enter: usize, leave: usize, amount: i128) -> Self {
        let mut graph = self.clone();
        let mut first = graph.arcs[enter].take(amount);
        let second = graph.arcs[leave].take(amount);
        let (from, to) = (graph.arcs[enter].from, graph.arcs[leave].to);
        if from == to {
            return graph;
        }
        let mut routes = Vec::new();
        for (mut units, links) in second {
            while units > 0
                && let Some((left, before)) = first.last_mut()
            {
                let amount = units.min(*left);
                routes.push((amount, [&before[..], &links[..]].concat()));
                units -= amount;
                *left -= amount;
                if *left == 0 {
                    first.pop();
                }
            }
        }
        let joins = |arc: &&mut UnitArc| arc.from == from && arc.to == to;
        match graph.arcs.iter_mut().find(joins) {
            Some(arc) => arc.routes.extend(routes),
            None => graph.arcs.push(UnitArc { from, to, routes }),
        }
        graph
    }
}
