//! Isolation of devices: Access Control Services and the IOMMU.

use crate::machine::config_space::AccessControl;
use crate::machine::{Machine, PciFunction};
use crate::probed::Probe;
use findings::{Finding, Rule};

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let used = probe.used_functions();
    let gpus = probe.gpu_functions();
    let mut findings = redirections(probe, &used, &gpus);
    findings.extend(translation(probe, &used, &gpus));
    findings
}

/// Finds bridges that redirect traffic between devices through the root complex.
fn redirections(probe: &Probe, used: &[&PciFunction], gpus: &[&PciFunction]) -> Vec<Finding> {
    // The bits that are set, the bridges, and two devices below and beside the first.
    let mut found: Vec<(AccessControl, Vec<&str>, [&PciFunction; 2])> = Vec::new();
    for bridge in probe.machine.pci.iter() {
        let Some(control) = bridge.access_control.filter(|it| it.redirects()) else {
            continue;
        };
        let Some(pair) = redirected(bridge, used, gpus) else {
            continue;
        };
        let same = |(known, ..): &&mut (AccessControl, _, _)| known.names() == control.names();
        match found.iter_mut().find(same) {
            Some((_, bridges, _)) => bridges.push(&bridge.bus_id),
            None => found.push((control, vec![&bridge.bus_id], pair)),
        }
    }
    let finding = |(control, bridges, pair): &(AccessControl, Vec<&str>, [&PciFunction; 2])| {
        let such = match bridges.len() {
            1 => "",
            _ => ", such as",
        };
        let [one, other] = pair.map(|function| probe.label(&function.bus_id));
        let seen = format!("{}{such} between {one} and {other}", control.names());
        Finding::of_all(Rule::AccessControl, bridges, seen, "no redirection")
    };
    found.iter().map(finding).collect()
}

/// A function below a bridge and one beside it, one of them a GPU.
fn redirected<'p>(
    bridge: &PciFunction,
    used: &[&'p PciFunction],
    gpus: &[&PciFunction],
) -> Option<[&'p PciFunction; 2]> {
    let is_below = |function: &PciFunction| function.bridges().any(|above| above == bridge.bus_id);
    let is_gpu = |function: &PciFunction| gpus.iter().any(|gpu| gpu.bus_id == function.bus_id);
    let shares = |function: &&&PciFunction| function.root_complex() == bridge.root_complex();
    let (below, beside): (Vec<&PciFunction>, Vec<&PciFunction>) = used
        .iter()
        .filter(shares)
        .partition(|function| is_below(function));
    below.iter().find_map(|one| {
        let other = beside.iter().find(|other| is_gpu(one) || is_gpu(other))?;
        Some([*one, *other])
    })
}

/// A port of a switch on the way from one device to another below the same switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its bus id.
    pub bus_id: String,
    /// Its Access Control Services; `None` if it has none or they were not readable.
    pub access_control: Option<AccessControl>,
}

/// The ports of the lowest switch above two functions through which their traffic enters it, which
/// decide whether it takes the way through the root complex. Empty if they share no switch.
pub fn ports_between(machine: &Machine, one: &str, other: &str) -> Vec<SwitchPort> {
    let above = |bus_id| -> Vec<&str> {
        let function = machine.pci.get(bus_id);
        function.map_or_else(Vec::new, |function| function.bridges().collect())
    };
    let (one, other) = (above(one), above(other));
    let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return Vec::new();
    }
    let ports = [one, other].map(|bridges| bridges.get(shared).copied());
    let port = |bus_id: &str| SwitchPort {
        bus_id: bus_id.to_owned(),
        access_control: machine.pci.get(bus_id).and_then(|it| it.access_control),
    };
    ports.into_iter().flatten().map(port).collect()
}

/// Finds devices behind a translating IOMMU. Grace and other Arm processors do so by design.
fn translation(probe: &Probe, used: &[&PciFunction], gpus: &[&PciFunction]) -> Option<Finding> {
    if probe.machine.processor.arch == "arm64" || gpus.is_empty() {
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
    if devices.is_empty() {
        return None;
    }
    Some(Finding::of_all(
        Rule::Iommu,
        &devices,
        format!("IOMMU groups of type {kind}"),
        "identity (pass-through)",
    ))
}
