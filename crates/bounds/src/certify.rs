//! The bounds of a job, each with its proof.

use std::cell::OnceCell;
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

/// A certificate that is to be made.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
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
pub fn certify(
    graph: CapacityGraph,
    wanted: &CertificateRequest,
) -> Result<Certificate, CertificateError> {
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

/// The tight cuts and partitions of a job, each found when it is first needed.
struct Search<'a> {
    graph: &'a CapacityGraph,
    gathered: [OnceCell<Vec<Cut>>; 2],
    rooted: [OnceCell<Option<Cut>>; 2],
    partitions: [OnceCell<Option<Vec<Part>>>; 2],
}

/// Both directions, in the order of the parts of a [`Search`].
const BOTH: [Direction; 2] = [Direction::Out, Direction::In];

impl<'a> Search<'a> {
    fn new(graph: &'a CapacityGraph) -> Self {
        Self {
            gathered: Default::default(),
            rooted: Default::default(),
            partitions: Default::default(),
            graph,
        }
    }

    /// The cuts of all-gather (0) or reduce-scatter (1), the tightest last.
    fn gathered(&self, at: usize) -> &[Cut] {
        self.gathered[at].get_or_init(|| gather(self.graph, BOTH[at]).cuts)
    }

    /// The tightest cut of broadcast (0) or reduce (1).
    fn rooted(&self, at: usize) -> Option<&Cut> {
        let cell = &self.rooted[at];
        cell.get_or_init(|| rooted(self.graph, BOTH[at])).as_ref()
    }

    /// The tightest partition by bandwidth out of its sets (0) or into them (1).
    fn partition(&self, at: usize) -> Option<&[Part]> {
        let cell = &self.partitions[at];
        let found = cell.get_or_init(|| partition(self.graph, BOTH[at]));
        found.as_deref()
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
        let both = || {
            let cuts = [0, 1].into_iter().flat_map(|at| of(self.rooted(at)));
            cuts.collect::<Vec<Proof>>()
        };
        match operation {
            Operation::AllGather => of(self.gathered(0).last()),
            Operation::ReduceScatter => of(self.gathered(1).last()),
            Operation::Broadcast => of(self.rooted(0)),
            Operation::Reduce => of(self.rooted(1)),
            Operation::AllReduceInNetwork => both(),
            Operation::AllReduce => {
                let mut proofs = both();
                for (at, direction) in BOTH.into_iter().enumerate() {
                    let parts = self.partition(at).map(<[Part]>::to_vec);
                    proofs.extend(parts.map(|parts| Proof::Partition { direction, parts }));
                }
                proofs
            }
            Operation::AllToAll => of(pieces(self.graph, self.candidates()).as_ref()),
        }
    }

    /// Every cut that was found, for operations that can use any.
    fn candidates(&self) -> Vec<Cut> {
        let of = |at: usize| {
            let cuts = self.gathered(at).iter().chain(self.rooted(at));
            let parts = self.partition(at).unwrap_or_default();
            cuts.chain(parts.iter().map(|part| &part.set))
        };
        [0, 1].into_iter().flat_map(of).cloned().collect()
    }
}
