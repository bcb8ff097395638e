//! Network interfaces.

use crate::JsonSchema;
use serde::Serialize;

use super::bus_id::is_bus_id;
use crate::Addresses;
use crate::sysfs::Sysfs;

/// The folder of network interfaces.
const CLASS: &str = "sys/class/net";

/// The kernel's type of the loopback interface.
const LOOPBACK: &str = "772";

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NetInterface {
    /// Its name.
    pub name: String,
    /// Index, in order of creation.
    pub index: u32,
    /// The PCI function directly behind it.
    pub bus_id: Option<String>,
    /// Whether it has no hardware.
    pub is_virtual: bool,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
    /// State: `up`, `down`, `unknown` …
    pub state: String,
    /// Speed, Mb/s.
    pub speed: Option<i32>,
    /// Whether it has an address, if known.
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

impl NetInterface {
    /// Whether the state is a known one.
    pub fn has_state(&self) -> bool {
        STATES.contains(&self.state.as_str())
    }

    /// Whether it may carry data. Tunnels are never `up`.
    pub fn is_up(&self) -> bool {
        matches!(self.state.as_str(), "up" | "unknown") && self.has_address != Some(false)
    }
}

/// Reads all interfaces, by index.
pub fn read(sysfs: &Sysfs, addresses: Option<&Addresses>) -> Vec<NetInterface> {
    let mut interfaces: Vec<NetInterface> = sysfs
        .names(CLASS)
        .into_iter()
        .filter_map(|name| interface(sysfs, name, addresses))
        .collect();
    interfaces.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    interfaces
}

fn interface(sysfs: &Sysfs, name: String, addresses: Option<&Addresses>) -> Option<NetInterface> {
    let entry = format!("{CLASS}/{name}");
    // …/0000:02:00.0/net/eth0, or …/0000:00:03.0/virtio2/net/eth0, or …/virtual/net/lo
    let target = sysfs.link(&entry).unwrap_or_default();
    let folder = if target.is_empty() { &entry } else { &target };
    let parent = target.rsplit('/').nth(2).unwrap_or_default();
    let state = sysfs.text(&format!("{folder}/operstate"));
    // The class also has the file `bonding_masters`, and a recording may have dangling links.
    if state.is_none() && (target.is_empty() || !sysfs.exists(folder)) {
        return None;
    }
    let state = state.unwrap_or_default();
    let text = |file: &str| sysfs.text(&format!("{folder}/{file}")).unwrap_or_default();
    Some(NetInterface {
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
