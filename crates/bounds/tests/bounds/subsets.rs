//! All sets of GPUs of a DGX-1V: NCCL's rings beside the bound of all-gather.

use std::sync::Arc;

use bounds::{capacity_graph, certify};
use plan::GraphKind;
use plan::certificate::{LinkSet, Operation, UNITS, check};
use planner::{Job, Settings, with_gpus};
use testkit::Machine;

use crate::common::everything;

/// By number of GPUs: sets, those where NCCL reaches less than 95 % of the bound, least share in
/// hundredths, mean share in hundredths.
const SHARES: [(u32, u32, u32, u32, u32); 7] = [
    (2, 28, 12, 83, 93),
    (3, 56, 28, 67, 90),
    (4, 70, 40, 38, 79),
    (5, 56, 36, 38, 75),
    (6, 28, 20, 56, 75),
    (7, 8, 0, 100, 100),
    (8, 1, 0, 100, 100),
];

/// NCCL's share of the bound of all-gather.
fn share(document: &topology::xml::Document, set: u32) -> f64 {
    let devices: Vec<i32> = (0..8).filter(|dev| set >> dev & 1 == 1).collect();
    let job = Job::hosts(Arc::new(with_gpus(document, &devices)), 1);
    let planned = planner::plan(&job, &Settings::default()).unwrap();
    let ring = planned.job.common().graph(GraphKind::Ring).unwrap();
    let bandwidth = match planned.job.layout().nodes() {
        1 => ring.bw_intra,
        _ => ring.bw_intra.min(ring.bw_inter),
    };
    let mut wanted = everything();
    wanted.operations = vec![Operation::AllGather];
    let graph = capacity_graph(&planned, LinkSet::Rules);
    let certificate = certify(graph, &wanted).unwrap();
    check(&certificate).unwrap();
    let bound = certificate.bounds[0].bandwidth.per(f64::from(UNITS));
    f64::from(bandwidth) * f64::from(ring.channels) / bound
}

#[test]
fn shares_of_the_bound_by_number_of_gpus() {
    let document = Machine::named("dgx-1v").unwrap().document().unwrap();
    let mut found = Vec::new();
    for gpus in 2..=8u32 {
        let sets = (0..256u32).filter(|set| set.count_ones() == gpus);
        let shares: Vec<f64> = sets.map(|set| share(&document, set)).collect();
        let below = shares.iter().filter(|share| **share < 0.95).count();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let hundredths = |share: f64| (100.0 * share).round() as u32;
        found.push((
            gpus,
            shares.len() as u32,
            below as u32,
            hundredths(least),
            hundredths(mean),
        ));
    }
    assert_eq!(found, SHARES);
}
