//! Virtual network devices: ports that are close together become one device with the sum of their
//! bandwidths, as NCCL merges them before it builds the system.
//!
//! In reading order: [`options`], `devices` (the ports of a host), `distance`, `groups` (which
//! ports are merged), `place` (where the virtual device is put), `attributes`, [`error`].

mod attributes;
mod devices;
mod distance;
pub mod error;
mod groups;
pub mod options;
mod place;

use std::sync::Arc;

use crate::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};
use devices::{Devices, PortPath};
pub use error::MergeError;
pub use options::{MergeLevel, MergeOptions};

/// A virtual network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualDevice {
    /// Its name: those of its ports, joined with `+`.
    pub name: String,
    /// Its number.
    pub dev: i32,
    /// The names of its ports.
    pub members: Vec<String>,
    /// Levels between the first port and the others.
    pub level: MergeLevel,
    /// It was put where NCCL does not look for devices, so no rank uses it.
    pub lost: bool,
}

/// A topology with virtual network devices.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedTopology {
    /// The topology. Ports that are part of a virtual device are gone.
    pub document: Document,
    /// The virtual devices, host after host.
    pub devices: Vec<VirtualDevice>,
}

/// Merges the network ports of each host of a topology; `None` if that leaves it as it is.
///
/// # Errors
/// NCCL refuses the settings, or the place of a virtual device.
pub fn merge(
    document: &Document,
    options: &MergeOptions,
) -> Result<Option<MergedTopology>, MergeError> {
    let mut merged: Option<MergedTopology> = None;
    for host in hosts(&document.root) {
        let current = merged.as_ref().map_or(document, |merged| &merged.document);
        let devices = Devices::of(&current.root, &host);
        let groups = groups::groups(&current.root, &devices, options)?;
        if groups.is_empty() && devices.are_numbered(&current.root) {
            continue;
        }
        let mut root = current.root.clone();
        let mut found = merged.map_or_else(Vec::new, |merged| merged.devices);
        devices.number(&mut root);
        let first = devices.ports.len();
        for (group, dev) in groups.iter().zip(first as i32..) {
            found.push(make(&mut root, &devices, group, dev, options)?);
        }
        devices.remove_merged(&mut root, &groups);
        merged = Some(MergedTopology {
            document: Document {
                file: Arc::clone(&document.file),
                version: document.version,
                root,
                warnings: document.warnings.clone(),
            },
            devices: found,
        });
    }
    Ok(merged)
}

/// For each host the positions of its CPUs.
fn hosts(root: &Element) -> Vec<Vec<usize>> {
    let mut hosts: Vec<(u64, Vec<usize>)> = Vec::new();
    for (at, cpu) in root.children.iter().enumerate() {
        if cpu.tag != Tag::Cpu {
            continue;
        }
        let hash = cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal);
        match hosts.iter_mut().find(|(known, _)| *known == hash) {
            Some((_, cpus)) => cpus.push(at),
            None => hosts.push((hash, vec![at])),
        }
    }
    hosts.into_iter().map(|(_, cpus)| cpus).collect()
}

/// Adds a virtual device to a topology.
fn make(
    root: &mut Element,
    devices: &Devices,
    group: &[usize],
    dev: i32,
    options: &MergeOptions,
) -> Result<VirtualDevice, MergeError> {
    let ports: Vec<_> = group.iter().map(|at| &devices.ports[*at]).collect();
    let paths: Vec<&PortPath> = ports.iter().map(|port| &port.path).collect();
    let members: Vec<String> = ports.iter().map(|port| port.name.clone()).collect();
    let name = members.join("+");
    let new = attributes::of(&name, &ports, dev, devices, options)?.element(root);
    let level = distance::between(root, &paths).level;
    let lost = match devices::named(root, &devices.cpus, &name) {
        Some(path) => {
            attributes::complete(devices::at_mut(root, &path), &new);
            false
        }
        None => place::place(root, &paths, &name, new, options)?,
    };
    Ok(VirtualDevice {
        name,
        dev,
        members,
        level,
        lost,
    })
}

/// The number of a port.
fn number(net: &Element) -> Option<i32> {
    net.get("dev").map(c_int)
}
