//! Which part of a machine a name means.

use anyhow::{Result, bail};
use planner::explain::NodeNames;
use topology::{BusId, NodeId, NodeType, System};

use crate::numbers::ranges;
use crate::suggest;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// Returns the node that a name means.
pub fn find(names: &NodeNames<'_>, machine: &str, text: &str) -> Result<NodeId> {
    let system = names.system();
    let ends = [NodeType::Gpu, NodeType::Net, NodeType::Cpu, NodeType::Nvs];
    let ends: Vec<NodeId> = ends.iter().flat_map(|kind| system.nodes(*kind)).collect();
    let named = |node: &NodeId| {
        aliases(names, *node)
            .iter()
            .any(|alias| alias.eq_ignore_ascii_case(text))
    };
    if let Some(node) = ends.iter().find(|node| named(node)) {
        return Ok(*node);
    }
    if let Some(node) = find_bus_id(system, text) {
        return Ok(node);
    }
    let known: Vec<String> = ends.iter().flat_map(|node| aliases(names, *node)).collect();
    let near = suggest::nearest(text, known.iter().map(String::as_str), OFFERED);
    bail!(
        "{machine} has no device `{text}`{} It has {}",
        if near.is_empty() {
            ".".to_owned()
        } else {
            suggest::question(&near)
        },
        overview(system)
    );
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

fn find_bus_id(system: &System, text: &str) -> Option<NodeId> {
    let with_domain = format!("0000:{text}");
    let text = [text, &with_domain]
        .into_iter()
        .find(|text| BusId::is_well_formed(text))?;
    let wanted = BusId::parse(text);
    let local = |node: NodeId| system.node(node).id.local();
    if let Some((gpu, _)) = system.gpus().find(|(_, gpu)| gpu.bus_id == wanted) {
        return Some(gpu);
    }
    let adapter = system
        .nodes(NodeType::Nic)
        .find(|nic| local(*nic) == wanted.0);
    if let Some(adapter) = adapter {
        let mut around = system.links(adapter).map(|link| system.target(link));
        return around.find(|node| system.kind(*node) == NodeType::Net);
    }
    system
        .nodes(NodeType::Pci)
        .find(|switch| local(*switch) == wanted.0)
}

fn overview(system: &System) -> String {
    let numbers = |numbers: Vec<i32>, word: &str| {
        (!numbers.is_empty()).then(|| format!("{word}{}", ranges(&numbers, ",")))
    };
    let lists = [
        numbers(system.gpus().map(|(_, gpu)| gpu.dev).collect(), "GPU"),
        numbers(system.nets().map(|(_, net)| net.dev).collect(), "NIC"),
        numbers(system.cpus().map(|(_, cpu)| cpu.numa).collect(), "CPU"),
    ];
    lists.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
