//! Graphs for tests.

use bounds::{CertificateRequest, certify};
use fastrand::Rng;
use plan::Digest;
use plan::certificate::{
    CapacityGraph, Certificate, DirectedLink, Fraction, HostClass, LinkSet, Operation, Vertex,
};

/// A class of hosts with these ranks first, then switches, and links (from, to, capacity). The
/// network's vertices follow those of the host.
pub(crate) fn class(
    ranks: usize,
    others: usize,
    count: u32,
    links: &[(u32, u32, u64)],
) -> HostClass {
    let vertex = |at: usize| Vertex {
        name: format!("v{at}"),
        rank: at < ranks,
    };
    let link = |(from, to, capacity): &(u32, u32, u64)| DirectedLink {
        from: *from,
        to: *to,
        kind: "NVL".to_owned(),
        capacity: *capacity,
    };
    HostClass {
        name: "host".to_owned(),
        count,
        vertices: (0..ranks + others).map(vertex).collect(),
        links: links.iter().map(link).collect(),
    }
}

/// One host without a network.
pub(crate) fn one_host(ranks: usize, others: usize, links: &[(u32, u32, u64)]) -> CapacityGraph {
    CapacityGraph {
        network: Vec::new(),
        hosts: vec![class(ranks, others, 1, links)],
    }
}

/// Random links between vertices, most of them in both directions.
pub(crate) fn random_links(rng: &mut Rng, vertices: u32) -> Vec<(u32, u32, u64)> {
    let mut links = Vec::new();
    for _ in 0..rng.u32(vertices..=3 * vertices) {
        let (from, to) = (rng.u32(..vertices), rng.u32(..vertices));
        if from == to {
            continue;
        }
        links.push((from, to, rng.u64(1..10)));
        if rng.u32(..4) > 0 {
            links.push((to, from, rng.u64(1..10)));
        }
    }
    links
}

/// All operations, without forests.
pub(crate) fn everything() -> CertificateRequest {
    CertificateRequest {
        fingerprint: Digest::of(b""),
        links: LinkSet::Rules,
        operations: Operation::ALL.to_vec(),
        forests: false,
        units: None,
    }
}

/// The certificate of all operations.
pub(crate) fn certified(graph: CapacityGraph) -> Certificate {
    certify(graph, &everything()).unwrap()
}

/// The bound of an operation.
pub(crate) fn value(certificate: &Certificate, operation: Operation) -> Fraction {
    let mut bounds = certificate.bounds.iter();
    let found = bounds.find(|bound| bound.operation == operation);
    found.unwrap().bandwidth
}
