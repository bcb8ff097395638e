//! Capacities of links, from transfers over them: which link limited each transfer.
//!
//! A link carries at least the most that was seen on it. Where all but one link of a transfer carry
//! clearly more elsewhere, that one limited it, and has the capacity that the transfer shows. Links
//! that exactly the same transfers cross are one link to every measurement.

use std::collections::BTreeMap;

use super::share::shared;

/// How much more than in a transfer a link must carry elsewhere so that it cannot have limited it:
/// twice what two values with 3 % of noise differ, and a little.
const APART: f64 = 0.07;

/// Transfers that ran at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The links of each transfer, as positions in the list of links; no link twice.
    pub transfers: Vec<Vec<u32>>,
    /// What was measured.
    pub value: Observed,
}

/// The bandwidths of transfers at once, GB/s.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed {
    /// Of each.
    Each(Vec<f64>),
    /// Of all together.
    Total(f64),
}

/// What transfers say of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    /// It limits transfers, and nothing else can: GB/s.
    Known(f64),
    /// It or another link of the [set](Fit::joint) has this capacity, GB/s, and the others no less.
    OneOf {
        /// The set's number.
        set: u32,
        /// GB/s.
        gbps: f64,
    },
    /// It never limits a transfer; it carried so much, GB/s.
    AtLeast(f64),
}

impl Capacity {
    /// The bandwidth that was seen, GB/s.
    pub const fn gbps(self) -> f64 {
        match self {
            Self::Known(gbps) | Self::OneOf { gbps, .. } | Self::AtLeast(gbps) => gbps,
        }
    }
}

/// Links that every transfer crosses together, so that they are one link to all measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The links.
    pub links: Vec<u32>,
    /// The capacity of the least of them.
    pub capacity: Capacity,
}

/// Capacities that explain transfers.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The links that transfers cross, each once.
    pub classes: Vec<Class>,
    /// Sets of classes of which at least one has the capacity that both show, in the order of
    /// [`Capacity::OneOf`]: those of a set share transfers, directly or through others of it.
    pub joint: Vec<Vec<u32>>,
    /// Transfers at once that were slower than every link of theirs explains: observation, what the
    /// links carry and what was measured, GB/s.
    pub unexplained: Vec<(usize, f64, f64)>,
    class_of: BTreeMap<u32, u32>,
}

impl Fit {
    /// Infers capacities.
    pub fn of(observations: &[Observation]) -> Self {
        let (classes, class_of) = classes(observations);
        let reduced: Vec<Observation> = observations
            .iter()
            .map(|observation| observation.over(&class_of))
            .collect();
        let mut own = Evidence::new(classes.len());
        for observation in &reduced {
            own.add_loads(observation);
        }
        let mut joint: Vec<(Vec<u32>, f64)> = Vec::new();
        let mut unexplained = Vec::new();
        for (number, observation) in reduced.iter().enumerate() {
            let (carried, limits) = own.limits(observation);
            if let Some((carried, measured)) = carried {
                unexplained.push((number, carried, measured));
            }
            for (candidates, load) in limits {
                match candidates[..] {
                    [only] => own.known[only as usize].push(load),
                    _ => joint.push((candidates, load)),
                }
            }
        }
        let (sets, values) = own.sets(&joint);
        let capacity = |class: usize| match (mean(&own.known[class]), values[class]) {
            (Some(gbps), _) => Capacity::Known(gbps),
            (None, Some((set, gbps))) => Capacity::OneOf { set, gbps },
            (None, None) => Capacity::AtLeast(own.least[class]),
        };
        Self {
            classes: classes
                .into_iter()
                .enumerate()
                .map(|(number, links)| Class {
                    links,
                    capacity: capacity(number),
                })
                .collect(),
            joint: sets,
            unexplained,
            class_of,
        }
    }

    /// The class of a link; `None` if no transfer crosses it.
    pub fn class(&self, link: u32) -> Option<&Class> {
        self.classes.get(*self.class_of.get(&link)? as usize)
    }

    /// The bandwidth of each transfer of an observation with the fitted capacities, GB/s.
    pub fn predicted(&self, observation: &Observation) -> Vec<f64> {
        let reduced = observation.over(&self.class_of);
        let capacities = self.classes.iter().map(|class| class.capacity.gbps());
        shared(&reduced.transfers, &capacities.collect::<Vec<f64>>())
    }
}

impl Observation {
    /// The same over classes instead of links.
    fn over(&self, class_of: &BTreeMap<u32, u32>) -> Self {
        let transfers = self.transfers.iter().map(|links| {
            let known = links.iter().filter_map(|link| class_of.get(link).copied());
            let mut classes: Vec<u32> = known.collect();
            classes.sort_unstable();
            classes.dedup();
            classes
        });
        Self {
            transfers: transfers.collect(),
            value: self.value.clone(),
        }
    }
}

/// The links by the transfers that cross them.
fn classes(observations: &[Observation]) -> (Vec<Vec<u32>>, BTreeMap<u32, u32>) {
    let mut users: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let transfers = observations.iter().flat_map(|it| &it.transfers);
    for (number, links) in (0u32..).zip(transfers) {
        for link in links {
            users.entry(*link).or_default().push(number);
        }
    }
    let mut by_users: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
    for (link, users) in users {
        by_users.entry(users).or_default().push(link);
    }
    let mut classes: Vec<Vec<u32>> = by_users.into_values().collect();
    classes.sort_unstable();
    let numbered = (0u32..).zip(&classes);
    let class_of = numbered.flat_map(|(number, links)| links.iter().map(move |it| (*it, number)));
    let class_of = class_of.collect();
    (classes, class_of)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Candidates for the limit of a transfer, and the load that they had.
type Limit = (Vec<u32>, f64);

/// The set of a class that is not separable, and its capacity.
type Membership = Option<(u32, f64)>;

/// What was seen of each class.
struct Evidence {
    /// The most that it carried, GB/s.
    least: Vec<f64>,
    /// What it carried where it alone can be the limit, GB/s.
    known: Vec<Vec<f64>>,
}

impl Evidence {
    fn new(classes: usize) -> Self {
        Self {
            least: vec![0.0; classes],
            known: vec![Vec::new(); classes],
        }
    }

    /// The loads of classes in an observation, where they are known, GB/s.
    fn loads(&self, observation: &Observation) -> BTreeMap<u32, f64> {
        let mut loads: BTreeMap<u32, f64> = BTreeMap::new();
        match &observation.value {
            Observed::Each(values) => {
                for (transfer, value) in observation.transfers.iter().zip(values) {
                    for class in transfer {
                        *loads.entry(*class).or_default() += value;
                    }
                }
            }
            Observed::Total(total) => {
                for class in common(&observation.transfers) {
                    loads.insert(class, *total);
                }
            }
        }
        loads
    }

    fn add_loads(&mut self, observation: &Observation) {
        for (class, load) in self.loads(observation) {
            let least = &mut self.least[class as usize];
            *least = least.max(load);
        }
    }

    /// Those of some classes that can have limited what they carried.
    fn candidates(&self, classes: &[u32], loads: &BTreeMap<u32, f64>) -> Vec<u32> {
        let near = classes.iter().filter(|class| {
            let load = loads.get(class).copied().unwrap_or(0.0);
            self.least[**class as usize] <= load * (1.0 + APART)
        });
        near.copied().collect()
    }

    /// What the links carry and what was measured, if nothing explains the difference; and for each
    /// transfer the links that can have limited it.
    fn limits(&self, observation: &Observation) -> (Option<(f64, f64)>, Vec<Limit>) {
        let loads = self.loads(observation);
        let load = |class: u32| loads.get(&class).copied().unwrap_or(0.0);
        let mut limits = Vec::new();
        match &observation.value {
            Observed::Each(values) => {
                let mut without = (0.0, 0.0);
                let carried = shared(&observation.transfers, &self.least);
                for ((transfer, value), carried) in
                    observation.transfers.iter().zip(values).zip(carried)
                {
                    let candidates = self.candidates(transfer, &loads);
                    match candidates.first() {
                        Some(first) => {
                            let load = load(*first);
                            limits.push((candidates, load));
                        }
                        None if transfer.is_empty() => {}
                        None => {
                            without.0 += carried;
                            without.1 += value;
                        }
                    }
                }
                (
                    (without.0 > without.1 * (1.0 + APART)).then_some(without),
                    limits,
                )
            }
            Observed::Total(total) => {
                let all = common(&observation.transfers);
                let carried: f64 = shared(&observation.transfers, &self.least).iter().sum();
                let candidates = self.candidates(&all, &loads);
                let others: Vec<Vec<u32>> = observation
                    .transfers
                    .iter()
                    .map(|it| it.iter().filter(|it| !all.contains(it)).copied().collect())
                    .collect();
                // The other links must be able to carry more, or they may be the limit.
                let beside: f64 = shared(&others, &self.least).iter().sum();
                if !candidates.is_empty() && beside > total * (1.0 + APART) {
                    limits.push((candidates, *total));
                }
                let is_slow = carried > total * (1.0 + APART);
                (is_slow.then_some((carried, *total)), limits)
            }
        }
    }

    /// Sets of classes of which at least one is the limit of transfers that nothing else explains;
    /// for each class its set and capacity.
    fn sets(&self, joint: &[Limit]) -> (Vec<Vec<u32>>, Vec<Membership>) {
        let mut of: Vec<Option<u32>> = vec![None; self.known.len()];
        let mut loads: Vec<Vec<f64>> = vec![Vec::new(); self.known.len()];
        let explained = |class: &u32| !self.known[*class as usize].is_empty();
        let mut names = Vec::new();
        for (candidates, load) in joint {
            if candidates.iter().any(explained) {
                continue;
            }
            let known = candidates.iter().filter_map(|it| of[*it as usize]).min();
            let set = known.unwrap_or(names.len() as u32);
            if known.is_none() {
                names.push(());
            }
            for class in candidates {
                loads[*class as usize].push(*load);
                // Sets that share a class are one.
                if let Some(other) = of[*class as usize].filter(|other| *other != set) {
                    of.iter_mut()
                        .filter(|it| **it == Some(other))
                        .for_each(|it| *it = Some(set));
                }
                of[*class as usize] = Some(set);
            }
        }
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut sets: Vec<Vec<u32>> = Vec::new();
        let values = of.iter().enumerate().map(|(class, set)| {
            let number = *numbers.entry((*set)?).or_insert(sets.len() as u32);
            if number as usize == sets.len() {
                sets.push(Vec::new());
            }
            sets[number as usize].push(class as u32);
            Some((number, mean(&loads[class])?))
        });
        let values = values.collect();
        (sets, values)
    }
}

/// Classes that all transfers cross.
fn common(transfers: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, others)) = transfers.split_first() else {
        return Vec::new();
    };
    let in_all = first
        .iter()
        .filter(|class| others.iter().all(|other| other.contains(class)));
    in_all.copied().collect()
}
