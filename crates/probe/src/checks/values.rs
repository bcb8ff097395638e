//! Invalid values in the kernel's files, and unknown NUMA nodes.

use std::collections::BTreeSet;

use crate::machine::{Adapter, PciFunction, RdmaPort};
use crate::probed::Probe;
use crate::tree::gigatransfers;
use findings::{Finding, Rule};

/// Most characters of a value to show.
const SHOWN: usize = 24;

/// The kernel's states of a port.
const STATES: [&str; 5] = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE"];

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
    let used = probe.used_functions();
    let known_elsewhere = used.iter().any(|function| function.numa() >= 0);
    for used in used {
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
        // A topology file already places its devices.
        let told = probe.base.is_some();
        if !told && used.numa() < 0 && (many_nodes || known_elsewhere) {
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
        adapter_values(adapter, &mut findings);
    }
    let interfaces = probe.machine.interfaces.iter();
    for interface in interfaces.filter(|interface| !interface.has_state()) {
        findings.push(Finding::new(
            Rule::Garbage,
            interface.name.clone(),
            format!("operstate is {}", shown(&interface.state)),
            "a state such as up",
        ));
    }
    processors(probe, &mut findings);
    findings
}

/// Checks the files of an RDMA device.
fn adapter_values(adapter: &Adapter, findings: &mut Vec<Finding>) {
    if adapter.guid.is_none() && adapter.ports.iter().any(RdmaPort::is_active) {
        findings.push(Finding::new(
            Rule::Garbage,
            adapter.name.clone(),
            "sys_image_guid is no guid",
            "a guid such as 0123:4567:89ab:cdef",
        ));
    }
    for port in &adapter.ports {
        let mut odd = |file: &str, text: &str, expected: &str| {
            findings.push(Finding::new(
                Rule::Garbage,
                format!("{} port {}", adapter.name, port.number),
                format!("{file} is {}", shown(text)),
                expected,
            ));
        };
        let known_state = STATES.iter().any(|state| port.state.contains(state));
        let known_layer = port.is_verbs() || port.layer == "Unspecified";
        if !known_state {
            odd("state", &port.state, "a state such as 4: ACTIVE");
        } else if port.is_active() && !known_layer {
            odd(
                "link_layer",
                &port.layer,
                "InfiniBand, Ethernet or Unspecified",
            );
        } else if port.is_active() && port.rate.is_none() {
            odd("rate", "", "a rate such as 400 Gb/sec (4X NDR)");
        }
    }
}

/// Checks the processor and the masks of NUMA nodes.
fn processors(probe: &Probe, findings: &mut Vec<Finding>) {
    for node in &probe.machine.numa_nodes {
        let is_mask = |text: &str| {
            !text.is_empty()
                && text
                    .split(',')
                    .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if !is_mask(&node.cpumap) {
            findings.push(Finding::new(
                Rule::Garbage,
                format!("NUMA node {}", node.number),
                format!("cpumap is {}", shown(&node.cpumap)),
                "a mask such as 00ff,000000ff",
            ));
        }
    }
    let processor = &probe.machine.processor;
    let unnamed = processor.arch.is_empty();
    let unnumbered =
        processor.arch == "x86_64" && (processor.family.is_none() || processor.model.is_none());
    if unnamed || unnumbered {
        findings.push(Finding::new(
            Rule::Garbage,
            "the processor",
            if unnamed {
                "/proc/cpuinfo names none"
            } else {
                "/proc/cpuinfo has no family or model"
            },
            "vendor_id, cpu family and model, or CPU implementer, or POWER",
        ));
    }
}

/// A value, shortened and escaped for a terminal.
fn shown(text: &str) -> String {
    if text.is_empty() {
        return "empty or missing".to_owned();
    }
    let text: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    format!("`{text}`")
}

fn garbage(probe: &Probe, function: &PciFunction, findings: &mut Vec<Finding>) {
    let mut odd = |file: &str, text: &str, expected: &str| {
        findings.push(Finding::new(
            Rule::Garbage,
            probe.label(&function.bus_id),
            format!("{file} is {}", shown(text)),
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
    // The kernel creates both files or neither.
    let motherboard = [
        ("subsystem_vendor", &function.subsystem_vendor),
        ("subsystem_device", &function.subsystem_device),
    ];
    let is_there = motherboard.iter().any(|(_, text)| !text.is_empty());
    for (file, text) in motherboard {
        if is_there && !hexadecimal(text) {
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
    // The kernel creates all four files or none.
    let files = [
        ("current_link_speed", &link.current_speed),
        ("max_link_speed", &link.max_speed),
        ("current_link_width", &link.current_width),
        ("max_link_width", &link.max_width),
    ];
    if files.iter().any(|(_, text)| text.is_some()) {
        for (file, _) in files.iter().filter(|(_, text)| text.is_none()) {
            odd(file, "", "a value, as its neighbours have");
        }
    }
    if let Some(text) = &function.numa_node
        && text.parse::<i16>().is_err()
    {
        odd("numa_node", text, "the number of a NUMA node, or -1");
    }
}
