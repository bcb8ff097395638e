//! The bounds of a job, each with its proof.

use std::cmp::Ordering;

use plan::Digest;
use plan::certificate::{
    Bound, CapacityGraph, Certificate, CertificateError, Cut, Direction, LinkSet, Operation, Part,
    Proof, tightness,
};

use crate::exchange;
use crate::forest::forests;
use crate::gather::gather;
use crate::partition::partition;
use crate::pieces::pieces;
use crate::rooted::rooted;

/// What is to be certified.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The fingerprint of the plan's input.
    pub fingerprint: Digest,
    /// The links that the graph has.
    pub links: LinkSet,
    /// The operations.
    pub operations: Vec<Operation>,
    /// Also pack trees, where that is possible.
    pub forests: bool,
    /// Units of each root that trees carry; without it, the fewest that come near the bound.
    pub units: Option<u64>,
}

/// Finds the bounds of a job, and trees that come near them.
///
/// # Errors
/// The graph has fewer than two ranks, or contradicts itself.
pub fn certify(graph: CapacityGraph, wanted: &Wanted) -> Result<Certificate, CertificateError> {
    graph.validate()?;
    let search = Search::new(&graph);
    let mut bounds = Vec::new();
    for operation in &wanted.operations {
        let mut bound = search.bound(*operation)?;
        if wanted.forests
            && let Some(bound) = &mut bound
            && let Some(found) = forests(&graph, *operation, bound.bandwidth, wanted.units)
        {
            if let Some(lengths) = found.lengths {
                tighten(&graph, bound, Proof::Lengths(lengths));
            }
            if let Some((packed, value)) = found.packed {
                bound.forests = packed;
                bound.reached = Some(value);
            }
        }
        if wanted.forests
            && *operation == Operation::AllToAll
            && let Some(bound) = &mut bound
            && let Some(lengths) = exchange::lengths(&graph)
        {
            tighten(&graph, bound, Proof::Lengths(lengths));
        }
        bounds.extend(bound);
    }
    Ok(Certificate {
        fingerprint: wanted.fingerprint,
        links: wanted.links,
        graph,
        bounds,
    })
}

/// Takes another proof if it holds and proves a lower bound.
fn tighten(graph: &CapacityGraph, bound: &mut Bound, proof: Proof) {
    if let Ok(bandwidth) = tightness(graph, bound.operation, &proof)
        && bandwidth.compare(bound.bandwidth) == Ordering::Less
    {
        bound.bandwidth = bandwidth;
        bound.proof = proof;
    }
}

/// The tight cuts and partitions of a job.
struct Search<'a> {
    graph: &'a CapacityGraph,
    spread: Vec<Cut>,
    collect: Vec<Cut>,
    rooted: [Option<Cut>; 2],
    partitions: [Option<Vec<Part>>; 2],
}

impl<'a> Search<'a> {
    fn new(graph: &'a CapacityGraph) -> Self {
        let both = [Direction::Out, Direction::In];
        Self {
            spread: gather(graph, Direction::Out).cuts,
            collect: gather(graph, Direction::In).cuts,
            rooted: both.map(|direction| rooted(graph, direction)),
            partitions: both.map(|direction| partition(graph, direction)),
            graph,
        }
    }

    /// The bound of an operation; `None` if nothing limits it.
    fn bound(&self, operation: Operation) -> Result<Option<Bound>, CertificateError> {
        let mut least: Option<Bound> = None;
        for proof in self.proofs(operation) {
            let bandwidth = tightness(self.graph, operation, &proof)
                .map_err(|problem| CertificateError::Proof { operation, problem })?;
            let smaller = |least: &Bound| bandwidth.compare(least.bandwidth) == Ordering::Less;
            if least.as_ref().is_none_or(smaller) {
                least = Some(Bound {
                    operation,
                    bandwidth,
                    proof,
                    reached: None,
                    forests: Vec::new(),
                });
            }
        }
        Ok(least)
    }

    fn proofs(&self, operation: Operation) -> Vec<Proof> {
        let of = |cut: Option<&Cut>| -> Vec<Proof> {
            cut.cloned().map(Proof::Cut).into_iter().collect()
        };
        match operation {
            Operation::AllGather => of(self.spread.last()),
            Operation::ReduceScatter => of(self.collect.last()),
            Operation::Broadcast => of(self.rooted[0].as_ref()),
            Operation::Reduce => of(self.rooted[1].as_ref()),
            Operation::AllReduceInNetwork => {
                self.rooted.iter().flat_map(|it| of(it.as_ref())).collect()
            }
            Operation::AllReduce => {
                let mut proofs: Vec<Proof> =
                    self.rooted.iter().flat_map(|it| of(it.as_ref())).collect();
                let directions = [Direction::Out, Direction::In];
                for (direction, parts) in directions.into_iter().zip(&self.partitions) {
                    proofs.extend(
                        parts
                            .clone()
                            .map(|parts| Proof::Partition { direction, parts }),
                    );
                }
                proofs
            }
            Operation::AllToAll => of(pieces(self.graph, self.candidates()).as_ref()),
        }
    }

    /// Every cut that was found, for operations that can use any.
    fn candidates(&self) -> Vec<Cut> {
        let cuts = self.spread.iter().chain(&self.collect);
        let cuts = cuts.chain(self.rooted.iter().flatten()).cloned();
        let parts = self.partitions.iter().flatten().flatten();
        cuts.chain(parts.map(|part| part.set.clone())).collect()
    }
}
