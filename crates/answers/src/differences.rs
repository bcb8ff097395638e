//! The differences of machines, device by device, in words.

use planner::explain::count;
use serde::Serialize;
use topology::differences::{MachineDifference, Property};

use crate::JsonSchema;
use crate::names::shorten;

/// Most devices of an order that are told.
const ORDERED: usize = 6;

/// Most differences that are told of a group.
const SHOWN: usize = 4;

/// A difference from the reference, or from A.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeviceDifference {
    /// The devices that differ alike; none for the order of all devices.
    pub devices: Vec<String>,
    /// The value of the reference, or of A; null if it has none.
    pub expected: Option<String>,
    /// The value of these machines, or of B; null if they have none.
    pub found: Option<String>,
    /// The difference in words.
    pub text: String,
}

impl DeviceDifference {
    /// A difference.
    pub fn of(difference: &MachineDifference) -> Self {
        Self {
            devices: difference.devices.clone(),
            expected: difference.expected.clone(),
            found: difference.found.clone(),
            text: words(difference),
        }
    }
}

/// The first differences in words.
pub fn few(differences: &[DeviceDifference]) -> Vec<String> {
    let all = differences.iter().map(|it| it.text.clone());
    let mut parts: Vec<String> = all.take(SHOWN).collect();
    let more = differences.len().saturating_sub(SHOWN);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts
}

/// A difference in words: `mlx5_3 at 25 GB/s instead of 50`.
fn words(difference: &MachineDifference) -> String {
    let all: Vec<&str> = difference.devices.iter().map(String::as_str).collect();
    let names = shorten(&all).join(", ");
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let (found, expected) = (value(&difference.found), value(&difference.expected));
    match &difference.property {
        Property::Presence if difference.found.is_none() => format!("{names} missing"),
        Property::Presence => format!("{names} additional"),
        Property::Cpu => format!("{names} below {found} instead of {expected}"),
        Property::Near => format!(
            "{names} next to {} instead of {}",
            gpu(&difference.found),
            gpu(&difference.expected)
        ),
        Property::PciLinks => format!("{names} {}", pci_links(&found, &expected, all.len())),
        Property::AllNvlinks => match &difference.found {
            None => format!("{names} without NVLinks instead of {expected}"),
            Some(_) => format!("{names} with NVLinks, {found}, instead of none"),
        },
        Property::Nvlinks(target) => {
            let found = difference.found.as_deref().unwrap_or("no");
            let links = if found == "1" { "NVLink" } else { "NVLinks" };
            format!("{names} with {found} {links} to {target} instead of {expected}")
        }
        Property::Xgmi(target) => {
            let found = difference.found.as_deref().unwrap_or("no");
            let links = if found == "1" { "link" } else { "links" };
            format!("{names} with {found} xGMI {links} to {target} instead of {expected}")
        }
        Property::Speed => format!("{names} at {found} GB/s instead of {expected}"),
        Property::Affinity => format!("other processors in {names}"),
        Property::Attribute(attribute) => {
            format!("{names} with {attribute} {found} instead of {expected}")
        }
        Property::Order => format!(
            "PCI order {} instead of {}",
            order(&found),
            order(&expected)
        ),
        Property::BusOrder => format!(
            "order of bus ids {} instead of {}",
            order(&found),
            order(&expected)
        ),
    }
}

/// `with its own PCIe link at 12 GB/s instead of 48`; both lists if their lengths differ.
fn pci_links(found: &str, expected: &str, devices: usize) -> String {
    let [found, expected] = [found, expected].map(|it| it.split(", ").collect::<Vec<_>>());
    if found.len() != expected.len() {
        let [found, expected] = [found, expected].map(|it| {
            let links = count(it.len(), "PCIe link");
            format!("{links} ({} GB/s)", it.join(", "))
        });
        return format!("behind {found} instead of {expected}");
    }
    let pairs = || found.iter().zip(&expected);
    if found.len() > 1 && pairs().all(|pair| pair == (&found[0], &expected[0])) {
        return format!(
            "behind PCIe links of {} GB/s instead of {}",
            found[0], expected[0]
        );
    }
    let (own, switch) = match devices {
        1 => ("its own PCIe link", "the PCIe link of the switch"),
        _ => ("their own PCIe links", "the PCIe links of the switches"),
    };
    let changed = pairs()
        .enumerate()
        .filter(|(_, (found, expected))| found != expected);
    let part = |(above, (found, expected))| {
        let link = match above {
            0 => own.to_owned(),
            1 => format!("{switch} above"),
            _ => format!("{switch} {above} levels above"),
        };
        format!("{link} at {found} GB/s instead of {expected}")
    };
    format!(
        "with {}",
        changed.map(part).collect::<Vec<_>>().join(" and ")
    )
}

fn gpu(near: &Option<String>) -> String {
    near.clone().unwrap_or_else(|| "no GPU".to_owned())
}

/// The first devices of an order.
fn order(names: &str) -> String {
    let all: Vec<&str> = names.split(", ").collect();
    match all.len() > ORDERED {
        true => format!("{}, …", all[..ORDERED].join(", ")),
        false => names.to_owned(),
    }
}
