//! Optima that are known: those of ForestColl's NVSwitch topologies, as fractions.

use plan::certificate::{CapacityGraph, Fraction, Operation, check};

use crate::common::{certified, class, value};

/// Hosts of 8 GPUs with 300 GB/s to an NVSwitch and 25 GB/s each to the network.
fn a100(hosts: u32) -> CapacityGraph {
    let gpus = 0..8u32;
    let links = gpus.flat_map(|gpu| [(gpu, 8, 300), (8, gpu, 300), (gpu, 9, 25), (9, gpu, 25)]);
    CapacityGraph {
        network: vec!["network".to_owned()],
        hosts: vec![class(8, 1, hosts, &links.collect::<Vec<_>>())],
    }
}

/// Bus bandwidth is (N−1)/N of algorithm bandwidth.
fn all_gather(graph: CapacityGraph, algorithm: (u128, u128)) {
    let ranks = graph.ranks();
    let certificate = certified(graph);
    check(&certificate).unwrap();
    let expected = Fraction::new(algorithm.0 * (ranks - 1), algorithm.1 * ranks).unwrap();
    for operation in [Operation::AllGather, Operation::ReduceScatter] {
        assert_eq!(value(&certificate, operation), expected, "{operation}");
    }
}

#[test]
fn forest_coll_one_dgx_a100() {
    let mut graph = a100(1);
    // A job of one host does not use the network.
    graph.network.clear();
    graph.hosts[0].links.retain(|it| it.from != 9 && it.to != 9);
    all_gather(graph, (2400, 7));
}

#[test]
fn forest_coll_two_dgx_a100() {
    all_gather(a100(2), (1040, 3));
}

#[test]
fn forest_coll_four_dgx_a100() {
    all_gather(a100(4), (800, 3));
}

#[test]
fn many_equal_hosts_cost_no_more_than_two() {
    let certificate = certified(a100(1 << 20));
    check(&certificate).unwrap();
    // Every host receives all but its own shards through 8 × 25.
    let ranks = 8u128 << 20;
    let expected = Fraction::new((ranks - 1) * 200, ranks - 8).unwrap();
    assert_eq!(value(&certificate, Operation::AllGather), expected);
}

#[test]
fn a_rank_that_nothing_reaches_makes_the_bound_zero() {
    let graph = crate::common::one_host(3, 0, &[(0, 1, 5), (1, 0, 5), (2, 0, 5)]);
    let certificate = certified(graph);
    check(&certificate).unwrap();
    for operation in [
        Operation::AllGather,
        Operation::AllReduce,
        Operation::Broadcast,
    ] {
        assert_eq!(value(&certificate, operation).numerator, 0, "{operation}");
    }
}

/// Trees reach the exact optimum of two hosts with all NICs at one network.
#[test]
fn forests_of_two_dgx_a100() {
    let mut wanted = crate::common::everything();
    wanted.forests = true;
    let certificate = bounds::certify(a100(2), &wanted).unwrap();
    check(&certificate).unwrap();
    let mut bounds = certificate.bounds.iter();
    let gather = bounds
        .find(|it| it.operation == Operation::AllGather)
        .unwrap();
    let reached = gather.reached.unwrap().per(1.0);
    assert!(reached > 0.95 * gather.bandwidth.per(1.0), "{reached}");
}
