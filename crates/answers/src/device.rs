//! The part of a machine that a name means.

use std::collections::BTreeMap;

use plan::ranges;
use planner::explain::NodeNames;
use topology::edit::split_host;
use topology::xml::{Element, Tag, c_int};
use topology::{BusId, NodeId, NodeType, System};

use crate::suggest;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// Why a name means no device, or several.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(String);

/// Returns the node that a name means; `host3/GPU0` is that of host 3.
///
/// # Errors
/// The machine has no such device, or several.
pub fn find(names: &NodeNames<'_>, machine: &str, text: &str) -> Result<NodeId, DeviceError> {
    let system = names.system();
    let (host, name) = split_host(text);
    let hosts = system.hosts().len().max(1) as u32;
    if let Some(host) = host.filter(|host| *host >= hosts) {
        return Err(DeviceError(format!(
            "{text}: {machine} has no host {host}; expected {}",
            host_numbers(hosts)
        )));
    }
    let ends = [NodeType::Gpu, NodeType::Net, NodeType::Cpu, NodeType::Nvs];
    let ends: Vec<NodeId> = ends.iter().flat_map(|kind| system.nodes(*kind)).collect();
    let named = |node: &NodeId| {
        aliases(names, *node)
            .iter()
            .any(|alias| alias.eq_ignore_ascii_case(name))
    };
    let mut found: Vec<NodeId> = ends.iter().copied().filter(named).collect();
    if found.is_empty() {
        found = find_bus_id(system, name);
    }
    found.retain(|node| host.is_none_or(|host| system.node(*node).id.system() == host));
    // Of ports with equal numbers NCCL only ever finds the first.
    let mut labels: Vec<&str> = found.iter().map(|node| names.label(*node)).collect();
    labels.dedup();
    match (&found[..], &labels[..]) {
        ([node, ..], [_]) => return Ok(*node),
        ([], _) => {}
        (_, labels) => {
            return Err(DeviceError(format!(
                "`{text}` means {} devices of {machine}; expected one of them: {}",
                labels.len(),
                choices(labels)
            )));
        }
    }
    let known: Vec<String> = ends.iter().flat_map(|node| aliases(names, *node)).collect();
    let near = suggest::nearest(name, known.iter().map(String::as_str), OFFERED);
    Err(DeviceError(format!(
        "{machine} has no device `{text}`{} It has {}",
        if near.is_empty() {
            ".".to_owned()
        } else {
            suggest::question(&near)
        },
        overview(system)
    )))
}

/// All names, or the first ones and the last.
fn choices(labels: &[&str]) -> String {
    match labels {
        [first, second, _, _, .., last] => format!("{first}, {second} … {last}"),
        few => few.join(", "),
    }
}

fn host_numbers(hosts: u32) -> String {
    match hosts {
        1 => "host 0".to_owned(),
        _ => format!("0 to {}", hosts - 1),
    }
}

fn aliases(names: &NodeNames<'_>, node: NodeId) -> Vec<String> {
    let label = names.label(node);
    let plain = label.rsplit('/').next().unwrap_or(label);
    let mut aliases = vec![label.to_owned()];
    if plain != label {
        aliases.push(plain.to_owned());
    }
    if let Some(net) = names.system().net(node) {
        aliases.push(format!("NET{}", net.dev));
        aliases.extend(net.name.clone());
    }
    aliases
}

/// The GPUs, ports or switches with this bus id, one per host.
fn find_bus_id(system: &System, text: &str) -> Vec<NodeId> {
    let with_domain = format!("0000:{text}");
    let mut texts = [text, &with_domain].into_iter();
    let Some(text) = texts.find(|text| BusId::is_well_formed(text)) else {
        return Vec::new();
    };
    let wanted = BusId::parse(text);
    let called = |kind: NodeType| -> Vec<NodeId> {
        let nodes = system.nodes(kind);
        nodes
            .filter(|node| system.node(*node).id.local() == wanted.0)
            .collect()
    };
    let gpus = system.gpus().filter(|(_, gpu)| gpu.bus_id == wanted);
    let gpus: Vec<NodeId> = gpus.map(|(node, _)| node).collect();
    if !gpus.is_empty() {
        return gpus;
    }
    let adapters = called(NodeType::Nic);
    if adapters.is_empty() {
        return called(NodeType::Pci);
    }
    let port = |adapter: NodeId| {
        let mut around = system.links(adapter).map(|link| system.target(link));
        around.find(|node| system.kind(*node) == NodeType::Net)
    };
    adapters.into_iter().filter_map(port).collect()
}

fn overview(system: &System) -> String {
    let numbers = |mut numbers: Vec<i32>, word: &str| {
        numbers.sort_unstable();
        numbers.dedup();
        (!numbers.is_empty()).then(|| format!("{word}{}", ranges(&numbers, ",")))
    };
    let lists = [
        numbers(system.gpus().map(|(_, gpu)| gpu.dev).collect(), "GPU"),
        numbers(system.nets().map(|(_, net)| net.dev).collect(), "NIC"),
        numbers(system.cpus().map(|(_, cpu)| cpu.numa).collect(), "CPU"),
    ];
    let text = lists.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match system.hosts().len() {
        0 | 1 => text,
        hosts => format!("host0 to host{} with {text}", hosts - 1),
    }
}

/// Device numbers of GPUs by their bus id as NCCL's number: 0000:1b:00.0 is 0x1b000.
pub fn bus_ids(element: &Element, bus: Option<&str>, found: &mut BTreeMap<u64, i32>) {
    for child in &element.children {
        if child.tag == Tag::Gpu {
            let digits: String = bus
                .unwrap_or("")
                .chars()
                .filter(char::is_ascii_hexdigit)
                .collect();
            if let (Ok(number), Some(dev)) = (u64::from_str_radix(&digits, 16), child.get("dev")) {
                found.insert(number, c_int(dev));
            }
        }
        bus_ids(child, child.get("busid").or(bus), found);
    }
}
