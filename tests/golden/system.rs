//! Compares nodes, links and paths of a case.

use planner::HostPlan;
use serde_json::Value;
use topology::{CpuArch, CpuVendor, LinkId, NodeData, NodeId, NodeType, PathType, System};

use super::compare::{self, Difference};

pub(super) fn check_bounds(planned: &HostPlan, expected: &Value) -> Result<(), Difference> {
    compare::float("maxBw", planned.view.max_bw, &expected["maxBw"])?;
    compare::float("totalBw", planned.view.total_bw, &expected["totalBw"])?;
    compare::integer("inter", i64::from(planned.view.inter), &expected["inter"])
}

/// The type and id of a node in a case. A device is shown as its first rank.
fn shown(system: &System, node: NodeId) -> (NodeType, u64) {
    let rank = if system.kind(node) == NodeType::Dev {
        system
            .links(node)
            .map(|link| system.target(link))
            .find(|target| system.kind(*target) == NodeType::Gpu)
    } else {
        None
    };
    match rank {
        Some(gpu) => (NodeType::Gpu, system.node(gpu).id.0),
        // A device without a rank keeps the bus id that a rank of its own would have.
        None if system.kind(node) == NodeType::Dev => (NodeType::Gpu, system.node(node).id.0),
        None => (system.kind(node), system.node(node).id.0),
    }
}

/// A node's links, except those inside a device.
fn shown_links(system: &System, node: NodeId) -> Vec<LinkId> {
    let holder = match system.kind(node) {
        NodeType::Gpu => system.device_of(node).unwrap_or(node),
        _ => node,
    };
    let inside = |link: &LinkId| {
        let target = system.kind(system.target(*link));
        matches!(target, NodeType::Gpu | NodeType::Gin | NodeType::Rma)
            || system.kind(holder) == NodeType::Gpu && target == NodeType::Dev
    };
    system.links(holder).filter(|link| !inside(link)).collect()
}

pub(super) fn check_nodes(system: &System, expected: &Value) -> Result<(), Difference> {
    let kinds = [
        NodeType::Gpu,
        NodeType::Pci,
        NodeType::Nvs,
        NodeType::Cpu,
        NodeType::Nic,
        NodeType::Net,
    ];
    let mine: Vec<NodeId> = kinds.iter().flat_map(|kind| system.nodes(*kind)).collect();
    let Some(theirs) = expected.as_array() else {
        return Err(Difference::new("nodes", "a list", expected.to_string()));
    };
    compare::integer("count", mine.len() as i64, &Value::from(theirs.len()))?;
    for (index, (node, theirs)) in mine.iter().zip(theirs).enumerate() {
        check_node(system, *node, theirs)
            .map_err(|difference| difference.within(&format!("[{index}]")))?;
    }
    Ok(())
}

fn hexadecimal(id: u64) -> String {
    format!("{id:#x}")
}

fn check_node(system: &System, node: NodeId, expected: &Value) -> Result<(), Difference> {
    let (kind, id) = shown(system, node);
    compare::text("type", kind.name(), &expected["type"])?;
    compare::text("id", &hexadecimal(id), &expected["id"])?;
    match &system.node(node).data {
        NodeData::Gpu(gpu) => {
            compare::integer("dev", i64::from(gpu.dev), &expected["dev"])?;
            compare::integer("rank", i64::from(gpu.rank), &expected["rank"])?;
            compare::integer("sm", i64::from(gpu.sm), &expected["sm"])?;
            compare::integer("gdr", i64::from(gpu.gdr), &expected["gdr"])?;
        }
        NodeData::Cpu(cpu) => {
            // Cases have the local part of the node's id, 56 bits.
            compare::integer(
                "numa",
                system.node(node).id.local() as i64,
                &expected["numa"],
            )?;
            let arch = match cpu.arch {
                CpuArch::X86 => "x86_64",
                CpuArch::Power => "ppc64",
                CpuArch::Arm => "arm64",
                CpuArch::Unknown => "unknown",
            };
            compare::text("archName", arch, &expected["archName"])?;
            let vendor = match cpu.vendor {
                CpuVendor::Intel => "intel",
                CpuVendor::Amd => "amd",
                CpuVendor::Zhaoxin => "zhaoxin",
                CpuVendor::Unknown => "unknown",
            };
            compare::text("vendorName", vendor, &expected["vendorName"])?;
        }
        NodeData::Net(net) => {
            compare::integer("dev", i64::from(net.dev), &expected["dev"])?;
            compare::float("bw", net.bw, &expected["bw"])?;
            compare::integer("port", i64::from(net.port), &expected["port"])?;
            compare::integer("gdr", i64::from(net.gdr), &expected["gdr"])?;
            compare::integer("collSupport", i64::from(net.coll), &expected["collSupport"])?;
        }
        _ => {}
    }
    let links = shown_links(system, node);
    let theirs = expected["links"].as_array().map_or(&[][..], Vec::as_slice);
    compare::integer("links", links.len() as i64, &Value::from(theirs.len()))?;
    for (index, (link, theirs)) in links.iter().zip(theirs).enumerate() {
        let (kind, id) = shown(system, system.target(*link));
        let within = |difference: Difference| difference.within(&format!("links[{index}]"));
        compare::text("to type", kind.name(), &theirs["to"][0]).map_err(within)?;
        compare::text("to", &hexadecimal(id), &theirs["to"][1]).map_err(within)?;
        compare::text("type", system.link(*link).kind.name(), &theirs["type"]).map_err(within)?;
        compare::float("bw", system.link(*link).bw, &theirs["bw"]).map_err(within)?;
    }
    Ok(())
}

fn find(system: &System, name: &Value) -> Option<NodeId> {
    let kind = NodeType::ALL
        .into_iter()
        .find(|kind| Some(kind.name()) == name[0].as_str())?;
    let id = u64::from_str_radix(name[1].as_str()?.trim_start_matches("0x"), 16).ok()?;
    system.find(kind, topology::NcclId(id))
}

pub(super) fn check_paths(planned: &HostPlan, expected: &[Value]) -> Result<(), Difference> {
    let system = planned.view.system();
    let table = planned.view.routing().table();
    let mut listed = std::collections::HashSet::new();
    for theirs in expected {
        let name = format!("{} → {}", theirs["from"], theirs["to"]);
        let (Some(from), Some(to)) = (find(system, &theirs["from"]), find(system, &theirs["to"]))
        else {
            return Err(Difference::new(name, "no such node", "a path"));
        };
        listed.insert((from, to));
        let path = table.path(from, to);
        let within = |difference: Difference| difference.within(&name);
        compare::text("type", path.kind.name(), &theirs["type"]).map_err(within)?;
        if path.kind == PathType::Dis {
            continue;
        }
        compare::float("bw", path.bw, &theirs["bw"]).map_err(within)?;
        if let Some(hops) = theirs["hops"].as_array() {
            let mine: Vec<LinkId> = path
                .hops
                .iter()
                .copied()
                .filter(|hop| {
                    let (from, to) = system.ends(*hop);
                    let inside = [NodeType::Gpu, NodeType::Dev];
                    !(inside.contains(&system.kind(from))
                        && inside.contains(&system.kind(to))
                        && system.kind(from) != system.kind(to))
                })
                .collect();
            compare::integer("hops", mine.len() as i64, &Value::from(hops.len()))
                .map_err(within)?;
            for (index, (hop, theirs)) in mine.iter().zip(hops).enumerate() {
                let within =
                    |difference: Difference| difference.within(&format!("{name} hop {index}"));
                let (kind, id) = shown(system, system.target(*hop));
                compare::text("link type", system.link(*hop).kind.name(), &theirs[0])
                    .map_err(within)?;
                compare::float("link bw", system.link(*hop).bw, &theirs[1]).map_err(within)?;
                compare::text("node type", kind.name(), &theirs[2]).map_err(within)?;
                compare::text("node", &hexadecimal(id), &theirs[3]).map_err(within)?;
            }
        }
    }
    let ends = [NodeType::Gpu, NodeType::Net, NodeType::Nvs, NodeType::Cpu];
    for from in ends.iter().flat_map(|kind| system.nodes(*kind)) {
        for to in ends.iter().flat_map(|kind| system.nodes(*kind)) {
            if table.kind(from, to) < PathType::Dis && !listed.contains(&(from, to)) {
                let name = |node| format!("{} {:#x}", system.kind(node), system.node(node).id.0);
                return Err(Difference::new(
                    format!("{} → {}", name(from), name(to)),
                    table.kind(from, to).name(),
                    "no path",
                ));
            }
        }
    }
    Ok(())
}
