//! Logs of a real NCCL on real machines, beside the plan.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use answers::job_options::Variables;
use answers::log::{LogQuestion, compare};
use answers::{JobSpec, Machine};
use nccl_log::Collector;

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
