//! The distance of GPUs to NICs.

use crate::machine::PciFunction;
use crate::probed::Probe;
use findings::{Finding, Rule};

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let used = probe.gpu_functions();
    let near = |gpu: &&&PciFunction| {
        let switch = switches(probe, &gpu.bus_id);
        let nets = probe
            .nets
            .iter()
            .filter(|net| net.rdma)
            .filter_map(|net| net.bus_id.as_deref());
        nets.map(|bus_id| switches(probe, bus_id))
            .any(|other| other.iter().any(|bridge| switch.contains(bridge)))
    };
    let without: Vec<&&PciFunction> = used.iter().filter(|gpu| !near(gpu)).collect();
    // A machine with a NIC per GPU, or per pair of GPUs, has one near most of them.
    if without.len() * 2 >= used.len() {
        return Vec::new();
    }
    let finding = |gpu: &&&PciFunction| {
        Finding::new(
            Rule::NoNearNic,
            probe.label(&gpu.bus_id),
            "no NIC below its switch",
            "a NIC, as the other GPUs have",
        )
    };
    without.iter().map(finding).collect()
}

/// The bridges above a function.
fn switches(probe: &Probe, bus_id: &str) -> Vec<String> {
    let function = probe.machine.pci.get(bus_id);
    function
        .map(|function| function.bridges().map(str::to_owned).collect())
        .unwrap_or_default()
}
