//! Better places of ranks: jobs whose best order is known, but for the numbers of their ranks.

use answers::built_in;
use answers::step::placement::{ORDERS, Placement, place};
use answers::step::{StepQuestion, step};
use fastrand::Rng;
use planner::{Job, NcclVersion, Settings};
use program::Collective;
use workload::{Call, Group, Members, Workload};

/// Jobs with a known order.
const JOBS: u64 = 20;

/// Machines and hosts of each.
const CLUSTERS: [(&str, u32); 5] = [
    ("dgx-h100", 4),
    ("pcie-8gpu-nicsw", 2),
    ("dgx-1v", 4),
    ("dgx-a100", 8),
    ("gb200-nvl72-tray", 8),
];

fn job(machine: &str, hosts: u32) -> Job {
    let text = built_in::find(machine)
        .expect("the machine is built in")
        .text;
    let read = records::machine(machine, text.as_bytes()).expect("its file is right");
    let spec = answers::JobSpec {
        hosts,
        ..answers::JobSpec::of(answers::Machine::new(machine, read.document))
    };
    spec.job().expect("the job is possible").job
}

/// Ranks in a grid of host, and of parts of a host: calls of much data within a part, of less
/// between parts, and of little between hosts.
fn natural(random: &mut Rng, ranks: u32, hosts: u32) -> Workload {
    let each = ranks / hosts;
    let inner = if random.bool() { each } else { each / 2 };
    let grid = |size: u32, stride: u32| Members::strided(size, stride);
    let mut groups = vec![("tp", grid(inner, 1))];
    if inner < each {
        groups.push(("cp", grid(each / inner, inner)));
    }
    groups.push(("dp", grid(hosts, each)));
    let mut calls = Vec::new();
    for at in 0..groups.len() {
        let bytes = (64 << 20) >> (3 * at);
        let mut call = Call::new(
            at,
            Collective::AllReduce,
            bytes + (random.u64(..1 << 20) << 2),
        );
        call.count = 64 >> (2 * at);
        call.compute_us = 100.0;
        calls.push(call);
    }
    Workload {
        ranks: Some(ranks),
        groups: groups
            .into_iter()
            .map(|(name, members)| Group {
                name: name.to_owned(),
                members,
            })
            .collect(),
        calls,
        ..Workload::default()
    }
}

/// The same calls of ranks with other numbers.
fn renamed(workload: &Workload, numbers: &[u32]) -> Workload {
    let ranks = numbers.len() as u32;
    let groups = workload.groups.iter().map(|group| {
        let all = group.members.communicators(ranks).expect("the grid fits");
        let all = all.map(|its| its.iter().map(|rank| numbers[*rank as usize]).collect());
        Group {
            name: group.name.clone(),
            members: Members::Listed(all.collect()),
        }
    });
    Workload {
        groups: groups.collect(),
        ..workload.clone()
    }
}

fn question(workload: &Workload) -> StepQuestion<'_> {
    StepQuestion {
        workload,
        domain_hosts: 1,
        room: 0,
        leaf: None,
        measurements: None,
    }
}

fn placed(job: &Job, workload: &Workload) -> Placement {
    let settings = Settings::with_variables(NcclVersion::default(), []);
    place(job, &settings, &question(workload), ORDERS).expect("ranks can be placed")
}

#[test]
fn known_orders_are_found() {
    let settings = Settings::with_variables(NcclVersion::default(), []);
    let mut worse = Vec::new();
    for seed in 0..JOBS {
        let mut random = Rng::with_seed(seed);
        let (machine, hosts) = CLUSTERS[seed as usize % CLUSTERS.len()];
        let job = job(machine, hosts);
        let ranks = answers::step::ranks(&job).expect("the job has ranks");
        let workload = natural(&mut random, ranks, hosts);
        let known = step(&job, &settings, &question(&workload)).expect("the step has a price");
        let mut numbers: Vec<u32> = (0..ranks).collect();
        random.shuffle(&mut numbers);
        let found = placed(&job, &renamed(&workload, &numbers));
        let [before, best] = found.step_us;
        let left = found.floor_us.map(|floor| best / floor - 1.0);
        println!(
            "{machine} {before:.0} → {best:.0} µs, known {:.0}, left {left:?}",
            known.step_us
        );
        if best > known.step_us * (1.0 + 1e-9) {
            worse.push((machine, best, known.step_us));
        }
        if let Some(floor) = found.floor_us {
            assert!(floor <= best, "{machine}: {found:?}");
        }
        let mut slots = found.slots.clone();
        slots.sort_unstable();
        assert!(
            slots.into_iter().eq(0..ranks),
            "{machine}: each GPU has a rank"
        );
    }
    assert_eq!(worse, []);
}

/// The order that was found, planned as any order, has the time that was promised.
#[test]
fn the_promised_time_is_that_of_the_order() {
    let job = job("dgx-h100", 4);
    let ranks = answers::step::ranks(&job).expect("the job has ranks");
    let mut random = Rng::with_seed(7);
    let workload = natural(&mut random, ranks, 4);
    let mut numbers: Vec<u32> = (0..ranks).collect();
    random.shuffle(&mut numbers);
    let workload = renamed(&workload, &numbers);
    let found = placed(&job, &workload);
    let ordered = Job {
        ranks: planner::RankPlacement::Listed(plan::RankOrder::new(found.slots.iter().copied())),
        ..job
    };
    let settings = Settings::with_variables(NcclVersion::default(), []);
    let again = step(&ordered, &settings, &question(&workload)).expect("the step has a price");
    assert_eq!(again.step_us, found.step_us[1]);
    assert!(found.is_better);
    let names = |host: u32| format!("node{host}");
    let files = found.files(names);
    let hosts = files
        .iter()
        .find(|it| it.name == "hosts.txt")
        .expect("it is there");
    assert_eq!(hosts.text.lines().count(), ranks as usize);
}
