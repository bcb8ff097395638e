//! Expected bandwidths beside published ones.

use std::path::Path;

use answers::cost::PricedJob;
use answers::expect::{ExpectQuestion, ExpectReport};
use answers::gpus::AskedGpus;
use answers::sizes::{Collectives, Sizes};
use answers::{JobSpec, Machine};
use planner::{NcclVersion, Settings};
use program::Collective;
use records::results::published;

const GIB: u64 = 1 << 30;

/// What is expected of a job of a known machine, by the arguments of `topo expect`.
fn expectations(arguments: &str, collective: Collective, sizes: &[u64]) -> ExpectReport {
    let mut words = arguments.split_whitespace();
    let name = words.next().unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../topologies")
        .join(name)
        .join("topology.xml");
    let bytes = std::fs::read(file).unwrap();
    let machine = Machine::new(name, topology::xml::parse(name, &bytes).unwrap());
    let mut spec = JobSpec::of(machine);
    let mut variables = Vec::new();
    while let Some(option) = words.next() {
        match option {
            "--nvlink-domain" => spec.nvlink_domain = true,
            "--collnet" => spec.collnet = true,
            "--hosts" => spec.hosts = words.next().unwrap().parse().unwrap(),
            "--gpus" => {
                let asked = AskedGpus::parse(words.next().unwrap()).unwrap();
                spec.gpus = asked.gpus(None).unwrap();
            }
            "--set" => {
                let (name, value) = words.next().unwrap().split_once('=').unwrap();
                variables.push((name.to_owned(), value.to_owned()));
            }
            other => panic!("{arguments}: {other}"),
        }
    }
    let settings = Settings::with_variables(NcclVersion::default(), variables);
    let planned = planner::plan(&spec.job().unwrap().job, &settings).unwrap();
    let question = ExpectQuestion {
        sizes: Sizes::each(sizes),
        collective: vec![Collectives::from(collective)],
    };
    ExpectReport::of(PricedJob::of(&planned, None), Some(&planned), &question).unwrap()
}

/// Known machines give the jobs of the published runs, so that these are expected of them.
#[test]
fn published_runs_are_of_the_jobs_that_their_machines_give() {
    let mut compared = 0;
    for run in published::runs() {
        let Some(arguments) = &run.machine else {
            continue;
        };
        let sizes: Vec<u64> = run
            .mib
            .iter()
            .map(|it| (it.0 * (1 << 20) as f64) as u64)
            .collect();
        let answer = expectations(arguments, run.job.collective, &sizes);
        let own = &answer.collectives[0];
        let name = format!("{}: topo expect {arguments}", run.name);
        let job = own.job.as_ref().unwrap_or_else(|| panic!("{name}: no job"));
        assert_eq!(job.differences(&run.job), [""; 0], "{name}: {job:?}");
        assert_eq!(
            (job.ranks, job.nodes),
            (run.job.ranks, run.job.nodes),
            "{name}"
        );
        let found = own.sizes.iter().any(|it| it.like.contains(&&*run.name));
        let unknown = own.sizes.iter().any(|it| it.unknown.is_some());
        assert!(found || unknown, "{name}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

/// Of NVIDIA/nccl 2409, before access control and relaxed ordering were mended: 216 GB/s, then 358,
/// at last 456.
#[test]
fn degraded_hosts_are_below_the_floor() {
    let answer = expectations("dgx-h100 --hosts 2", Collective::AllReduce, &[8 * GIB]);
    let floor = answer.collectives[0].sizes[0].floor_gbps.unwrap();
    assert!(216.0 < floor, "{floor}");
    assert!(358.0 < floor, "{floor}");
    assert!(456.0 >= floor, "{floor}");
}

#[test]
fn small_messages_have_no_floor_and_pairs_do() {
    let answer = expectations("dgx-h100", Collective::AllReduce, &[1 << 10]);
    assert!(answer.collectives[0].sizes[0].expected_gbps.is_none());
    let pairs = answer.pairs.unwrap();
    assert_eq!(pairs.gpus.len(), 8);
    let [(kind, gbps, count)] = pairs.kinds()[..] else {
        panic!("{:?}", pairs.kinds());
    };
    assert_eq!((kind, count), ("NVL", 56));
    assert!((gbps - 370.8).abs() < 1e-3, "{gbps}");
}
