//! Values of the kernel that are none, and NUMA nodes that are unknown.

use std::collections::BTreeSet;

use super::{Finding, Rule};
use crate::machine::PciFunction;
use crate::machine::infiniband::Port;
use crate::probe::Probe;
use crate::tree::gigatransfers;

/// Longest part of a value that is shown.
const SHOWN: usize = 24;

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    let many_nodes = probe
        .machine
        .numa_nodes
        .iter()
        .filter(|node| node.has_processors())
        .count()
        > 1;
    for used in probe.used_functions() {
        let own = std::iter::once(used.bus_id.as_str());
        for function in used
            .bridges()
            .chain(own)
            .filter_map(|bus_id| probe.machine.pci.get(bus_id))
        {
            if seen.insert(function.bus_id.clone()) {
                garbage(probe, function, &mut findings);
            }
        }
        if many_nodes && used.numa() < 0 {
            findings.push(Finding::new(
                Rule::Numa,
                probe.label(&used.bus_id),
                used.numa_node
                    .clone()
                    .unwrap_or_else(|| "nothing".to_owned()),
                "the number of a NUMA node",
            ));
        }
    }
    for adapter in &probe.machine.adapters {
        let odd = |port: &&Port| port.is_active() && port.rate.is_none();
        for port in adapter.ports.iter().filter(odd) {
            findings.push(Finding::new(
                Rule::Garbage,
                format!("{} port {}", adapter.name, port.number),
                "rate is no rate",
                "a rate such as 400 Gb/sec (4X NDR)",
            ));
        }
    }
    findings
}

fn garbage(probe: &Probe, function: &PciFunction, findings: &mut Vec<Finding>) {
    let mut odd = |file: &str, text: &str, expected: &str| {
        let text: String = text
            .chars()
            .take(SHOWN)
            .flat_map(char::escape_debug)
            .collect();
        findings.push(Finding::new(
            Rule::Garbage,
            probe.label(&function.bus_id),
            format!("{file} is `{text}`"),
            expected,
        ));
    };
    let hexadecimal = |text: &str| {
        let digits = text.strip_prefix("0x");
        digits.is_some_and(|digits| {
            !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
        })
    };
    for (file, text) in [
        ("class", &function.class),
        ("vendor", &function.vendor),
        ("device", &function.device),
    ] {
        if !hexadecimal(text) {
            odd(file, text, "a hexadecimal number");
        }
    }
    for (file, text) in [
        ("subsystem_vendor", &function.subsystem_vendor),
        ("subsystem_device", &function.subsystem_device),
    ] {
        if !text.is_empty() && !hexadecimal(text) {
            odd(file, text, "a hexadecimal number");
        }
    }
    let link = &function.link;
    for (file, text) in [
        ("current_link_speed", &link.current_speed),
        ("max_link_speed", &link.max_speed),
    ] {
        if let Some(text) = text
            && gigatransfers(text).is_none()
            && !text.starts_with("Unknown")
        {
            odd(file, text, "a speed such as 16.0 GT/s PCIe");
        }
    }
    for (file, text) in [
        ("current_link_width", &link.current_width),
        ("max_link_width", &link.max_width),
    ] {
        if let Some(text) = text
            && text.parse::<u8>().is_err()
        {
            odd(file, text, "a number of lanes");
        }
    }
    if let Some(text) = &function.numa_node
        && text.parse::<i16>().is_err()
    {
        odd("numa_node", text, "the number of a NUMA node, or -1");
    }
}
