//! try
use bounds::{Wanted, capacity_graph, certify};
use machines::Machine;
use plan::certificate::*;
use planner::{Job, Settings};
use std::sync::Arc;

#[test]
fn table() {
    for machine in Machine::all().unwrap() {
        for hosts in [1u32, 2] {
            let Ok(document) = machine.document() else {
                continue;
            };
            let job = Job::hosts(Arc::new(document), hosts);
            let Ok(planned) = planner::plan(&job, &Settings::default()) else {
                continue;
            };
            let graph = capacity_graph(&planned, LinkSet::Rules);
            let ranks = graph.ranks();
            if ranks < 2 {
                continue;
            }
            let t = std::time::Instant::now();
            let plan = planned.plan();
            let wanted = Wanted {
                fingerprint: plan.fingerprint,
                links: LinkSet::Rules,
                operations: Operation::ALL.to_vec(),
            };
            let c = certify(graph, &wanted).unwrap();
            let t = t.elapsed();
            check(&c).unwrap();
            let ring = plan
                .common
                .as_ref()
                .unwrap()
                .graph(plan::GraphKind::Ring)
                .unwrap();
            let nodes = planned.job.layout().nodes();
            let bw = if nodes > 1 {
                ring.bw_intra.min(ring.bw_inter)
            } else {
                ring.bw_intra
            };
            print!(
                "{:28} {hosts}x{:<3} ring {:7.1}",
                machine.name,
                ranks / u128::from(hosts),
                bw * ring.channels as f32
            );
            for b in &c.bounds {
                print!(" {}={:.1}", b.operation, b.bandwidth.per(1e4));
            }
            println!(" {:?}", t);
        }
    }
}
