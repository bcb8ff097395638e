//! The rules of input of a job.

use std::path::Path;
use std::sync::Arc;

use answers::gpus::GpusError;
use answers::order::OrderError;
use answers::{Gpus, JobError, JobNote, JobSpec, Machine, Order};
use planner::RankPlacement;
use topology::edit::Edit;

fn machine(name: &str) -> Machine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let bytes = std::fs::read(folder.join(name).join("topology.xml")).unwrap();
    of_text(name, &bytes)
}

fn of_text(name: &str, bytes: &[u8]) -> Machine {
    Machine::new(name, topology::xml::parse(name, bytes).unwrap())
}

fn dgx() -> JobSpec {
    JobSpec::of(machine("dgx-h100"))
}

fn refused(spec: JobSpec) -> JobError {
    spec.job().expect_err("the job is planned")
}

#[test]
fn listed_gpus_keep_their_order() {
    let spec = JobSpec {
        gpus: Gpus::Listed(vec![3, 2, 1, 0]),
        ..dgx()
    };
    let job = spec.job().unwrap().job;
    let RankPlacement::Listed(order) = &job.ranks else {
        panic!("{:?}", job.ranks);
    };
    assert_eq!(order.slots(4).unwrap(), [3, 2, 1, 0]);
    assert_eq!(planner::gpu_devices(&job.hosts[0].document), [0, 1, 2, 3]);
    assert_eq!(job.hosts[0].edits[0].to_string(), "GPUs 3,2,1,0");
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let gpus = |gpus| refused(JobSpec { gpus, ..dgx() });
    let known = (0..8).collect::<Vec<i32>>();
    let unknown = GpusError::Unknown {
        file: "dgx-h100".to_owned(),
        gpu: 99,
        known,
    };
    assert_eq!(gpus(Gpus::Listed(vec![0, 99])), JobError::Gpus(unknown));
    let error = gpus(Gpus::Listed(vec![0, -1])).to_string();
    assert_eq!(error, "dgx-h100 has no GPU-1; it has GPU 0-7");
    let twice = JobError::Gpus(GpusError::Twice(1));
    assert_eq!(gpus(Gpus::Listed(vec![1, 1])), twice);
    let empty = JobError::Gpus(GpusError::Empty);
    assert_eq!(gpus(Gpus::Listed(Vec::new())), empty);
    let names = gpus(Gpus::Visible("GPU-8f".to_owned())).to_string();
    assert!(names.contains("names `GPU-8f`"), "{names}");
}

#[test]
fn cuda_ends_its_list_at_a_number_that_is_no_gpu() {
    let spec = JobSpec {
        gpus: Gpus::Visible("5,4,-1,3".to_owned()),
        ..dgx()
    };
    let job = spec.job().unwrap().job;
    assert_eq!(planner::gpu_devices(&job.hosts[0].document), [4, 5]);
}

#[test]
fn numbers_of_hosts_are_checked() {
    for hosts in [0, 1 << 21] {
        let error = refused(JobSpec { hosts, ..dgx() });
        assert_eq!(error, JobError::Hosts(hosts));
    }
    let two = JobSpec {
        machines: vec![machine("dgx-h100"), machine("gh200")],
        hosts: 2,
        ..dgx()
    };
    assert_eq!(refused(two), JobError::CopiesOfSeveral { hosts: 2 });
    let none = JobSpec {
        machines: Vec::new(),
        ..dgx()
    };
    assert_eq!(refused(none), JobError::NoMachine);
}

#[test]
fn orders_that_do_not_fit_are_refused() {
    let order = |numbers: &[u32]| {
        let order = Order::Listed(numbers.to_vec());
        refused(JobSpec { order, ..dgx() })
    };
    let unknown = OrderError::Unknown {
        rank: 1,
        gpu: 8,
        known: "0-7".to_owned(),
    };
    assert_eq!(order(&[0, 8]), JobError::Order(unknown));
}

#[test]
fn an_unknown_device_has_suggestions() {
    let edits = vec![Edit::without("GPU9").unwrap()];
    let error = refused(JobSpec { edits, ..dgx() });
    let JobError::Edit { near, .. } = &error else {
        panic!("{error}");
    };
    assert!(near.iter().any(|name| name.starts_with("GPU")), "{near:?}");
    assert!(error.to_string().contains("did you mean"), "{error}");
}

#[test]
fn files_of_amd_are_refused_by_whoever_plans() {
    let text = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies/dgx-h100/topology.xml"),
    );
    let text = String::from_utf8(text.unwrap()).unwrap();
    let amd = text.replacen("<system version=\"1\"", "<system version=\"2\"", 1);
    assert_ne!(amd, text);
    let amd = of_text("amd.xml", amd.as_bytes());
    let job = planner::Job::hosts(Arc::clone(&amd.document), 1);
    let planned = planner::plan(&job, &planner::Settings::default());
    let error = planned.expect_err("planned");
    assert!(
        error
            .to_string()
            .starts_with("amd.xml is a topology of AMD's RCCL")
    );
    assert_eq!(refused(JobSpec::of(amd)), JobError::Planner(error));
}

#[test]
fn a_recorded_domain_is_planned_alone_and_noted() {
    let mut text = topology::xml::write(&machine("dgx-h100").document);
    for (numa, hash) in [("0", "0x1"), ("1", "0x2")] {
        let cpu = format!("<cpu numaid=\"{numa}\"");
        text = text.replacen(&cpu, &format!("{cpu} host_hash=\"{hash}\""), 1);
    }
    let domain = || JobSpec::of(of_text("domain.xml", text.as_bytes()));
    let made = domain().job().unwrap();
    let [JobNote::RecordedDomain { hosts, .. }] = &made.notes[..] else {
        panic!("{:?}", made.notes);
    };
    let recorded = *hosts;
    assert_eq!(recorded, 2);
    let two = refused(JobSpec {
        hosts: 2,
        ..domain()
    });
    let JobError::DomainBesideOthers { hosts, .. } = two else {
        panic!("{two}");
    };
    assert_eq!(hosts, recorded);
}
