//! PCI functions and the bridges above them.

use std::collections::{BTreeMap, BTreeSet};

use crate::JsonSchema;
use serde::Serialize;

use super::bus_id::{is_bus_id, is_plain_bus_id};
use super::config_space::AccessControl;
use crate::sysfs::Sysfs;

/// The folder of PCI functions.
const DEVICES: &str = "sys/bus/pci/devices";

/// PCI classes in a topology: network, display and 3D, accelerators, InfiniBand, coprocessors.
const CLASSES: [&str; 5] = ["0x02", "0x03", "0x12", "0x0c06", "0x0b40"];

/// Folder of the links between Broadcom switches.
const SWITCH_LINKS: &str = "sys/kernel/pci_switch_link/virtual_switch_links";

/// Broadcom's vendor id.
const BROADCOM: &str = "0x1000";

/// NVIDIA's vendor id.
const NVIDIA: &str = "0x10de";

/// PCI class of a bridge between PCI buses.
pub const BRIDGE: &str = "0x060400";

/// The functions to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Functions of `CLASSES`, and all functions above them.
    Topology,
    /// All functions.
    Everything,
}

/// Speed and width of a link, in the kernel's words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PciLink {
    /// Current speed, such as `16.0 GT/s PCIe`.
    pub current_speed: Option<String>,
    /// Current number of lanes.
    pub current_width: Option<String>,
    /// Highest speed.
    pub max_speed: Option<String>,
    /// Most lanes.
    pub max_width: Option<String>,
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PciFunction {
    /// Bus id.
    pub bus_id: String,
    /// Folder names from the root complex down to it; only itself if the kernel shows no tree.
    pub chain: Vec<String>,
    /// Class, such as `0x030200`.
    pub class: String,
    /// Vendor, such as `0x10de`.
    pub vendor: String,
    /// Device.
    pub device: String,
    /// The board's vendor.
    pub subsystem_vendor: String,
    /// The board.
    pub subsystem_device: String,
    /// The link upwards.
    pub link: PciLink,
    /// Text of its NUMA node; -1: unknown.
    pub numa_node: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// The physical function of a virtual function.
    pub physical_function: Option<String>,
    /// Type of its IOMMU group: `DMA`, `DMA-FQ`, `identity` …
    pub iommu: Option<String>,
    /// Access Control Services of a bridge, if readable.
    pub access_control: Option<AccessControl>,
    /// More of its config space is readable than the 64 bytes that everybody sees; of bridges.
    #[serde(skip)]
    pub is_config_read: bool,
    /// Bus ids of the switches to which a Broadcom switch is linked.
    pub switch_links: Vec<String>,
}

impl PciFunction {
    /// The NUMA node's number; -1 if unknown or invalid.
    pub fn numa(&self) -> i32 {
        self.numa_node
            .as_deref()
            .map_or(-1, |text| topology::xml::c_int(text).max(-1))
    }

    /// The root complex, `pci0000:17`.
    pub fn root_complex(&self) -> Option<&str> {
        self.chain
            .first()
            .map(String::as_str)
            .filter(|name| name.starts_with("pci"))
    }

    /// Whether it is a GPU of NVIDIA: a display or 3D controller.
    pub fn is_nvidia_gpu(&self) -> bool {
        self.vendor == NVIDIA && self.class.starts_with("0x03")
    }

    /// The bridges above it, root port first.
    pub fn bridges(&self) -> impl DoubleEndedIterator<Item = &str> {
        let above = self.chain.split_last().map_or(&[][..], |(_, above)| above);
        above
            .iter()
            .map(String::as_str)
            .filter(|name| is_bus_id(name))
    }

    /// Bus id of the folder directly above, if NCCL takes it for one.
    pub fn port(&self) -> Option<&str> {
        let above = self.chain.len().checked_sub(2)?;
        Some(self.chain[above].as_str()).filter(|name| is_plain_bus_id(name))
    }

    /// Bus id two folders above: the port's switch. NCCL omits the port itself.
    pub fn parent(&self) -> Option<&str> {
        self.port()?;
        let above = self.chain.len().checked_sub(3)?;
        Some(self.chain[above].as_str()).filter(|name| is_plain_bus_id(name))
    }
}

/// The PCI functions of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct PciTree {
    functions: BTreeMap<String, PciFunction>,
}

impl PciTree {
    /// Reads functions. Those in `wanted` are read whatever their class.
    pub fn read(sysfs: &Sysfs, detail: Detail, wanted: BTreeSet<String>) -> Self {
        let mut chains: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        for name in sysfs.names(DEVICES) {
            if is_bus_id(&name) {
                let own = format!("{DEVICES}/{name}");
                let folder = sysfs.link(&own).unwrap_or(own);
                if !sysfs.exists(&folder) {
                    continue;
                }
                let chain = chain(&folder);
                chains.insert(name, (folder, chain));
            }
        }
        let matters = |name: &String, folder: &String| {
            let class = || sysfs.text(&format!("{folder}/class")).unwrap_or_default();
            detail == Detail::Everything || wanted.contains(name) || {
                let class = class();
                CLASSES.iter().any(|prefix| class.starts_with(prefix))
            }
        };
        let mut needed: BTreeSet<&String> = BTreeSet::new();
        for (name, (folder, chain)) in &chains {
            if matters(name, folder) {
                needed.insert(name);
                needed.extend(chain.iter());
            }
        }
        let mut functions: BTreeMap<String, PciFunction> = chains
            .iter()
            .filter(|(name, _)| needed.contains(name))
            .map(|(name, (folder, chain))| (name.clone(), function(sysfs, name, folder, chain)))
            .collect();
        let known: BTreeSet<String> = functions.keys().cloned().collect();
        for function in functions.values_mut() {
            function
                .switch_links
                .retain(|target| known.contains(target));
        }
        Self { functions }
    }

    /// All functions, by bus id.
    pub fn iter(&self) -> impl Iterator<Item = &PciFunction> {
        self.functions.values()
    }

    /// Returns a function.
    pub fn get(&self, bus_id: &str) -> Option<&PciFunction> {
        self.functions.get(bus_id)
    }

    /// The number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// The folder names of a function, root complex first.
fn chain(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = folder
        .rsplit('/')
        .take_while(|name| is_bus_id(name) || is_root(name))
        .map(str::to_owned)
        .collect();
    names.reverse();
    names
}

/// Whether a folder is a root complex, `pci0000:17`.
fn is_root(name: &str) -> bool {
    name.strip_prefix("pci")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(domain, bus)| {
            let hexadecimal =
                |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
            hexadecimal(domain) && hexadecimal(bus)
        })
}

fn function(sysfs: &Sysfs, name: &str, folder: &str, chain: &[String]) -> PciFunction {
    let text = |file: &str| sysfs.text(&format!("{folder}/{file}"));
    let last = |file: &str| {
        let target = sysfs.link(&format!("{folder}/{file}"))?;
        target.rsplit('/').next().map(str::to_owned)
    };
    let class = text("class").unwrap_or_default();
    let group = sysfs.link(&format!("{folder}/iommu_group"));
    let iommu = group.and_then(|group| sysfs.text(&format!("{group}/type")));
    let config = match class.starts_with(&BRIDGE[..6]) {
        true => sysfs.bytes(&format!("{folder}/config")),
        false => None,
    };
    let config = config.unwrap_or_default();
    let vendor = text("vendor").unwrap_or_default();
    let mut switch_links = Vec::new();
    if vendor == BROADCOM && class.starts_with(&BRIDGE[..6]) {
        let links = format!("{SWITCH_LINKS}/{name}");
        switch_links = sysfs.names(&links);
        switch_links.retain(|target| sysfs.exists(&format!("{links}/{target}")));
    }
    PciFunction {
        bus_id: name.to_owned(),
        chain: chain.to_vec(),
        vendor,
        device: text("device").unwrap_or_default(),
        subsystem_vendor: text("subsystem_vendor").unwrap_or_default(),
        subsystem_device: text("subsystem_device").unwrap_or_default(),
        link: PciLink {
            current_speed: text("current_link_speed"),
            current_width: text("current_link_width"),
            max_speed: text("max_link_speed"),
            max_width: text("max_link_width"),
        },
        numa_node: text("numa_node"),
        driver: last("driver"),
        physical_function: last("physfn"),
        class,
        iommu,
        access_control: AccessControl::read(&config),
        is_config_read: config.len() > 64,
        switch_links,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_begin_at_the_root_complex() {
        let folder = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
        let function = PciFunction {
            chain: chain(folder),
            ..PciFunction::default()
        };
        assert_eq!(function.root_complex(), Some("pci0000:00"));
        assert_eq!(function.port(), Some("0000:02:00.0"));
        assert_eq!(function.parent(), Some("0000:01:00.0"));
        assert_eq!(function.bridges().count(), 3);
        let below_root_port = PciFunction {
            chain: chain("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"),
            ..PciFunction::default()
        };
        assert_eq!(
            (below_root_port.port(), below_root_port.parent()),
            (Some("0000:00:01.0"), None)
        );
        assert_eq!(chain("sys/bus/pci/devices/0004:05:00.0"), ["0004:05:00.0"]);
    }
}
