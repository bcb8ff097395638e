//! The network ports of a topology file, and the virtual devices that NCCL makes of them.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use net_plugin::abi::NO_ID;
use topology::NameList;
use topology::xml::{Document, Element, Tag, c_float, c_int, c_unsigned_hexadecimal};

/// Speed of a port that the file gives none, Mb/s: NCCL's default.
const DEFAULT_SPEED: i32 = 10_000;

/// Connections of a port that the file gives none: NCCL's default.
const DEFAULT_CONNECTIONS: i32 = 65_536;

/// Most devices that NCCL's InfiniBand transport has, virtual ones included.
const MOST_DEVICES: usize = 256;

/// The plane of a virtual device: this, and a bit for each plane of its ports.
const PLANES: i16 = 16_384;

/// Most planes with a bit.
const MOST_PLANES: usize = 12;

/// A port, or a virtual device.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub name: CString,
    pub guid: u64,
    /// Mb/s.
    pub speed: i32,
    pub port: i32,
    pub latency: f32,
    pub connections: i32,
    pub gdr: bool,
    pub rail: i16,
    pub plane: i16,
    /// The numbers of the ports that it consists of; itself alone for a port.
    pub members: Vec<i32>,
    /// The link layer is InfiniBand, not Ethernet.
    pub infiniband: bool,
    /// Its PCI function.
    pub bus_id: String,
}

/// Virtual devices in the order in which NCCL made them. They are never freed.
static VIRTUAL: Mutex<Vec<&'static Port>> = Mutex::new(Vec::new());

/// The lists of the ports that a job uses, which only NCCL's transports read.
#[derive(Debug, Default)]
pub(super) struct UsedPorts {
    /// `NCCL_IB_HCA`.
    adapters: Option<NameList>,
    /// `NCCL_SOCKET_IFNAME`.
    interfaces: Option<NameList>,
}

impl UsedPorts {
    /// Those of NCCL's variables.
    pub(super) fn of(variables: &[(String, String)]) -> Self {
        let list = |wanted: &str| {
            let mut set = variables.iter().rev();
            let (_, list) = set.find(|(name, _)| name == wanted)?;
            Some(NameList::new(list))
        };
        Self {
            adapters: list("NCCL_IB_HCA"),
            interfaces: list("NCCL_SOCKET_IFNAME"),
        }
    }

    /// Whether a transport would list a port. Interfaces of sockets have the number 0, or none.
    fn take(&self, net: &Element) -> bool {
        let number = net.get("port").map_or(0, c_int);
        let list = match number {
            0 => &self.interfaces,
            _ => &self.adapters,
        };
        match (list, net.get("name")) {
            // Of ports that an earlier job merged, one is enough.
            (Some(list), Some(name)) => {
                let mut parts = name.split('+');
                parts.any(|part| list.takes(part, Some(number)))
            }
            _ => true,
        }
    }
}

/// The ports of a file that a job uses, numbered in its order of numbers. NCCL finds an element by
/// its name, so only the first of a name is a port.
pub(super) fn of(document: &Document, used: &UsedPorts) -> Vec<Port> {
    let mut elements = Vec::new();
    walk(&document.root, None, &mut elements);
    let names: BTreeSet<&str> = elements
        .iter()
        .filter_map(|(net, _)| net.get("name"))
        .collect();
    // A virtual device of an earlier job is no port.
    let is_virtual = |net: &Element| {
        let name = net.get("name").unwrap_or_default();
        name.contains('+') && name.split('+').all(|part| names.contains(part))
    };
    let mut known = BTreeSet::new();
    elements.retain(|(net, _)| {
        let is_first = net.get("name").is_none_or(|name| known.insert(name));
        is_first && net.get("dev").is_some() && !is_virtual(net) && used.take(net)
    });
    elements.sort_by_key(|(net, _)| net.get("dev").map_or(0, c_int));
    let numbered = (0..).zip(elements);
    numbered
        .map(|(number, (net, pci))| port(number, net, pci))
        .collect()
}

/// A port's element, and the nearest PCI function above it.
type Found<'a> = (&'a Element, Option<&'a Element>);

/// The ports below an element.
fn walk<'a>(element: &'a Element, pci: Option<&'a Element>, found: &mut Vec<Found<'a>>) {
    let pci = match element.tag {
        Tag::Pci => Some(element),
        _ => pci,
    };
    if element.tag == Tag::Net {
        found.push((element, pci));
    }
    for child in &element.children {
        walk(child, pci, found);
    }
}

fn port(number: i32, net: &Element, pci: Option<&Element>) -> Port {
    let of_pci = |name: &str| pci.and_then(|pci| pci.get(name)).unwrap_or_default();
    let int = |name: &str| net.get(name).map(c_int);
    let id = |name| int(name).map_or(NO_ID, |id| id as i16);
    let name = net.get("name").map(str::to_owned);
    let name = name.unwrap_or_else(|| format!("net{number}"));
    Port {
        name: CString::new(name).unwrap_or_default(),
        guid: net
            .get("guid")
            .map_or(number as u64, c_unsigned_hexadecimal),
        speed: int("speed").unwrap_or(DEFAULT_SPEED),
        port: int("port").unwrap_or(1),
        latency: net.get("latency").map_or(0.0, c_float),
        connections: int("maxconn").unwrap_or(DEFAULT_CONNECTIONS),
        gdr: int("gdr").unwrap_or(0) != 0,
        rail: id("rail"),
        plane: id("plane"),
        members: vec![number],
        infiniband: of_pci("class").starts_with("0x0207"),
        bus_id: of_pci("busid").to_owned(),
    }
}

/// How many devices there are, virtual ones included.
pub(super) fn count(ports: &[Port]) -> usize {
    let made = VIRTUAL.lock().unwrap_or_else(PoisonError::into_inner);
    ports.len() + made.len()
}

/// A device by the plug-in's number.
pub(super) fn numbered(ports: &'static [Port], number: i32) -> Option<&'static Port> {
    let number = usize::try_from(number).ok()?;
    match number.checked_sub(ports.len()) {
        None => ports.get(number),
        Some(number) => {
            let made = VIRTUAL.lock().unwrap_or_else(PoisonError::into_inner);
            made.get(number).copied()
        }
    }
}

/// Makes a virtual device as NCCL's InfiniBand transport does, and returns its number; `None` if
/// the transport refuses.
pub(super) fn merge(ports: &[Port], members: &[i32]) -> Option<i32> {
    let own = members
        .iter()
        .map(|number| ports.get(usize::try_from(*number).ok()?));
    let own: Vec<&Port> = own.collect::<Option<_>>()?;
    let first = own.first()?;
    let mut made = VIRTUAL.lock().unwrap_or_else(PoisonError::into_inner);
    let number = ports.len() + made.len();
    // A port 0 is a socket's interface.
    let differ = own
        .iter()
        .any(|it| it.infiniband != first.infiniband || it.port == 0);
    if differ || number >= MOST_DEVICES {
        return None;
    }
    let names = own.iter().map(|port| port.name.to_string_lossy());
    let names: Vec<_> = names.collect();
    let same_rail = own.iter().all(|port| port.rail == first.rail);
    let device = Port {
        name: CString::new(names.join("+")).ok()?,
        speed: own
            .iter()
            .fold(0, |sum: i32, port| sum.saturating_add(port.speed)),
        latency: 0.0,
        rail: if same_rail { first.rail } else { NO_ID },
        plane: plane(&own, ports)?,
        members: members.to_vec(),
        ..(*first).clone()
    };
    made.push(Box::leak(Box::new(device)));
    i32::try_from(number).ok()
}

/// A bit for each plane of the ports: the first one for ports without, then in the order in which
/// the host's ports show them.
fn plane(own: &[&Port], all: &[Port]) -> Option<i16> {
    let mut known = vec![NO_ID];
    for port in all {
        if !known.contains(&port.plane) {
            known.push(port.plane);
        }
    }
    if known.len() > MOST_PLANES + 1 {
        return None;
    }
    let bits = own.iter().map(|port| {
        let at = known.iter().position(|plane| *plane == port.plane);
        1i16 << at.unwrap_or(0)
    });
    Some(bits.fold(PLANES, |plane, bit| plane | bit))
}
