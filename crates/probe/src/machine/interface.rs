//! Network interfaces.

use serde::Serialize;

use super::bus_id::is_bus_id;
use crate::Addresses;
use crate::sysfs::Sysfs;

/// The folder of network interfaces.
const CLASS: &str = "sys/class/net";

/// The kernel's type of the loopback interface.
const LOOPBACK: &str = "772";

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number, in the order of making.
    pub index: u32,
    /// The PCI function that it belongs to directly.
    pub bus_id: Option<String>,
    /// No hardware is behind it.
    pub is_virtual: bool,
    /// It is the loopback interface.
    pub is_loopback: bool,
    /// Its state, as the kernel says it: `up`, `down`, `unknown`.
    pub state: String,
    /// Its speed in Mb/s, where it is known.
    pub speed: Option<i32>,
    /// It has an address, where that is known.
    pub has_address: Option<bool>,
}

/// The kernel's states of an interface (RFC 2863).
const STATES: [&str; 7] = [
    "up",
    "down",
    "unknown",
    "dormant",
    "lowerlayerdown",
    "notpresent",
    "testing",
];

impl Interface {
    /// Whether its state is one.
    pub fn has_state(&self) -> bool {
        STATES.contains(&self.state.as_str())
    }

    /// Whether it may carry data. Tunnels and the like never say `up`.
    pub fn is_up(&self) -> bool {
        matches!(self.state.as_str(), "up" | "unknown") && self.has_address != Some(false)
    }
}

/// Reads all interfaces, in the order of their numbers.
pub fn read(sysfs: &Sysfs, addresses: Option<&Addresses>) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = sysfs
        .names(CLASS)
        .into_iter()
        .filter_map(|name| interface(sysfs, name, addresses))
        .collect();
    interfaces.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    interfaces
}

fn interface(sysfs: &Sysfs, name: String, addresses: Option<&Addresses>) -> Option<Interface> {
    let entry = format!("{CLASS}/{name}");
    // …/0000:02:00.0/net/eth0, or …/0000:00:03.0/virtio2/net/eth0, or …/virtual/net/lo
    let target = sysfs.link(&entry).unwrap_or_default();
    let folder = if target.is_empty() { &entry } else { &target };
    let parent = target.rsplit('/').nth(2).unwrap_or_default();
    let state = sysfs.text(&format!("{folder}/operstate"));
    // The class also holds the file `bonding_masters`, and a recording may hold a link to nothing.
    if state.is_none() && (target.is_empty() || !sysfs.exists(folder)) {
        return None;
    }
    let state = state.unwrap_or_default();
    let text = |file: &str| sysfs.text(&format!("{folder}/{file}")).unwrap_or_default();
    Some(Interface {
        index: text("ifindex").parse().unwrap_or(u32::MAX),
        bus_id: is_bus_id(parent).then(|| parent.to_owned()),
        is_virtual: target.contains("/virtual/"),
        is_loopback: text("type") == LOOPBACK || name == "lo",
        state,
        speed: text("speed").parse().ok().filter(|speed| *speed > 0),
        has_address: addresses.map(|addresses| addresses.contains(&name)),
        name,
    })
}
