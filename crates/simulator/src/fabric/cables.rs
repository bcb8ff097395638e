//! Hosts that cables connect without a switch: which rings and trees can be connected.

use std::collections::BTreeSet;

use plan::expand::double_tree;

/// Steps of the search for a ring.
const MOST_STEPS: usize = 1_000_000;

/// Cables between hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cables {
    pairs: BTreeSet<(u32, u32)>,
}

impl Cables {
    /// Adds a cable.
    pub fn add(&mut self, one: u32, other: u32) {
        self.pairs.insert((one.min(other), one.max(other)));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Number of pairs of hosts with a cable.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// The largest number of a host.
    pub fn last_host(&self) -> Option<u32> {
        self.pairs.iter().map(|(_, last)| *last).max()
    }

    /// Whether a cable connects two hosts.
    pub fn connect(&self, one: u32, other: u32) -> bool {
        one == other || self.pairs.contains(&(one.min(other), one.max(other)))
    }

    /// An order of hosts in which neighbors have cables, and the last with the first; `None` if
    /// there is none, or none is found in bounded time. The order of the numbers is tried first.
    pub fn ring(&self, hosts: u32) -> Option<Vec<u32>> {
        let mut order = vec![0];
        let mut steps = 0;
        (hosts > 0 && self.extend(&mut order, hosts, &mut steps)).then_some(order)
    }

    fn extend(&self, order: &mut Vec<u32>, hosts: u32, steps: &mut usize) -> bool {
        let last = order.last().copied().unwrap_or(0);
        if order.len() == hosts as usize {
            return self.connect(last, 0);
        }
        for next in 1..hosts {
            *steps += 1;
            if *steps > MOST_STEPS {
                return false;
            }
            if self.connect(last, next) && !order.contains(&next) {
                order.push(next);
                if self.extend(order, hosts, steps) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }

    /// The ring links of an order that have no cable.
    pub fn missing_of_ring(&self, order: &[u32]) -> Vec<(u32, u32)> {
        let next = order.iter().cycle().skip(1);
        let pairs = order.iter().copied().zip(next.copied());
        pairs
            .filter(|(one, other)| !self.connect(*one, *other))
            .collect()
    }

    /// The tree links of an order that have no cable, each once.
    pub fn missing_of_trees(&self, order: &[u32]) -> Vec<(u32, u32)> {
        let links = tree_links(order.len() as u32);
        let hosts = links.filter_map(|(one, other)| {
            Some((*order.get(one as usize)?, *order.get(other as usize)?))
        });
        let missing = hosts.filter(|(one, other)| !self.connect(*one, *other));
        let sorted: BTreeSet<(u32, u32)> = missing
            .map(|(one, other)| (one.min(other), one.max(other)))
            .collect();
        sorted.into_iter().collect()
    }
}

/// The links of NCCL's two trees over all hosts, by place in their order: from a host to the
/// one above.
pub fn tree_links(hosts: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..hosts).flat_map(move |host| {
        let above = double_tree(hosts, host).map(|links| links.parent);
        above.into_iter().flatten().map(move |above| (host, above))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cables(pairs: &[(u32, u32)]) -> Cables {
        let mut cables = Cables::default();
        pairs
            .iter()
            .for_each(|(one, other)| cables.add(*one, *other));
        cables
    }

    #[test]
    fn trees_of_a_ring_of_four_cannot_be_connected() {
        let ring = cables(&[(0, 1), (1, 2), (2, 3), (3, 0)]);
        assert_eq!(ring.ring(4), Some(vec![0, 1, 2, 3]));
        assert_eq!(ring.missing_of_ring(&[0, 1, 2, 3]), []);
        assert_eq!(ring.missing_of_trees(&[0, 1, 2, 3]), [(0, 2), (1, 3)]);
        assert_eq!(ring.missing_of_ring(&[0, 2, 1, 3]), [(0, 2), (1, 3)]);
    }

    #[test]
    fn three_hosts_reach_each_other() {
        let ring = cables(&[(0, 1), (1, 2), (2, 0)]);
        assert_eq!(ring.missing_of_trees(&[0, 1, 2]), []);
        let line = cables(&[(0, 1), (1, 2)]);
        assert_eq!(line.ring(3), None);
        assert_eq!(line.missing_of_ring(&[0, 1, 2]), [(2, 0)]);
    }
}
