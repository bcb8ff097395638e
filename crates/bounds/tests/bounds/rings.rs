//! Sets of rings for NCCL: of all sets of GPUs of a DGX-1V, of machines, and against trying all.

use std::sync::Arc;

use bounds::rings::{NoRings, Outcome, RingSearch, replan, search};
use plan::certificate::Fraction;
use plan::{GraphKind, nccl_graph::GraphFile};
use planner::search::hops::{Hops, PARTS};
use planner::{Job, Planned, Settings, with_gpus};
use testkit::Machine;

/// By number of GPUs of a DGX-1V: sets with better rings than NCCL's, sets for which NCCL's are
/// proved to be the best, and sets whose GPUs NCCL joins by the network.
const SETS: [(u32, usize, usize, usize); 7] = [
    (2, 0, 16, 12),
    (3, 0, 32, 24),
    (4, 0, 56, 14),
    (5, 8, 48, 0),
    (6, 12, 16, 0),
    (7, 0, 8, 0),
    (8, 0, 1, 0),
];

/// Bandwidth with which better rings of a DGX-1V beat NCCL's, 0.1 MB/s.
const NCCL: u64 = 400_000;
const BETTER: u64 = 600_000;

fn job(set: u32) -> Job {
    let document = Machine::named("dgx-1v").unwrap().document().unwrap();
    let devices: Vec<i32> = (0..8).filter(|dev| set >> dev & 1 == 1).collect();
    Job::hosts(Arc::new(with_gpus(&document, &devices)), 1)
}

fn planned(job: &Job) -> Planned {
    planner::plan(job, &Settings::default()).unwrap()
}

/// The most that a bound allows, 0.1 MB/s.
fn most(bound: Fraction) -> u64 {
    (bound.per(1.0) + 1e-6) as u64
}

/// Plans with the rings: NCCL's graph file gives all of them, at their bandwidth.
fn check_plan(name: &str, job: &Job, planned: &Planned, found: &RingSearch) {
    let replanned = replan(job, planned, found, None).unwrap();
    let ring = replanned.planned.node(0).graph(GraphKind::Ring).unwrap();
    assert_eq!(*ring, found.graph, "{name}");
    let used = replanned
        .planned
        .job
        .common()
        .graph(GraphKind::Ring)
        .unwrap();
    assert_eq!(used.channels as usize, found.graph.channels.len(), "{name}");
    let file = GraphFile::parse("graph.xml", &replanned.file).unwrap();
    assert!(file.warnings().is_empty(), "{name}");
}

#[test]
fn sets_of_a_dgx_1v() {
    let mut counts = Vec::new();
    for gpus in 2..=8u32 {
        let (mut better, mut best, mut by_network) = (0, 0, 0);
        for set in (0..256u32).filter(|set| set.count_ones() == gpus) {
            let job = job(set);
            let planned = planned(&job);
            let found = match search(&planned) {
                Ok(found) => found,
                Err(why) => {
                    assert_eq!(why, NoRings::SeveralNodes, "{set:#b}");
                    by_network += 1;
                    continue;
                }
            };
            assert_eq!(most(found.bound), found.best, "{set:#b}");
            match found.outcome {
                Outcome::Better => {
                    assert_eq!((found.stated, found.best), (NCCL, BETTER), "{set:#b}");
                    check_plan(&format!("{set:#b}"), &job, &planned, &found);
                    better += 1;
                }
                Outcome::Restated => panic!("{set:#b} {found:?}"),
                Outcome::Same => best += 1,
            }
        }
        counts.push((gpus, better, best, by_network));
    }
    assert_eq!(counts, SETS);
}

/// No rings exceed the bound, and none are worse than NCCL's.
#[test]
fn machines_as_one_host_and_as_two() {
    for machine in Machine::all().unwrap() {
        let document = Arc::new(machine.document().unwrap());
        for hosts in [1, 2] {
            let name = format!("{} x{hosts}", machine.name);
            let job = Job::hosts(Arc::clone(&document), hosts);
            let Ok(planned) = planner::plan(&job, &Settings::default()) else {
                continue;
            };
            let Ok(found) = search(&planned) else {
                continue;
            };
            assert!(
                found.best >= found.stated.max(found.carried),
                "{name} {found:?}"
            );
            assert!(found.best <= most(found.bound), "{name} {found:?}");
            if found.outcome != Outcome::Same {
                check_plan(&name, &job, &planned, &found);
            }
        }
    }
}

/// All rings over GPUs, as what they take of links.
fn all_rings(hops: &Hops) -> Vec<Vec<u64>> {
    fn extend(hops: &Hops, order: &mut Vec<usize>, rings: &mut Vec<Vec<u64>>) {
        let gpus = hops.ranks.len();
        if order.len() == gpus {
            let mut loads = vec![0; hops.capacities.len()];
            let ends = order.iter().zip(order.iter().cycle().skip(1));
            for (from, to) in ends {
                let Some(hop) = hops.hop(*from, *to) else {
                    return;
                };
                for (link, parts) in &hop.charges {
                    loads[*link as usize] += parts;
                }
            }
            return rings.push(loads);
        }
        for next in 0..gpus {
            if !order.contains(&next) {
                order.push(next);
                extend(hops, order, rings);
                order.pop();
            }
        }
    }
    let mut rings = Vec::new();
    extend(hops, &mut vec![0], &mut rings);
    rings.sort_unstable();
    rings.dedup();
    rings
}

/// The most that up to three equal channels carry, 0.1 MB/s.
fn by_trying(hops: &Hops) -> u64 {
    let rings = all_rings(hops);
    let fastest = (hops.fastest * 10_000.0) as u64;
    let carried = |chosen: &[usize]| {
        let links = hops.capacities.iter().enumerate();
        let each = links.filter_map(|(link, capacity)| {
            let load: u64 = chosen.iter().map(|ring| rings[*ring][link]).sum();
            (capacity * PARTS).checked_div(load)
        });
        each.min().unwrap_or(0).min(fastest) * chosen.len() as u64
    };
    let mut best = 0;
    for a in 0..rings.len() {
        best = carried(&[a]).max(best);
        for b in a..rings.len() {
            best = carried(&[a, b]).max(best);
            for c in b..rings.len() {
                best = carried(&[a, b, c]).max(best);
            }
        }
    }
    best
}

#[test]
fn no_three_rings_carry_more() {
    for set in (0..256u32)
        .filter(|set| (3..=5).contains(&set.count_ones()))
        .step_by(3)
    {
        let planned = planned(&job(set));
        let Ok(found) = search(&planned) else {
            continue;
        };
        let tried = by_trying(&Hops::of(&planned.node(0).view));
        assert!(tried <= found.best, "{set:#b}: {tried} {found:?}");
    }
}
