//! The groups of network ports that are merged.

use crate::xml::{Element, c_int};

use super::devices::{Devices, Port};
use super::distance;
use super::error::MergeError;
use super::options::{MergeLevel, MergeOptions};

/// Most devices of a host, virtual ones included, that NCCL's InfiniBand transport has.
const MOST_DEVICES: usize = 256;

/// An entry of a group: a name and, if it has one, a port.
type Entry<'a> = (&'a str, Option<i32>);

/// The groups of ports that become virtual devices, each with its ports' numbers.
pub(super) fn groups(
    root: &Element,
    devices: &Devices,
    options: &MergeOptions,
) -> Result<Vec<Vec<usize>>, MergeError> {
    let ports = &devices.ports;
    // The transport of sockets makes no virtual devices, and reads no settings about them.
    if ports.iter().all(Port::is_socket) {
        return Ok(Vec::new());
    }
    let mut groups = Groups {
        devices,
        options,
        used: vec![false; ports.len()],
        made: Vec::new(),
    };
    if let Some(forced) = &options.forced {
        for group in forced.split(';').filter(|group| !group.is_empty()) {
            groups.force(group)?;
        }
    }
    groups.find(root);
    Ok(groups.made)
}

struct Groups<'a> {
    devices: &'a Devices,
    options: &'a MergeOptions,
    /// By port.
    used: Vec<bool>,
    made: Vec<Vec<usize>>,
}

impl Groups<'_> {
    /// Why the network does not merge ports; `None` if it does.
    fn refusal(&self, group: &[usize]) -> Option<&'static str> {
        let ports = group.iter().map(|at| &self.devices.ports[*at]);
        let first = &self.devices.ports[*group.first()?];
        if !self.options.allowed {
            return Some("NCCL_IB_MERGE_NICS=0 forbids it");
        }
        if ports.clone().any(Port::is_socket) {
            return Some("a port is a socket's interface");
        }
        if ports
            .clone()
            .any(|port| port.infiniband != first.infiniband)
        {
            return Some("its ports are of InfiniBand and of Ethernet");
        }
        let devices = self.devices.ports.len() + self.made.len();
        (devices >= MOST_DEVICES).then_some("the host has 256 devices already")
    }

    /// Merges the ports that a group names.
    fn force(&mut self, group: &str) -> Result<(), MergeError> {
        let entries: Vec<Entry<'_>> = group
            .split(',')
            .filter(|entry| !entry.is_empty())
            .map(entry)
            .filter(|(name, _)| !name.is_empty())
            .take(self.options.most)
            .collect();
        let name = || group.to_owned();
        if entries.is_empty() {
            return Err(MergeError::NoNames { group: name() });
        }
        let fits = |port: &Port| {
            entries.iter().any(|(name, number)| {
                *name == port.name && number.is_none_or(|it| port.port.is_none_or(|own| own == it))
            })
        };
        let numbered = self.devices.ports.iter().enumerate();
        let members: Vec<usize> = numbered
            .filter(|(_, port)| fits(port))
            .map(|(at, _)| at)
            .collect();
        if members.len() != entries.len() {
            let names = self.devices.ports.iter().map(|port| port.name.as_str());
            return Err(MergeError::Unmatched {
                group: name(),
                named: entries.len(),
                found: members.len(),
                ports: names.collect::<Vec<_>>().join(", "),
            });
        }
        if members.len() > self.options.most {
            return Err(MergeError::TooMany {
                group: name(),
                found: members.len(),
                most: self.options.most,
            });
        }
        members.iter().for_each(|at| self.used[*at] = true);
        if members.len() > 1 {
            if let Some(why) = self.refusal(&members) {
                return Err(MergeError::Refused { group: name(), why });
            }
            self.made.push(members);
        }
        Ok(())
    }

    /// Merges the ports that are near the first one that is left, and so on.
    fn find(&mut self, root: &Element) {
        let ports = &self.devices.ports;
        // Pairs that the network refused.
        let mut refused: Vec<[usize; 2]> = Vec::new();
        let mut first = 0;
        while first < ports.len() {
            if self.used[first] {
                first += 1;
                continue;
            }
            let joins = |other: usize| {
                !self.used[other]
                    && other != first
                    && !refused.contains(&[first, other])
                    && self.allows(&ports[first], &ports[other])
                    && self.is_near(root, first, other)
            };
            let others = (0..ports.len()).filter(|other| joins(*other));
            let mut group = vec![first];
            group.extend(others.take(self.options.most.saturating_sub(1)));
            if group.len() > 1 && self.refusal(&group).is_some() {
                for other in &group[1..] {
                    refused.extend([[first, *other], [*other, first]]);
                }
                // NCCL begins again at the second port.
                first = 1;
                continue;
            }
            group.iter().for_each(|at| self.used[*at] = true);
            if group.len() > 1 {
                self.made.push(group);
            }
            first += 1;
        }
    }

    fn allows(&self, one: &Port, other: &Port) -> bool {
        !self.options.same_rail || one.rail.is_some() && one.rail == other.rail
    }

    fn is_near(&self, root: &Element, one: usize, other: usize) -> bool {
        let ports = &self.devices.ports;
        let paths = [&ports[one].path, &ports[other].path];
        let level = self.options.level;
        level > MergeLevel::Loc && distance::between(root, &paths).level <= level
    }
}

/// `NAME`, `NAME:PORT` or `NAME:PORT:RAIL:PLANE`. An empty port and -1 are any.
fn entry(text: &str) -> Entry<'_> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let port = parts.next().filter(|port| !port.is_empty()).map(c_int);
    (name, port.filter(|port| *port != -1))
}
