//! Forests of a planned job, as part of its plan.

use plan::PlannedForest;
use plan::certificate::{Certificate, CertificateError, LinkSet, Operation, check};
use planner::Planned;

use crate::capacity::capacity_graph;
use crate::certify::{CertificateRequest, certify};

/// The operations that trees serve.
pub const BY_TREES: [Operation; 5] = [
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllReduce,
    Operation::Broadcast,
    Operation::Reduce,
];

/// Trees over NCCL's links for every collective for which they can be packed. `units` is the number
/// of trees for each root; without it, the least number that comes near the bound.
///
/// # Errors
/// The job has fewer than two ranks, or the proofs of its bounds do not hold.
pub fn planned_forests(
    planned: &Planned,
    units: Option<u64>,
) -> Result<Vec<PlannedForest>, CertificateError> {
    let wanted = CertificateRequest {
        fingerprint: planned.plan().fingerprint,
        links: LinkSet::Rules,
        operations: BY_TREES.to_vec(),
        forests: true,
        units,
    };
    let certificate = certify(capacity_graph(planned, LinkSet::Rules), &wanted)?;
    check(&certificate)?;
    Ok(of_certificate(&certificate, planned))
}

/// The forests of a certificate over the ranks of its job.
pub fn of_certificate(certificate: &Certificate, planned: &Planned) -> Vec<PlannedForest> {
    let layout = planned.job.layout();
    let bounds = certificate.bounds.iter();
    let forests = bounds.map(|bound| PlannedForest::of(bound, &certificate.graph, layout));
    forests.flatten().collect()
}
