//! The reasons for trees that stay below a bound.

use std::fmt;

use plan::certificate::{Bound, CapacityGraph, Fraction, Operation};

use crate::rank_first::is_enough;

/// Most vertices that are named.
const NAMED: usize = 3;

/// Why no trees are known that come within 5 % of a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortfall {
    /// Trees are not sought for so many ranks or vertices.
    TooLarge,
    /// Some vertices can receive more than they can send, or less, so that the bound need not be
    /// reachable; the most uneven ones by name.
    Uneven(Vec<String>),
    /// Every switch is even, so that the bound can be reached, but only with more trees than are
    /// tried.
    MoreTrees,
}

impl Shortfall {
    /// Why the trees of a bound stay below it; `None` if they come within 5 %, or if there are none
    /// for the operation.
    pub fn of(graph: &CapacityGraph, bound: &Bound) -> Option<Self> {
        let served = !matches!(
            bound.operation,
            Operation::AllToAll | Operation::AllReduceInNetwork
        );
        let near = |reached: Fraction| is_enough(reached, bound.bandwidth);
        if !served || bound.reached.is_some_and(near) {
            return None;
        }
        let names = uneven(graph);
        Some(match (bound.reached, names.is_empty()) {
            (None, _) => Self::TooLarge,
            (_, false) => Self::Uneven(names),
            (_, true) => Self::MoreTrees,
        })
    }

    /// The reason in one word, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Uneven(_) => "uneven",
            Self::MoreTrees => "more-trees",
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the job is too large for the search for trees"),
            Self::Uneven(names) => write!(
                f,
                "traffic in and out shares links at {}, which cuts do not count: the bound may be too high",
                names.join(", ")
            ),
            Self::MoreTrees => {
                f.write_str("the bound can be reached, but only with more trees than are tried")
            }
        }
    }
}

/// The vertices without a rank whose bandwidths in and out differ, the most uneven first.
fn uneven(graph: &CapacityGraph) -> Vec<String> {
    let mut found: Vec<(u64, &str)> = Vec::new();
    for class in &graph.hosts {
        let mut sums = vec![(0u64, 0u64); class.vertices.len()];
        for link in &class.links {
            if let Some(sum) = sums.get_mut(link.to as usize) {
                sum.0 = sum.0.saturating_add(link.capacity);
            }
            if let Some(sum) = sums.get_mut(link.from as usize) {
                sum.1 = sum.1.saturating_add(link.capacity);
            }
        }
        let vertices = class.vertices.iter().zip(sums);
        let switches = vertices.filter(|(vertex, (into, out))| !vertex.rank && into != out);
        found.extend(
            switches.map(|(vertex, (into, out))| (into.abs_diff(out), device(&vertex.name))),
        );
    }
    found.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found {
        if names.len() < NAMED && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The device of a vertex: a switch that does not make every turn has a vertex for each neighbor.
fn device(name: &str) -> &str {
    let end = [" from ", " to "]
        .iter()
        .filter_map(|word| name.find(word))
        .min();
    end.map_or(name, |end| &name[..end])
}
