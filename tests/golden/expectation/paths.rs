//! Nodes, links and paths as text.

use std::sync::Arc;

use planner::View;
use topology::{Cpu, CpuArch, Gpu, Net, NodeData, NodeId, NodeType, System};

use super::names::Names;
use super::value::{count, number, word};

const HEAD: &str = "\
# The machine as the planner sees it for one host: nodes, links, and the paths between GPUs and network ports.
# Bandwidths in GB/s. A path names the type of each link and the node behind it. Written by `cargo xtask bless`.
";

/// The nodes in the order of the text.
const KINDS: [NodeType; 10] = [
    NodeType::Gpu,
    NodeType::Nvs,
    NodeType::Pci,
    NodeType::Cpu,
    NodeType::Cxb,
    NodeType::Nic,
    NodeType::Net,
    NodeType::Gin,
    NodeType::Rma,
    NodeType::Dev,
];

pub(super) fn text(system: System) -> String {
    let mut text = HEAD.to_owned();
    let ranks = system.count(NodeType::Gpu);
    match View::all(system, &Arc::default(), false, ranks) {
        Ok(views) => {
            views
                .first()
                .iter()
                .for_each(|view| describe(&mut text, view));
            text
        }
        Err(error) => text + &format!("\nrefused: {error}\n"),
    }
}

fn describe(text: &mut String, view: &View) {
    let system = view.system();
    let names = Names::new(system);
    let all: Vec<NodeId> = KINDS.iter().flat_map(|kind| system.nodes(*kind)).collect();
    let shown = |node: &&NodeId| {
        system.kind(**node) != NodeType::Dev || names.of(**node).starts_with(NodeType::Dev.name())
    };

    text.push_str("\n## Nodes\n\n");
    for node in all.iter().filter(shown) {
        text.push_str(&format!("{}{}\n", names.of(*node), facts(system, *node)));
    }

    text.push_str("\n## Links\n\n");
    for node in all.iter().filter(shown) {
        // A rank and its device are one in the text.
        let device = system.device_of(*node);
        let links = [Some(*node), device.filter(|_| system.gpu(*node).is_some())];
        for link in links
            .into_iter()
            .flatten()
            .flat_map(|node| system.links(node))
        {
            if !names.is_inside(link) {
                let (to, link) = (system.target(link), system.link(link));
                let (from, to, bw) = (names.of(*node), names.of(to), number(link.bw));
                text.push_str(&format!("{from} -> {to}: {} {bw}\n", link.kind));
            }
        }
    }

    for (title, from, to) in [
        ("Paths from GPU to GPU", NodeType::Gpu, NodeType::Gpu),
        ("Paths from GPU to port", NodeType::Gpu, NodeType::Net),
        ("Paths from port to GPU", NodeType::Net, NodeType::Gpu),
    ] {
        let pairs = system
            .nodes(from)
            .flat_map(|from| system.nodes(to).map(move |to| (from, to)));
        let mut lines = pairs
            .filter(|(from, to)| from != to)
            .map(|pair| path(view, &names, pair))
            .peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("\n## {title}\n\n"));
            text.extend(lines);
        }
    }
}

fn path(view: &View, names: &Names<'_>, (from, to): (NodeId, NodeId)) -> String {
    let system = view.system();
    let path = view.routing().table().path(from, to);
    let hops = path.hops.iter().filter(|hop| !names.is_inside(**hop));
    let hops: Vec<String> = hops
        .map(|hop| {
            format!(
                "{} {}",
                system.link(*hop).kind,
                names.of(system.target(*hop))
            )
        })
        .collect();
    format!(
        "{} -> {}: {} {}, {}{}{}\n",
        names.of(from),
        names.of(to),
        path.kind,
        number(path.bw),
        count(hops.len(), "hop"),
        if hops.is_empty() { "" } else { ": " },
        hops.join(", "),
    )
}

fn facts(system: &System, node: NodeId) -> String {
    let text = match &system.node(node).data {
        NodeData::Gpu(gpu) => gpu_facts(gpu),
        NodeData::Cpu(cpu) => cpu_facts(cpu),
        NodeData::Net(net) => net_facts(net),
        NodeData::Dev(dev) => format!("sm {}, bus {}", dev.sm, dev.bus_id),
        NodeData::Pci { device_code } => format!("device {device_code:016x}"),
        NodeData::Gin { bw, .. } | NodeData::Rma { bw, .. } => number(*bw),
        NodeData::Nvs | NodeData::Nic | NodeData::Cxb => return String::new(),
    };
    format!(": {text}")
}

fn gpu_facts(gpu: &Gpu) -> String {
    format!(
        "rank {}, sm {}, bus {}, {}",
        gpu.rank,
        gpu.sm,
        gpu.bus_id,
        gdr(gpu.gdr)
    )
}

fn cpu_facts(cpu: &Cpu) -> String {
    match cpu.arch {
        CpuArch::X86 => format!(
            "{}, {}, {}",
            word(&cpu.arch),
            word(&cpu.vendor),
            word(&cpu.model)
        ),
        _ => word(&cpu.arch),
    }
}

fn net_facts(net: &Net) -> String {
    let name = net.name.as_deref().unwrap_or("without a name");
    let (bw, latency) = (number(net.bw), number(net.latency));
    format!(
        "{name}, guid {:#x}, port {}, {bw}, latency {latency} µs, {}",
        net.asic,
        net.port,
        gdr(net.gdr)
    )
}

const fn gdr(possible: bool) -> &'static str {
    if possible {
        "GPUDirect RDMA"
    } else {
        "no GPUDirect RDMA"
    }
}
