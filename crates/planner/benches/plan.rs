//! The time of planning, phase by phase.

use std::sync::Arc;

use divan::{Bencher, black_box};
use planner::{HostPlan, View};
use testkit::Machine;
use topology::{NodeType, System, xml};

const MACHINES: [&str; 4] = [
    "dgx-h100",
    "dgx-a100",
    "gb200-nvl72-tray",
    "pcie-8gpu-nicsw",
];

const HOSTS: [u32; 2] = [1, 2];

/// A machine and a job on it.
fn jobs() -> impl Iterator<Item = String> {
    MACHINES
        .iter()
        .flat_map(|machine| HOSTS.map(|hosts| format!("{machine} x {hosts}")))
}

fn job(name: &str) -> (Machine, usize) {
    let (machine, hosts) = name.split_once(" x ").expect("machine x hosts");
    let machine = Machine::named(machine).expect("a machine");
    (machine, hosts.parse().expect("a number"))
}

/// What the first rank of a job sees.
fn view(system: System, hosts: usize) -> View {
    let ranks = hosts * system.count(NodeType::Gpu);
    let views = View::all(system, &Arc::default(), false, ranks).expect("a view");
    views.into_iter().next().expect("a view")
}

#[divan::bench(args = MACHINES)]
fn parse(bencher: Bencher, machine: &str) {
    let bytes = job(&format!("{machine} x 1")).0.bytes().expect("a file");
    bencher.bench_local(|| xml::parse("topology.xml", black_box(&bytes)));
}

#[divan::bench(args = MACHINES)]
fn build(bencher: Bencher, machine: &str) {
    let document = job(&format!("{machine} x 1"))
        .0
        .document()
        .expect("a document");
    bencher.bench_local(|| System::from_document(black_box(&document)));
}

#[divan::bench(args = jobs())]
fn paths(bencher: Bencher, name: &str) {
    let (machine, hosts) = job(name);
    let system = machine.system().expect("a system");
    bencher
        .with_inputs(|| system.clone())
        .bench_local_values(|system| view(system, black_box(hosts)));
}

#[divan::bench(args = jobs())]
fn search(bencher: Bencher, name: &str) {
    let (machine, hosts) = job(name);
    let view = view(machine.system().expect("a system"), hosts);
    bencher
        .with_inputs(|| view.clone())
        .bench_local_values(|view| HostPlan::search(black_box(view)));
}

fn main() {
    divan::main();
}
