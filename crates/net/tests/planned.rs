//! Plans of many jobs as their ranks run them.

use answers::built_in;
use answers::gpus::AskedGpus;
use answers::request::JobRequest;
use net::run::{RunChannels, RunnerError};
use plan::{Plan, PlanContent};

fn plan(machine: &str, hosts: u32, gpus: i64) -> Option<Plan> {
    let mut job = JobRequest::of(machine);
    job.hosts.hosts = hosts;
    job.ranks.gpus = Some(AskedGpus::Listed((0..gpus).collect()));
    // Not every machine has so many GPUs.
    let planned = job.plan().ok()?;
    Some(planned.planned.plan().clone())
}

fn run(name: &str, plan: &Plan) -> RunChannels {
    RunChannels::of(name, plan, None).unwrap_or_else(|why| panic!("{why}"))
}

/// Programs are written over the plan's rings and trees, each once.
#[test]
fn channels_are_those_of_the_plan() {
    let mut jobs = 0;
    for machine in built_in::MACHINES {
        for (hosts, gpus) in [(1, 2), (1, 4), (2, 1), (2, 2)] {
            let Some(plan) = plan(machine.name, hosts, gpus) else {
                continue;
            };
            let planned = run(machine.name, &plan);
            assert_eq!(u64::from(planned.ranks), plan.rank_count());
            let expansion = plan.expansion().unwrap();
            let written = expansion.program_channels().unwrap();
            let channels = planned.channels().unwrap().expect("rings join all ranks");
            assert_eq!(channels.rings(), written.rings(), "{}", machine.name);
            assert_eq!(channels.count(), written.count(), "{}", machine.name);
            let trees = written.trees().iter().map(|tree| &tree.parents);
            assert!(planned.trees.iter().eq(trees), "{}", machine.name);
            jobs += 1;
        }
    }
    assert!(jobs >= 40, "{jobs}");
}

/// Names of machines may differ between ranks; what decides may not.
#[test]
fn the_fingerprint_is_of_what_decides() {
    let one = plan("dgx-h100", 1, 4).unwrap();
    let mut renamed = PlanContent::clone(&one);
    renamed.machines[0].name = "node7".to_owned();
    let renamed = Plan::new(renamed).unwrap();
    let other = plan("dgx-a100", 1, 4).unwrap();
    let [one, renamed, other] = [one, renamed, other].map(|it| run("job", &it).fingerprint);
    assert_eq!(one, renamed);
    assert_ne!(one, other);
}

#[test]
fn what_is_no_plan_is_refused() {
    let refused = RunChannels::from_json("job.json", "{}").unwrap_err();
    assert!(matches!(refused, RunnerError::Plan { .. }), "{refused}");
    assert!(refused.to_string().starts_with("job.json: "), "{refused}");
}
