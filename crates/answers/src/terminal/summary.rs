//! A machine and its plan in a few lines.

use plan::{GpuGroup, GraphSummary, Plan};
use planner::Routing;
use topology::{Gpu, NodeType, System};

use super::paths::path_types;
use crate::head::{job, slow_hosts};

use pages::numbers::{count, gbps};
use pages::{Page, Table};

use super::words;

/// Adds the lines of a page's head that describe a machine. `live`: what a plan does not hold.
pub fn machine(page: &mut Page, plan: &Plan, machine: usize, live: Option<&Routing>) {
    let own = &plan.machines[machine];
    page.field("machine", &own.summary);
    let Some(group) = own.groups.first() else {
        return;
    };
    if plan.machines.len() == 1 {
        page.field("job", job(plan));
    }
    let left_out = own.gpus.len().saturating_sub(group.ranks.len());
    if left_out > 0 {
        let verb = if left_out == 1 { "is" } else { "are" };
        page.field(
            "trimmed",
            format!(
                "{} {verb} reached only over the network, and so left out of this search",
                count(left_out, "GPU")
            ),
        );
    }
    if let Some(routing) = live {
        let ends = [("GPU–GPU", NodeType::Gpu), ("GPU–NIC", NodeType::Net)].into_iter();
        let paths: Vec<String> = ends
            .filter_map(|(name, kind)| Some(format!("{name} {}", path_types(routing, kind)?)))
            .collect();
        if !paths.is_empty() {
            page.field("paths", paths.join("; "));
        }
        let refused = match refused_pairs(routing.system()) {
            0 => String::new(),
            pairs => format!(" (without peer access: {})", count(pairs, "pair")),
        };
        let mut gpus = routing.system().gpus();
        let partitioned = gpus.any(|(_, gpu)| gpu.mlopart.is_some());
        page.field(
            "limits",
            format!(
                "P2P up to {}{refused}, GPUDirect RDMA up to {}",
                routing.p2p_limit(),
                routing.gdr_limit(partitioned)
            ),
        );
    }
    let (max_bw, total_bw) = (gbps(group.max_bw), gbps(group.total_bw));
    page.field(
        "widest",
        format!("path {max_bw} GB/s; into the best-connected GPU {total_bw} GB/s"),
    );
}

/// Pairs of GPUs of a host without peer access in at least one direction.
fn refused_pairs(system: &System) -> usize {
    let gpus: Vec<(u32, &Gpu)> = system
        .gpus()
        .map(|(node, gpu)| (system.node(node).id.system(), gpu))
        .collect();
    let others = |at: usize| gpus[at + 1..].iter();
    let pairs = gpus
        .iter()
        .enumerate()
        .flat_map(|(at, one)| others(at).map(move |it| (one, it)));
    let refused = pairs.filter(|((host, one), (other_host, other))| {
        let refuses = one.no_p2p.contains(&other.dev) || other.no_p2p.contains(&one.dev);
        host == other_host && refuses
    });
    refused.count()
}

/// The graphs side by side.
pub fn graphs(plan: &GpuGroup) -> Table {
    let mut headers = vec!["graph", ">channels", ">each", ">all", "GPU–GPU"];
    if plan.inter {
        headers.extend([">to net", "GPU–NIC", "NIC in/out"]);
    }
    headers.push("pattern");
    let columns = headers.len();
    let mut table = Table::new(headers);
    for graph in &plan.graphs {
        let mut row = vec![graph.kind.to_string(), graph.channels.len().to_string()];
        if graph.channels.is_empty() {
            row.resize(columns, String::new());
            row[columns - 1] = "not possible here".to_owned();
        } else {
            row.extend([
                gbps(graph.bw_intra),
                gbps(graph.total_bw_intra()),
                graph.type_intra.to_string(),
            ]);
            if plan.inter {
                row.extend([
                    gbps(graph.bw_inter),
                    graph.type_inter.to_string(),
                    words::cross_nic_short(graph.cross_nic).to_owned(),
                ]);
            }
            row.push(graph.pattern.to_string());
        }
        table.row(row);
    }
    table
}

/// One line for scripts: `dgx-h100 hosts=1 ranks=8 ring=12x30:NVL …`, for several hosts what all
/// of them use, and the slow ones.
pub fn quiet(plan: &Plan) -> String {
    let groups = || plan.machines.iter().flat_map(|machine| &machine.groups);
    let inter = groups().any(|group| group.inter);
    let graphs = plan.common.iter().flat_map(|common| &common.graphs);
    // Graphs that no machine searched have no channels, either.
    let searched = |it: &&GraphSummary| groups().any(|group| group.graph(it.kind).is_some());
    let graphs: String = graphs
        .filter(searched)
        .map(|graph| format!(" {}={}", graph.kind, quiet_graph(graph, inter)))
        .collect();
    let mut machines: Vec<&str> = Vec::new();
    for machine in &plan.machines {
        if !machines.contains(&machine.name.as_str()) {
            machines.push(&machine.name);
        }
    }
    format!(
        "{} hosts={} ranks={}{graphs}{}\n",
        machines.join("+"),
        plan.request.hosts,
        plan.rank_count(),
        slow_hosts::quiet(plan)
    )
}

fn quiet_graph(graph: &GraphSummary, inter: bool) -> String {
    if graph.channels == 0 {
        return "none".to_owned();
    }
    let inside = format!(
        "{}x{}:{}",
        graph.channels,
        gbps(graph.bw_intra),
        graph.type_intra
    );
    if inter {
        format!("{inside}+{}:{}", gbps(graph.bw_inter), graph.type_inter)
    } else {
        inside
    }
}
