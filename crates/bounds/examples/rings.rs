//! All sets of GPUs of a DGX-1V, and all machines of `topologies/`: NCCL's rings beside the best.
//!
//! `cargo run --release -p bounds --example rings`

use std::sync::Arc;
use std::time::Instant;

use bounds::rings::{replan, search};
use plan::GraphKind;
use planner::{Job, Settings, with_gpus};
use testkit::Machine;

fn main() {
    let document = Machine::named("dgx-1v").unwrap().document().unwrap();
    for set in 0..256u32 {
        let devices: Vec<i32> = (0..8).filter(|dev| set >> dev & 1 == 1).collect();
        if devices.len() > 1 {
            let job = Job::hosts(Arc::new(with_gpus(&document, &devices)), 1);
            row(&format!("dgx-1v {devices:?}"), &job);
        }
    }
    for machine in Machine::all().unwrap() {
        let Ok(document) = machine.document() else {
            continue;
        };
        let document = Arc::new(document);
        for hosts in [1, 2] {
            let job = Job::hosts(Arc::clone(&document), hosts);
            row(&format!("{} x{hosts}", machine.name), &job);
        }
    }
}

fn row(name: &str, job: &Job) {
    let settings = Settings::default();
    let Ok(planned) = planner::plan(job, &settings) else {
        return;
    };
    let begun = Instant::now();
    let found = match search(&planned) {
        Ok(found) => found,
        Err(error) => return println!("{name}: {error}"),
    };
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let unit = 10_000.0;
    let replanned = replan(job, &planned, &found, None);
    let used = replanned.map(|it| {
        let common = it.planned.job.common();
        let [ring, tree] = [GraphKind::Ring, GraphKind::Tree].map(|it| *common.graph(it).unwrap());
        let costs = [&planned, &it.planned].map(|it| all_reduce(it.plan()));
        format!(
            "{} x {} tree {} x {}; all-reduce {costs:.1?}",
            ring.channels, ring.bw_intra, tree.channels, tree.bw_intra
        )
    });
    println!(
        "{name}: stated {:.2} carried {:.2} best {:.2} bound {:.3} {:?} {} channels {:.1} ms; plan {}",
        found.stated as f64 / unit,
        found.carried as f64 / unit,
        found.best as f64 / unit,
        found.bound.per(unit),
        found.outcome,
        found.graph.channels.len(),
        took,
        used.unwrap_or_else(|error| error.to_string()),
    );
}

/// The most that an algorithm reaches in an all-reduce, GB/s of bus bandwidth.
fn all_reduce(plan: &plan::Plan) -> f32 {
    let costs = plan.costs.as_ref().unwrap();
    let entries = costs.entries.iter();
    let of = entries.filter(|it| it.collective.command_name() == "all-reduce");
    let busbw = of.map(|it| it.bandwidth * it.collective.bus_factor(costs.job.ranks) as f32);
    busbw.fold(0.0, f32::max)
}
