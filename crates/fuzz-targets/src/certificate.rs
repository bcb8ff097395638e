//! Certificates of bounds. A checked forest never exceeds the checked bound.

use std::cmp::Ordering;

use bounds::{CertificateRequest, capacity_graph, certify};
use plan::certificate::{Certificate, CertificateError, LinkSet, Operation, check};
use planner::Settings;

use crate::input::Depth;
use crate::jobs;

/// Machines and numbers of hosts whose certificates are small, with cuts, partitions, lengths and
/// forests.
const JOBS: [(&str, u32); 4] = [
    ("workstation-2gpu-nvlink", 1),
    ("random-00177", 1),
    ("random-00177", 2),
    ("random-00075", 1),
];

/// Certificates of small machines.
///
/// # Panics
/// A machine of the repository has no certificate.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |(name, hosts): (&str, u32)| {
        let planned = jobs::planned(&jobs::document(name), hosts, false, &Settings::default());
        let planned = planned.unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = CertificateRequest {
            fingerprint: planned.plan().fingerprint,
            links: LinkSet::Rules,
            operations: Operation::ALL.to_vec(),
            forests: true,
            units: Some(1),
        };
        let certificate = certify(capacity_graph(&planned, LinkSet::Rules), &wanted);
        let certificate = certificate.unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = certificate.to_json();
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
            .into_bytes()
    };
    JOBS.into_iter().map(seed).collect()
}

/// Reads a certificate and checks it.
///
/// # Panics
/// A forest that was accepted exceeds its bound.
pub fn run(bytes: &[u8]) -> Depth {
    let text = String::from_utf8_lossy(bytes);
    let certificate = match Certificate::from_json(&text) {
        Ok(certificate) => certificate,
        Err(error) => {
            let _ = error.to_string();
            return match error {
                CertificateError::NotACertificate { .. } => Depth::Outside,
                _ => Depth::Inside,
            };
        }
    };
    if let Err(error) = check(&certificate) {
        let _ = error.to_string();
        return Depth::Inside;
    }
    for bound in &certificate.bounds {
        let exceeds = |reached: plan::certificate::Fraction| {
            reached.compare(bound.bandwidth) == Ordering::Greater
        };
        assert!(!bound.reached.is_some_and(exceeds), "{bound:?}");
    }
    Depth::Accepted
}
