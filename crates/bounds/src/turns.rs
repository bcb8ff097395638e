//! PCI switches of which only some turns are allowed.
//!
//! A switch with all turns is one vertex. Otherwise links in with equal sets of links out share a
//! hub; where these sets overlap, each link has a port and allowed turns are links between ports.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::Draft;

/// The type of links inside a switch.
const INSIDE: &str = "turn";

/// Where links of a switch begin and end once it is split.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// By switch and where data comes from.
    ins: BTreeMap<(u32, u32), u32>,
    /// By switch and where data goes to.
    outs: BTreeMap<(u32, u32), u32>,
    /// Links inside switches.
    inside: Vec<(u32, u32, u64)>,
}

impl Ports {
    /// Splits a switch if it does not allow all turns. `turns` has where data comes from and where
    /// it goes to.
    pub(crate) fn split(&mut self, draft: &mut Draft, switch: u32, turns: &BTreeSet<(u32, u32)>) {
        let (mut ins, mut outs): (BTreeMap<u32, u64>, BTreeSet<u32>) = Default::default();
        for ((from, to, _), capacity) in &draft.links {
            if *to == switch {
                *ins.entry(*from).or_default() += capacity;
            }
            if *from == switch {
                outs.insert(*to);
            }
        }
        // Turning back is useless, so it may be allowed.
        let allowed = |from: u32| -> BTreeSet<u32> {
            let there = |to: &&u32| **to == from || turns.contains(&(from, **to));
            outs.iter().filter(there).copied().collect()
        };
        let mut groups: BTreeMap<BTreeSet<u32>, Vec<u32>> = BTreeMap::new();
        for from in ins.keys() {
            groups.entry(allowed(*from)).or_default().push(*from);
        }
        if groups.len() <= 1 {
            return;
        }
        let all: usize = groups.keys().map(BTreeSet::len).sum();
        let different: BTreeSet<&u32> = groups.keys().flatten().collect();
        if different.len() == all {
            self.hubs(draft, switch, groups);
        } else {
            let turns = ins
                .into_iter()
                .map(|(from, capacity)| (from, capacity, allowed(from)));
            self.ports(draft, switch, turns.collect());
        }
    }

    /// A hub for each group of links in; no two groups have a link out in common.
    fn hubs(&mut self, draft: &mut Draft, switch: u32, groups: BTreeMap<BTreeSet<u32>, Vec<u32>>) {
        let name = draft.vertices[switch as usize].name.clone();
        for (number, (leads, comes)) in groups.into_iter().enumerate().skip(1) {
            let hub = draft.vertex(format!("{name} hub {number}"));
            self.ins
                .extend(comes.into_iter().map(|from| ((switch, from), hub)));
            self.outs
                .extend(leads.into_iter().map(|to| ((switch, to), hub)));
        }
    }

    /// A port for each link in and each link out.
    fn ports(&mut self, draft: &mut Draft, switch: u32, turns: Vec<(u32, u64, BTreeSet<u32>)>) {
        let name = draft.vertices[switch as usize].name.clone();
        let leads: BTreeSet<u32> = turns
            .iter()
            .flat_map(|(_, _, leads)| leads)
            .copied()
            .collect();
        for to in leads {
            let label = format!("{name} to {}", draft.vertices[to as usize].name);
            self.outs.insert((switch, to), draft.vertex(label));
        }
        for (from, capacity, leads) in turns {
            let label = format!("{name} from {}", draft.vertices[from as usize].name);
            let port = draft.vertex(label);
            self.ins.insert((switch, from), port);
            for to in leads.into_iter().filter(|to| *to != from) {
                // Twice the link in, so that a turn is never what limits.
                self.inside
                    .push((port, self.outs[&(switch, to)], 2 * capacity));
            }
        }
    }

    /// Moves the links of all switches that were split to their hubs and ports.
    pub(crate) fn apply(self, draft: &mut Draft) {
        let links = std::mem::take(&mut draft.links);
        for ((from, to, kind), capacity) in links {
            let begin = self.outs.get(&(from, to)).copied().unwrap_or(from);
            let end = self.ins.get(&(to, from)).copied().unwrap_or(to);
            *draft.links.entry((begin, end, kind)).or_default() += capacity;
        }
        for (from, to, capacity) in self.inside {
            draft.links.insert((from, to, INSIDE.to_owned()), capacity);
        }
    }
}
