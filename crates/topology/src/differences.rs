//! Differences between two machines, device by device.
//!
//! Devices are compared by name (`GPU0`, `mlx5_3`, `CPU1`), so that a difference says what an
//! operator looks for. [`canonical`] tells machines that NCCL cannot tell apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::bandwidth;
use crate::build::DEFAULT_NET_SPEED;
use crate::bus_id::BusId;
use crate::edit::names::{Device, DeviceKind, Devices, NVSWITCH, link_kind};
use crate::node::NO_P2P;
use crate::node::NodeType;
use crate::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

/// A property of a device. The first ones matter most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// Whether the device is there.
    Presence,
    /// All NVLinks, if one of the two machines has none.
    AllNvlinks,
    /// The number of NVLinks to a GPU, to the NVSwitches or to a CPU.
    Nvlinks(String),
    /// The number of AMD's xGMI links to a GPU.
    Xgmi(String),
    /// The speed of a port, GB/s.
    Speed,
    /// The bandwidth of its PCI link and of those above, GB/s.
    PciLinks,
    /// The nearest GPUs, if a switch joins them.
    Near,
    /// The NUMA node above it.
    Cpu,
    /// The order of the devices in the file.
    Order,
    /// The order of the devices by bus id.
    BusOrder,
    /// Another attribute of its element.
    Attribute(&'static str),
    /// The processors of a NUMA node, as the file's mask.
    Affinity,
}

/// A difference of two machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDifference {
    /// The devices that differ alike.
    pub devices: Vec<String>,
    /// The property that differs.
    pub property: Property,
    /// The value of the reference; `None` if it has none.
    pub expected: Option<String>,
    /// The value of the other machine; `None` if it has none.
    pub found: Option<String>,
}

/// The devices of a machine by name, with their properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    devices: BTreeMap<String, BTreeMap<Property, String>>,
    /// GPUs and ports in the order of the file, and by bus id.
    order: Vec<String>,
    bus_order: Vec<String>,
}

impl Inventory {
    /// Lists the devices of a document.
    pub fn of(document: &Document) -> Self {
        let devices = Devices::of(document);
        let names = names(&devices);
        let walk = Walk {
            document,
            devices: &devices,
            names: &names,
        };
        let mut found = BTreeMap::new();
        let mut order = Vec::new();
        for (device, name) in devices.all.iter().zip(&names) {
            if let Some(properties) = walk.properties(device) {
                found.insert(name.clone(), properties);
            }
            if matches!(device.kind, DeviceKind::Gpu | DeviceKind::Port) {
                let bus_id = walk.pci_above(device).map(bus_id_of);
                order.push((device.host, bus_id, name.clone()));
            }
        }
        let mut by_bus = order.clone();
        // Stable: ports of one adapter stay in the order of the file.
        by_bus.sort_by_key(|(host, bus_id, _)| (*host, *bus_id));
        let name = |(.., name): (u32, Option<BusId>, String)| name;
        Self {
            devices: found,
            order: order.into_iter().map(name).collect(),
            bus_order: by_bus.into_iter().map(name).collect(),
        }
    }

    /// How `other` differs from this machine, what matters most first. Equal differences of several
    /// devices are one.
    pub fn differences(&self, other: &Self) -> Vec<MachineDifference> {
        let mut found: Vec<MachineDifference> = Vec::new();
        let lost = self.unlinked(other);
        let names: BTreeSet<&String> = self.devices.keys().chain(other.devices.keys()).collect();
        let mut add = |device: &str, property: &Property, expected, found_value| {
            let known = found.iter_mut().find(|known| {
                known.property == *property
                    && known.expected == expected
                    && known.found == found_value
            });
            match known {
                Some(known) => known.devices.push(device.to_owned()),
                None => found.push(MachineDifference {
                    devices: vec![device.to_owned()],
                    property: property.clone(),
                    expected,
                    found: found_value,
                }),
            }
        };
        for name in names {
            match (self.devices.get(name), other.devices.get(name)) {
                (Some(one), Some(two)) => {
                    for (property, expected, value) in changed(one, two, &lost) {
                        add(name, &property, expected, value);
                    }
                }
                (one, two) => {
                    let there = |it: Option<_>| it.map(|_| "present".to_owned());
                    add(name, &Property::Presence, there(one), there(two));
                }
            }
        }
        found.extend(self.orders(other));
        found.sort_by(|one, other| one.property.cmp(&other.property));
        found
    }

    /// GPUs with NVLinks in only one of the two machines, or that only one of them has.
    fn unlinked(&self, other: &Self) -> BTreeSet<String> {
        let linked = |machine: &Self, name: &str| {
            let properties = machine.devices.get(name);
            properties.is_some_and(|properties| {
                let mut keys = properties.keys();
                keys.any(|property| matches!(property, Property::Nvlinks(_)))
            })
        };
        let names = self.devices.keys().chain(other.devices.keys());
        names
            .filter(|name| linked(self, name) != linked(other, name))
            .cloned()
            .collect()
    }

    fn orders(&self, other: &Self) -> Vec<MachineDifference> {
        let common = |order: &[String], others: &[String]| -> Vec<String> {
            let others: BTreeSet<&String> = others.iter().collect();
            let both = order.iter().filter(|name| others.contains(name));
            both.cloned().collect()
        };
        let pairs = [
            (Property::Order, &self.order, &other.order),
            (Property::BusOrder, &self.bus_order, &other.bus_order),
        ];
        let mut found: Vec<MachineDifference> = Vec::new();
        for (property, expected, order) in pairs {
            let (expected, order) = (common(expected, order), common(order, expected));
            let Some((expected, order)) = apart(&expected, &order) else {
                continue;
            };
            // Usually both orders are the same, and so are their differences.
            if found
                .iter()
                .all(|known| known.found.as_ref() != Some(&order))
            {
                found.push(MachineDifference {
                    devices: Vec::new(),
                    property,
                    expected: Some(expected),
                    found: Some(order),
                });
            }
        }
        found
    }
}

/// The properties that differ. NVLinks to GPUs that lost theirs are told at those GPUs.
fn changed(
    one: &BTreeMap<Property, String>,
    two: &BTreeMap<Property, String>,
    lost: &BTreeSet<String>,
) -> Vec<(Property, Option<String>, Option<String>)> {
    let nvlinks = |properties: &BTreeMap<Property, String>| {
        let links = properties
            .iter()
            .filter_map(|(property, count)| match property {
                Property::Nvlinks(target) => Some(format!("{count} to {target}")),
                _ => None,
            });
        links.collect::<Vec<_>>().join(", ")
    };
    let (links, others) = (nvlinks(one), nvlinks(two));
    let all = links.is_empty() != others.is_empty();
    let mut found = Vec::new();
    let properties: BTreeSet<&Property> = one.keys().chain(two.keys()).collect();
    for property in properties {
        let (expected, value) = (one.get(property).cloned(), two.get(property).cloned());
        let told = match property {
            Property::Nvlinks(target) => all || lost.contains(target),
            _ => false,
        };
        if expected != value && !told {
            found.push((property.clone(), expected, value));
        }
    }
    if all {
        let some = |text: String| (!text.is_empty()).then_some(text);
        found.push((Property::AllNvlinks, some(links), some(others)));
    }
    found
}

/// The parts of two orders without their common beginning and end.
fn apart(one: &[String], two: &[String]) -> Option<(String, String)> {
    if one == two {
        return None;
    }
    let same = |(a, b): &(&String, &String)| a == b;
    let front = one.iter().zip(two).take_while(same).count();
    let back = one
        .iter()
        .rev()
        .zip(two.iter().rev())
        .take_while(same)
        .count();
    let part = |order: &[String]| order[front..order.len() - back].join(", ");
    Some((part(one), part(two)))
}

/// The name of each device: that of its port or its label, with its host if there are several.
fn names(devices: &Devices) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for device in &devices.all {
        let own = match device.kind {
            DeviceKind::Port => device.aliases.last().unwrap_or(&device.label),
            _ => &device.label,
        };
        let mut name = match devices.hosts {
            0 | 1 => own.clone(),
            _ => format!("host{}/{own}", device.host),
        };
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{own} ({number})");
            number += 1;
        }
        names.push(name);
    }
    names
}

struct Walk<'a> {
    document: &'a Document,
    devices: &'a Devices,
    names: &'a [String],
}

impl<'a> Walk<'a> {
    /// The elements from the CPU down to the device's own.
    fn chain(&self, device: &Device) -> Vec<&'a Element> {
        let mut element = &self.document.root;
        let mut chain = Vec::new();
        for index in &device.element {
            element = &element.children[*index];
            chain.push(element);
        }
        chain
    }

    fn pci_above(&self, device: &Device) -> Option<&'a Element> {
        let chain = self.chain(device);
        chain
            .into_iter()
            .rev()
            .find(|element| element.tag == Tag::Pci)
    }

    /// The properties of a device that has a name of its own; switches have only bus ids.
    fn properties(&self, device: &Device) -> Option<BTreeMap<Property, String>> {
        let chain = self.chain(device);
        let own = *chain.last()?;
        let mut found = BTreeMap::new();
        let attributes: &[&'static str] = match device.kind {
            DeviceKind::Gpu => &["sm", "rank", "gdr", NO_P2P],
            DeviceKind::Port => &["latency", "gdr", "coll"],
            DeviceKind::Cpu => &["arch", "vendor", "familyid", "modelid"],
            _ => return None,
        };
        for name in attributes {
            if let Some(value) = own.get(name) {
                // Versions of NCCL write numbers with more or fewer digits.
                let value = value.parse::<f32>().map_or(value.to_owned(), number);
                found.insert(Property::Attribute(name), value);
            }
        }
        match device.kind {
            DeviceKind::Cpu => {
                let mask = own.get("affinity").unwrap_or_default();
                found.insert(Property::Affinity, mask.to_owned());
                return Some(found);
            }
            DeviceKind::Port => {
                let speed = own.get("speed").map_or(0, c_int);
                let speed = if speed > 0 { speed } else { DEFAULT_NET_SPEED };
                found.insert(Property::Speed, number(speed as f32 / 8000.0));
            }
            _ => self.nvlinks(device, own, &mut found),
        }
        if let Some(cpu) = chain.first().filter(|element| element.tag == Tag::Cpu) {
            let numa = cpu.get("numaid").map_or(-1, c_int);
            found.insert(Property::Cpu, format!("CPU{numa}"));
        }
        let links = chain.iter().rev().filter(|element| element.tag == Tag::Pci);
        let links: Vec<String> = links.map(|pci| number(pci_link(pci))).collect();
        if !links.is_empty() {
            found.insert(Property::PciLinks, links.join(", "));
        }
        if let Some(near) = self.near(device) {
            found.insert(Property::Near, near);
        }
        Some(found)
    }

    fn nvlinks(&self, gpu: &Device, own: &Element, found: &mut BTreeMap<Property, String>) {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for link in own.children(Tag::Nvlink) {
            let target = link.get("target").unwrap_or_default();
            let name = match link_kind(link) {
                NodeType::Gpu => self.gpu_at(gpu.host, BusId::parse(target), target),
                NodeType::Cpu => "its CPU".to_owned(),
                _ => NVSWITCH.to_owned(),
            };
            *counts.entry(name).or_default() += i64::from(link.get("count").map_or(0, c_int));
        }
        for (target, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            found.insert(Property::Nvlinks(target), count.to_string());
        }
        for link in own.children(Tag::Xgmi) {
            let target = link.get("target").unwrap_or_default();
            let name = self.gpu_at(gpu.host, BusId::parse(target), target);
            let count = link.get("count").map_or(0, c_int);
            found.insert(Property::Xgmi(name), count.to_string());
        }
        if let Some(bandwidth) = own.children(Tag::C2c).find_map(|link| link.get("bw")) {
            found.insert(Property::Attribute("c2c bw"), bandwidth.to_owned());
        }
    }

    fn gpu_at(&self, host: u32, bus_id: BusId, text: &str) -> String {
        let mut all = self.devices.all.iter().zip(self.names);
        all.find(|(device, _)| {
            device.kind == DeviceKind::Gpu && device.host == host && device.bus_id == Some(bus_id)
        })
        .map_or_else(|| text.to_owned(), |(_, name)| name.clone())
    }

    /// The other GPUs below the nearest switch that has some.
    fn near(&self, device: &Device) -> Option<String> {
        let shared = |gpu: &Device| {
            let pairs = device.element.iter().zip(&gpu.element);
            pairs.take_while(|(one, other)| one == other).count()
        };
        let gpus = self
            .devices
            .all
            .iter()
            .zip(self.names)
            .filter(|(gpu, _)| gpu.kind == DeviceKind::Gpu && gpu.element != device.element);
        let gpus: Vec<(usize, &String)> = gpus.map(|(gpu, name)| (shared(gpu), name)).collect();
        // The first step is the CPU.
        let most = gpus
            .iter()
            .map(|(shared, _)| *shared)
            .filter(|shared| *shared > 1)
            .max()?;
        let nearest = gpus.iter().filter(|(shared, _)| *shared == most);
        let mut names: Vec<&str> = nearest.map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        Some(names.join(", "))
    }
}

fn bus_id_of(pci: &Element) -> BusId {
    BusId::parse(pci.get("busid").unwrap_or_default())
}

fn pci_link(pci: &Element) -> f32 {
    let speed = pci.get("link_speed").unwrap_or_default();
    bandwidth::pci(speed, pci.get("link_width").map_or(0, c_int))
}

/// A number with at most two digits after the point.
fn number(value: f32) -> String {
    format!("{}", (value * 100.0).round() / 100.0)
}

/// A machine as a text that is equal for machines that NCCL cannot tell apart.
///
/// Bus ids and guids are replaced by their rank in the file, because only their order and equality
/// count, and the function of a bus id. A `host_hash` that all CPUs share is left out.
pub fn canonical(document: &Document) -> String {
    let mut values = Values::default();
    values.collect(&document.root);
    let mut text = format!("{}", document.version);
    values.write(&document.root, &mut text);
    text
}

#[derive(Default)]
struct Values<'a> {
    buses: BTreeSet<BusId>,
    guids: BTreeSet<u64>,
    hosts: BTreeSet<&'a str>,
}

impl<'a> Values<'a> {
    fn collect(&mut self, element: &'a Element) {
        for attribute in &element.attributes {
            let value = attribute.value.as_str();
            match &*attribute.name {
                "busid" | "target" => drop(self.buses.insert(BusId::parse(value))),
                "guid" => drop(self.guids.insert(c_unsigned_hexadecimal(value))),
                "host_hash" => drop(self.hosts.insert(value)),
                _ => {}
            }
        }
        for child in &element.children {
            self.collect(child);
        }
    }

    fn write(&self, element: &Element, text: &mut String) {
        text.push('<');
        text.push_str(element.tag.name());
        for attribute in &element.attributes {
            let value = attribute.value.as_str();
            let value = match &*attribute.name {
                "busid" | "target" => {
                    let rank = self.buses.range(..BusId::parse(value)).count();
                    let function = value.chars().next_back().unwrap_or('0');
                    format!("{rank}.{function}")
                }
                "guid" => {
                    let rank = self.guids.range(..c_unsigned_hexadecimal(value)).count();
                    rank.to_string()
                }
                "host_hash" if self.hosts.len() < 2 => continue,
                _ => value.to_owned(),
            };
            text.push_str(&format!(" {}={value:?}", attribute.name));
        }
        text.push('>');
        for child in &element.children {
            self.write(child, text);
        }
        text.push_str("</>");
    }
}
