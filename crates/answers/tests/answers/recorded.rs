//! Logs of a real NCCL on real machines, beside the plan.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use answers::job_options::Variables;
use answers::log::{LogQuestion, compare};
use answers::{JobSpec, Machine};
use plan::Algorithm;
use planner::{Job, NcclVersion, Settings};
use program::{Collective, Protocol};
use records::nccl_log::Collector;
use records::nccl_log::compare::answer::Answer;
use records::nccl_log::compare::{Field, PlannerOutcome, compare_partly};

/// Two ranks on the GPU of a guest with one H200 (docs/gpu.md), NCCL 2.32.3: its dump of the
/// topology, and its log without what repeats.
#[test]
fn two_ranks_on_an_h200() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/h200");
    let xml = fs::read(folder.join("topology.xml")).unwrap();
    let machine = Machine::new("h200", topology::xml::parse("topology.xml", &xml).unwrap());
    let mut collector = Collector::default();
    let mut log = BufReader::new(File::open(folder.join("nccl-2.32.3.log")).unwrap());
    collector.read("log", &mut log, |_| {}).unwrap();
    let question = LogQuestion {
        job: JobSpec::of(machine),
        hosts: None,
        variables: Variables::default(),
    };
    let comparison = compare(&collector.finish(), question).unwrap();
    let compared = comparison.fields.iter();
    let fields: Vec<_> = compared
        .map(|it| (it.field, it.differences.len()))
        .collect();
    assert!(comparison.agrees, "{comparison:?}");
    // The search, channels, rings, trees and the table of costs were compared.
    assert!(fields.len() >= 5, "{fields:?}");
}

/// NCCL 2.32.6 logs zeros for the pipelines of Rubin, which are no costs.
#[test]
fn costs_of_pipelines_are_not_compared() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../topologies/vr200-nvl72-tray/topology.xml");
    let document = topology::xml::parse("topology.xml", &fs::read(file).unwrap()).unwrap();
    let row = (Collective::AllReduce, Algorithm::Ring, Protocol::Simple);
    let answer = Answer {
        model: [(row, [0.0, 0.0])].into(),
        ..Answer::default()
    };
    for (version, differing) in [(NcclVersion::V2_32, 1), (NcclVersion::V2_32_6, 0)] {
        let settings = Settings::with_variables(version, Vec::new());
        let planned = planner::plan(&Job::hosts(document.clone(), 2), &settings).unwrap();
        let costs = planned.logged_costs();
        let outcome = PlannerOutcome::Plan(planned.plan(), &costs);
        let fields = compare_partly(&answer, outcome);
        let field = fields.iter().find(|it| it.field == Field::Costs).unwrap();
        assert_eq!(field.differences.len(), differing, "{version}");
        let why = field.not_compared.as_deref();
        let said = why.is_some_and(|why| why.contains("pipelines"));
        assert_eq!(said, version == NcclVersion::V2_32_6, "{version}: {why:?}");
    }
}
