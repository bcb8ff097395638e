//! The trees of the machines of `topologies/`, as one host and as two: their programs are proved
//! with one slot and with eight, and run on threads. Each element is checked.

use std::sync::Arc;
use std::time::Duration;

use backend_cpu::Cpu;
use executor::suite::{self, Case};
use executor::{Choice, Communicator, Settings as RunSettings};
use plan::PlannedForest;
use planner::{Job, Planned, Settings};
use program::lower::{ProgramRequest, lower};
use program::verify::verify;
use program::{Channels, ElementType, Protocol, Reduction, Schedule, Transfer};
use testkit::Machine;

/// Elements of a block: more than one turn on some channels, fewer than a cache line on none.
const COUNT: usize = 3001;

/// The channels of a job with its forests.
fn forests(planned: &Planned) -> Option<(Channels, Vec<PlannedForest>)> {
    if planned.plan().rank_count() < 2 {
        return None;
    }
    let forests = bounds::planned_forests(planned, None).unwrap();
    let plan = planned.plan().with_forests(forests.clone()).unwrap();
    let plan = plan::Plan::from_json(&plan.to_json().unwrap()).unwrap();
    let channels = plan.expansion().unwrap().program_channels().unwrap();
    (!forests.is_empty()).then_some((channels, forests))
}

fn proved(name: &str, channels: &Channels, forest: &PlannedForest) {
    for in_place in [false, true] {
        let request = ProgramRequest {
            collective: forest.collective,
            schedule: Schedule::Forest,
            transfer: Transfer::Fifo,
            root: 0,
            in_place,
            channels,
        };
        for slots in [1, 8] {
            let programs = lower(&request).unwrap();
            let shown = forest.collective;
            verify(programs, slots).unwrap_or_else(|it| panic!("{name} {shown} {slots}: {it}"));
        }
    }
}

fn run(name: &str, channels: Channels, forests: &[PlannedForest]) {
    let ranks = channels.ranks();
    let settings = RunSettings {
        channels: Some(channels),
        longest_wait: Duration::from_secs(60),
        buffer_bytes: Some(64 << 20),
        ..RunSettings::default()
    };
    let case = |forest: &PlannedForest, in_place, root| Case {
        collective: forest.collective,
        choice: Choice {
            schedule: Schedule::Forest,
            transfer: Transfer::Fifo,
            protocol: Protocol::Simple,
            channels: 1,
            piece_bytes: 0,
        },
        element: ElementType::I32,
        reduction: Reduction::Sum,
        ranks,
        root: if forest.collective.has_root() {
            root
        } else {
            0
        },
        count: COUNT,
        in_place,
    };
    let cases: Vec<Case> = forests
        .iter()
        .flat_map(|forest| [case(forest, false, 0), case(forest, true, ranks / 2)])
        .collect();
    let communicators = Communicator::local(ranks, &settings, |_| Cpu::default()).unwrap();
    if let Err(problem) = suite::run(communicators, &cases) {
        panic!("{name}: {problem}");
    }
}

/// Most ranks of two hosts, but for the test that takes longest.
const MOST_OF_TWO: u64 = 8;

#[test]
fn forests_of_every_fourth_machine() {
    let jobs = prove_and_run(MOST_OF_TWO, 4);
    assert!(jobs > 15, "only {jobs} jobs have forests");
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn forests_of_one_host_and_of_two_small_ones() {
        let jobs = prove_and_run(MOST_OF_TWO, 1);
        assert!(jobs > 60, "only {jobs} jobs have forests");
    }
}

#[test]
#[ignore = "takes long; run it after a change of the search for trees"]
fn forests_of_all_machines() {
    let jobs = prove_and_run(u64::MAX, 1);
    assert!(jobs > 110, "only {jobs} jobs have forests");
}

/// Returns the number of jobs with forests of every `one_of`-th machine.
fn prove_and_run(most_of_two: u64, one_of: usize) -> u32 {
    let (mut jobs, mut trees) = (0, 0);
    for machine in Machine::all().unwrap().iter().step_by(one_of) {
        let document = Arc::new(machine.document().unwrap());
        for hosts in [1, 2] {
            let job = Job::hosts(Arc::clone(&document), hosts);
            let Ok(planned) = planner::plan(&job, &Settings::default()) else {
                continue;
            };
            if hosts == 2 && planned.plan().rank_count() > most_of_two {
                continue;
            }
            let Some((channels, forests)) = forests(&planned) else {
                continue;
            };
            let name = format!("{} {hosts}", machine.name);
            jobs += 1;
            for forest in &forests {
                proved(&name, &channels, forest);
                trees += forest
                    .channels
                    .iter()
                    .map(|it| it.trees.len())
                    .sum::<usize>();
            }
            run(&name, channels, &forests);
        }
    }
    println!("{jobs} jobs, {trees} trees");
    jobs
}
