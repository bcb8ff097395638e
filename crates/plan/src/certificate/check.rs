//! The checker: repeats the arithmetic of a certificate. It knows no flow and searches nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::cut::{Crossing, Direction, Part};
use super::error::CertificateError;
use super::forest::{Forest, Load};
use super::graph::{CapacityGraph, WrittenOut};
use super::value::Fraction;
use super::{Bound, Certificate, Operation, Proof, lengths};

/// Most vertices of a job whose forests are checked.
pub const MOST_VERTICES: usize = 1 << 16;

/// Most vertices and links that the sets of all proofs look at.
pub const MOST_STEPS: u128 = 1 << 28;

/// Checks every proof and every forest of a certificate.
///
/// # Errors
/// There is no bound, or checking takes too long; the graph, a proof or a forest does not hold, or
/// gives another value than is claimed.
pub fn check(certificate: &Certificate) -> Result<(), CertificateError> {
    certificate.graph.validate()?;
    if certificate.bounds.is_empty() {
        return Err(CertificateError::Empty);
    }
    let steps = certificate
        .bounds
        .iter()
        .map(|bound| steps(certificate, bound));
    let (steps, most) = (steps.sum(), MOST_STEPS);
    if steps > most {
        return Err(CertificateError::TooLong { steps, most });
    }
    let mut written = None;
    for (at, bound) in certificate.bounds.iter().enumerate() {
        let operation = bound.operation;
        let refuse = |problem: String| CertificateError::Proof { operation, problem };
        let before = &certificate.bounds[..at];
        if before.iter().any(|other| other.operation == operation) {
            return Err(refuse("the operation has a bound already".into()));
        }
        let proved = tightness(&certificate.graph, operation, &bound.proof).map_err(refuse)?;
        if !claims(bound.bandwidth, proved) {
            return Err(refuse(format!(
                "it proves {}/{} × 0.1 MB/s; the certificate claims {}/{}",
                proved.numerator,
                proved.denominator,
                bound.bandwidth.numerator,
                bound.bandwidth.denominator
            )));
        }
        if bound.reached.is_none() && bound.forests.is_empty() {
            continue;
        }
        if written.is_none() {
            written = certificate.graph.written_out(MOST_VERTICES);
        }
        check_forests(certificate, bound, written.as_ref())
            .map_err(|problem| CertificateError::Forest { operation, problem })?;
    }
    Ok(())
}

/// Vertices and links that the sets of a proof look at.
fn steps(certificate: &Certificate, bound: &Bound) -> u128 {
    let graph = &certificate.graph;
    match &bound.proof {
        Proof::Cut(cut) => cut.steps(graph),
        Proof::Partition { parts, .. } => parts.iter().map(|part| part.set.steps(graph)).sum(),
        Proof::Lengths(_) => 0,
    }
}

fn claims(claimed: Fraction, found: Fraction) -> bool {
    claimed.denominator != 0 && claimed.compare(found) == Ordering::Equal
}

fn check_forests(
    certificate: &Certificate,
    bound: &Bound,
    written: Option<&WrittenOut>,
) -> Result<(), String> {
    let written =
        written.ok_or_else(|| format!("the job has more than {MOST_VERTICES} vertices"))?;
    let found = reached(&certificate.graph, written, bound.operation, &bound.forests)?;
    let claimed = bound
        .reached
        .ok_or("the forest's bandwidth is not stated")?;
    if !claims(claimed, found) {
        return Err(format!(
            "it reaches {}/{} × 0.1 MB/s; the certificate claims {}/{}",
            found.numerator, found.denominator, claimed.numerator, claimed.denominator
        ));
    }
    if found.compare(bound.bandwidth) == Ordering::Greater {
        return Err("it exceeds the bound; one of the two is wrong".to_owned());
    }
    Ok(())
}

/// The bus bandwidth above which a proof leaves no schedule, 0.1 MB/s.
///
/// # Errors
/// The proof does not hold for the operation; the text says why.
pub fn tightness(
    graph: &CapacityGraph,
    operation: Operation,
    proof: &Proof,
) -> Result<Fraction, String> {
    let ranks = graph.ranks();
    match proof {
        Proof::Cut(cut) => {
            if operation.has_root() && !cut.has_root(graph) {
                return Err("rank 0 is not in the set".to_owned());
            }
            of_cut(operation, ranks, cut.measure(graph)?)
        }
        Proof::Partition { direction, parts } => {
            if operation != Operation::AllReduce {
                return Err("a partition proves nothing for this operation".to_owned());
            }
            of_partition(graph, *direction, parts)
        }
        Proof::Lengths(classes) => lengths::tightness(graph, operation, classes),
    }
}

/// The proof of a set of vertices. `ranks` counts all ranks of the job.
fn of_cut(operation: Operation, ranks: u128, crossing: Crossing) -> Result<Fraction, String> {
    let inside = crossing.ranks;
    if inside == 0 || inside >= ranks {
        return Err(format!(
            "the set has {inside} of {ranks} ranks; expected some but not all"
        ));
    }
    let (above, below) = match operation {
        // Each shard of a rank inside leaves the set: (N−1)·B/|S|.
        Operation::AllGather => ((ranks - 1).checked_mul(crossing.out), inside),
        Operation::ReduceScatter => ((ranks - 1).checked_mul(crossing.into), inside),
        Operation::Broadcast => (Some(crossing.out), 1),
        Operation::Reduce => (Some(crossing.into), 1),
        // The whole message crosses the border in both directions: 2·(N−1)/N·B.
        Operation::AllReduce | Operation::AllReduceInNetwork => {
            let narrow = crossing.out.min(crossing.into);
            ((2 * (ranks - 1)).checked_mul(narrow), ranks)
        }
        // A piece of each rank inside for each rank outside leaves: (N−1)·B/(|S|·(N−|S|)).
        Operation::AllToAll => (
            (ranks - 1).checked_mul(crossing.out),
            inside * (ranks - inside),
        ),
    };
    let above = above.ok_or("the numbers are too large")?;
    Fraction::new(above, below).ok_or_else(|| "the set has no ranks".to_owned())
}

/// The proof of a partition of the ranks: (N−1)·Σ B/(N·(k−1)), since 2(k−1) messages arrive for
/// each element.
fn of_partition(
    graph: &CapacityGraph,
    direction: Direction,
    parts: &[Part],
) -> Result<Fraction, String> {
    let mut covered: Vec<Vec<bool>> = graph
        .hosts
        .iter()
        .map(|class| vec![false; class.vertices.len()])
        .collect();
    let (mut total, mut sets) = (0u128, 0u128);
    for (number, part) in parts.iter().enumerate() {
        let crossing = part.set.measure(graph)?;
        cover(graph, part, &mut covered).map_err(|problem| format!("set {number}: {problem}"))?;
        let border = match direction {
            Direction::In => crossing.into,
            Direction::Out => crossing.out,
        };
        let times = u128::from(part.times);
        let sum = border
            .checked_mul(times)
            .and_then(|it| it.checked_add(total));
        total = sum.ok_or("the numbers are too large")?;
        sets += times;
    }
    for (class, covered) in graph.hosts.iter().zip(&covered) {
        let mut vertices = class.vertices.iter().zip(covered);
        if let Some((vertex, _)) = vertices.find(|(vertex, covered)| vertex.rank && !**covered) {
            return Err(format!("no set has {}", vertex.name));
        }
    }
    if sets < 2 {
        return Err(format!("{sets} sets; expected at least 2"));
    }
    let ranks = graph.ranks();
    let above = (ranks - 1).checked_mul(total);
    let below = ranks.checked_mul(sets - 1);
    let (above, below) = above.zip(below).ok_or("the numbers are too large")?;
    Fraction::new(above, below).ok_or_else(|| "there are no ranks".to_owned())
}

/// Marks the ranks of a part, of which no other part may have one.
///
/// A part is one set in each host of a class, so it has ranks of one host only; in a class
/// of one host it may reach over several such hosts.
fn cover(graph: &CapacityGraph, part: &Part, covered: &mut [Vec<bool>]) -> Result<(), String> {
    let mut hosts = 0u64;
    let mut several = false;
    for side in &part.set.sides {
        let class = &graph.hosts[side.class as usize];
        let mut has_ranks = false;
        for vertex in side.inside.iter().map(|it| *it as usize) {
            if !class.vertices[vertex].rank {
                continue;
            }
            has_ranks = true;
            if std::mem::replace(&mut covered[side.class as usize][vertex], true) {
                return Err(format!("{} is in two sets", class.vertices[vertex].name));
            }
        }
        if has_ranks {
            hosts += u64::from(side.count);
            several |= class.count > 1;
            if part.times != class.count {
                return Err(format!(
                    "it counts {} times; expected {}, once for each equal host",
                    part.times, class.count
                ));
            }
        }
    }
    match hosts {
        0 => Err("it has no rank".to_owned()),
        2.. if several => Err("it has ranks of several equal hosts".to_owned()),
        _ => Ok(()),
    }
}

/// The bus bandwidth that forests reach, 0.1 MB/s.
///
/// # Errors
/// They are no forests for this operation; the text says why.
pub fn reached(
    graph: &CapacityGraph,
    written: &WrittenOut,
    operation: Operation,
    forests: &[Forest],
) -> Result<Fraction, String> {
    let wanted: &[Direction] = match operation {
        Operation::AllGather | Operation::Broadcast => &[Direction::Out],
        Operation::ReduceScatter | Operation::Reduce => &[Direction::In],
        Operation::AllReduce | Operation::AllReduceInNetwork => &[Direction::In, Direction::Out],
        Operation::AllToAll => return Err("no forest serves this operation".to_owned()),
    };
    let directions: Vec<Direction> = forests.iter().map(|forest| forest.direction).collect();
    if directions != wanted {
        return Err(format!("found {directions:?}; expected {wanted:?}"));
    }
    let loads: Vec<Load> = forests
        .iter()
        .map(|forest| forest.load(written))
        .collect::<Result<_, _>>()?;
    let roots = &loads[0].roots;
    if loads.iter().any(|load| load.roots != *roots) {
        return Err("the roots of the two forests have different weights".to_owned());
    }
    let (factor, below) = message(graph, written, operation, roots)?;
    slowest(written, &loads, factor, below)
}

/// Bus bandwidth times time of a forest whose roots have these weights, as a fraction.
fn message(
    graph: &CapacityGraph,
    written: &WrittenOut,
    operation: Operation,
    roots: &BTreeMap<u32, u128>,
) -> Result<(u128, u128), String> {
    let ranks = graph.ranks();
    let total: u128 = roots.values().sum();
    let too_large = || "the numbers are too large".to_owned();
    if operation.has_root() {
        let first = written.ranks.iter().position(|rank| *rank);
        let only = roots.len() == 1 && roots.keys().next().map(|it| *it as usize) == first;
        return match only {
            true => Ok((total, 1)),
            false => Err("a tree has another root than rank 0".to_owned()),
        };
    }
    if matches!(
        operation,
        Operation::AllReduce | Operation::AllReduceInNetwork
    ) {
        let factor = total.checked_mul(2 * (ranks - 1)).ok_or_else(too_large)?;
        return Ok((factor, ranks));
    }
    let mut weights = roots.values();
    let each = weights.next().copied().unwrap_or(0);
    if roots.len() as u128 != ranks || weights.any(|weight| *weight != each) {
        return Err("not every rank is a root with the same weight".to_owned());
    }
    let factor = each.checked_mul(ranks - 1).ok_or_else(too_large)?;
    Ok((factor, 1))
}

/// The bandwidth on the link that takes longest: factor·capacity/(below·load), least over links.
fn slowest(
    written: &WrittenOut,
    loads: &[Load],
    factor: u128,
    below: u128,
) -> Result<Fraction, String> {
    let mut least: Option<Fraction> = None;
    for (at, (_, _, capacity)) in written.links.iter().enumerate() {
        let load: u128 = loads.iter().map(|load| load.links[at]).sum();
        if load == 0 {
            continue;
        }
        let value = factor
            .checked_mul(u128::from(*capacity))
            .zip(load.checked_mul(below))
            .and_then(|(above, below)| Fraction::new(above, below))
            .ok_or("the numbers are too large")?;
        if least.is_none_or(|least| value.compare(least) == Ordering::Less) {
            least = Some(value);
        }
    }
    least.ok_or_else(|| "no link carries anything".to_owned())
}
