//! Isolation of devices: Access Control Services and the IOMMU.

use crate::finding::{Finding, Rule};
use crate::machine::PciFunction;
use crate::probed::Probe;

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let used = probe.used_functions();
    let mut findings: Vec<Finding> = probe
        .machine
        .pci
        .iter()
        .filter_map(|bridge| redirection(probe, bridge, &used))
        .collect();
    findings.extend(translation(probe, &used));
    findings
}

/// Finds a bridge that redirects traffic between devices through the root complex.
fn redirection(probe: &Probe, bridge: &PciFunction, used: &[&PciFunction]) -> Option<Finding> {
    let control = bridge
        .access_control
        .filter(|control| control.redirects())?;
    let is_below = |function: &PciFunction| function.bridges().any(|above| above == bridge.bus_id);
    let is_gpu =
        |function: &PciFunction| probe.gpus.iter().any(|gpu| gpu.bus_id == function.bus_id);
    let shares = |function: &PciFunction| function.root_complex() == bridge.root_complex();
    let (below, beside): (Vec<&PciFunction>, Vec<&PciFunction>) = used
        .iter()
        .filter(|function| shares(function))
        .copied()
        .partition(|function| is_below(function));
    let pair = below.iter().find_map(|one| {
        let other = beside.iter().find(|other| is_gpu(one) || is_gpu(other))?;
        Some((*one, *other))
    });
    let (one, other) = pair?;
    Some(Finding::new(
        Rule::AccessControl,
        bridge.bus_id.clone(),
        format!(
            "{} between {} and {}",
            control.names(),
            probe.label(&one.bus_id),
            probe.label(&other.bus_id)
        ),
        "no redirection",
    ))
}

/// Finds devices behind a translating IOMMU. Grace and other Arm processors do so by design.
fn translation(probe: &Probe, used: &[&PciFunction]) -> Option<Finding> {
    if probe.machine.processor.arch == "arm64" || !probe.gpus.iter().any(|gpu| gpu.rank.is_some()) {
        return None;
    }
    let translated = |function: &&&PciFunction| {
        function
            .iommu
            .as_deref()
            .is_some_and(|kind| kind.starts_with("DMA"))
    };
    let devices: Vec<String> = used
        .iter()
        .filter(translated)
        .map(|function| probe.label(&function.bus_id))
        .collect();
    let kind = used
        .iter()
        .find_map(|function| function.iommu.clone())
        .unwrap_or_default();
    let (first, rest) = devices.split_first()?;
    let device = match rest.len() {
        0 => first.clone(),
        rest => format!("{first} and {rest} more"),
    };
    Some(Finding::new(
        Rule::Iommu,
        device,
        format!("IOMMU groups of type {kind}"),
        "identity (pass-through)",
    ))
}
