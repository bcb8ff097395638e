//! How machines differ, device by device, in words.

use topology::differences::{MachineDifference, Property};

use super::what_if::shorten;

/// Most devices of an order that are told.
const ORDERED: usize = 6;

/// Most differences that are shown for a group.
const SHOWN: usize = 4;

/// The first differences in words.
pub fn few(differences: &[MachineDifference]) -> Vec<String> {
    let mut parts: Vec<String> = differences.iter().take(SHOWN).map(words).collect();
    let more = differences.len().saturating_sub(SHOWN);
    if more > 0 {
        parts.push(format!("{more} more (--format json)"));
    }
    parts
}

/// A difference in words: `mlx5_3 at 25 GB/s instead of 50`.
pub fn words(difference: &MachineDifference) -> String {
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
        Property::PciLinks => {
            format!("{names} behind PCIe links of {found} GB/s instead of {expected}")
        }
        Property::AllNvlinks => match &difference.found {
            None => format!("{names} without NVLinks instead of {expected}"),
            Some(_) => format!("{names} with NVLinks, {found}, instead of none"),
        },
        Property::Nvlinks(target) => {
            let found = difference.found.as_deref().unwrap_or("no");
            let links = if found == "1" { "NVLink" } else { "NVLinks" };
            format!("{names} with {found} {links} to {target} instead of {expected}")
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
