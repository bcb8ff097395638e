//! The channels of a graph: which GPUs in which order, through which NICs.

use plan::{Graph, GraphKind, Pattern};
use planner::HostPlan;
use planner::explain::NodeNames;
use topology::{NcclId, NodeType, System};

use super::table::Columns;
use super::{Look, count, group, ranges, words};

/// A heading and a table for every graph that has channels.
pub fn all(plan: &HostPlan, look: Look) -> String {
    let names = NodeNames::new(plan.view.system());
    let mut text = String::new();
    for graph in plan
        .graphs
        .iter()
        .filter(|graph| !graph.channels.is_empty())
    {
        text.push_str(&look.section(
            title(graph.kind),
            words::pattern(graph.pattern),
            &table(graph, plan.view.system(), &names, look),
        ));
    }
    text
}

const fn title(kind: GraphKind) -> &'static str {
    match kind {
        GraphKind::Ring => "Rings",
        GraphKind::Tree => "Trees",
        GraphKind::CollnetChain => "CollNet chains",
        GraphKind::Nvls => "NVLS",
        GraphKind::CollnetDirect => "CollNet direct",
    }
}

fn table(graph: &Graph, system: &System, names: &NodeNames<'_>, look: Look) -> String {
    let nets = graph.channels.iter().any(|channel| channel.nets.is_some());
    let heads = matches!(graph.pattern, Pattern::Nvls | Pattern::CollnetDirect);
    let order = if heads { "head GPU" } else { "GPUs in order" };
    let mut headers = vec!["channels", order];
    if nets {
        headers.extend(["enters", "leaves"]);
    }
    let mut table = Columns::new(look, &headers);
    let groups = group(graph.channels.iter().zip(0..));
    for (channel, channels) in &groups {
        let ranks = if heads {
            &channel.ranks[..channel.ranks.len().min(1)]
        } else {
            &channel.ranks[..]
        };
        let mut row = vec![ranges(channels, " "), gpus(ranks, system, names)];
        if nets {
            let ports = channel.nets.unwrap_or([-1; 2]);
            row.extend(ports.map(|port| port_name(port, system, names)));
        }
        table.row(row);
    }
    let mut text = table.finish();
    if groups.len() == 1 && graph.channels.len() > 1 {
        text.push_str(&look.faint(&format!(
            "  all {} are alike\n",
            count(graph.channels.len(), "channel")
        )));
    }
    text
}

/// The GPUs' numbers, without the word: `0 7 6 5`.
fn gpus(ranks: &[i32], system: &System, names: &NodeNames<'_>) -> String {
    let name = |rank: &i32| match system.gpu_of_rank(*rank) {
        Some(gpu) => names.label(gpu).replacen("GPU", "", 1),
        None => format!("rank {rank}"),
    };
    ranks.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn port_name(port: i64, system: &System, names: &NodeNames<'_>) -> String {
    match system.find(NodeType::Net, NcclId(port as u64)) {
        Some(net) => names.label(net).to_owned(),
        None => "-".to_owned(),
    }
}
