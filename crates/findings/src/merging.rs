//! Network ports that NCCL merges into a virtual NIC, where the result is doubtful.

use topology::merge::{MergeOptions, VirtualDevice, merge};
use topology::xml::{Document, Element, Tag, c_int};

use crate::finding::{Finding, Rule};

/// A NIC as NCCL's InfiniBand transport makes it, and the speeds of its ports, Mb/s.
struct Nic {
    name: String,
    speeds: Vec<i32>,
}

pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let Ok(Some(merged)) = merge(document, &MergeOptions::default()) else {
        return Vec::new();
    };
    let mut ports = Vec::new();
    speeds(&document.root, &mut ports);
    let speed = |name: &str| ports.iter().find(|(known, _)| known == name).map(|it| it.1);
    let of_device = |device: &VirtualDevice| Nic {
        name: device.name.clone(),
        speeds: device
            .members
            .iter()
            .filter_map(|name| speed(name))
            .collect(),
    };
    let mut findings: Vec<Finding> = merged
        .devices
        .iter()
        .filter(|it| it.lost)
        .map(lost)
        .collect();
    let made: Vec<Nic> = merged.devices.iter().map(of_device).collect();
    let is_member = |name: &str| {
        merged
            .devices
            .iter()
            .any(|it| it.members.iter().any(|it| it == name))
    };
    let alone = ports
        .iter()
        .filter(|(name, _)| !is_member(name) && !name.contains('+'));
    let alone = alone.map(|(name, speed)| Nic {
        name: name.clone(),
        speeds: vec![*speed],
    });
    let all: Vec<Nic> = made.into_iter().chain(alone).collect();
    let Some(largest) = all.iter().max_by_key(|nic| nic.speeds.len()) else {
        return findings;
    };
    for nic in &all {
        if let (Some(least), Some(most)) = (nic.speeds.iter().min(), nic.speeds.iter().max())
            && least < most
        {
            let gigabits = |speed: &i32| format!("{} Gb/s", f64::from(*speed) / 1000.0);
            let seen: Vec<String> = nic.speeds.iter().map(gigabits).collect();
            let seen = format!("one NIC of ports of {}", seen.join(" and "));
            findings.push(Finding::new(
                Rule::Merged,
                nic.name.clone(),
                seen,
                "ports of one speed",
            ));
        }
        // NICs for other purposes are slower.
        if nic.speeds.len() < largest.speeds.len() && nic.speeds.first() == largest.speeds.first() {
            let count = |nic: &Nic| match nic.speeds.len() {
                1 => "1 port".to_owned(),
                ports => format!("{ports} ports"),
            };
            let expected = format!("{}, as {}", count(largest), largest.name);
            findings.push(Finding::new(
                Rule::Merged,
                nic.name.clone(),
                count(nic),
                expected,
            ));
        }
    }
    findings
}

fn lost(device: &VirtualDevice) -> Finding {
    let seen = "merged into a device that NCCL does not find: its ports have no PCI path";
    Finding::new(
        Rule::Merged,
        device.name.clone(),
        seen,
        "ports with a PCI path, or unmerged",
    )
}

/// The names and speeds of the ports in use that are not of sockets.
fn speeds(element: &Element, found: &mut Vec<(String, i32)>) {
    let used = element.tag == Tag::Net && element.get("dev").is_some();
    if used && element.get("port").map(c_int) != Some(0) {
        let name = element.get("name").unwrap_or_default().to_owned();
        found.push((name, element.get("speed").map_or(0, c_int)));
    }
    element
        .children
        .iter()
        .for_each(|child| speeds(child, found));
}
