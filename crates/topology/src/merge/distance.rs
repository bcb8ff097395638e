//! The distance of network ports.

use crate::xml::{Element, Tag};

use super::devices::at;
use super::options::MergeLevel;

/// How far apart ports are, and what they share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Distance {
    pub level: MergeLevel,
    /// Length of the paths to the nearest PCI function at or above the last element that all ports
    /// share, or else to that element.
    pub shared: usize,
}

/// The distance of two or more ports.
pub(super) fn between(root: &Element, paths: &[&Vec<usize>]) -> Distance {
    let Some((first, others)) = paths.split_first() else {
        return Distance {
            level: MergeLevel::Never,
            shared: 0,
        };
    };
    let is_common = |depth: usize| {
        let step = first.get(depth);
        step.is_some() && others.iter().all(|path| path.get(depth) == step)
    };
    let common = (0..first.len())
        .take_while(|depth| is_common(*depth))
        .count();
    let element = at(root, &first[..common]);
    let level = if are_functions(root, paths, common) {
        MergeLevel::Port
    } else {
        match element.tag {
            Tag::System => MergeLevel::Sys,
            Tag::Cpu => MergeLevel::Phb,
            Tag::Nic | Tag::Net => MergeLevel::Port,
            // A port, its NIC, that one's PCI function, and the switch above.
            _ if paths.iter().all(|path| path.len() == common + 3) => MergeLevel::Pix,
            _ => MergeLevel::Pxb,
        }
    };
    let mut above = (0..=common).rev();
    let pci = above.find(|length| at(root, &first[..*length]).tag == Tag::Pci);
    Distance {
        level,
        shared: pci.unwrap_or(common),
    }
}

/// Whether the elements at which the paths part are functions of one PCI card: their bus ids differ
/// in the last character only.
fn are_functions(root: &Element, paths: &[&Vec<usize>], common: usize) -> bool {
    let function = |path: &&Vec<usize>| {
        let bus_id = at(root, path.get(..=common)?).get("busid")?;
        let mut characters = bus_id.chars();
        characters.next_back()?;
        Some(characters.as_str())
    };
    let mut functions = paths.iter().map(function);
    let first = functions.next().flatten();
    first.is_some() && functions.all(|other| other == first)
}
