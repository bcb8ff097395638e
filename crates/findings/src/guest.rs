//! Derives the topology file of a virtual machine from that of its host.
//!
//! A guest sees devices without the switches above them. NCCL finds devices by bus id, so the
//! guest's file is the host's tree with the guest's bus ids. A map has pairs of bus ids.

use std::collections::{BTreeMap, BTreeSet};

use topology::BusId;
use topology::xml::{Document, Element, Tag};

/// Domain and bus of switches whose bus id is used by a device of the guest.
const INVENTED: &str = "ffff:ff";

/// Why a guest's file cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// A line is not a pair of bus ids.
    #[error(
        "{file}:{line}: found `{found}`, expected a bus id of the host and one of the guest, such as `0000:1b:00.0 0000:05:00.0`"
    )]
    Line {
        /// The map.
        file: String,
        /// The line's number, from 1.
        line: usize,
        /// The line.
        found: String,
    },
    /// A bus id occurs twice on one side.
    #[error(
        "{file}:{line}: {bus_id} is already in line {first}; each device has one bus id on the host and one in the guest"
    )]
    Twice {
        /// The map.
        file: String,
        /// The line's number, from 1.
        line: usize,
        /// The bus id.
        bus_id: String,
        /// The line where it occurs first.
        first: usize,
    },
    /// The host has no such device.
    #[error("{file}:{line}: the host's file has no device {bus_id}; it has {known}")]
    Unknown {
        /// The map.
        file: String,
        /// The line's number, from 1.
        line: usize,
        /// The bus id.
        bus_id: String,
        /// The host's devices.
        known: String,
    },
    /// The map names no GPU.
    #[error("{file}: no line names a GPU of the host; there is nothing to plan in such a guest")]
    NoGpu {
        /// The map.
        file: String,
    },
}

/// Maps bus ids of the host to bus ids of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusIdMap {
    file: String,
    /// Line and guest's bus id, by host's bus id.
    pairs: BTreeMap<String, (usize, String)>,
}

impl BusIdMap {
    /// Parses a map: one pair per line, host first; `#` starts a comment. `file` is for messages.
    ///
    /// # Errors
    /// A line is not a pair of bus ids, or a bus id occurs twice.
    pub fn parse(file: &str, text: &str) -> Result<Self, GuestError> {
        let mut pairs: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut guests: BTreeMap<String, usize> = BTreeMap::new();
        for (number, whole) in (1..).zip(text.lines()) {
            let line = whole.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let words: Vec<String> = line
                .split([' ', '\t', ',', '='])
                .filter(|word| !word.is_empty())
                .map(normal)
                .collect();
            let [host, guest] = words.as_slice() else {
                return Err(wrong(file, number, whole));
            };
            if !BusId::is_well_formed(host) || !BusId::is_well_formed(guest) {
                return Err(wrong(file, number, whole));
            }
            let twice = |bus_id: &String, first: usize| GuestError::Twice {
                file: file.to_owned(),
                line: number,
                bus_id: bus_id.clone(),
                first,
            };
            if let Some(first) = guests.insert(guest.clone(), number) {
                return Err(twice(guest, first));
            }
            if let Some((first, _)) = pairs.insert(host.clone(), (number, guest.clone())) {
                return Err(twice(host, first));
            }
        }
        Ok(Self {
            file: file.to_owned(),
            pairs,
        })
    }

    /// The guest's bus id of a host's device.
    fn get(&self, host: &str) -> Option<&str> {
        self.pairs
            .get(&normal(host))
            .map(|(_, guest)| guest.as_str())
    }
}

fn wrong(file: &str, line: usize, found: &str) -> GuestError {
    GuestError::Line {
        file: file.to_owned(),
        line,
        found: found
            .chars()
            .take(48)
            .flat_map(char::escape_debug)
            .collect(),
    }
}

/// Lower case, with domain.
fn normal(bus_id: &str) -> String {
    let bus_id = bus_id.to_lowercase();
    if bus_id.matches(':').count() == 1 {
        format!("0000:{bus_id}")
    } else {
        bus_id
    }
}

/// The files of a guest.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The guest's NCCL_TOPO_FILE: only CPUs and PCI functions; NCCL adds the rest.
    pub file: Document,
    /// The same with GPUs, NVLinks and network devices, as NCCL should complete it.
    pub complete: Document,
    /// The host reduced to the guest's devices.
    pub host: Document,
}

/// Derives the files of a guest.
///
/// # Errors
/// The map has an unknown device, or no GPU.
pub fn guest(host: &Document, map: &BusIdMap) -> Result<Guest, GuestError> {
    let mut devices = BTreeMap::new();
    let mut others = BTreeSet::new();
    collect(&host.root, &mut devices, &mut others);
    for (bus_id, (line, _)) in &map.pairs {
        if !devices.contains_key(bus_id) {
            let known: Vec<&str> = devices.keys().map(String::as_str).collect();
            return Err(GuestError::Unknown {
                file: map.file.clone(),
                line: *line,
                bus_id: bus_id.clone(),
                known: known.join(", "),
            });
        }
    }
    if !map
        .pairs
        .keys()
        .any(|bus_id| devices.get(bus_id) == Some(&true))
    {
        return Err(GuestError::NoGpu {
            file: map.file.clone(),
        });
    }
    let mut kept = host.clone();
    kept.root.children = keep(std::mem::take(&mut kept.root.children), map);
    renumber(&mut kept.root, &mut [0, 0]);
    let mut complete = kept.clone();
    let taken: BTreeSet<&str> = map
        .pairs
        .values()
        .map(|(_, guest)| guest.as_str())
        .collect();
    let mut invented = BTreeMap::new();
    for (bus_id, number) in others
        .iter()
        .filter(|bus_id| taken.contains(bus_id.as_str()))
        .zip(0u32..)
    {
        invented.insert(bus_id.clone(), format!("{INVENTED}:{:02x}.0", number % 32));
    }
    rename(&mut complete.root, map, &invented);
    let mut file = complete.clone();
    strip(&mut file.root);
    Ok(Guest {
        file,
        complete,
        host: kept,
    })
}

/// Collects devices, with whether they are GPUs, and all other functions.
fn collect(element: &Element, devices: &mut BTreeMap<String, bool>, others: &mut BTreeSet<String>) {
    if element.tag == Tag::Pci {
        let bus_id = normal(element.get("busid").unwrap_or_default());
        match end_point(element) {
            Some(is_gpu) => {
                devices.insert(bus_id, is_gpu);
            }
            None => {
                others.insert(bus_id);
            }
        }
    }
    element
        .children
        .iter()
        .for_each(|child| collect(child, devices, others));
}

/// Whether a function is a GPU rather than a NIC; `None` for switches.
fn end_point(pci: &Element) -> Option<bool> {
    let class = pci.get("class").unwrap_or_default();
    let has = |tag| pci.children(tag).next().is_some();
    if class.starts_with("0x03") || has(Tag::Gpu) {
        Some(true)
    } else {
        (class.starts_with("0x02") || has(Tag::Nic)).then_some(false)
    }
}

/// Drops devices that the guest lacks, and switches without devices. CPUs keep their numbers.
fn keep(children: Vec<Element>, map: &BusIdMap) -> Vec<Element> {
    let mut kept = Vec::new();
    for mut child in children {
        match child.tag {
            Tag::Cpu => {
                child.children = keep(std::mem::take(&mut child.children), map);
                kept.push(child);
            }
            Tag::Pci if end_point(&child).is_some() => {
                if map.get(child.get("busid").unwrap_or_default()).is_some() {
                    drop_links(&mut child, map);
                    kept.push(child);
                }
            }
            Tag::Pci => {
                child.children = keep(std::mem::take(&mut child.children), map);
                if child.children.iter().any(|below| below.tag == Tag::Pci) {
                    kept.push(child);
                }
            }
            // The host's own network devices.
            Tag::Nic => {}
            _ => kept.push(child),
        }
    }
    kept
}

/// Drops NVLinks to GPUs that the guest lacks.
fn drop_links(pci: &mut Element, map: &BusIdMap) {
    for gpu in pci
        .children
        .iter_mut()
        .filter(|child| child.tag == Tag::Gpu)
    {
        gpu.children.retain(|link| {
            let to_gpu = link.tag == Tag::Nvlink
                && link
                    .get("tclass")
                    .is_some_and(|class| class.starts_with("0x03"));
            !to_gpu || map.get(link.get("target").unwrap_or_default()).is_some()
        });
    }
}

/// Renumbers GPUs, ranks and network devices in the file's order.
fn renumber(root: &mut Element, next: &mut [i32; 2]) {
    let mut take = |at: usize| {
        next[at] += 1;
        (next[at] - 1).to_string()
    };
    match root.tag {
        Tag::Gpu => {
            let number = take(0);
            root.set("dev", number.clone());
            root.set("rank", number);
        }
        Tag::Net => root.set("dev", take(1)),
        _ => {}
    }
    root.children
        .iter_mut()
        .for_each(|child| renumber(child, next));
}

fn rename(element: &mut Element, map: &BusIdMap, invented: &BTreeMap<String, String>) {
    for name in ["busid", "target"] {
        if let Some(old) = element.get(name).map(normal) {
            let new = map
                .get(&old)
                .or_else(|| invented.get(&old).map(String::as_str));
            if let Some(new) = new {
                element.set(name, new);
            }
        }
    }
    element
        .children
        .iter_mut()
        .for_each(|child| rename(child, map, invented));
}

/// Keeps CPUs and PCI functions. NCCL must detect the guest's own processors.
fn strip(element: &mut Element) {
    element
        .children
        .retain(|child| matches!(child.tag, Tag::Cpu | Tag::Pci | Tag::Pcilink));
    if element.tag == Tag::Cpu {
        element
            .attributes
            .retain(|attribute| !matches!(&*attribute.name, "affinity" | "host_hash"));
    }
    element.children.iter_mut().for_each(strip);
}
