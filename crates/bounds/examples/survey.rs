//! Every machine of `topologies/` as one host and as two: the bound of each operation, what trees
//! reach of it, and how long the search for them takes.
//!
//! `cargo run --release -p bounds --example survey [NAME [HOSTS]]`

use std::sync::Arc;
use std::time::Instant;

use bounds::{CertificateRequest, capacity_graph, certify};
use plan::certificate::{LinkSet, UNITS, check};
use planner::{Job, Settings};
use testkit::Machine;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let hosts: Option<u32> = arguments.next().and_then(|hosts| hosts.parse().ok());
    let (mut jobs, mut whole) = (0, 0);
    for machine in Machine::all().expect("topologies") {
        if name.as_ref().is_some_and(|name| *name != machine.name) {
            continue;
        }
        let document = Arc::new(machine.document().expect("a topology"));
        for hosts in hosts.map_or_else(|| vec![1, 2], |hosts| vec![hosts]) {
            let job = Job::hosts(Arc::clone(&document), hosts);
            let Ok(planned) = planner::plan(&job, &Settings::default()) else {
                continue;
            };
            let graph = capacity_graph(&planned, LinkSet::Rules);
            if graph.ranks() < 2 {
                continue;
            }
            jobs += 1;
            print!(
                "{} {hosts}x{}:",
                machine.name,
                graph.ranks() / u128::from(hosts)
            );
            let mut near = true;
            for operation in bounds::forests_of_plan::BY_TREES {
                let wanted = CertificateRequest {
                    fingerprint: planned.plan().fingerprint,
                    links: LinkSet::Rules,
                    operations: vec![operation],
                    forests: false,
                    units: None,
                };
                let begin = Instant::now();
                certify(graph.clone(), &wanted).expect("bounds");
                let bare = begin.elapsed();
                let wanted = CertificateRequest {
                    forests: true,
                    ..wanted
                };
                let certificate = certify(graph.clone(), &wanted).expect("bounds");
                let took = begin.elapsed().saturating_sub(2 * bare);
                check(&certificate).expect("proofs");
                let unit = f64::from(UNITS);
                for bound in &certificate.bounds {
                    let value = bound.bandwidth.per(unit);
                    let reached = bound.reached.map_or(0.0, |it| it.per(unit));
                    near &= reached >= 0.95 * value;
                    print!(
                        " {operation} {value:.1} {:.0}% {:.1}+{:.1}ms",
                        100.0 * reached / value,
                        bare.as_secs_f64() * 1e3,
                        took.as_secs_f64() * 1e3
                    );
                }
            }
            whole += u32::from(near);
            println!("{}", if near { "" } else { "  BELOW" });
        }
    }
    println!("{whole} of {jobs} jobs within 5 % in all operations");
}
