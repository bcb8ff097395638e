//! The time that bounds of large jobs take: equal hosts, and hosts that all differ.
//!
//! `cargo run --release -p bounds --example scale`

use std::sync::Arc;
use std::time::Instant;

use bounds::{CertificateRequest, capacity_graph, certify};
use plan::certificate::{CapacityGraph, LinkSet, Operation, check};
use planner::{Job, Settings};
use testkit::Machine;

fn timed(name: &str, graph: &CapacityGraph, fingerprint: plan::Digest) {
    for operation in [
        Operation::AllGather,
        Operation::AllReduce,
        Operation::Broadcast,
    ] {
        let wanted = CertificateRequest {
            fingerprint,
            links: LinkSet::Rules,
            operations: vec![operation],
            forests: false,
            units: None,
        };
        let begin = Instant::now();
        let certificate = certify(graph.clone(), &wanted).expect("bounds");
        let took = begin.elapsed();
        check(&certificate).expect("proofs");
        let ranks = graph.ranks();
        println!(
            "{name}, {ranks} ranks, {operation}: {:.2} ms",
            took.as_secs_f64() * 1e3
        );
    }
}

fn main() {
    let all = Machine::all().expect("topologies");
    let host = all
        .iter()
        .find(|it| it.name == "dgx-h100")
        .expect("a machine");
    let document = Arc::new(host.document().expect("a topology"));
    let plan = |hosts| {
        let job = Job::hosts(Arc::clone(&document), hosts);
        planner::plan(&job, &Settings::default()).expect("a plan")
    };
    let planned = plan(1024);
    let fingerprint = planned.plan().fingerprint;
    let equal = capacity_graph(&planned, LinkSet::Rules);
    timed("equal hosts", &equal, fingerprint);
    for hosts in [2u32, 16, 128] {
        let mut different = equal.clone();
        let class = different.hosts.remove(0);
        for host in 0..hosts {
            let mut class = class.clone();
            class.count = 1;
            for link in &mut class.links {
                link.capacity -= u64::from(host) * link.capacity / 10_000;
            }
            different.hosts.push(class);
        }
        timed("different hosts", &different, fingerprint);
    }
}
