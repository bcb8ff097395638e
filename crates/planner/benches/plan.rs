//! How long planning takes, phase by phase.

use divan::{Bencher, black_box};
use machines::Machine;
use planner::{Request, host};
use topology::{System, xml};

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

fn job(name: &str) -> (Machine, Request) {
    let (machine, hosts) = name.split_once(" x ").expect("machine x hosts");
    let request = Request {
        hosts: hosts.parse().expect("a number"),
        ..Request::default()
    };
    (Machine::named(machine).expect("a machine"), request)
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
    let (machine, request) = job(name);
    let system = machine.system().expect("a system");
    bencher
        .with_inputs(|| system.clone())
        .bench_local_values(|system| host::view(system, black_box(&request)));
}

#[divan::bench(args = jobs())]
fn search(bencher: Bencher, name: &str) {
    let (machine, request) = job(name);
    let view = host::view(machine.system().expect("a system"), &request).expect("a view");
    bencher
        .with_inputs(|| view.clone())
        .bench_local_values(|view| host::search(view, black_box(&request)));
}

fn main() {
    divan::main();
}
