//! Orders of ranks that keep the ranks of groups together, one order for each order of groups.

use std::collections::{HashMap, HashSet};

use workload::{Members, Workload};

use crate::step::places::Places;
use crate::step::{StepError, StepGroup};

/// Most groups whose orders are all tried; those with the least time come last in a fixed order.
const MOST_ORDERED: usize = 5;

/// The slots of each rank, for every order of the groups that communicate. `levels` has the ranks
/// of a host, and of wider parts of the cluster.
pub(super) fn candidates(
    workload: &Workload,
    places: &Places,
    groups: &[StepGroup],
    levels: &[u32],
) -> Result<Vec<Vec<u32>>, StepError> {
    let mut busy: Vec<usize> = (0..groups.len())
        .filter(|at| groups[*at].calls > 0)
        .collect();
    busy.sort_by(|a, b| groups[*b].time_us.total_cmp(&groups[*a].time_us));
    let last = busy.split_off(busy.len().min(MOST_ORDERED));
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for mut order in permutations(&busy) {
        order.extend(&last);
        let order = order.iter().map(|at| &workload.groups[*at]);
        let members: Vec<(&str, &Members)> =
            order.map(|it| (it.name.as_str(), &it.members)).collect();
        if let Some(slots) = together(&members, places.ranks(), levels)?
            && seen.insert(slots.clone())
        {
            found.push(slots);
        }
    }
    Ok(found)
}

/// All orders of some numbers, the given one first.
fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for at in 0..of.len() {
        let mut others = of.to_vec();
        let first = others.remove(at);
        found.extend(permutations(&others).into_iter().map(|mut order| {
            order.insert(0, first);
            order
        }));
    }
    found
}

/// The slots of ranks of which those of the first group are together, then those of the next, on
/// hosts first, then in wider parts. `None` if what is together does not fill hosts.
fn together(
    groups: &[(&str, &Members)],
    ranks: u32,
    levels: &[u32],
) -> Result<Option<Vec<u32>>, StepError> {
    let mut clusters = Clusters::single(ranks);
    for most in levels {
        for (name, members) in groups {
            clusters.join(name, members, ranks, *most as usize)?;
        }
        if !clusters.fill(*most as usize) {
            return Ok(None);
        }
    }
    let mut slots = vec![0; ranks as usize];
    let order = clusters.lists.iter().flatten();
    for (slot, rank) in order.enumerate() {
        if let Some(at) = slots.get_mut(*rank as usize) {
            *at = slot as u32;
        }
    }
    Ok(Some(slots))
}

/// Ranks that stay together.
struct Clusters {
    /// The ranks of each, in order; empty ones were joined to others.
    lists: Vec<Vec<u32>>,
    /// The cluster of each rank.
    of: Vec<usize>,
}

impl Clusters {
    fn single(ranks: u32) -> Self {
        Self {
            lists: (0..ranks).map(|rank| vec![rank]).collect(),
            of: (0..ranks as usize).collect(),
        }
    }

    /// Joins the clusters of each communicator while they have at most `most` ranks together.
    fn join(
        &mut self,
        name: &str,
        members: &Members,
        ranks: u32,
        most: usize,
    ) -> Result<(), StepError> {
        let all = members.communicators(ranks);
        let all = all.map_err(|why| StepError::Members {
            group: name.to_owned(),
            why,
        })?;
        for communicator in all {
            let mut into: Option<usize> = None;
            for rank in communicator {
                let Some(from) = self.of.get(rank as usize).copied() else {
                    continue;
                };
                match into {
                    Some(into) if into == from => {}
                    Some(into) if self.lists[into].len() + self.lists[from].len() <= most => {
                        let moved = std::mem::take(&mut self.lists[from]);
                        for rank in &moved {
                            self.of[*rank as usize] = into;
                        }
                        self.lists[into].extend(moved);
                    }
                    _ => into = Some(from),
                }
            }
        }
        Ok(())
    }

    /// Joins clusters of any groups until each has `most` ranks. Whether that is possible.
    fn fill(&mut self, most: usize) -> bool {
        // The number of ranks that are left, and the clusters that are filled up to it.
        let mut open: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut by_size: Vec<usize> = (0..self.lists.len())
            .filter(|at| !self.lists[*at].is_empty())
            .collect();
        by_size.sort_by_key(|at| std::cmp::Reverse(self.lists[*at].len()));
        for at in by_size {
            let size = self.lists[at].len();
            if size >= most {
                continue;
            }
            let fits = (size..most).find(|left| open.get(left).is_some_and(|it| !it.is_empty()));
            let Some(left) = fits else {
                open.entry(most - size).or_default().push(at);
                continue;
            };
            let into = open.get_mut(&left).and_then(Vec::pop).unwrap_or(at);
            let moved = std::mem::take(&mut self.lists[at]);
            for rank in &moved {
                self.of[*rank as usize] = into;
            }
            self.lists[into].extend(moved);
            if left > size {
                open.entry(left - size).or_default().push(into);
            }
        }
        self.lists.retain(|it| !it.is_empty());
        for (at, list) in self.lists.iter().enumerate() {
            for rank in list {
                self.of[*rank as usize] = at;
            }
        }
        self.lists.iter().all(|it| it.len() == most)
    }
}
