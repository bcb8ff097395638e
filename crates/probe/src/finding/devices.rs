//! Where devices sit towards each other.

use super::{Finding, Rule};
use crate::gpu::Gpu;
use crate::probe::Probe;

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let used: Vec<&Gpu> = probe.gpus.iter().filter(|gpu| gpu.rank.is_some()).collect();
    let near = |gpu: &&&Gpu| {
        let switch = switches(probe, &gpu.bus_id);
        let nets = probe
            .nets
            .iter()
            .filter(|net| net.rdma)
            .filter_map(|net| net.bus_id.as_deref());
        nets.map(|bus_id| switches(probe, bus_id))
            .any(|other| other.iter().any(|bridge| switch.contains(bridge)))
    };
    let without: Vec<&&Gpu> = used.iter().filter(|gpu| !near(gpu)).collect();
    // A machine that is built with a NIC per GPU, or per pair, has one near most of them.
    if without.len() * 2 >= used.len() {
        return Vec::new();
    }
    let finding = |gpu: &&&Gpu| {
        Finding::new(
            Rule::FarNic,
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
